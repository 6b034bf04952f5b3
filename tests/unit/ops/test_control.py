"""If, Loop and Scan: bodies that are deferred, graphs given to functions, Scan before opset 9."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, parser

import burnx
from burnx.errors import ModelError


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    return list(burnx.load(model, device="reference").run(feeds).values())


@pytest.mark.parametrize("directions", [[0], [1]])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_scan_8_runs_over_each_sequence_of_a_batch(
    directions: list[int], lengths: list[int] | None
) -> None:
    def info(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [helper.make_node("Add", ["s", "x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["y"])],
        "body",
        [info("s", 2), info("x", 2)],
        [info("t", 2), info("y", 2)],
    )
    given = ["lens" if lengths else "", "first", "xs"]
    node = helper.make_node(
        "Scan", given, ["last", "ys"], body=body, num_scan_inputs=1, directions=directions
    )
    inputs = [info("first", "b", 2), info("xs", "b", "t", 2)]
    feeds = {"first": np.ones((2, 2), np.float32)}
    feeds["xs"] = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    if lengths:
        inputs.append(info("lens", "b", kind=TensorProto.INT64))
        feeds["lens"] = np.array(lengths)
    outputs = [onnx.ValueInfoProto(name=name) for name in ("last", "ys")]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for ours, theirs in zip(run(model, **feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs)


LOOP = """
<ir_version: 9, opset_import: ["" : 21]>
g (int64 trips, bool go, float[n] x, int64 stop) => (float[m] last, float[k, r] items) {
  last, items = Loop (trips, go, x) <body = b (int64 i, bool c, float[p] held)
    => (bool again, float[q] longer, float[r] item) {
    again = Less (i, stop)
    longer = Concat <axis = 0> (held, x)
    item = Add (x, x)
  }>
}
"""


@pytest.mark.parametrize(
    ("trips", "go", "stop", "turns"),
    [(3, True, 9, 3), (5, True, 1, 3 - 1), (4, False, 9, 0), (0, True, 9, 0), (-1, True, 9, 0)],
)
def test_a_loop_ends_by_its_count_or_its_condition(
    trips: int, go: bool, stop: int, turns: int
) -> None:
    model = parser.parse_model(LOOP)
    x = np.array([1, 2], np.float32)
    last, items = run(model, trips=np.array(trips), go=np.array(go), x=x, stop=np.array(stop))
    assert last.shape == (2 * (turns + 1),)
    assert items.shape == (turns, 2)


def test_a_loop_without_turns_whose_body_is_deferred_has_the_declared_rank() -> None:
    model = parser.parse_model(
        """
        <ir_version: 9, opset_import: ["" : 21]>
        g (int64 trips, float[a, b] x, int64[d] axes) => (float[k, r, s, t] items) {
          items = Loop (trips, ) <body = body (int64 i, bool c) => (bool again, float[r, s, t] item) {
            again = Identity (c)
            item = Unsqueeze (x, axes)
          }>
        }
        """
    )
    x, axes = np.ones((2, 3), np.float32), np.array([0])
    (none,) = run(model, trips=np.array(0), x=x, axes=axes)
    (two,) = run(model, trips=np.array(2), x=x, axes=axes)
    assert none.ndim == 4 and none.shape[0] == 0
    assert two.shape == (2, 1, 2, 3)


def test_a_graph_given_to_a_function_sees_the_values_of_its_caller() -> None:
    graph = parser.parse_graph("then () => (float[n] y) { y = Add (x, x) }")
    other = parser.parse_graph("other () => (float[n] z) { z = Neg (x) }")
    call = helper.make_node("Choose", ["c"], ["out"], domain="own", yes=graph, no=other)
    inner = helper.make_node("If", ["flag"], ["chosen"])
    for name, source in (("then_branch", "yes"), ("else_branch", "no")):
        attribute = onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH)
        attribute.ref_attr_name = source
        inner.attribute.append(attribute)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    function = helper.make_function(
        "own", "Choose", ["flag"], ["chosen"], [inner], opsets[:1], ["yes", "no"]
    )
    main = helper.make_graph(
        [call],
        "g",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(main, functions=[function], opset_imports=opsets, ir_version=9)
    x = np.array([1, 2], np.float32)
    assert run(model, c=np.array(True), x=x)[0].tolist() == [2.0, 4.0]
    assert run(model, c=np.array(False), x=x)[0].tolist() == [-1.0, -2.0]


def test_a_body_that_takes_too_little_is_refused() -> None:
    model = parser.parse_model(LOOP)
    del model.graph.node[0].attribute[0].g.input[2]
    with pytest.raises(ModelError, match="body"):
        run(model)
