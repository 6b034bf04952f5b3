"""Graph to ONNX: names, inputs, outputs, tensors and files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto

from burnx.api import LoadedModel, load
from burnx.capture.recorder import constant_value
from burnx.dtype import DTYPES, dtype_name, float32, int64
from burnx.errors import ExportError, UsageError
from burnx.exporter.onnx_model import export_model, write_model
from burnx.graph import Graph, Node, Value
from burnx.ops import find
from burnx.runtime.device import find_device
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.exported import (
    TWO,
    agree,
    imported,
    initializer,
    node_graph,
    ones,
    operators,
    outputs_of,
    recorded,
    run_ort,
)

batch, seq = symbol("batch"), symbol("seq")


# ------------------------------------------------------------------------------- what goes in
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


def test_output_may_be_listed_twice() -> None:
    graph = imported(TWO)
    graph.outputs *= 2
    graph.output_names = ["y", "y"]
    assert [output.name for output in export_model(graph).graph.output] == ["y", "y"]


def test_two_outputs_of_one_name_are_refused() -> None:
    graph = imported(TWO)
    graph.outputs.append(graph.inputs[0])
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
    expected = LoadedModel(graph, find_device("cpu")).run({"x": ones(1, 3)})["z"]
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
