"""Quantization and integer products against plain NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import burnx
from burnx.errors import BurnxError

RNG = np.random.default_rng(7)


def run(
    op: str, inputs: list[np.ndarray | None], opset: int = 21, **attributes: object
) -> np.ndarray:
    """One node whose inputs have sizes of their own."""
    named = {f"i{place}": array for place, array in enumerate(inputs) if array is not None}
    names = [f"i{place}" if array is not None else "" for place, array in enumerate(inputs)]
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}_{k}" for k in range(array.ndim)],
        )
        for name, array in named.items()
    ]
    kind = {"MatMulInteger": TensorProto.INT32, "ConvInteger": TensorProto.INT32}.get(op)
    if op == "QuantizeLinear" and attributes.get("output_dtype"):
        kind = attributes["output_dtype"]
    elif op == "QuantizeLinear":
        kind = TensorProto.UINT8 if len(named) < 3 else infos[2].type.tensor_type.elem_type
    elif op == "DequantizeLinear":
        kind = attributes.get("output_dtype") or infos[1].type.tensor_type.elem_type
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "g",
        infos,
        [helper.make_tensor_value_info("y", kind or TensorProto.UINT8, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return burnx.load(model, device="reference").run(named)["y"]


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize(
    ("a", "b", "a_zero", "b_zero"),
    [
        (u8(4, 300), i8(300, 5), u8(), i8()),
        (u8(4, 7), u8(7, 5), u8(4), u8(5)),
        (i8(2, 3, 4, 7), i8(7, 5), None, i8(5)),
        (u8(2, 1, 4, 7), u8(3, 7, 5), u8(2, 1, 4, 1), u8(3, 1, 5)),
        (u8(7), u8(7, 5), u8(), None),
        (u8(4, 7), u8(7), u8(), u8()),
    ],
)
def test_zero_points_of_products_may_be_per_row_and_per_column(
    a: np.ndarray, b: np.ndarray, a_zero: np.ndarray | None, b_zero: np.ndarray | None
) -> None:
    rows = np.int64(0) if a_zero is None else a_zero.astype(np.int64)
    rows = rows[:, None] if rows.ndim == 1 else rows
    columns = np.int64(0) if b_zero is None else b_zero.astype(np.int64)
    expected = (a.astype(np.int64) - rows) @ (b.astype(np.int64) - columns)
    np.testing.assert_array_equal(run("MatMulInteger", [a, b, a_zero, b_zero], 10), expected)


@pytest.mark.parametrize("w_zero", [None, u8(), u8(6)])
@pytest.mark.parametrize("group", [1, 2])
def test_a_convolution_pads_with_the_zero_point(w_zero: np.ndarray | None, group: int) -> None:
    x, w, x_zero = u8(1, 4, 5), u8(6, 4 // group, 3), u8()
    got = run("ConvInteger", [x, w, x_zero, w_zero], 10, pads=[1, 1], group=group)
    data = np.pad(x.astype(np.int64) - int(x_zero), [(0, 0), (0, 0), (1, 1)])
    zero = np.zeros(1) if w_zero is None else w_zero.reshape(-1)
    kernel = (w.astype(np.int64) - zero.astype(np.int64)[:, None, None]).reshape(
        group, -1, 4 // group, 3
    )
    windows = np.lib.stride_tricks.sliding_window_view(data, 3, 2).reshape(group, 4 // group, 5, 3)
    expected = np.einsum("gcok,gmck->gmo", windows, kernel).reshape(1, 6, 5)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_few_bits_saturate(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = np.array([-100, -1.5, -0.5, 0.5, 1.5, 100], np.float32)
    got = run("QuantizeLinear", [x, np.float32(1), np.zeros((), dtype)], 25)
    info = ml_dtypes.iinfo(dtype)
    expected = np.clip(np.rint(x), int(info.min), int(info.max))
    np.testing.assert_array_equal(got.astype(np.float32), expected)


def test_the_last_block_may_be_shorter() -> None:
    x, scale = (
        RNG.standard_normal((2, 5)).astype(np.float32),
        np.array([[1, 2], [4, 8]], np.float32),
    )
    q = run("QuantizeLinear", [x * 50, scale, i8(2, 2)], axis=1, block_size=3)
    zero = np.zeros((2, 2), np.int8)
    got = run("DequantizeLinear", [q, scale, zero], axis=1, block_size=3)
    expected = q.astype(np.float32) * np.repeat(scale, 3, 1)[:, :5]
    np.testing.assert_array_equal(got, expected)


def test_int16_with_an_extreme_zero_point_does_not_wrap() -> None:
    q, zero = np.array([-32768, 32767], np.int16), np.array(32767, np.int16)
    got = run("DequantizeLinear", [q, np.float32(1), zero])
    assert got.tolist() == [-65535, 0]


def test_float8_saturates_or_not() -> None:
    x = np.array([1e6, 448, 1], np.float32)
    zero = np.zeros((), ml_dtypes.float8_e4m3fn)
    kept = run("QuantizeLinear", [x, np.float32(1), zero], 19, saturate=1)
    lost = run("QuantizeLinear", [x, np.float32(1), zero], 19, saturate=0)
    assert kept.astype(np.float32).tolist() == [448, 448, 1]
    assert np.isnan(lost.astype(np.float32)[0])


@pytest.mark.parametrize(
    ("scale", "attributes", "message"),
    [
        (np.ones((2, 2), np.float32), {}, "a scale is a scalar, a vector"),
        (np.ones((2, 2), np.float32), {"output_dtype": 3}, "output_dtype int8 is that"),
        (np.ones((2,), np.float32), {"block_size": 2}, "need a scale with the rank"),
    ],
)
def test_scales_that_do_not_fit_are_errors(
    scale: np.ndarray, attributes: dict[str, int], message: str
) -> None:
    x = np.ones((2, 4), np.float32)
    with pytest.raises(BurnxError, match=message):
        run("QuantizeLinear", [x, scale, np.zeros(scale.shape, np.uint8)], **attributes)
