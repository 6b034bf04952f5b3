"""Graph to ONNX: what is written is checked by ONNX, run by onnxruntime and read back by burnx."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from burnx.api import LoadedModel, load
from burnx.capture.recorder import GraphRecorder, constant_value
from burnx.dtype import DTYPES, dtype_name, float32, int64
from burnx.errors import ExportError, UsageError
from burnx.exporter.onnx_model import export_model, write_model
from burnx.exporter.spell_sizes import constant_shape
from burnx.graph import Graph, Node, Value
from burnx.ops import find
from burnx.runtime.device import device
from burnx.shape import broadcast_dim, maximum, minimum, symbol
from burnx.tensor import Tensor
from burnx.types import TensorType

ort = pytest.importorskip("onnxruntime")

Arrays = dict[str, Any]
batch, seq = symbol("batch"), symbol("seq")


def imported(text: str) -> Graph:
    return load(onnx.parser.parse_model(text)).graph


def run_ort(model: Any, inputs: Arrays) -> Arrays:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    data = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def agree(graph: Graph, inputs: Arrays, opset: int | None = None) -> Any:
    """Export, and compare onnxruntime, the graph itself and the file read back; gives the model."""
    model = export_model(graph, opset)
    expected = LoadedModel(graph, device("cpu")).run(inputs)
    for found in (run_ort(model, inputs), load(model).run(inputs)):
        assert list(found) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
            assert np.shape(found[name]) == np.shape(value)
    return model


def recorded(
    function: Callable[..., Any], *kinds: TensorType, names: tuple[str, ...] = ("x", "z")
) -> Graph:
    recorder = GraphRecorder()
    with recorder.ambient():
        results = function(*map(recorder.input, names, kinds))
    results = results if isinstance(results, tuple) else (results,)
    recorder.graph.outputs += [result.ref for result in results]
    recorder.graph.output_names += [f"out_{place}" for place in range(len(results))]
    return recorder.graph


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


def initializer(model: Any, name: str) -> Any:
    (tensor,) = [each for each in model.graph.initializer if each.name == name]
    return onnx.numpy_helper.to_array(tensor)


def ones(*shape: int) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


# ------------------------------------------------------------------------------- what goes in
TWO = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "somebody", metadata_props: ["license": "none"]>
g (float[batch, 3] x) => (float[batch, 3] y)
<float[3] weight = {1, 2, 3}>
{ [first] hidden = Add(x, weight)  [second] y = Mul(hidden, hidden) }
"""


def test_names_dims_and_metadata_are_kept() -> None:
    model = agree(imported(TWO), {"x": ones(2, 3)})
    assert [node.name for node in model.graph.node] == ["first", "second"]
    assert [each.name for each in model.graph.initializer] == ["weight"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert model.graph.value_info[0].name == "hidden"
    assert model.metadata_props[0].key == "license" and model.producer_name == "somebody"
    assert model.graph.name == "g"


def test_metadata_and_doc_of_nodes_are_kept() -> None:
    graph = imported(TWO)
    graph.doc = "a model"
    graph.nodes[0].metadata, graph.nodes[0].doc = {"scope": "net/fc"}, "adds"
    model = export_model(graph)
    node = model.graph.node[0]
    assert (node.metadata_props[0].value, node.doc_string) == ("net/fc", "adds")
    assert model.doc_string == "a model"


@pytest.mark.parametrize(
    "name", ['{"a": [1, 2]}', "a:0", "/layer.0/x y", "naïve ✓", "x;y", "a\nb", "%s{}"]
)
def test_strange_names_are_kept(name: str) -> None:
    graph = imported(TWO)
    graph.inputs[0].name, graph.output_names[0] = name, f"{name}'"
    graph.nodes[0].name = name
    model = agree(graph, {name: ones(1, 3)})
    assert model.graph.input[0].name == name and model.graph.node[0].name == name


def test_names_are_unique_in_all_graphs() -> None:
    graph = imported(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, bool c) => (float[2] y) {
            t = Add(x, x)
            r = If(c) <then_branch = a () => (float[2] t) { t = Mul(x, x) },
                       else_branch = b () => (float[2] t) { t = Neg(x) }>
            y = Sub(r, t)
        }
        """.replace("(float[2] t) { t =", "(float[2] u) { u =")
    )
    for node in graph.all_nodes():
        node.outputs[0].name = "t"
    model = agree(graph, {"x": ones(2), "c": np.array(True)})
    inner = [graph.node[0].output[0] for graph in (a.g for a in model.graph.node[1].attribute)]
    outer = [node.output[0] for node in model.graph.node]
    assert len({*inner, *outer}) == 5 and outer[-1] == "y"


def test_unnamed_values_are_called_after_their_operators() -> None:
    model = export_model(recorded(lambda x: -(x + x) + x, TensorType(float32, (2,))))
    assert [node.output[0] for node in model.graph.node] == ["add", "neg", "out_0"]


def test_subgraphs_capture_values_and_constants() -> None:
    graph = imported(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, int64 n, bool c) => (float[N] y, float[k, N] ys)
        <float[1] w = {3}> {
            h = Mul(x, w)
            y, ys = Loop(n, c, x) <body = b (int64 i, bool go, float[N] s) => (bool go2, float[N] s2, float[N] item)
                <float[1] v = {2}> {
                go2 = Identity(go)
                s1 = Add(s, h)
                s2 = Mul(s1, w)
                item = If(go) <then_branch = t () => (float[N] q) { q = Mul(s2, v) },
                               else_branch = e () => (float[N] p) { p = Mul(s2, w) }>
            }>
        }
        """
    )
    model = agree(graph, {"x": ones(4), "n": np.array(3), "c": np.array(True)})
    assert [each.name for each in model.graph.initializer] == ["w"]
    body = model.graph.node[1].attribute[0].g
    assert [each.name for each in body.node[3].attribute[0].g.initializer] == ["v"]


