"""Operators of com.microsoft by the formulas of their documents, where onnxruntime has no kernel on the cpu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnx.errors import BurnxError
from tests.unit.ops.contrib_quantized_linear_cases import IN, OTHER, OUT, real, small, whole
from tests.unit.ops.contrib_quantized_node import Array, Case, one, run_burnx

RNG = np.random.default_rng(29)


def run(op: str, inputs: Mapping[str, Array | None], outputs: int = 1, **attributes: Any) -> Any:
    found = run_burnx(Case(op, inputs, attributes, outputs=outputs))
    return found[0] if outputs == 1 else found


def stored(x: Array, scale: Array, zero: int, dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.clip(np.rint(x / scale) + zero, info.min, info.max).astype(dtype)


# ---------------------------------------------------------------- quantized tensors
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("axes", [[1], [0, -1], [0, 1, 2]])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("zero", [None, 7])
def test_a_mean_of_quantized_numbers(dtype: Any, axes: Any, keepdims: int, zero: Any) -> None:
    x, given = whole(dtype, 3, 4, 7), None if zero is None else one(zero, dtype)
    found = run(
        "QLinearReduceMean",
        {"x": x, "xs": OTHER, "xz": given, "ys": IN, "yz": given},
        axes=axes,
        keepdims=keepdims,
    )
    moved = (x.astype(np.float64) - (zero or 0)) * OTHER
    mean = moved.mean(tuple(axes), keepdims=bool(keepdims))
    np.testing.assert_array_equal(found, stored(mean, IN, zero or 0, dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_zero_points_that_are_left_out_are_0(dtype: Any) -> None:
    a, b = whole(dtype, 2, 5), whole(dtype, 5)
    inputs = {"a": a, "as": IN, "az": None, "b": b, "bs": OTHER, "bz": None, "cs": OUT}
    left, right = a * np.float64(IN), b * np.float64(OTHER)
    np.testing.assert_array_equal(run("QLinearAdd", inputs), stored(left + right, OUT, 0, dtype))
    np.testing.assert_array_equal(run("QLinearMul", inputs), stored(left * right, OUT, 0, dtype))
    one_input = {"x": a, "xs": IN, "xz": None, "ys": OTHER}
    leaky = np.where(left < 0, left * 0.3, left)
    found = run("QLinearLeakyRelu", one_input, alpha=0.3)
    np.testing.assert_array_equal(found, stored(leaky, OTHER, 0, dtype))


def test_columns_of_the_left_matrix_may_have_scales() -> None:
    a, b, zeros, scales = (
        whole(np.uint8, 3, 5),
        small(np.int8, 5, 5),
        whole(np.uint8, 5),
        np.abs(real(5)),
    )
    inputs = {"a": a, "b": b, "as": scales, "bs": OTHER, "az": zeros}
    found = run("MatMulIntegerToFloat", inputs)
    left = (a.astype(np.float64) - zeros) * scales
    np.testing.assert_allclose(found, left @ (b * np.float64(OTHER)), rtol=1e-5)


def test_floats_of_16_bits_are_those_of_the_scales() -> None:
    a, b = small(np.uint8, 3, 5), small(np.int8, 5, 4)
    scale, bias = one(0.5, np.float16), real(4).astype(np.float16)
    inputs = {"a": a, "b": b, "as": scale, "bs": scale, "az": None, "bz": None, "bias": bias}
    found = run("MatMulIntegerToFloat", inputs)
    exact = a.astype(np.float64) @ b.astype(np.float64) * 0.25 + bias
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, exact.astype(np.float16))


@pytest.mark.parametrize("name", ["int4", "uint4"])
def test_four_bits_are_quantized_along_an_axis(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.iinfo(dtype)
    x, scale = real(2, 3, 4) * 5, np.abs(real(3)) + np.float32(0.1)
    zero = np.array([0, 1, 2], np.int8).astype(dtype)
    found = run("QuantizeLinear", {"x": x, "s": scale, "z": zero}, axis=1)
    moved = np.rint(x / scale[:, None]) + zero.astype(np.float32)[:, None]
    wanted = np.clip(moved, int(info.min), int(info.max))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), wanted)
    back = run("DequantizeLinear", {"x": found, "s": scale, "z": zero}, axis=1)
    wanted = (wanted - zero.astype(np.float32)[:, None]) * scale[:, None]
    np.testing.assert_allclose(back, wanted, rtol=1e-6)


# ---------------------------------------------------------------- blocks and codes
def test_a_weight_says_which_block_each_of_its_columns_has() -> None:
    a, groups = real(2, 40), RNG.integers(0, 3, 40).astype(np.int32)
    packed, scales, zeros = whole(np.uint8, 5, 3, 8), real(5, 3), whole(np.uint8, 5, 2)
    inputs = {"a": a, "b": packed, "s": scales, "z": zeros, "g": groups}
    found = run("MatMulNBits", inputs, K=40, N=5, bits=4, block_size=16)
    numbers = np.stack([packed & 15, packed >> 4], -1).reshape(5, 48)[:, :40].astype(np.float64)
    middles = np.stack([zeros & 15, zeros >> 4], -1).reshape(5, 4)
    weight = (numbers - middles[:, groups]) * scales[:, groups]
    np.testing.assert_allclose(found, a @ weight.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_meet_floats_of_16_bits(kind: Any, bits: int) -> None:
    a, scales, zeros = (x.astype(kind) for x in (real(2, 32), real(5, 2), real(5, 2) * 3))
    packed = whole(np.uint8, 5, 2, 2 * bits)
    inputs = {"a": a, "b": packed, "s": scales, "z": zeros}
    found = run("MatMulNBits", inputs, K=32, N=5, bits=bits, block_size=16)
    parts = [packed >> shift & 2**bits - 1 for shift in range(0, 8, bits)]
    numbers = np.stack(parts, -1).reshape(5, 2, 16).astype(np.float64)
    moved = numbers - zeros.astype(np.float64)[..., None]
    weight = (moved * scales.astype(np.float64)[..., None]).reshape(5, 32)
    assert found.dtype == kind
    wanted = a.astype(np.float64) @ weight.T
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("bias", [None, real(5)])
def test_a_weight_that_is_left_out_counts_as_zeros(bias: Any) -> None:
    inputs = {"a": real(2, 32), "b": np.zeros((0, 2, 8), np.uint8), "s": real(5, 0), "z": None}
    case = Case(
        "MatMulNBits",
        {**inputs, "g": None, "bias": bias},
        {"K": 32, "N": 5, "block_size": 16},
        fixed=("b", "s"),
    )
    wanted = np.zeros((2, 5), np.float32) + (0 if bias is None else bias)
    np.testing.assert_array_equal(run_burnx(case)[0], wanted)


@pytest.mark.parametrize("quant_type", [0, 1])
def test_codes_may_be_those_of_the_transpose(quant_type: int) -> None:
    packed, scales = whole(np.uint8, 18), np.abs(real(3))
    inputs = {"a": np.eye(5, dtype=np.float32), "b": packed, "s": scales}
    chosen = {"K": 7, "N": 5, "block_size": 16, "quant_type": quant_type}
    weight = run("MatMulBnb4", inputs, **chosen, transB=0)
    again = run("MatMulBnb4", {**inputs, "a": np.eye(7, dtype=np.float32)}, **chosen)
    np.testing.assert_array_equal(weight, again.T)
    assert float(np.abs(weight.reshape(-1)[:16]).max()) <= scales[0] * 1.0001


def test_rows_of_a_table_come_in_bfloat16() -> None:
    data, scale = whole(np.uint8, 5, 16), real(5, 1).astype(ml_dtypes.bfloat16)
    inputs = {"d": data, "i": np.array([4, 0]), "s": scale}
    found = run("GatherBlockQuantized", inputs, bits=8, block_size=16)
    exact = (data.astype(np.float32) - 128) * scale.astype(np.float32)
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, exact[[4, 0]].astype(ml_dtypes.bfloat16))


# ---------------------------------------------------------------- padding
def test_padding_is_removed_and_restored() -> None:
    x, counts = real(3, 4, 2), np.array([2, 4, 1], np.int32)
    kept, order, starts, longest = run("RemovePadding", {"x": x, "n": counts}, outputs=4)
    np.testing.assert_array_equal(kept, np.concatenate([x[0, :2], x[1], x[2, :1]]))
    assert order.tolist() == [[0, 1, 4, 5], [6, 7, 8, 2], [3, 9, 10, 11]]
    assert (starts.tolist(), longest.tolist()) == ([0, 2, 6, 7], [4])
    back = run("RestorePadding", {"x": kept, "o": order})
    inside = np.arange(4) < counts[:, None]
    np.testing.assert_array_equal(back, np.where(inside[..., None], x, np.float32(0)))


# ---------------------------------------------------------------- what is refused
BLOCKS = {"a": real(2, 32), "b": whole(np.uint8, 5, 2, 8), "s": real(5, 2)}
SIZES = {"K": 32, "N": 5, "block_size": 16}
CODES = {"a": real(2, 7), "b": whole(np.uint8, 18), "s": real(3)}
ROWS = {"d": whole(np.uint8, 5, 3, 16), "i": np.array([1]), "s": real(5, 3, 1)}
MATRICES = {
    "a": whole(np.uint8, 2, 3),
    "as": IN,
    "az": one(1, np.uint8),
    "b": whole(np.uint8, 3, 2),
    "bs": IN,
    "bz": one(1, np.uint8),
    "c": None,
    "ys": IN,
}
REFUSED: list[tuple[str, Mapping[str, Array | None], dict[str, Any], str]] = [
    ("MatMulNBits", BLOCKS, {**SIZES, "bits": 3}, "2, 4 or 8 bits, not 3"),
    ("MatMulNBits", BLOCKS, {**SIZES, "block_size": 24}, "a power of 2, at least 16, not 24"),
    ("MatMulNBits", BLOCKS, {**SIZES, "weight_prepacked": 1}, "not weight_prepacked 1"),
    ("MatMulBnb4", CODES, {"K": 7, "N": 5, "block_size": 16, "quant_type": 2}, "not 2"),
    ("MatMulBnb4", CODES, {"K": 7, "N": 5, "block_size": 8, "quant_type": 0}, "not 8"),
    ("GatherBlockQuantized", ROWS, {"block_size": 16, "gather_axis": 1}, "along axis 0"),
    ("GatherBlockQuantized", ROWS, {"block_size": 16, "quantize_axis": 2, "bits": 5}, "not 5"),
    ("QGemm", MATRICES, {}, "y_scale and y_zero_point together"),
    (
        "MatMulIntegerToFloat",
        {"a": whole(np.uint8, 2, 3), "b": whole(np.uint8, 3, 2), "as": IN, "bs": real(3, 2)},
        {},
        "reshape keeps the element count",
    ),
]


@pytest.mark.parametrize(("op", "inputs", "attributes", "message"), REFUSED)
def test_what_is_not_done_is_refused(
    op: str, inputs: Mapping[str, Array | None], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(BurnxError, match=message):
        run(op, inputs, **attributes)
