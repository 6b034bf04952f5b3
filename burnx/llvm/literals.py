"""Numbers in the text: literals of every dtype, and scalars as vectors."""

from __future__ import annotations

import struct

import numpy as np

from burnx.dtype import DType, bool_, float16, float32, float64, is_float
from burnx.llvm.dtypes import lanes_of, register_type, scalar_type
from burnx.llvm.writer import Ssa, Writer


def literal(number: float | int | bool, dtype: DType) -> Ssa:
    """A number of a dtype; floats are written by their bits."""
    type_ = register_type(dtype)
    if dtype == bool_:
        return Ssa("true" if number else "false", type_)
    if dtype in (float32, float64):
        return Ssa(_double_text(float(number), dtype == float32), type_)
    if dtype == float16:
        bits = int(np.asarray(number, np.float16).view(np.uint16))
        return Ssa(f"0xH{bits:04X}", type_)
    if is_float(dtype):
        small = np.asarray(number, np.float32).astype(dtype)
        return Ssa(str(int(small.view(f"u{dtype.itemsize}"))), type_)
    return Ssa(str(int(number)), type_)


def _double_text(number: float, single: bool) -> str:
    """LLVM writes a float by the bits of the same number as a double."""
    if single:
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    return f"0x{struct.pack('>d', number).hex().upper()}"


def like_literal(number: float | int, value: Ssa) -> Ssa:
    """A number of the type of ``value``, in all its lanes."""
    scalar = scalar_type(value.type)
    text = str(number)
    if scalar in ("float", "double"):
        text = _double_text(float(number), scalar == "float")
    elif scalar == "i1":
        text = "true" if number else "false"
    return vector_literal(Ssa(text, scalar), lanes_of(value.type))


def vector_literal(scalar: Ssa, lanes: int) -> Ssa:
    if lanes == 1:
        return scalar
    return Ssa(f"splat ({scalar})", f"<{lanes} x {scalar.type}>")


def widen(writer: Writer, value: Ssa, lanes: int) -> Ssa:
    """A scalar as a vector of so many lanes; vectors stay what they are."""
    if lanes == 1 or value.type.startswith("<"):
        return value
    if not value.name.startswith("%"):
        return vector_literal(value, lanes)
    return writer.splat(value, lanes)
