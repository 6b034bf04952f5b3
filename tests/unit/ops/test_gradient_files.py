"""Gradient in files: what its names mean, on every route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

import burnx
from burnx.agreement.tolerance import close
from tests.unit.ops.ml_nodes import on_routes

Array = np.ndarray[Any, Any]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
TRAINING = "ai.onnx.preview.training"
node = helper.make_node


def gradient(inputs: Sequence[str], outputs: Sequence[str], **names: Any) -> NodeProto:
    return node("Gradient", inputs, outputs, domain=TRAINING, **names)


def model_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "training",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def check(
    model: onnx.ModelProto, feeds: Mapping[str, Array], wanted: Sequence[Array], folder: Path
) -> None:
    """Raises: AssertionError unless every route gives what is wanted."""
    for route, found in on_routes(model, feeds, folder).items():
        for right, value in zip(wanted, found, strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-6, err_msg=route)


X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]], np.float32)
W = np.array([[0.2, -0.3], [0.4, 0.1], [-0.6, 0.7]], np.float32)
LINEAR = [node("MatMul", ["x", "w"], ["h"]), node("Mul", ["h", "h"], ["y"])]


def test_weights_are_differentiated_by_and_the_batch_stays_open(tmp_path: Path) -> None:
    nodes = [*LINEAR, gradient(["w", "x"], ["dw"], xs=["w"], zs=["x"], y="y")]
    model = model_of(nodes, {"x": (FLOAT, ["batch", 3])}, ["y", "dw"], {"w": W})
    check(model, {"x": X}, [(X @ W) ** 2, X.T @ (2 * (X @ W))], tmp_path)


def test_a_tensor_in_the_middle_may_be_named(tmp_path: Path) -> None:
    nodes = [*LINEAR, gradient(["h"], ["dh"], xs=["h"], y="y")]
    model = model_of(nodes, {"x": (FLOAT, [2, 3])}, ["dh"], {"w": W})
    check(model, {"x": X}, [2 * (X @ W)], tmp_path)


def test_other_values_than_the_named_ones_may_be_given(tmp_path: Path) -> None:
    nodes = [*LINEAR, gradient(["other"], ["dh"], xs=["h"], y="y")]
    inputs = {"x": (FLOAT, [2, 3]), "other": (FLOAT, [2, 2])}
    model = model_of(nodes, inputs, ["y", "dh"], {"w": W})
    other = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    check(model, {"x": X, "other": other}, [(X @ W) ** 2, 2 * other], tmp_path)


def test_gradients_of_gradients_and_outputs_that_are_left_out(tmp_path: Path) -> None:
    nodes = [
        node("Mul", ["a", "a"], ["s"]),
        node("Mul", ["s", "b"], ["y"]),
        gradient(["a", "b"], ["da", "db"], xs=["a", "b"], y="y"),
        gradient(["a", "b"], ["", "dadb"], xs=["a", "b"], y="da"),
    ]
    model = model_of(nodes, {"a": (FLOAT, []), "b": (FLOAT, [])}, ["da", "db", "dadb"])
    a, b = np.float32(3), np.float32(5)
    feeds = {"a": np.asarray(a), "b": np.asarray(b)}
    check(model, feeds, [2 * a * b, a * a, 2 * a], tmp_path)


def test_what_does_not_depend_on_a_tensor_has_slope_zero(tmp_path: Path) -> None:
    nodes = [
        node("Exp", ["a"], ["y"]),
        node("Floor", ["b"], ["f"]),
        node("Add", ["y", "f"], ["z"]),
        gradient(["a", "b"], ["da", "db"], xs=["a", "b"], y="z"),
    ]
    model = model_of(nodes, {"a": (FLOAT, [2]), "b": (FLOAT, [2])}, ["da", "db"])
    a = np.array([0.5, 1.0], np.float32)
    check(model, {"a": a, "b": a}, [np.exp(a), np.zeros(2)], tmp_path)


def test_the_node_may_stand_before_what_it_names() -> None:
    nodes = [gradient(["a"], ["da"], xs=["a"], y="y"), node("Exp", ["a"], ["y"])]
    loaded = burnx.load(model_of(nodes, {"a": (FLOAT, [1])}, ["da"]))
    np.testing.assert_allclose(loaded.run({"a": np.ones(1, np.float32)})["da"], [np.e], rtol=1e-6)


def test_sizes_that_are_only_known_while_running() -> None:
    nodes = [
        node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
        node("Mul", ["s", "s"], ["y"]),
        gradient(["x", "axes"], ["dx"], xs=["x"], zs=["axes"], y="y"),
    ]
    inputs = {"x": (FLOAT, ["a", "b"]), "axes": (INT64, [1])}
    loaded = burnx.load(model_of(nodes, inputs, ["dx"]))
    for axis in (0, 1):
        found = loaded.run({"x": X, "axes": np.array([axis])})["dx"]
        wanted = np.broadcast_to(2 * X.sum(axis, keepdims=True), X.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_graph_that_is_chosen_by_a_constant() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(operator, ["x"], [name])], name, [], [onnx.ValueInfoProto(name=name)]
        )
        for name, operator in (("then", "Exp"), ("else", "Neg"))
    }
    nodes = [node("If", ["flag"], ["y"], **branches), gradient(["x"], ["dx"], xs=["x"], y="y")]
    weights = {"flag": np.array(True)}
    model = model_of(nodes, {"x": (FLOAT, [2, 3])}, ["dx"], weights)
    found = burnx.load(model).run({"x": X})["dx"]
    np.testing.assert_allclose(found, np.exp(X), rtol=1e-6)


def loop_of_squares() -> onnx.GraphProto:
    return helper.make_graph(
        [
            node("Mul", ["v", "v"], ["s"]),
            node("Mul", ["s", "b"], ["w"]),
            node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [2, 3]),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("on", "w", "v")],
    )


def test_loops_go_back_through_their_turns() -> None:
    """Two turns of b v²: the last value and what every turn started from both count."""
    nodes = [
        node("Loop", ["n", "", "x"], ["y", "all"], body=loop_of_squares()),
        node("ReduceSum", ["all"], ["sum"], keepdims=0),
        node("Add", ["y", "sum"], ["z"]),
        gradient(["x", "b"], ["dx", "db"], xs=["x", "b"], y="z"),
    ]
    inputs = {"x": (FLOAT, [2, 3]), "b": (FLOAT, []), "n": (INT64, [])}
    loaded = burnx.load(model_of(nodes, inputs, ["dx", "db"]))
    b = np.float32(1.5)
    found = loaded.run({"x": X, "b": np.asarray(b), "n": np.array(2)})
    # y = b³ x⁴, and the turns start from x and b x², each counted for all six elements of z
    np.testing.assert_allclose(found["dx"], 4 * b**3 * X**3 + 6 * (1 + 2 * b * X), rtol=1e-5)
    slope = (3 * b**2 * X**4).sum() + 6 * (X**2).sum()
    np.testing.assert_allclose(found["db"], slope, rtol=1e-5)


def test_a_loop_that_never_runs() -> None:
    nodes = [
        node("Loop", ["n", "", "x"], ["y", "all"], body=loop_of_squares()),
        gradient(["x", "b"], ["dx", "db"], xs=["x", "b"], y="y"),
    ]
    inputs = {"x": (FLOAT, [2, 3]), "b": (FLOAT, []), "n": (INT64, [])}
    loaded = burnx.load(model_of(nodes, inputs, ["dx", "db"]))
    found = loaded.run({"x": X, "b": np.asarray(np.float32(2)), "n": np.array(0)})
    np.testing.assert_array_equal(found["dx"], np.ones((2, 3)))
    np.testing.assert_array_equal(found["db"], 0)


def test_a_branch_goes_back_through_the_side_that_was_taken() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("Mul", ["x", factor], [name])], name, [], [onnx.ValueInfoProto(name=name)]
        )
        for name, factor in (("then", "x"), ("else", "b"))
    }
    nodes = [
        node("If", ["flag"], ["y"], **branches),
        gradient(["x", "b"], ["dx", "db"], xs=["x", "b"], y="y"),
    ]
    inputs = {"x": (FLOAT, [2, 3]), "b": (FLOAT, [2, 3]), "flag": (TensorProto.BOOL, [])}
    loaded = burnx.load(model_of(nodes, inputs, ["dx", "db"]))
    for flag, dx, db in ((True, 2 * X, 0 * X), (False, 3 * X, X)):
        found = loaded.run({"x": X, "b": 3 * X, "flag": np.array(flag)})
        np.testing.assert_allclose(found["dx"], dx)
        np.testing.assert_allclose(found["db"], db)


def test_recurrent_layers_on_every_route(tmp_path: Path) -> None:
    nodes = [
        node("LSTM", ["x", "w", "r"], ["h", "last"], hidden_size=2),
        gradient(["w", "x", "r"], ["dw", "dx"], xs=["w", "x"], zs=["r"], y="h"),
    ]
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 8, 3), "r": (1, 8, 2)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = model_of(nodes, {"x": (FLOAT, ["time", "batch", 3])}, ["dw", "dx"], weights)
    found = on_routes(model, {"x": rng.normal(size=(4, 2, 3)).astype(np.float32)}, tmp_path)
    for route in ("run", "source"):
        assert close(found["roundtrip"], found[route]) is None, route


def test_what_has_no_derivative_is_named() -> None:
    nodes = [
        node("SequenceConstruct", ["x"], ["s"], name="list"),
        node("ConcatFromSequence", ["s"], ["y"], axis=0, name="join"),
        gradient(["x"], ["dx"], xs=["x"], y="y", name="back"),
    ]
    model = model_of(nodes, {"x": (FLOAT, [2, 3])}, ["dx"])
    with pytest.raises(
        burnx.BurnxError, match=r'runs in Python, node "join" \(ConcatFromSequence\)'
    ):
        burnx.load(model).run({"x": X})


def test_whole_numbers_have_no_derivative() -> None:
    nodes = [node("Mul", ["x", "x"], ["y"]), gradient(["x"], ["dx"], xs=["x"], y="y")]
    model = model_of(nodes, {"x": (INT64, [2])}, ["dx"])
    with pytest.raises(burnx.BurnxError, match="floats, not by int64"):
        burnx.load(model)


def test_names_and_inputs_are_as_many() -> None:
    nodes = [node("Exp", ["x"], ["y"]), gradient(["x"], ["dx"], xs=["x", "y"], y="y")]
    with pytest.raises(burnx.BurnxError, match="xs and zs name each of 1 inputs once"):
        burnx.load(model_of(nodes, {"x": (FLOAT, [2])}, ["dx"]))


def test_training_in_a_loop(tmp_path: Path) -> None:
    """Gradient descent: the loop carries the weight, and its body differentiates by it."""
    body = helper.make_graph(
        [
            node("MatMul", ["x", "v"], ["h"]),
            node("Sub", ["h", "t"], ["d"]),
            node("ReduceSumSquare", ["d"], ["loss"], keepdims=0),
            gradient(["v"], ["dv"], xs=["v"], y="loss"),
            node("Mul", ["dv", "rate"], ["step"]),
            node("Sub", ["v", "step"], ["next"]),
            node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [3, 2]),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("on", "next", "loss")],
    )
    nodes = [node("Loop", ["n", "", "w"], ["trained", "losses"], body=body)]
    inputs = {"x": (FLOAT, ["batch", 3]), "t": (FLOAT, ["batch", 2]), "n": (INT64, [])}
    weights = {"w": W, "rate": np.float32(0.05)}
    target = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    wanted, losses = W.copy(), []
    for _ in range(4):
        away = X @ wanted - target
        losses.append((away**2).sum())
        wanted = wanted - np.float32(0.05) * (X.T @ (2 * away))
    model = model_of(nodes, inputs, ["trained", "losses"], weights)
    feeds = {"x": X, "t": target, "n": np.array(4)}
    check(model, feeds, [wanted, np.array(losses)], tmp_path)
