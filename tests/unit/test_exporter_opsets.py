"""Graph to ONNX: spellings, and the opset that can say them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from burnx.capture.recorder import constant_value
from burnx.dtype import DTYPES, float32, int64
from burnx.errors import ExportError
from burnx.exporter.onnx_model import export_model
from burnx.exporter.spell_sizes import constant_shape
from burnx.graph import Graph, Value
from burnx.ops import find
from burnx.shape import broadcast_dim, maximum, minimum, symbol
from burnx.tensor import Tensor
from burnx.types import TensorType
from tests.unit.exported import (
    MATRIX,
    agree,
    imported,
    initializer,
    node_graph,
    ones,
    operators,
    opset_of,
    recorded,
    run_ort,
)

batch, seq = symbol("batch"), symbol("seq")


# ------------------------------------------------------------------------------- sizes
ROWS = TensorType(float32, (batch, seq, 12))


def test_reshape_by_kept_axes_is_a_constant() -> None:
    graph = recorded(lambda x: x.reshape(x.shape[0], x.shape[1], 3, 4), ROWS)
    model = agree(graph, {"x": ones(2, 5, 12)})
    assert operators(model) == ["Reshape"]
    assert initializer(model, "constant").tolist() == [0, 0, 3, 4]


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((batch, seq * 12), [0, -1]),
        ((batch * seq, 12), [-1, 12]),
        ((seq, batch, 12), None),
        ((batch, 0, 12), [0, 0, 12]),
        ((batch, -1), [0, -1]),
        ((2, batch, seq, 6), None),
    ],
)
def test_shapes_that_are_constants(dims: Any, expected: Any) -> None:
    assert constant_shape(ROWS, dims, False) == expected


def test_a_wanted_zero_is_never_a_copy() -> None:
    assert constant_shape(ROWS, (batch, 0, 12), True) is None
    graph = recorded(lambda x: x.reshape(0, x.shape[0], 5), TensorType(float32, (batch, 0)))
    agree(graph, {"x": ones(3, 0)})


def test_computed_reshape_takes_empty_inputs() -> None:
    graph = recorded(lambda x: x.reshape(x.shape[1], x.shape[0], 12), ROWS)
    model = agree(graph, {"x": ones(2, 5, 12)})
    agree(graph, {"x": ones(0, 5, 12)})
    agree(graph, {"x": ones(4, 0, 12)})
    assert operators(model) == ["Shape", "Shape", "Concat", "Reshape"]


def size_vector(*dims: Any) -> Graph:
    def vector(x: Tensor, z: Tensor) -> Tensor:
        return x.recorder.sizes(dims)  # type: ignore[attr-defined, no-any-return]

    return recorded(vector, TensorType(float32, (batch, seq)), TensorType(float32, (symbol("n"),)))


@pytest.mark.parametrize(
    "dim",
    [
        batch + seq,
        batch * seq * 3 - 1,
        7 - seq,
        -batch,
        (batch + 3) // seq,
        -((-batch) // 4),
        (1 - seq) // 2,
        (batch - 9) % 4,
        batch % seq,
        minimum(batch, seq) + 1,
        maximum(batch - 2, seq),
        broadcast_dim(symbol("n"), seq),
        batch * batch * (seq // 2),
        symbol("n") - batch,
    ],
    ids=str,
)
def test_sizes_are_spelled_exactly(dim: Any) -> None:
    for first, second in ((2, 3), (7, 1), (5, 4)):
        inputs = {"x": ones(first, second), "z": ones(second if second > 3 else 1)}
        for opset in (None, 13):
            model = agree(size_vector(dim, 1, 2, batch, seq), inputs, opset)
    assert all(node.domain == "" for node in model.graph.node)


def test_neighbouring_axes_are_one_shape() -> None:
    model = agree(size_vector(batch, seq), {"x": ones(2, 3), "z": ones(1)})
    assert operators(model) == ["Shape", "Identity"] or operators(model) == ["Shape"]


def test_sizes_that_are_numbers_are_a_constant() -> None:
    graph = recorded(lambda x: x.recorder.sizes((3, 4)), ROWS)
    assert operators(agree(graph, {"x": ones(1, 1, 12)})) == ["Identity"]


def test_sizes_used_in_a_subgraph_are_given_outside() -> None:
    def branch(recorder: Any, x: Tensor) -> Graph:
        inner = recorder.child()
        with inner.ambient():
            inner.graph.outputs.append(find("", "Expand")(Tensor(inner, x.ref), [2, batch, 12]).ref)
        return inner.graph

    def function(x: Tensor, c: Tensor) -> Tensor:
        graphs = {name: branch(x.recorder, x) for name in ("then_branch", "else_branch")}
        return find("", "If")(c, **graphs)[0]  # type: ignore[no-any-return]

    kinds = (TensorType(float32, (batch, 12)), TensorType(DTYPES["bool"], ()))
    agree(recorded(function, *kinds), {"x": ones(3, 12), "z": np.array(True)})


# ------------------------------------------------------------------------------- opsets
@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        (node_graph("Neg", MATRIX), 20),
        (node_graph("Identity", TensorType(DTYPES["int4"], (2,))), 21),
        (node_graph("Identity", TensorType(DTYPES["float4_e2m1fn"], (2,))), 23),
        (node_graph("Identity", TensorType(DTYPES["int2"], (2,))), 25),
        (node_graph("Swish", MATRIX), 20),
        (node_graph("Mod", MATRIX, MATRIX), 20),
        (node_graph("RMSNormalization", MATRIX, TensorType(float32, (3,))), 20),
        (node_graph("CumProd", MATRIX, TensorType(int64, ())), 26),
    ],
)
def test_the_lowest_opset_that_can_say_it(graph: Graph, opset: int) -> None:
    model = export_model(graph)
    assert opset_of(model) == opset
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)


def test_a_given_opset_that_cannot_say_it_names_the_node() -> None:
    graph = node_graph("CumProd", MATRIX, TensorType(int64, ()))
    with pytest.raises(ExportError, match=r'opset 22 .*"the_node" \(CumProd\)'):
        export_model(graph, 22)
    with pytest.raises(ExportError, match="'input' cannot be tensor"):
        export_model(node_graph("Identity", TensorType(DTYPES["int4"], (2,))), 20)
    with pytest.raises(ExportError, match="'fancy'"):
        export_model(node_graph("Neg", MATRIX, fancy=1))


@pytest.mark.parametrize("opset", [5, 12, 99])
def test_opsets_that_nothing_is_written_at(opset: int) -> None:
    with pytest.raises(ExportError, match=f"not {opset}"):
        export_model(node_graph("Neg", MATRIX), opset)


@pytest.mark.parametrize("opset", [13, 17, 18, 22])
@pytest.mark.parametrize(
    ("operator", "weights", "attributes"),
    [
        ("Gelu", 0, {}),
        ("Gelu", 0, {"approximate": "tanh"}),
        ("HardSwish", 0, {}),
        ("Mish", 0, {}),
        ("LayerNormalization", 1, {"epsilon": 0.5}),
        ("LayerNormalization", 2, {"axis": 1}),
        ("RMSNormalization", 1, {"axis": -1}),
    ],
)
def test_what_a_lift_made_is_said_in_older_words(
    operator: str, weights: int, attributes: Any, opset: int
) -> None:
    kinds = [MATRIX, *[TensorType(float32, (3,))] * weights]
    graph = node_graph(operator, *kinds, **attributes)
    inputs = {f"x{place}": ones(*kind.shape) - 3 for place, kind in enumerate(kinds)}
    assert opset_of(agree(graph, inputs, opset)) == opset


def test_low_precision_is_normalised_in_high_precision_at_older_opsets() -> None:
    half = DTYPES["float16"]
    graph = node_graph("LayerNormalization", TensorType(half, (2, 3)), TensorType(half, (3,)))
    inputs = {"x0": (ones(2, 3) * 100).astype(half), "x1": ones(3).astype(half)}
    model = export_model(graph, 13)
    found = run_ort(model, inputs)["y"]
    row = np.array([-1.5, 0, 1.5]) / np.sqrt(1.5) * [1, 2, 3]
    np.testing.assert_allclose(found, np.stack([row, row]), rtol=1e-2)


def test_swish_is_a_product_below_opset_24() -> None:
    graph = node_graph("Swish", MATRIX, alpha=2.0)
    x = ones(2, 3) - 3
    found = run_ort(export_model(graph), {"x0": x})["y"]
    np.testing.assert_allclose(found, x / (1 + np.exp(-2 * x)), rtol=1e-5)
    assert operators(export_model(graph)) == ["Mul", "Sigmoid", "Mul"]
    assert operators(export_model(graph, 24)) == ["Swish"]


def test_floored_remainder_of_floats() -> None:
    a = np.array([5.5, -5.5, 5.5, -5.5, 4, -4, 0], np.float32)
    b = np.array([3, 3, -3, -3, 2, 2, 3], np.float32)
    graph = node_graph("Mod", TensorType(float32, (7,)), TensorType(float32, (7,)))
    model = agree(graph, {"x0": a, "x1": b})
    np.testing.assert_array_equal(run_ort(model, {"x0": a, "x1": b})["y"], np.mod(a, b))


def test_default_attributes_are_left_out_where_there_were_none() -> None:
    graph = recorded(lambda x: find("", "Reshape")(x, [3, 2], allowzero=0), MATRIX)
    assert not agree(graph, {"x": ones(2, 3)}, 13).graph.node[0].attribute
    graph = recorded(lambda x: find("", "Reshape")(x, [3, 2], allowzero=1), MATRIX)
    with pytest.raises(ExportError, match="allowzero"):
        export_model(graph, 13)


def test_axes_of_a_reduction_are_an_attribute_before_opset_18() -> None:
    graph = node_graph("ReduceMax", MATRIX, keepdims=0)
    graph.nodes[0].inputs.append(constant_value(np.array([1])))
    graph.nodes[0].outputs[0].type = TensorType(float32, (2,))
    for opset in (13, 17, 18, 20):
        found = run_ort(export_model(graph, opset), {"x0": ones(2, 3)})
        assert found["y"].tolist() == [3, 6]


def test_upsample_and_scatter_have_new_names() -> None:
    graph = node_graph("Upsample", TensorType(float32, (1, 1, 2, 2)), mode="nearest")
    graph.nodes[0].inputs.append(constant_value(np.array([1, 1, 2, 2], np.float32)))
    graph.nodes[0].outputs[0].type = TensorType(float32, (1, 1, 4, 4))
    found = run_ort(export_model(graph), {"x0": ones(1, 1, 2, 2)})["y"]
    assert found[0, 0].tolist() == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    graph = node_graph("Scatter", MATRIX, TensorType(int64, (1, 1)), TensorType(float32, (1, 1)))
    given = {"x0": ones(2, 3), "x1": np.array([[1]]), "x2": ones(1, 1) * 9}
    assert run_ort(export_model(graph), given)["y"].tolist() == [[1, 2, 3], [9, 5, 6]]


def test_parts_are_counted_where_nothing_else_says_how_many() -> None:
    graph = node_graph("Split", TensorType(float32, (4,)))
    graph.nodes[0].outputs = [Value(TensorType(float32, (2,)), producer=graph.nodes[0])]
    graph.nodes[0].outputs.append(Value(TensorType(float32, (2,)), producer=graph.nodes[0]))
    graph.outputs, graph.output_names = list(graph.nodes[0].outputs), ["a", "b"]
    for opset in (13, 20):
        found = run_ort(export_model(graph, opset), {"x0": ones(4)})
        assert [each.tolist() for each in found.values()] == [[1, 2], [3, 4]]


def test_other_domains_are_imported() -> None:
    model = export_model(node_graph("Binarizer", MATRIX, domain="ai.onnx.ml", threshold=2.0))
    assert opset_of(model, "ai.onnx.ml") == 3
    model = export_model(node_graph("Gelu", MATRIX, domain="com.microsoft"))
    assert opset_of(model, "com.microsoft") == 1
    assert run_ort(model, {"x0": ones(2, 3)})["y"].shape == (2, 3)


def test_an_operator_without_spelling_is_refused() -> None:
    with pytest.raises(ExportError, match="burnx's own"):
        export_model(node_graph("Mystery", MATRIX, domain="burnx"))


@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 3), (3,)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_is_gemm_or_matmul(shape: tuple[int, ...], has_bias: bool) -> None:
    weight, bias = ones(4, 3), ones(4)
    graph = node_graph("Linear", TensorType(float32, shape), domain="burnx")
    arrays = {"fc.weight": weight, **({"fc.bias": bias} if has_bias else {})}
    graph.nodes[0].inputs += [constant_value(each, name) for name, each in arrays.items()]
    graph.nodes[0].outputs[0].type = TensorType(float32, (*shape[:-1], 4))
    model = export_model(graph)
    found = run_ort(model, {"x0": ones(*shape)})["y"]
    np.testing.assert_allclose(found, ones(*shape) @ weight.T + (bias if has_bias else 0))
    assert {each.name for each in model.graph.initializer} == set(arrays)
    assert model.graph.node[-1].name == "the_node"
    assert ("Gemm" in operators(model)) == (len(shape) == 2)


def test_state_of_a_loop_is_what_its_body_gives() -> None:
    graph = imported(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (int64 n, optional(seq(float[2])) given) => (seq(float[2]) all)
        <bool go = {1}, float[2] x = {1, 2}> {
            all = Loop(n, go, given) <body = b (int64 i, bool c, optional(seq(float[2])) s)
                => (bool c2, seq(float[2]) t) {
                c2 = Identity(c)
                old = OptionalGetElement(s)
                t = SequenceInsert(old, x)
            }>
        }
        """
    )
    kind = export_model(graph).graph.output[0].type
    assert kind.WhichOneof("value") == "sequence_type"
