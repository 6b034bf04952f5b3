"""Passes change how a graph is written and never what it gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper, parser

from burnx.errors import UsageError
from burnx.graph import Graph, Node, Value
from burnx.importer.onnx_file import read_model
from burnx.importer.onnx_graph import import_graph
from burnx.lowering import lower
from burnx.passes import PASSES, run_passes
from burnx.runtime.device import device, prepare

Arrays = Mapping[str, Any]
RNG = np.random.default_rng(0)


def graph_of(text: str, opset: int = 20, weights: Arrays | None = None) -> Graph:
    """The graph of a model in ONNX's text form; ``weights`` are initializers."""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')
    for name, array in (weights or {}).items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        raw = np.ascontiguousarray(array).tobytes()
        model.graph.initializer.append(helper.make_tensor(name, kind, array.shape, raw, raw=True))
    return import_graph(read_model(model.SerializeToString()))


def run(graph: Graph, inputs: Arrays) -> list[Any]:
    program = lower(graph, [value.type for value in graph.inputs])
    return prepare(program, device("reference"))([inputs[value.name] for value in graph.inputs])


def check(
    text: str,
    inputs: Arrays,
    opset: int = 20,
    weights: Arrays | None = None,
    tolerance: float = 2e-6,
) -> Graph:
    """The graph after all passes, which gives what it gave before and is whole."""
    before, after = graph_of(text, opset, weights), graph_of(text, opset, weights)
    run_passes(after)
    assert after.output_names == before.output_names
    assert_whole(after, set())
    for old, new in zip(run(before, inputs), run(after, inputs), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance)
    return after


def assert_whole(graph: Graph, around: set[Value]) -> None:
    """Every value is given before it is read."""
    known = around | set(graph.inputs)
    for node in graph.nodes:
        assert all(value is None or value.is_constant or value in known for value in node.inputs)
        for inner in node.subgraphs():
            assert_whole(inner, known)
        assert all(value.producer is node for value in node.outputs)
        known |= set(node.outputs)
    assert all(value.is_constant or value in known for value in graph.outputs)


def counts(graph: Graph) -> Counter[str]:
    return Counter(node.operator for node in graph.all_nodes())


def only(graph: Graph, operator: str) -> Node:
    (node,) = [node for node in graph.all_nodes() if node.operator == operator]
    return node


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


# ------------------------------------------------------------------------------- registry
def test_unknown_pass_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError, match='no pass "gulu"; known are fold, clean.*linear'):
        run_passes(Graph(), ["gulu"])


def test_skipped_pass_does_nothing() -> None:
    text = "g (float[n] x) => (float[n] y) { s = Sigmoid(x) y = Mul(x, s) }"
    graph = graph_of(text)
    assert "silu" not in run_passes(graph, ["silu"])
    assert counts(graph) == {"Sigmoid": 1, "Mul": 1}


def test_a_second_run_changes_nothing() -> None:
    graph = graph_of(
        "g (float[n,4] x) => (float[n,2] y) { m = MatMul(x, w) i = Identity(m) y = Add(i, b) }",
        weights={"w": floats(4, 2), "b": floats(2)},
    )
    assert run_passes(graph)["linear"] == 2
    assert not any(run_passes(graph).values())
    assert set(run_passes(graph)) == set(PASSES)


# ------------------------------------------------------------------------------- folding
def test_known_sizes_fold() -> None:
    text = """g (float[2,3] x) => (float[3,2] y, int64[1] z) {
        s = Shape(x) i = Constant<value = int64[1] {1}>() n = Gather(s, i)
        r = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(n, r) y = Reshape(x, t) z = Neg(n)
    }"""
    graph = check(text, {"x": floats(2, 3)})
    assert counts(graph) == {"Reshape": 1}
    assert graph.outputs[1].array is not None and graph.outputs[1].array.tolist() == [-3]


def test_constant_arithmetic_folds() -> None:
    text = "g (float[4] x) => (float[4] y) { c = Mul(a, b) d = Sqrt(c) y = Add(x, d) }"
    graph = check(text, {"x": floats(4)}, weights={"a": floats(4) ** 2, "b": np.float32(2)})
    assert counts(graph) == {"Add": 1}


