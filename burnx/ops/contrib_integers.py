"""com.microsoft: sums and products of integers, and hashes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import int8, int16, int32, string, uint32, uint64
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT
from burnx.ops.kinds import T1, T2, T3, Flag, Int32, T
from burnx.ops.linalg import mat_mul
from burnx.ops.movement import normal_axes
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.reduction import fold_axes
from burnx.tensor import Tensor
from burnx.types import TensorType


@operator("ReduceSumInteger", since=(1,), domain=MICROSOFT)
def reduce_sum_integer(
    data: T1,
    *,
    axes: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    keepdims: int = REQUIRED,  # type: ignore[assignment]
) -> T2:
    """Sums of bytes in 32 bits, with a sign if the bytes have one.

    Source: onnxruntime com.microsoft ReduceSumInteger-1
    """
    wide = waist.cast_to(data, _of_32_bits(data.dtype))
    return fold_axes("sum", wide, normal_axes(axes, data.ndim), keepdims)


@reduce_sum_integer.infer
def _reduce_sum_integer_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(_of_32_bits(inputs[0].dtype), None)]


def _of_32_bits(dtype: Any) -> Any:
    return int32 if dtype in (int8, int16) else uint32


@operator("MulInteger", since=(1,), domain=MICROSOFT)
def mul_integer(a: T, a_zero_point: T | None, b: T, b_zero_point: T | None = None) -> Int32:
    """(a - a_zero_point) (b - b_zero_point) in 32 bits.  Source: onnxruntime com.microsoft MulInteger-1"""
    wide = []
    for x, zero in ((a, a_zero_point), (b, b_zero_point)):
        whole = waist.cast_to(x, int32)
        if zero is not None:
            whole = waist.map("sub", whole, waist.cast_to(waist.reshape(zero, ()), int32))
        wide.append(whole)
    return waist.map("mul", *wide)


@operator("MatMulInteger16", since=(1,), domain=MICROSOFT)
def mat_mul_integer16(a: T1, b: T2) -> T3:
    """Products of matrices of 16-bit integers in 32 bits.  Source: onnxruntime com.microsoft MatMulInteger16-1"""
    wide = _of_32_bits(a.dtype)
    result: Tensor = mat_mul(waist.cast_to(a, wide), waist.cast_to(b, wide))
    return result


@mat_mul_integer16.infer
def _mat_mul_integer16_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(_of_32_bits(inputs[0].dtype), None)]


# ---------------------------------------------------------------------------------------- hashes
_FIRST, _SECOND = 0xCC9E2D51, 0x1B873593
_STEP, _LAST_FIRST, _LAST_SECOND = 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35


@operator("MurmurHash3", since=(1,), domain=MICROSOFT)
def murmur_hash3(x: T1, *, positive: Flag = 1, seed: int = 0) -> T2:
    """A hash of 32 bits of each element's bytes.

    Source: onnxruntime com.microsoft MurmurHash3-1; Appleby 2011, MurmurHash3_x86_32
    """
    if positive not in (0, 1):
        raise ModelError(f"positive is 0 or 1, not {positive}")
    wanted = uint32 if positive else int32
    if x.dtype == string:
        kind = TensorType(wanted, x.shape)

        def run(array: Any) -> list[Any]:
            found = [hash_of(text.encode(), seed) for text in array.reshape(-1)]
            return [np.array(found, np.uint32).reshape(array.shape).astype(wanted)]

        (result,) = waist.host("MurmurHash3", run, [x], [kind])
        return result
    hashed = waist.constant(seed % 2**32, uint32)
    blocks = _blocks(x)
    for block in blocks:
        hashed = _mixed(hashed, block)
    hashed = waist.map("bit_xor", hashed, waist.constant(4 * len(blocks), uint32))
    hashed = waist.broadcast(_settled(hashed), x.shape)
    return hashed if positive else waist.bitcast(hashed, int32)


@murmur_hash3.infer
def _murmur_hash3_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(uint32 if attributes.get("positive", 1) else int32, None)]


def _blocks(x: Tensor) -> list[Tensor]:
    """The bytes of each element, four at a time, the lowest first."""
    if x.dtype.itemsize == 4:
        return [x if x.dtype == uint32 else waist.bitcast(x, uint32)]
    whole = x if x.dtype == uint64 else waist.bitcast(x, uint64)
    low = waist.map("bit_and", whole, waist.constant(2**32 - 1, uint64))
    high = waist.map("shift_right", whole, waist.constant(32, uint64))
    return [waist.cast_to(part, uint32) for part in (low, high)]


def _number(value: int) -> Tensor:
    return waist.constant(value, uint32)


def _turned(x: Tensor, bits: int) -> Tensor:
    left = waist.map("shift_left", x, _number(bits))
    return waist.map("bit_or", left, waist.map("shift_right", x, _number(32 - bits)))


def _mixed(hashed: Tensor, block: Tensor) -> Tensor:
    block = _turned(waist.map("mul", block, _number(_FIRST)), 15)
    block = waist.map("mul", block, _number(_SECOND))
    hashed = _turned(waist.map("bit_xor", hashed, block), 13)
    return waist.map("add", waist.map("mul", hashed, _number(5)), _number(_STEP))


def _settled(hashed: Tensor) -> Tensor:
    for bits, factor in ((16, _LAST_FIRST), (13, _LAST_SECOND), (16, None)):
        shifted = waist.map("shift_right", hashed, _number(bits))
        hashed = waist.map("bit_xor", hashed, shifted)
        if factor is not None:
            hashed = waist.map("mul", hashed, _number(factor))
    return hashed


def hash_of(data: bytes, seed: int) -> int:
    """The hash of bytes."""

    def turned(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF

    def scrambled(block: int) -> int:
        return turned(block * _FIRST & 0xFFFFFFFF, 15) * _SECOND & 0xFFFFFFFF

    hashed, whole = seed & 0xFFFFFFFF, len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:whole]):
        hashed = (turned(hashed ^ scrambled(block), 13) * 5 + _STEP) & 0xFFFFFFFF
    hashed ^= scrambled(int.from_bytes(data[whole:], "little")) if data[whole:] else 0
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * _LAST_FIRST & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * _LAST_SECOND & 0xFFFFFFFF
    return hashed ^ hashed >> 16