# ------------------------------------------------------------------------------- inputs and outputs
def test_overridable_input_is_input_and_initializer() -> None:
    graph = imported(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[3] x, float[3] bias = {1, 2, 3}) => (float[3] y) { y = Add(x, bias) }
        """
    )
    model = agree(graph, {"x": ones(3)})
    agree(graph, {"x": ones(3), "bias": ones(3) * 5})
    assert [each.name for each in model.graph.input] == ["x", "bias"]
    assert initializer(model, "bias").tolist() == [1, 2, 3]


def outputs_of(graph: Graph, **values: Value) -> Graph:
    graph.outputs, graph.output_names = list(values.values()), list(values)
    return graph


def test_outputs_that_are_inputs_constants_or_listed_twice() -> None:
    graph = imported(TWO)
    x, weight, hidden = graph.inputs[0], graph.nodes[0].inputs[1], graph.nodes[0].outputs[0]
    assert weight is not None
    outputs_of(graph, p=x, q=weight, r=hidden, s=hidden, weight=weight)
    model = agree(graph, {"x": ones(1, 3)})
    assert [each.name for each in model.graph.output] == ["p", "q", "r", "s", "weight"]
    assert operators(model).count("Identity") == 4


def test_input_that_is_output_of_the_same_name() -> None:
    graph = imported(TWO)
    outputs_of(graph, x=graph.inputs[0])
    assert "Identity" not in operators(export_model(graph))


def test_outputs_of_subgraphs_are_given_inside_them() -> None:
    one = constant_value(ones(2))
    x, c = Value(TensorType(float32, (2,)), "x"), Value(TensorType(DTYPES["bool"], ()), "c")
    branches = {"then_branch": Graph(outputs=[x, x]), "else_branch": Graph(outputs=[one, x])}
    node = Node("If", "", [c], [], branches)
    node.outputs = [Value(x.type, producer=node), Value(x.type, producer=node)]
    graph = Graph("g", [x, c], list(node.outputs), ["a", "b"], [node])
    for flag in (True, False):
        model = agree(graph, {"x": ones(2) * 7, "c": np.array(flag)})
    assert operators(model) == ["If"]


def test_two_outputs_of_one_name_are_refused() -> None:
    graph = imported(TWO)
    graph.outputs *= 2
    graph.output_names = ["y", "y"]
    with pytest.raises(ExportError, match="'y'"):
        export_model(graph)


def two_outputs(*names: str) -> Graph:
    x = Value(TensorType(float32, (1, 1, 4, 4)), "x")
    node = Node("MaxPool", "", [x], [], {"kernel_shape": [2, 2]})
    kinds = [TensorType(float32, (1, 1, 3, 3)), TensorType(int64, (1, 1, 3, 3))]
    node.outputs = [Value(kind, name, node) for kind, name in zip(kinds, names, strict=True)]
    return Graph("g", [x], node.outputs[:1], ["y"], [node])


def test_unnamed_unused_outputs_are_dropped() -> None:
    assert list(export_model(two_outputs("y", "")).graph.node[0].output) == ["y"]
    assert list(export_model(two_outputs("y", "places")).graph.node[0].output) == ["y", "places"]


def test_parts_of_a_split_are_never_dropped() -> None:
    graph = recorded(
        lambda x: find("", "Split")(x, axis=0, num_outputs=3, outputs=3)[0],
        TensorType(float32, (6,)),
    )
    assert len(agree(graph, {"x": ones(6)}).graph.node[0].output) == 3


# ------------------------------------------------------------------------------- tensors and attributes
@pytest.mark.parametrize("name", [name for name in DTYPES if name != "string"])
def test_initializers_of_every_dtype(name: str) -> None:
    values = [0, 1, 1, 0, 1] if not name.startswith("float8_e8") else [1, 2, 4, 1, 2]
    array = np.array(values, np.float32).astype(DTYPES[name])
    value = constant_value(array, "w")
    graph = outputs_of(Graph("g"), y=value)
    if name.startswith("float6"):
        node = Node("Cast", "", [value], [], {"to": "float32"})
        node.outputs, graph.nodes = [Value(TensorType(float32, (5,)), producer=node)], [node]
        graph.outputs = list(node.outputs)
    model = export_model(graph)
    assert model.graph.initializer[0].name == "w"
    found = load(model).graph.nodes[0].inputs[0].array  # type: ignore[union-attr]
    assert found is not None and dtype_name(found.dtype) == name
    assert found.astype(np.complex64).tolist() == array.astype(np.complex64).tolist()


def test_strings_keep_their_bytes() -> None:
    array = np.array(["a", "", "ü", "\udcff"], object)
    model = export_model(outputs_of(Graph("g"), y=constant_value(array)))
    assert model.graph.initializer[0].string_data[3] == b"\xff"
    assert load(model).run({})["y"].tolist() == array.tolist()


def test_empty_and_scalar_and_strided_initializers() -> None:
    arrays = {"a": ones(0, 3), "b": np.array(4.5, np.float32), "c": ones(2, 3).T}
    graph = outputs_of(Graph("g"), **{name: constant_value(each) for name, each in arrays.items()})
    for name, found in run_ort(export_model(graph), {}).items():
        np.testing.assert_array_equal(found, arrays[name])


def test_dtype_attribute_is_a_name_or_a_code() -> None:
    for to in ("float16", 10):
        graph = recorded(lambda x, to=to: find("", "Cast")(x, to=to), TensorType(float32, (2,)))
        assert export_model(graph).graph.node[0].attribute[0].i == TensorProto.FLOAT16


def test_attributes_are_of_the_kind_that_the_schema_says() -> None:
    node = Node("LeakyRelu", "", [Value(TensorType(float32, (2,)), "x")], [], {"alpha": 1})
    node.outputs = [Value(TensorType(float32, (2,)), producer=node)]
    model = export_model(Graph("g", [node.inputs[0]], node.outputs, ["y"], [node]))  # type: ignore[list-item]
    assert model.graph.node[0].attribute[0].type == onnx.AttributeProto.FLOAT


def test_dims_without_a_name_are_left_out() -> None:
    x = Value(TensorType(float32, (symbol("_3"), batch + 1, 2)), "x")
    model = export_model(Graph("g", [x], [x], ["x"]))
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.WhichOneof("value") for dim in dims] == [None, "dim_param", "dim_value"]
    assert dims[1].dim_param == "batch + 1"


def test_unknown_rank_has_no_shape(tmp_path: Path) -> None:
    graph = node_graph("Neg", TensorType(float32, None))
    outputs_of(graph, y=graph.outputs[0], z=graph.nodes[0].outputs[0])
    path = write_model(graph, tmp_path / "m.onnx")
    model = onnx.load(str(path))
    assert model == export_model(graph) and len(list(tmp_path.iterdir())) == 1
    for info in (*model.graph.input, *model.graph.output):
        assert info.type.tensor_type.elem_type == TensorProto.FLOAT
        assert not info.type.tensor_type.HasField("shape")
    assert run_ort(model, {"x0": ones(2, 3)})["z"].tolist() == (-ones(2, 3)).tolist()


def test_wrong_notes_on_inner_values_are_given_up(tmp_path: Path) -> None:
    graph = imported(TWO)
    graph.nodes[0].outputs[0].type = TensorType(float32, (7, 7))
    path = write_model(graph, tmp_path / "m.onnx")
    assert not onnx.load(str(path)).graph.value_info
    assert not export_model(graph).graph.value_info
    assert run_ort(str(path), {"x": ones(1, 3)})["y"].shape == (1, 3)


def test_models_of_unknown_rank_are_checked() -> None:
    graph = node_graph("Neg", TensorType(float32, None))
    graph.nodes[0].operator, graph.nodes[0].outputs[0].type = "Size", TensorType(int64, (3,))
    with pytest.raises(ExportError, match="checker"):
        export_model(graph)


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
def node_graph(operator: str, *kinds: TensorType, domain: str = "", **attributes: Any) -> Graph:
    """A graph of one node whose output is like its first input."""
    inputs = [Value(kind, f"x{place}") for place, kind in enumerate(kinds)]
    node = Node(operator, domain, list(inputs), [], attributes, "the_node")
    node.outputs = [Value(kinds[0], producer=node)]
    return Graph("g", inputs, list(node.outputs), ["y"], [node])


def opset_of(model: Any, domain: str = "") -> int:
    return next(each.version for each in model.opset_import if each.domain == domain)


MATRIX = TensorType(float32, (2, 3))


@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        (node_graph("Neg", MATRIX), 20),
        (node_graph("Identity", TensorType(DTYPES["int4"], (2,))), 21),
        (node_graph("Identity", TensorType(DTYPES["float4_e2m1fn"], (2,))), 23),
        (node_graph("Identity", TensorType(DTYPES["int2"], (2,))), 25),
        (node_graph("Swish", MATRIX), 20),
        (node_graph("Mod", MATRIX, MATRIX), 20),
        (node_graph("RMSNormalization", MATRIX, TensorType(float32, (3,))), 23),
    ],
)
def test_the_lowest_opset_that_can_say_it(graph: Graph, opset: int) -> None:
    model = export_model(graph)
    assert opset_of(model) == opset
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)


def test_a_given_opset_that_cannot_say_it_names_the_node() -> None:
    graph = node_graph("RMSNormalization", MATRIX, TensorType(float32, (3,)))
    with pytest.raises(ExportError, match=r'opset 22 .*"the_node" \(RMSNormalization\)'):
        export_model(graph, 22)
    with pytest.raises(ExportError, match="'input' cannot be tensor"):
        export_model(node_graph("Identity", TensorType(DTYPES["int4"], (2,))), 20)
    with pytest.raises(ExportError, match="'fancy'"):
        export_model(node_graph("Neg", MATRIX, fancy=1))


@pytest.mark.parametrize("opset", [5, 12, 99])
def test_opsets_that_nothing_is_written_at(opset: int) -> None:
    with pytest.raises(ExportError, match=f"not {opset}"):
        export_model(node_graph("Neg", MATRIX), opset)


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


# ------------------------------------------------------------------------------- files
def large(tmp_path: Path) -> tuple[Graph, Path]:
    graph = imported(TWO)
    wide = constant_value(ones(1000, 3), "big")
    node = Node("Add", "", [wide, graph.outputs[0]], [])
    graph.inputs[0].type = TensorType(float32, (1, 3))
    node.outputs = [Value(TensorType(float32, (1000, 3)), "z", node)]
    graph.nodes.append(node)
    return outputs_of(graph, z=node.outputs[0]), tmp_path / "model.onnx"


def test_a_model_is_one_file(tmp_path: Path) -> None:
    graph, path = large(tmp_path)
    assert write_model(graph, path) == path
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]
    assert run_ort(str(path), {"x": ones(1, 3)})["z"].shape == (1000, 3)


def test_large_weights_go_beside_it(tmp_path: Path) -> None:
    graph, path = large(tmp_path)
    write_model(graph, path, inline_bytes=4000)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    proto = onnx.load(str(path), load_external_data=False)
    places = {each.name: each.data_location for each in proto.graph.initializer}
    assert places == {"weight": TensorProto.DEFAULT, "big": TensorProto.EXTERNAL}
    expected = LoadedModel(graph, device("cpu")).run({"x": ones(1, 3)})["z"]
    for found in (run_ort(str(path), {"x": ones(1, 3)}), load(path).run({"x": ones(1, 3)})):
        np.testing.assert_allclose(found["z"], expected)


def test_a_model_can_replace_the_files_it_was_read_from(tmp_path: Path) -> None:
    graph, path = large(tmp_path)
    write_model(graph, path, inline_bytes=4000)
    write_model(load(path).graph, path, inline_bytes=4000)
    assert run_ort(str(path), {"x": ones(1, 3)})["z"].shape == (1000, 3)


def test_nothing_remains_of_a_failed_write(tmp_path: Path) -> None:
    graph, path = large(tmp_path)
    write_model(graph, path, inline_bytes=4000)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    graph.nodes[0].inputs[1] = constant_value(ones(7), "weight")
    with pytest.raises(ExportError, match=r"checker.*first"):
        write_model(graph, path, inline_bytes=4000)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_the_old_data_is_back_when_the_model_cannot_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, path = large(tmp_path)
    write_model(graph, path, inline_bytes=4000)
    before = (tmp_path / "model.onnx.data").read_bytes()
    graph.nodes[-1].inputs[0] = constant_value(ones(1000, 3) * 2, "big")
    move = os.replace

    def fail(source: Any, target: Any) -> None:
        if Path(target).name == "model.onnx":
            raise OSError(28, "No space left on device")
        move(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(Exception, match="No space left"):
        write_model(graph, path, inline_bytes=4000)
    assert (tmp_path / "model.onnx.data").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_the_mode_of_a_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    path.chmod(0o640)
    write_model(imported(TWO), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="regular file"):
        write_model(imported(TWO), tmp_path)
    with pytest.raises(UsageError, match="cannot write"):
        write_model(imported(TWO), tmp_path / "nowhere" / "m.onnx")