def test_folding_stays_within_64_kib_of_what_it_came_from() -> None:
    text = """g (float[1] x) => (float[300,300] y) {
        e = Expand(a, s) f = Mul(e, e) y = Add(f, x)
    }"""
    weights = {"a": floats(300), "s": np.array([300, 300])}
    graph = check(text, {"x": floats(1)}, weights=weights)
    assert counts(graph) == {"Expand": 1, "Mul": 1, "Add": 1}


def test_growth_is_counted_over_a_chain() -> None:
    text = """g (float[1] x) => (float[n] y) {
        b = Concat<axis = 0>(a, a, a, a) c = Concat<axis = 0>(b, b, b, b) y = Add(c, x)
    }"""
    graph = check(text, {"x": floats(1)}, weights={"a": floats(4000)})
    assert counts(graph) == {"Concat": 1, "Add": 1}
    (folded,) = {value for value in only(graph, "Concat").inputs if value is not None}
    assert folded.array is not None and folded.array.shape == (16000,)


def test_random_numbers_do_not_fold() -> None:
    graph = graph_of("g () => (float[2] y) { r = RandomNormal<shape = [2]>() y = Neg(r) }")
    run_passes(graph)
    assert counts(graph) == {"RandomNormal": 1, "Neg": 1}


def test_equal_random_nodes_stay_apart() -> None:
    text = """g () => (float[2] y) {
        r = RandomNormal<shape = [2]>() s = RandomNormal<shape = [2]>() y = Sub(r, s)
    }"""
    graph = graph_of(text)
    run_passes(graph)
    assert counts(graph)["RandomNormal"] == 2


def test_a_node_that_fails_is_left_alone() -> None:
    graph = graph_of(
        "g (float[1] x) => (float[1] y) { q = Gather(a, i) y = Add(q, x) }",
        weights={"a": floats(2000), "i": np.array([9999])},
    )
    run_passes(graph)
    assert counts(graph) == {"Gather": 1, "Add": 1}


BRANCHES = """g (float[n] x) => (float[n] y, float[n] z) {
    a = Abs(x)
    y = If (c) <
        then_branch = t () => (float[n] p) { q = Neg(a) p = Add(q, x) },
        else_branch = e () => (float[n] r) { r = Exp(x) }
    >
    z = Mul(y, y)
}"""


@pytest.mark.parametrize("taken", [True, False])
def test_if_with_a_constant_condition_is_inlined(taken: bool) -> None:
    graph = check(BRANCHES, {"x": floats(3)}, weights={"c": np.array(taken)})
    assert counts(graph) == (
        {"Abs": 1, "Neg": 1, "Add": 1, "Mul": 1} if taken else {"Exp": 1, "Mul": 1}
    )


def test_nodes_inside_bodies_fold_and_captures_stay() -> None:
    text = """g (float[n] x, bool c) => (float[n] y) {
        k = Add(a, a)
        i = Identity(x)
        y = If (c) <
            then_branch = t () => (float[n] p) { p = Mul(i, k) },
            else_branch = e () => (float[n] r) { m = Mul(k, k) r = Add(i, m) }
        >
    }"""
    for condition in (True, False):
        inputs = {"x": floats(3), "c": np.array(condition)}
        graph = check(text, inputs, weights={"a": np.float32(3)})
    assert counts(graph) == {"If": 1, "Mul": 1, "Add": 1}


LOOP = """g (float[n] x, int64 m) => (float[n] y, float[k,n] ys) {
    s = Sigmoid(x)
    u = Mul(x, s)
    y, ys = Loop (m, "", u) <
        body = b (int64 i, bool going, float[n] v) => (bool on, float[n] w, float[n] item) {
            on = Identity(going) t = Sigmoid(v) w = Mul(v, t) d = Add(u, s) item = Identity(d)
        }
    >
}"""


