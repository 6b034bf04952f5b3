"""Gather, scatter and selection where the standard's own tests do not look."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from burnx.errors import BurnxError, ModelError, ShapeError
from tests.unit.ops.text_model import load, run


def test_top_k_of_old_opsets_has_its_count_as_attribute() -> None:
    x = np.array([[3, 1, 2]], np.float32)
    text = "g (float[a, b] x) => (float[a, c] v, int64[a, c] i) { v, i = TopK<k=2>(x) }"
    values, places = run(text, opset=9, x=x)
    assert values.tolist() == [[3, 2]] and places.tolist() == [[0, 2]]


def test_top_k_puts_nan_first_and_keeps_the_order_of_equals() -> None:
    text = "g (float[n] x, int64[1] k) => (float[m] v, int64[m] i) { v, i = TopK(x, k) }"
    x = np.array([1, np.nan, 3, 3, np.inf], np.float32)
    assert run(text, x=x, k=np.array([4]))[1].tolist() == [1, 4, 2, 3]


def test_top_k_refuses_a_count_above_the_axis_known_or_not() -> None:
    x = np.zeros(3, np.float32)
    live = "g (float[n] x, int64[1] k) => (float[m] v, int64[m] i) { v, i = TopK(x, k) }"
    fixed = (
        "g (float[3] x) => (float[m] v, int64[m] i) "
        "{ k = Constant<value_ints=[4]>()\n v, i = TopK(x, k) }"
    )
    with pytest.raises(ShapeError):
        run(live, x=x, k=np.array([4]))
    with pytest.raises(ShapeError, match="at most"):
        run(fixed, x=x)


@pytest.mark.parametrize("dtype", [np.uint64, np.int64])
def test_top_k_orders_the_extremes_of_64_bit_integers(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, info.max, info.min, info.max - 1], dtype)
    name = np.dtype(dtype).name
    text = f"g ({name}[n] x, int64[1] k) => ({name}[m] v, int64[m] i) {{ v, i = TopK(x, k) }}"
    assert run(text, x=x, k=np.array([2]))[0].tolist() == [info.max, info.max - 1]


def test_one_hot_is_off_everywhere_for_an_index_outside() -> None:
    text = "g (int64[n] x, int64 d, float[2] v) => (float[a, b] y) { y = OneHot<axis=0>(x, d, v) }"
    y = run(text, x=np.array([-1, 5, 0]), d=np.array(3), v=np.array([0, 1], np.float32))
    assert y.tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]


def test_scatter_adds_up_in_float32_and_rounds_once() -> None:
    data = np.ones(1, ml_dtypes.bfloat16)
    updates = np.full(256, 1 / 256, ml_dtypes.bfloat16)
    text = (
        "g (bfloat16[n] x, int64[m] i, bfloat16[m] u) => (bfloat16[n] y) "
        '{ y = ScatterElements<reduction="add">(x, i, u) }'
    )
    assert run(text, x=data, i=np.zeros(256, np.int64), u=updates).tolist() == [2]


def test_scatter_refuses_a_place_outside_and_an_unknown_reduction() -> None:
    text = "g (float[n] x, int64[m] i, float[m] u) => (float[n] y) {{ y = ScatterElements{}(x, i, u) }}"
    feed = {"x": np.zeros(3, np.float32), "u": np.ones(1, np.float32)}
    with pytest.raises(ShapeError):
        run(text.format(""), i=np.array([3]), **feed)
    with pytest.raises(BurnxError, match="mean"):
        run(text.format('<reduction="mean">'), i=np.array([0]), **feed)


def test_gather_nd_takes_an_index_length_that_only_the_run_knows() -> None:
    text = "g (float[a, b] x, int64[n, d] i) => (float[m] y) { y = GatherND(x, i) }"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    model = load(text)
    assert next(iter(model.run({"x": x, "i": np.array([[1, 2]])}).values())).tolist() == [5]


def test_unique_by_first_appearance_gives_its_inverse() -> None:
    text = (
        "g (float[a, b] x) => (float[n, b] y, int64[n] i, int64[a] r, int64[n] c) "
        "{ y, i, r, c = Unique<axis=0, sorted=0>(x) }"
    )
    x = np.array([[3, 1], [1, 1], [3, 1]], np.float32)
    y, first, inverse, counts = run(text, x=x)
    assert np.array_equal(y[inverse], x)
    assert first.tolist() == [0, 1] and counts.tolist() == [2, 1]


def test_suppression_chooses_nothing_without_a_limit_and_ends_early() -> None:
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.7]]], np.float32)
    text = (
        "g (float[b, n, 4] x, float[b, c, n] s, int64 k, float t) => (int64[m, 3] y) "
        "{ y = NonMaxSuppression(x, s, k, t) }"
    )
    half = np.array(0.5, np.float32)
    chosen = run(text, x=boxes, s=scores, k=np.array(9), t=half)
    assert chosen.tolist() == [[0, 0, 1], [0, 0, 2]]
    assert run(text, x=boxes, s=scores, k=np.array(0), t=half).shape == (0, 3)


def test_label_encoder_finds_nan_and_falls_back() -> None:
    text = (
        "g (float[n] x) => (string[n] y) { y = ai.onnx.ml.LabelEncoder"
        '<keys_tensor=float[2] {1, nan}, values_strings=["one", "none"]>(x) }'
    )
    text = text.replace("keys_tensor=float[2] {1, nan}", "keys_floats=[1.0, 2.0]")
    y = run(text, x=np.array([2, 7, 1], np.float32))
    assert y.tolist() == ["none", "_Unused", "one"]


def test_tensor_scatter_refuses_another_mode() -> None:
    text = (
        "g (float[b, n, d] x, float[b, m, d] u) => (float[b, n, d] y) "
        '{ y = TensorScatter<mode="ring">(x, u) }'
    )
    x = np.zeros((1, 2, 1), np.float32)
    with pytest.raises(ModelError, match="ring"):
        run(text, opset=24, x=x, u=x[:, :1])
