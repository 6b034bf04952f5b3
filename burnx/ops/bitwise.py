"""Operators on the bits of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnx import waist
from burnx.dtype import SIGNED, DType, dtype_name, packed_bits
from burnx.errors import DTypeError, ModelError
from burnx.ops.conversion import attribute_dtype
from burnx.ops.kinds import T1, T2, T
from burnx.ops.operator import REQUIRED, operator
from burnx.types import TensorType, Type


@operator("BitShift", since=(11, 28), meaning=11)
def bit_shift(x: T, y: T, *, direction: str = REQUIRED) -> T:  # type: ignore[assignment]
    """Move the bits by y places; to the "RIGHT" a negative number keeps its sign.  Source: ONNX BitShift-28"""
    if direction not in ("LEFT", "RIGHT"):
        raise ModelError(f'BitShift moves "LEFT" or "RIGHT", not "{direction}"')
    if direction == "LEFT":
        return waist.map("shift_left", x, y)
    if x.dtype in SIGNED:
        last = waist.constant(8 * x.dtype.itemsize - 1, x.dtype)
        outside = waist.map("or", y < 0, y > last)
        y = waist.map("select", outside, last, y)
    return waist.map("shift_right", x, y)


@operator("BitwiseAnd", since=(18,))
def bitwise_and(a: T, b: T) -> T:
    """The bits that both have, broadcast.  Source: ONNX BitwiseAnd-18"""
    return waist.map("bit_and", a, b)


@operator("BitwiseOr", since=(18,))
def bitwise_or(a: T, b: T) -> T:
    """The bits that either has, broadcast.  Source: ONNX BitwiseOr-18"""
    return waist.map("bit_or", a, b)


@operator("BitwiseXor", since=(18,))
def bitwise_xor(a: T, b: T) -> T:
    """The bits that exactly one has, broadcast.  Source: ONNX BitwiseXor-18"""
    return waist.map("bit_xor", a, b)


@operator("BitwiseNot", since=(18,))
def bitwise_not(x: T) -> T:
    """Every bit reversed.  Source: ONNX BitwiseNot-18"""
    return waist.map("bit_not", x)


@operator("BitCast", since=(26,))
def bit_cast(input: T1, *, to: int | str = REQUIRED) -> T2:  # type: ignore[assignment]
    """The same bits read as another dtype of the same width.  Source: ONNX BitCast-26"""
    wanted: DType = attribute_dtype(to)
    if _width(input.dtype) != _width(wanted):
        raise DTypeError(
            f"BitCast keeps the width: {dtype_name(input.dtype)} and {dtype_name(wanted)} differ"
        )
    return waist.bitcast(input, wanted)


def _width(dtype: DType) -> int:
    return packed_bits(dtype)


@bit_cast.infer
def _bit_cast_types(inputs: Sequence[Any], attributes: Mapping[str, Any], count: int) -> list[Type]:
    return [TensorType(attribute_dtype(attributes["to"]), None)]