def test_loop_bodies_are_rewritten_and_what_they_capture_stays() -> None:
    text = LOOP.replace('Loop (m, "", u)', "Loop (m, , u)")
    graph = check(text, {"x": floats(3), "m": np.array(2)})
    body = next(only(graph, "Loop").subgraphs())
    assert [node.operator for node in body.nodes] == ["Swish", "Add"]
    assert [node.operator for node in graph.nodes] == ["Sigmoid", "Mul", "Loop"]


# ------------------------------------------------------------------------------- shapes
FLATTEN = """g (float[batch,seq,8] x) => (float[batch,k,4] y) {
    s = Shape(x)
    i = Constant<value = int64 {0}>() n = Gather(s, i) a = Constant<value = int64[1] {0}>()
    u = Unsqueeze(n, a)
    j = Constant<value = int64 {1}>() m = Gather(s, j) two = Constant<value = int64 {2}>()
    d = Mul(m, two) v = Unsqueeze(d, a)
    f = Constant<value = int64[1] {4}>()
    t = Concat<axis = 0>(u, v, f)
    y = Reshape(x, t)
}"""


def test_shape_arithmetic_becomes_sizes() -> None:
    graph = check(FLATTEN, {"x": floats(2, 3, 8)})
    assert counts(graph) == {"Sizes": 1, "Reshape": 1}
    sizes = only(graph, "Sizes")
    assert [str(dim) for dim in sizes.attributes["dims"]] == ["batch", "2*seq", "4"]
    assert sizes.inputs == [graph.inputs[0]]
    assert sizes.attributes["sources"] == {"batch": "0.0", "seq": "0.1"}


def test_scalar_sizes_stay_scalars() -> None:
    text = """g (float[n] x) => (int64[n] y) {
        s = Shape(x) z = Constant<value = int64 {0}>() n = Gather(s, z)
        one = Constant<value = int64 {1}>() y = Range(z, n, one)
    }"""
    graph = check(text, {"x": floats(5)})
    assert counts(graph) == {"Sizes": 1, "Squeeze": 1, "Range": 1}


def test_sizes_of_outer_values_reach_into_bodies() -> None:
    text = """g (float[n,4] x, bool c) => (float[k] y) {
        h = Exp(x)
        y = If (c) <
            then_branch = t () => (float[k] p) {
                s = Shape(h) i = Constant<value = int64[1] {0}>() n = Gather(s, i)
                f = Constant<value = int64[1] {4}>() m = Mul(n, f) p = Reshape(h, m)
            },
            else_branch = e () => (float[k] r) { q = Constant<value = int64[1] {-1}>() r = Reshape(x, q) }
        >
    }"""
    for condition in (True, False):
        graph = check(text, {"x": floats(3, 4), "c": np.array(condition)})
    assert only(graph, "Sizes").inputs == [graph.inputs[0]]
    assert "Shape" not in counts(graph)


def test_sizes_that_depend_on_data_are_read_where_they_arise() -> None:
    text = """g (float[n] x) => (int64[k,1] y) {
        z = NonZero(x) s = Shape(z) i = Constant<value = int64[1] {1}>() n = Gather(s, i)
        one = Constant<value = int64[1] {1}>() t = Concat<axis = 0>(n, one) y = Reshape(z, t)
    }"""
    graph = check(text, {"x": np.array([0, 1, 2, 0], np.float32)})
    assert counts(graph) == {"NonZero": 1, "Sizes": 1, "Reshape": 1}
    assert only(graph, "Sizes").inputs == only(graph, "NonZero").outputs


def test_a_shape_that_is_an_output_stays_a_shape() -> None:
    graph = check("g (float[n,2] x) => (int64[2] y) { y = Shape(x) }", {"x": floats(3, 2)})
    assert counts(graph) == {"Shape": 1}


# ------------------------------------------------------------------------------- cleaning
def test_what_changes_nothing_goes() -> None:
    text = """g (float[n,3] x) => (float[n,3] y) {
        a = Identity(x) b = Cast<to = 1>(a) c = Transpose<perm = [0, 1]>(b)
        d, m = Dropout(c) s = Shape(x) e = Expand(d, s) f = Reshape(e, s)
        z = Constant<value = int64[1] {0}>() i = Constant<value = int64[1] {9223372036854775807}>()
        h = Slice(f, z, i, z) dead = Exp(h) y = Neg(h)
    }"""
    assert counts(check(text, {"x": floats(2, 3)})) == {"Neg": 1}


