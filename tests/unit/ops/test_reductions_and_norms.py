"""Activations, reductions and normalizations where the standard's own tests do not look."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import parser

import burnx
from burnx.errors import BurnxError

BF16 = np.dtype(ml_dtypes.bfloat16)


def run(
    body: str, feeds: dict[str, np.ndarray], opset: int = 21, dims: str = ""
) -> list[np.ndarray]:
    """Run ONNX text whose inputs have the dtypes of ``feeds``; their sizes are symbols of their own."""
    names = {"float32": "float", "float64": "double"}
    inputs = ", ".join(
        f"{names.get(array.dtype.name, array.dtype.name)}[{','.join(f'{name}{i}' for i in range(array.ndim))}] {name}"
        for name, array in feeds.items()
    )
    outputs = ", ".join(
        f"{kind} {name}" for kind, name in (pair.split() for pair in dims.split(","))
    )
    text = (
        f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )
    model = burnx.load(parser.parse_model(text), device="reference")
    return list(model.run(feeds).values())


def ramp(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 5) / 4


@pytest.mark.parametrize("axes", [[1], [-1, 0], [2, 1, 0]])
def test_axes_known_only_while_running_reduce_the_same(axes: list[int]) -> None:
    x = ramp(2, 3, 4)
    feeds = {"x": x, "axes": np.array(axes, np.int64)}
    (y,) = run("y = ReduceMean <keepdims = 0> (x, axes)", feeds, dims="float y")
    np.testing.assert_allclose(y, x.mean(tuple(axes)), rtol=1e-6)


def test_axes_were_an_attribute_before_opset_18() -> None:
    x = ramp(2, 3, 4)
    (y,) = run("y = ReduceL2 <axes = [-2]> (x)", {"x": x}, opset=11, dims="float y")
    np.testing.assert_allclose(y, np.sqrt((x * x).sum(1, keepdims=True)), rtol=1e-6)


def test_the_mean_of_float16_does_not_overflow_on_the_way() -> None:
    x = np.full((4, 4000), 100, np.float16)
    (y,) = run("y = ReduceMean <keepdims = 0> (x)", {"x": x}, dims="float16 y")
    assert y.dtype == np.float16 and y == 100


def test_bool_is_reduced_as_false_below_true() -> None:
    x = np.array([[True, False], [False, False]])
    (y,) = run("y = ReduceMax <keepdims = 0> (x, a)", {"x": x, "a": np.array([1])}, dims="bool y")
    assert y.tolist() == [True, False]


@pytest.mark.parametrize(("last", "expected"), [(0, [1, 0]), (1, [2, 2])])
def test_argmax_takes_the_first_or_last_of_equals_and_nan_wins(
    last: int, expected: list[int]
) -> None:
    x = np.array([[1, 3, 3], [np.nan, 9, np.nan]], np.float32)
    body = f"y = ArgMax <axis = 1, keepdims = 0, select_last_index = {last}> (x)"
    assert run(body, {"x": x}, dims="int64 y")[0].tolist() == expected


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_before_opset_13_runs_over_all_axes_from_axis_on(op: str) -> None:
    x = ramp(2, 3, 4)
    (y,) = run(f"y = {op} <axis = 1> (x)", {"x": x}, opset=11, dims="float y")
    (flat,) = run(f"y = {op} (x)", {"x": x.reshape(2, 12)}, opset=13, dims="float y")
    np.testing.assert_array_equal(y, flat.reshape(2, 3, 4))


@pytest.mark.parametrize(
    "body",
    ["y = Gelu (x)", "y = Mish (x)", "y = Softmax (x)", "y = LpNormalization (x)", "y = Selu (x)"],
)
def test_bfloat16_is_computed_in_float32_and_rounded_once(body: str) -> None:
    x = ramp(3, 5).astype(BF16)
    (low,) = run(body, {"x": x}, opset=22, dims="bfloat16 y")
    (wide,) = run(body, {"x": x.astype(np.float32)}, opset=22, dims="float y")
    np.testing.assert_array_equal(low, wide.astype(BF16))


def test_prelu_before_opset_7_has_one_slope_for_each_channel() -> None:
    x, slope = ramp(2, 3, 2), np.array([1, 2, 3], np.float32)
    (y,) = run("y = PRelu (x, s)", {"x": x, "s": slope}, opset=6, dims="float y")
    np.testing.assert_array_equal(y, np.where(x < 0, x * slope[:, None], x))


def test_a_signed_shift_to_the_right_keeps_the_sign_however_far() -> None:
    x, by = np.array([-8, -8, 8, -8], np.int8), np.array([1, 20, 20, -1], np.int8)
    (y,) = run('y = BitShift <direction = "RIGHT"> (x, n)', {"x": x, "n": by}, 28, "int8 y")
    assert y.tolist() == [-4, -1, 0, -1]


def test_bitcast_refuses_another_width() -> None:
    with pytest.raises(BurnxError, match="BitCast keeps the width: float32 and int64"):
        run("y = BitCast <to = 7> (x)", {"x": ramp(2)}, 26, "int64 y")


def test_batch_normalization_of_opset_9_trains_where_it_gives_statistics() -> None:
    x, one, zero = ramp(4, 2, 3), np.ones(2, np.float32), np.zeros(2, np.float32)
    feeds = {"x": x, "s": one, "b": zero, "m": zero, "v": one}
    body = "y, mean, var = BatchNormalization <momentum = 0.5> (x, s, b, m, v)"
    y, mean, _ = run(body, feeds, 9, "float y, float mean, float var")
    np.testing.assert_allclose(y.mean((0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(mean, x.mean((0, 2)) / 2, rtol=1e-6)


def test_batch_normalization_that_is_not_spatial_has_a_scale_for_each_place() -> None:
    x, scale, zero = ramp(4, 2, 3), ramp(2, 3), np.zeros((2, 3), np.float32)
    feeds = {"x": x, "s": scale, "b": zero, "m": zero, "v": zero + 1}
    body = "y = BatchNormalization <spatial = 0, epsilon = 0.0> (x, s, b, m, v)"
    (y,) = run(body, feeds, 7, "float y")
    np.testing.assert_allclose(y, x * scale, rtol=1e-6)


def test_group_normalization_of_opset_18_has_a_scale_for_each_group() -> None:
    x, scale = ramp(2, 4, 3), np.array([2, 3], np.float32)
    feeds = {"x": x, "s": scale, "b": scale}
    text = "y = GroupNormalization <num_groups = 2> (x, {}, {})"
    fixed = x.reshape(2, 2, 6)
    normal = (fixed - fixed.mean(2, keepdims=True)) / np.sqrt(fixed.var(2, keepdims=True) + 1e-5)
    expected = (normal * scale[:, None] + scale[:, None]).reshape(x.shape)
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[n,4,w] x, float[2] s, float[2] b) '
        f"=> (float y) {{ {text.format('s', 'b')} }}"
    )
    (y,) = burnx.load(model, device="reference").run(feeds).values()
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_training_dropout_keeps_the_mean_and_says_what_it_kept() -> None:
    x = np.ones((100, 100), np.float32)
    feeds = {"x": x, "r": np.array(0.25, np.float32), "t": np.array(True)}
    y, mask = run("y, mask = Dropout <seed = 3> (x, r, t)", feeds, 13, "float y, bool mask")
    np.testing.assert_allclose(y, np.where(mask, 1 / 0.75, 0), rtol=1e-6)
    assert abs(mask.mean() - 0.75) < 0.03


@pytest.mark.parametrize(("opset", "kind"), [(7, "float"), (10, "bool")])
def test_old_dropout_gives_everything_back(opset: int, kind: str) -> None:
    x = ramp(3, 2)
    y, mask = run("y, mask = Dropout <ratio = 0.9> (x)", {"x": x}, opset, f"float y, {kind} mask")
    np.testing.assert_array_equal(y, x)
    assert mask.all()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_an_ignored_target_counts_for_nothing_even_where_its_score_is_infinite(
    reduction: str,
) -> None:
    scores = np.array([[-1, -np.inf], [-2, -3]], np.float32)
    body = f'y = NegativeLogLikelihoodLoss <ignore_index = 1, reduction = "{reduction}"> (x, t)'
    (y,) = run(body, {"x": scores, "t": np.array([1, 0])}, dims="float y")
    assert y.tolist() == ([0, 2] if reduction == "none" else 2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('y = Gelu <approximate = "sigmoid"> (x)', "Gelu approximates"),
        ("y = LpNormalization <p = 3> (x)", "p 1 or 2, not 3"),
        ("y = ReduceSum (x, a)", "axes are given once each"),
        ("y = Softmax <axis = 2> (x)", "an axis of rank 2"),
    ],
)
def test_what_an_operator_does_not_do_is_an_error_with_the_rule(body: str, message: str) -> None:
    with pytest.raises(BurnxError, match=message):
        run(body, {"x": ramp(2, 3), "a": np.array([0, -2])}, dims="float y")
