"""What modules take and give beyond plain tensors, and what a capture keeps of their declarations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import burnx
from burnx import Input, Output, Tensor, nn, ops, sequence_map
from burnx.errors import InputError
from burnx.passes import run_passes


class Doubled(nn.Module):
    inputs = (Input("xs", "float32", (None,), kind="sequence"), Input("by", "float32", ()))
    outputs = (Output("ys", "float32", (None,), kind="sequence"),)

    def forward(self, xs: Tensor, by: Tensor) -> Tensor:
        def body(x, factor):  # type: ignore[no-untyped-def]
            return x * factor

        return sequence_map(body, xs, by)


ONES = [np.ones(2, np.float32), np.ones(3, np.float32)]


def test_a_list_is_a_sequence() -> None:
    found = Doubled.load()(ONES, np.float32(2)).numpy()
    assert [item.tolist() for item in found] == [[2, 2], [2, 2, 2]]


def test_an_empty_list_is_a_sequence() -> None:
    assert Doubled.load()([], np.float32(2)).numpy() == []


@pytest.mark.parametrize("given", [np.ones(2, np.float32), [np.ones(2)], [np.ones((2, 2), "f")]])
def test_what_is_no_such_sequence_is_an_error(given: object) -> None:
    with pytest.raises(InputError, match="xs"):
        Doubled.load()(given, np.float32(2))


def test_what_is_compiled_takes_and_gives_sequences() -> None:
    compiled = burnx.compile(Doubled())
    for by in (np.float32(2), np.ones(1, np.float32)):  # an array of one element may be a scalar
        found = compiled(ONES, by).numpy()
        assert [item.tolist() for item in found] == [[by] * 2, [by] * 3]


def test_more_inputs_than_there_are_is_an_error() -> None:
    def negated(x: Tensor) -> Tensor:
        return ops.neg(x)

    for call in (burnx.compile(negated), lambda *given: burnx.trace(negated, *given)):
        with pytest.raises(InputError, match="takes 1 inputs, not 2"):
            call(ONES[0], ONES[0])


def test_an_empty_list_has_the_declared_dtype(tmp_path: Path) -> None:
    path = tmp_path / "grown.onnx"
    x = np.ones(2, np.int32)
    burnx.export_onnx(lambda x: x + 1, {"x": x}, path, dynamic={"x": {0: "n"}})
    assert burnx.load(path)([]).dtype == np.int32
    with pytest.raises(InputError, match="never casts"):
        burnx.load(path)(np.zeros(0))


def test_a_sequence_map_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "doubled.onnx"
    burnx.export_onnx(Doubled(), {}, path)
    assert [node.op_type for node in onnx.load(path).graph.node] == ["SequenceMap"]
    found = burnx.load(path).run({"xs": ONES, "by": np.float32(3)})["ys"]
    assert [item.tolist() for item in found] == [[3, 3], [3, 3, 3]]


class Unranked(nn.Module):
    inputs = (Input("x", "float32", ("n", 1)), Input("axes", "int64", (1,)))
    outputs = (Output("y", "float32", ("n",)),)

    def forward(self, x: Tensor, axes: Tensor) -> Tensor:
        return ops.squeeze(x, axes)


def test_a_declared_rank_is_exported_where_none_is_inferred(tmp_path: Path) -> None:
    path = tmp_path / "unranked.onnx"
    burnx.export_onnx(Unranked(), {}, path)
    (output,) = onnx.load(path).graph.output
    assert [dim.dim_param for dim in output.type.tensor_type.shape.dim] == ["n"]


def test_a_slice_of_unknown_rank_is_not_taken_for_the_whole() -> None:
    def cut(x: Tensor, axes: Tensor) -> Tensor:
        return ops.slice(ops.squeeze(x, axes), [0], [2], [0])

    graph = burnx.trace(cut, np.ones((1, 3), np.float32), np.zeros(1, np.int64))
    run_passes(graph)
    assert [node.operator for node in graph.nodes] == ["Squeeze", "Slice"]


def test_a_function_stands_for_the_graph_of_an_operator() -> None:
    def score_mod(scores):  # type: ignore[no-untyped-def]
        return scores * 0.0

    q = np.ones((1, 1, 2, 4), np.float32)
    v = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    found = ops.flex_attention(q, q, v, score_mod=score_mod).numpy()
    assert found[0, 0].tolist() == [[2, 3, 4, 5]] * 2


def test_transpose_takes_the_rank_from_its_axes() -> None:
    """A permutation says the rank, where that is not known while a model is captured."""

    def turned(x: Tensor, sizes: Tensor) -> Tensor:
        return ops.constant_of_shape(ops.shape(ops.reshape(x, sizes))).transpose(1, -2)

    graph = burnx.trace(
        turned, np.ones(6, np.float32), np.array([2, 3]), dynamic={"sizes": {0: "rank"}}
    )
    assert graph.nodes[-1].operator == "Transpose"
    assert graph.nodes[-1].attributes == {"perm": [1, 0]}


CALLED = "g (float[2] input, float[2] a.b, float[2] _) => (float[2] y) { s = Sub(input, a.b)\n y = Mul(s, _) }"


def test_inputs_go_by_their_names_or_by_their_parameters(tmp_path: Path) -> None:
    path, source = tmp_path / "called.onnx", tmp_path / "called.py"
    text = '<ir_version: 8, opset_import: ["": 17]>\n' + CALLED.replace("a.b", "ab")
    proto = onnx.parser.parse_model(text.replace(" _)", " under)"))
    for old, new in (("ab", "a.b"), ("under", "_")):
        for value in proto.graph.input:
            value.name = new if value.name == old else value.name
        for node in proto.graph.node:
            node.input[:] = [new if each == old else each for each in node.input]
    onnx.save(proto, path)
    burnx.import_onnx(path, source)
    network = burnx.nn.sources.load_network(source)
    written = [each.parameter or each.name for each in type(network).inputs]
    names = [each.name for each in type(network).inputs]
    values = [np.array(pair, np.float32) for pair in ([5, 7], [1, 2], [3, 4])]
    for called in (names, written, [written[0], *names[1:]]):
        given = dict(zip(called, values, strict=True))
        assert network(**given).numpy().tolist() == [12, 20]
        for model in (path, proto, source):
            loaded = burnx.load(model)
            assert loaded.to("reference").run(given)["y"].tolist() == [12, 20]
            assert loaded.run(given)["y"].tolist() == [12, 20]
        burnx.export_onnx(network, given, tmp_path / "again.onnx")
    for call in (
        lambda given: network(**given),
        burnx.load(path).run,
        burnx.load(source).run,
        lambda given: burnx.export_onnx(network, given, tmp_path / "again.onnx"),
    ):
        with pytest.raises(InputError, match=r"'input' \(or 'x'\), 'a.b' \(or 'a_b'\)"):
            call({"z": values[0]})
        with pytest.raises(InputError, match="twice"):
            call({"input": values[0], "x": values[0]})