def test_a_reversing_slice_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { y = Slice(x, a, b, z, a) }"
    weights = {"a": np.array([-1]), "b": np.array([-(2**62)]), "z": np.array([0])}
    assert counts(check(text, {"x": floats(3)}, weights=weights)) == {"Slice": 1}


def test_dropout_in_training_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { y = Dropout(x, r, t) }"
    graph = graph_of(text, weights={"r": np.float32(0.5), "t": np.array(True)})
    run_passes(graph)
    assert counts(graph) == {"Dropout": 1}


def test_a_cast_to_another_dtype_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }"
    assert counts(check(text, {"x": floats(3)})) == {"Cast": 2}


def test_outputs_that_are_one_value_keep_their_names() -> None:
    text = "g (float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Identity(x) b = Identity(a) c = Neg(b) }"
    graph = check(text, {"x": floats(3)})
    assert graph.output_names == ["a", "b", "c"]
    assert graph.outputs[:2] == [graph.inputs[0]] * 2
    assert counts(graph) == {"Neg": 1}


def test_transposes_and_reshapes_merge() -> None:
    text = """g (float[2,3,4] x) => (float[4,6] y, float[4,2,3] z) {
        a = Transpose<perm = [1, 0, 2]>(x) b = Transpose<perm = [2, 0, 1]>(a)
        c = Unsqueeze(b, o) y = Reshape(c, s) d = Transpose<perm = [2, 1, 0]>(a) e = Identity(d)
        z = Transpose<perm = [0, 2, 1]>(e)
    }"""
    weights = {"o": np.array([0]), "s": np.array([-1, 6])}
    graph = check(text, {"x": floats(2, 3, 4)}, weights=weights)
    assert counts(graph)["Reshape"] == 1 and "Unsqueeze" not in counts(graph)


def test_a_transpose_of_a_transpose_back_goes() -> None:
    text = """g (float[a,b] x) => (float[a,b] y) { s = Transpose(x) t = Transpose(s) y = Neg(t) }"""
    assert counts(check(text, {"x": floats(2, 3)})) == {"Neg": 1}


def test_a_reshape_that_copies_a_size_keeps_what_it_copies_from() -> None:
    text = "g (float[2,3,4] x) => (float[6,4] y) { a = Reshape(x, s) y = Reshape(a, t) }"
    weights = {"s": np.array([6, 2, 2]), "t": np.array([0, -1])}
    assert counts(check(text, {"x": floats(2, 3, 4)}, weights=weights)) == {"Reshape": 2}


def test_duplicates_merge() -> None:
    text = """g (float[n] x) => (float[n] y, float[n] b) {
        a = Mul(x, k) b = Mul(x, l) c = Add(x, k) y = Sub(a, c)
    }"""
    weights = {"k": np.float32(2), "l": np.float32(2)}
    graph = check(text, {"x": floats(3)}, weights=weights)
    assert counts(graph) == {"Mul": 1, "Add": 1, "Sub": 1}


def test_nodes_that_differ_in_an_attribute_stay_apart() -> None:
    text = "g (float[n] x) => (float[n] y) { a = Elu<alpha = 1.0>(x) b = Elu<alpha = 2.0>(x) y = Sub(a, b) }"
    assert counts(check(text, {"x": floats(3)}))["Elu"] == 2


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


# ------------------------------------------------------------------------------- size
def test_time_grows_with_the_graph_and_no_faster() -> None:
    steps = "".join(f"a{i} = Sigmoid(x{i}) x{i + 1} = Mul(x{i}, a{i}) " for i in range(1500))
    graph = graph_of(f"g (float[n] x0) => (float[n] x1500) {{ {steps} }}")
    assert run_passes(graph)["silu"] == 1500
    assert counts(graph) == {"Swish": 1500}
