"""Lifts: decompositions become the operator that was meant, and what only looks alike stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from pass_checks import RNG, Arrays, check, counts, floats, graph_of, only

from burnx.graph import Graph
from burnx.passes import run_passes


# ------------------------------------------------------------------------------- linear
def test_matmul_and_bias_become_linear() -> None:
    weights = {"w": floats(4, 2), "b": floats(2)}
    for add in ("Add(m, b)", "Add(b, m)"):
        text = f"g (float[n,k,4] x) => (float[n,k,2] y) {{ m = MatMul(x, w) y = {add} }}"
        graph = check(text, {"x": floats(3, 5, 4)}, weights=weights)
        node = only(graph, "Linear")
        assert counts(graph) == {"Linear": 1}
        assert node.inputs[1] is not None and node.inputs[1].name == "w"
        assert node.inputs[1].array is not None and node.inputs[1].array.shape == (2, 4)
        assert node.outputs[0].name == "y"


def test_linear_is_called_as_the_product_was() -> None:
    graph = graph_of(
        "g (float[n,4] x) => (float[n,2] y) { m = MatMul(x, w) y = Add(m, b) }",
        weights={"w": floats(4, 2), "b": floats(2)},
    )
    product, addition = graph.nodes
    product.name, product.metadata = "/fc/MatMul", {"namespace": "fc"}
    addition.name = "/fc/Add"
    run_passes(graph)
    node = only(graph, "Linear")
    assert (node.name, node.metadata) == ("/fc/MatMul", {"namespace": "fc"})


def test_a_product_that_is_read_twice_keeps_its_addition() -> None:
    text = "g (float[n,4] x) => (float[n,2] y, float[n,2] m) { m = MatMul(x, w) y = Add(m, b) }"
    graph = check(text, {"x": floats(3, 4)}, weights={"w": floats(4, 2), "b": floats(2)})
    assert counts(graph) == {"Linear": 1, "Add": 1}


@pytest.mark.parametrize("attributes", ["", "<transB = 1>"])
@pytest.mark.parametrize("bias", ["", ", b"])
def test_gemm_becomes_linear(attributes: str, bias: str) -> None:
    text = f"g (float[n,4] x) => (float[n,2] y) {{ y = Gemm{attributes}(x, w{bias}) }}"
    weights = {"w": floats(2, 4) if attributes else floats(4, 2), "b": floats(2)}
    graph = check(text, {"x": floats(3, 4)}, weights=weights)
    assert counts(graph) == {"Linear": 1}
    assert len(only(graph, "Linear").inputs) == (3 if bias else 2)


@pytest.mark.parametrize("attributes", ["<alpha = 2.0>", "<beta = 0.5>", "<transA = 1>"])
def test_a_gemm_that_does_more_stays(attributes: str) -> None:
    text = f"g (float[4,4] x) => (float[4,2] y) {{ y = Gemm{attributes}(x, w, b) }}"
    graph = check(text, {"x": floats(4, 4)}, weights={"w": floats(4, 2), "b": floats(2)})
    assert counts(graph) == {"Gemm": 1}


def test_a_gemm_with_a_matrix_to_add_stays() -> None:
    text = "g (float[3,4] x) => (float[3,2] y) { y = Gemm(x, w, b) }"
    graph = check(text, {"x": floats(3, 4)}, weights={"w": floats(4, 2), "b": floats(3, 2)})
    assert counts(graph) == {"Gemm": 1}


def test_a_shared_weight_is_turned_once() -> None:
    text = "g (float[n,4] x) => (float[n,4] y) { a = MatMul(x, w) b = Tanh(a) y = MatMul(b, w) }"
    graph = check(text, {"x": floats(3, 4)}, weights={"w": floats(4, 4)})
    first, second = (node for node in graph.nodes if node.operator == "Linear")
    assert first.inputs[1] is second.inputs[1]


def test_a_weight_that_is_also_a_table_stays_as_it_is() -> None:
    text = "g (float[n,4] x, int64[n] i) => (float[n,4] y) { a = MatMul(x, w) e = Gather(w, i) y = Mul(a, e) }"
    inputs = {"x": floats(3, 4), "i": np.array([0, 3, 1])}
    graph = check(text, inputs, weights={"w": floats(4, 4)})
    assert counts(graph) == {"MatMul": 1, "Gather": 1, "Mul": 1}


def test_a_tied_table_that_is_transposed_is_one_weight() -> None:
    text = """g (int64[n] i) => (float[n,9] y) { e = Gather(w, i) t = Transpose(w) y = MatMul(e, t) }"""
    graph = check(text, {"i": np.array([0, 3, 8])}, weights={"w": floats(9, 4)})
    assert counts(graph) == {"Gather": 1, "Linear": 1}
    assert only(graph, "Linear").inputs[1] is only(graph, "Gather").inputs[0]


def test_integer_products_stay() -> None:
    text = "g (int32[n,4] x) => (int32[n,2] y) { y = MatMul(x, w) }"
    inputs = {"x": np.arange(8, dtype=np.int32).reshape(2, 4)}
    graph = check(text, inputs, weights={"w": np.arange(8, dtype=np.int32).reshape(4, 2)})
    assert counts(graph) == {"MatMul": 1}


# ------------------------------------------------------------------------------- activations
NUMBERS = {
    "half": np.float32(0.5),
    "one": np.float32(1),
    "two": np.float32(2),
    "three": np.float32(3),
    "six": np.float32(6),
    "zero": np.float32(0),
    "sixth": np.float32(1 / 6),
    "root": np.float32(np.sqrt(2)),
    "inverse": np.float32(np.sqrt(0.5)),
    "rate": np.float32(np.sqrt(2 / np.pi)),
    "cubic": np.float32(0.044715),
}
LIFTED = {
    "torch": ("Gelu", "d = Div(x, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)"),
    "half first": (
        "Gelu",
        "h = Mul(x, half) d = Mul(x, inverse) e = Erf(d) a = Add(one, e) y = Mul(h, a)",
    ),
    "half inside": (
        "Gelu",
        "d = Div(x, root) e = Erf(d) a = Add(e, one) h = Mul(half, a) y = Mul(h, x)",
    ),
    "cube": (
        "Gelu",
        """p = Pow(x, three) c = Mul(p, cubic) a = Add(x, c) r = Mul(a, rate) t = Tanh(r)
        o = Add(t, one) h = Mul(x, half) y = Mul(h, o)""",
    ),
    "square": (
        "Gelu",
        """k = Mul(x, cubic) q = Mul(k, x) a = Add(one, q) s = Mul(x, rate) r = Mul(s, a) t = Tanh(r)
        o = Add(one, t) h = Mul(half, x) y = Mul(h, o)""",
    ),
    "silu": ("Swish", "s = Sigmoid(x) y = Mul(s, x)"),
    "exp": ("Swish", "n = Neg(x) e = Exp(n) a = Add(one, e) y = Div(x, a)"),
    "scaled": ("Swish", "m = Mul(x, two) s = Sigmoid(m) y = Mul(x, s)"),
    "hard sigmoid": ("HardSwish", "s = HardSigmoid<alpha = 0.16666667>(x) y = Mul(x, s)"),
    "clip": ("HardSwish", "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)"),
    "clip first": (
        "HardSwish",
        "a = Add(x, three) c = Clip(a, zero, six) d = Mul(c, sixth) y = Mul(d, x)",
    ),
    "mish": ("Mish", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
}


@pytest.mark.parametrize("case", LIFTED)
def test_activations_are_lifted(case: str) -> None:
    operator, body = LIFTED[case]
    text = f"g (float[n,5] x) => (float[n,5] y) {{ {body} }}"
    graph = check(text, {"x": 3 * floats(4, 5)}, weights=NUMBERS)
    assert counts(graph) == {operator: 1}
    assert graph.nodes[0].outputs[0].name == "y"


def test_attributes_tell_the_forms_apart() -> None:
    def lifted(case: str) -> Mapping[str, Any]:
        text = f"g (float[n,5] x) => (float[n,5] y) {{ {LIFTED[case][1]} }}"
        return check(text, {"x": floats(4, 5)}, weights=NUMBERS).nodes[0].attributes

    assert lifted("torch") == {}
    assert lifted("cube") == {"approximate": "tanh"}
    assert lifted("scaled") == {"alpha": 2.0}


NOT_LIFTED = {
    "another root": "d = Div(x, three) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    "another value": "z = Neg(x) d = Div(z, root) e = Erf(d) a = Add(e, one) m = Mul(x, a) y = Mul(m, half)",
    "another gate": "z = Neg(x) s = Sigmoid(z) y = Mul(x, s)",
    "another slope": "s = HardSigmoid(x) y = Mul(x, s)",
    "another bound": "a = Add(x, three) c = Clip(a, zero, three) m = Mul(x, c) y = Div(m, six)",
}


@pytest.mark.parametrize("case", NOT_LIFTED)
def test_what_only_looks_alike_stays(case: str) -> None:
    text = f"g (float[n,5] x) => (float[n,5] y) {{ {NOT_LIFTED[case]} }}"
    graph = check(text, {"x": floats(4, 5)}, weights=NUMBERS)
    assert not counts(graph).keys() & {"Gelu", "Swish", "HardSwish", "Mish"}


def test_an_intermediate_that_is_an_output_keeps_the_decomposition() -> None:
    text = "g (float[n] x) => (float[n] y, float[n] s) { s = Sigmoid(x) y = Mul(x, s) }"
    assert counts(check(text, {"x": floats(4)})) == {"Sigmoid": 1, "Mul": 1}


def test_an_intermediate_that_is_read_elsewhere_keeps_the_decomposition() -> None:
    text = "g (float[n] x) => (float[n] y) { s = Sigmoid(x) m = Mul(x, s) y = Sub(m, s) }"
    assert counts(check(text, {"x": floats(4)})) == {"Sigmoid": 1, "Mul": 1, "Sub": 1}


def test_a_constant_that_adds_an_axis_is_not_lifted() -> None:
    weights = {**NUMBERS, "half": np.full((1, 1, 1), 0.5, np.float32)}
    text = f"g (float[n,5] x) => (float[k,n,5] y) {{ {LIFTED['torch'][1]} }}"
    assert "Gelu" not in counts(check(text, {"x": floats(4, 5)}, weights=weights))


# ------------------------------------------------------------------------------- norms
CENTRE = "m = ReduceMean(x, axes) d = Sub(x, m) "
VARIANCE = {"pow": "q = Pow(d, two) ", "mul": "q = Mul(d, d) "}
ROOT = "v = ReduceMean(q, axes) a = Add(v, epsilon) r = Sqrt(a) "
NORMS = {
    **NUMBERS,
    "epsilon": np.float32(1e-5),
    "axes": np.array([-1]),
    "w": floats(8),
    "b": floats(8),
}


def norm(body: str, weights: Arrays = NORMS, inputs: Any = None) -> Graph:
    text = f"g (float[n,4,8] x) => (float[n,4,8] y) {{ {body} }}"
    return check(
        text, {"x": floats(2, 4, 8) if inputs is None else inputs}, weights=weights, tolerance=1e-5
    )


@pytest.mark.parametrize("square", VARIANCE)
@pytest.mark.parametrize(
    ("end", "inputs"),
    [
        ("o = Div(d, r) s = Mul(o, w) y = Add(s, b)", 3),
        ("o = Div(d, r) s = Mul(w, o) y = Add(b, s)", 3),
        ("o = Div(d, r) y = Mul(o, w)", 2),
        ("i = Reciprocal(r) o = Mul(d, i) s = Mul(o, w) y = Add(s, b)", 3),
        ("y = Div(d, r)", 2),
    ],
)
def test_layer_norm_is_lifted(square: str, end: str, inputs: int) -> None:
    graph = norm(CENTRE + VARIANCE[square] + ROOT + end)
    assert counts(graph) == {"LayerNormalization": 1}
    assert len(graph.nodes[0].inputs) == inputs and graph.nodes[0].attributes == {}


def test_layer_norm_over_two_axes() -> None:
    weights = {**NORMS, "axes": np.array([1, 2]), "w": floats(4, 8), "epsilon": np.float32(1e-3)}
    graph = norm(CENTRE + VARIANCE["pow"] + ROOT + "o = Div(d, r) y = Mul(o, w)", weights)
    given = only(graph, "LayerNormalization").attributes
    assert given["axis"] == -2 and given["epsilon"] == pytest.approx(1e-3)


def test_a_mean_over_other_axes_stays() -> None:
    weights = {**NORMS, "axes": np.array([1])}
    graph = norm(CENTRE + VARIANCE["pow"] + ROOT + "o = Div(d, r) y = Mul(o, w)", weights)
    assert counts(graph)["ReduceMean"] == 2


def test_means_over_different_axes_are_no_layer_norm() -> None:
    weights = {**NORMS, "other": np.array([1, 2])}
    root = ROOT.replace("axes", "other")
    graph = norm(CENTRE + VARIANCE["pow"] + root + "o = Div(d, r) y = Mul(o, w)", weights)
    assert "LayerNormalization" not in counts(graph)


def test_a_scale_of_another_shape_is_not_part_of_the_norm() -> None:
    weights = {**NORMS, "w": floats(4, 1)}
    graph = norm(CENTRE + VARIANCE["pow"] + ROOT + "o = Div(d, r) y = Mul(o, w)", weights)
    assert counts(graph) == {"LayerNormalization": 1, "Mul": 1}


def test_a_centred_value_that_is_read_elsewhere_stays_beside_the_norm() -> None:
    graph = norm(CENTRE + VARIANCE["pow"] + ROOT + "o = Div(d, r) y = Add(o, d)")
    assert counts(graph) == {"ReduceMean": 1, "Sub": 1, "RMSNormalization": 1, "Add": 1}


@pytest.mark.parametrize(
    "end",
    [
        "i = Reciprocal(r) o = Mul(x, i) y = Mul(w, o)",
        "o = Div(x, r) y = Mul(o, w)",
        "i = Div(one, r) o = Mul(x, i) y = Mul(w, o)",
        "o = Div(x, r) y = Identity(o)",
    ],
)
def test_rms_norm_is_lifted(end: str) -> None:
    graph = norm("q = Pow(x, two) " + ROOT + end)
    assert counts(graph) == {"RMSNormalization": 1}


def test_rms_norm_by_a_power() -> None:
    weights = {**NORMS, "power": np.float32(-0.5)}
    body = "q = Mul(x, x) v = ReduceMean(q, axes) a = Add(v, epsilon) i = Pow(a, power) o = Mul(x, i) y = Mul(o, w)"
    assert counts(norm(body, weights)) == {"RMSNormalization": 1}


def test_norms_in_double_precision_stay() -> None:
    text = "g (double[n,8] x) => (double[n,8] y) { q = Mul(x, x) " + ROOT + "y = Div(x, r) }"
    weights = {"epsilon": np.float64(1e-5), "axes": np.array([-1])}
    graph = check(text, {"x": RNG.standard_normal((2, 8))}, weights=weights)
    assert "RMSNormalization" not in counts(graph)


# ------------------------------------------------------------------------------- softmax
SOFTMAX = {
    "kept axes": "m = ReduceMax(x, axes) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, axes) y = Div(e, s)",
    "new axes": """m0 = ReduceMax<keepdims = 0>(x, axes) b = Max(low, m0) m = Unsqueeze(b, axes) d = Sub(x, m)
    e = Exp(d) s0 = ReduceSum<keepdims = 0>(e, axes) s = Unsqueeze(s0, axes) y = Div(e, s)""",
}


@pytest.mark.parametrize("form", SOFTMAX)
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_is_lifted(form: str, axis: int) -> None:
    weights = {"axes": np.array([axis]), "low": np.float32(-np.inf)}
    text = f"g (float[n,4,k] x) => (float[n,4,k] y) {{ {SOFTMAX[form]} }}"
    inputs = {"x": floats(2, 4, 3)}
    inputs["x"][0, 0, :] = -np.inf
    graph = check(text, inputs, weights=weights)
    assert counts(graph) == {"Softmax": 1}


@pytest.mark.parametrize(
    "body",
    [
        "m = ReduceMax(x, axes) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, other) y = Div(e, s)",
        "m = ReduceMin(x, axes) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, axes) y = Div(e, s)",
        "m = ReduceMax(x, axes) d = Sub(x, m) e = Exp(d) s = ReduceSum(x, axes) y = Div(e, s)",
    ],
)
def test_what_is_no_softmax_stays(body: str) -> None:
    weights = {"axes": np.array([-1]), "other": np.array([1])}
    text = f"g (float[4,4,4] x) => (float[4,4,4] y) {{ {body} }}"
    assert "Softmax" not in counts(check(text, {"x": floats(4, 4, 4)}, weights=weights))
