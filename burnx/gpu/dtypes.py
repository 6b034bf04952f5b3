"""Dtypes as types of the text, and numbers of them as literals.

Floats of fewer than 32 bits are held as their bits, numbers of 2 and 4 bits in a byte of which the others mean nothing.
"""

from __future__ import annotations

import numpy as np

from burnx.dtype import (
    DTYPES,
    DType,
    bool_,
    dtype_name,
    float32,
    float64,
    int64,
    is_float,
    is_integer,
    uint32,
    uint64,
)
from burnx.errors import UnsupportedError
from burnx.gpu.dialects import Dialect


class Unsupported(UnsupportedError):
    """A kernel holds something that this emitter has no text for."""


def is_signed(dtype: DType) -> bool:
    return is_integer(dtype) and not dtype_name(dtype).startswith("uint")


def is_narrow(dtype: DType) -> bool:
    """Whether it is an integer of 2 or 4 bits."""
    return dtype_name(dtype) in ("int4", "uint4", "int2", "uint2")


def type_name(dtype: DType) -> str:
    """The type of a value in a register: ``f32``, ``i8``, ``bool``; ``u16`` for the bits of a float16."""
    name = dtype_name(dtype)
    if name == "string" or name.startswith("complex"):
        raise Unsupported(f"kernels do not work on {name}")
    if dtype == bool_:
        return "bool"
    kind = "f" if dtype in (float32, float64) else "i" if is_signed(dtype) else "u"
    return f"{kind}{8 * dtype.itemsize}"


NAMED = {
    type_name(DTYPES[name]): DTYPES[name]
    for name in (
        *("float32", "float64", "bool"),
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    )
}  # the dtypes that are computed in, by their types


def memory_type(dtype: DType) -> str:
    """The type of an element in memory."""
    return "u8" if dtype == bool_ else type_name(dtype)


def unsigned_name(dtype: DType) -> str:
    """The unsigned type in which integers wrap as they should; those below 32 bits are promoted anyway."""
    return f"u{max(8 * dtype.itemsize, 32)}"


def literal(number: float | int | bool, dtype: DType, dialect: Dialect) -> str:
    """A number of a dtype as text."""
    if dtype == bool_:
        return "true" if number else "false"
    if dtype == float64:
        return _double(float(number))
    if dtype == float32:
        with np.errstate(over="ignore"):
            return _single(np.float32(number))
    if is_float(dtype):
        with np.errstate(all="ignore"):
            small = np.asarray(number, np.float32).astype(dtype)
        return hex(int(small.view(f"u{dtype.itemsize}")))
    return _integer(int(number), dtype, dialect)


def _single(number: np.float32) -> str:
    if not np.isfinite(number):
        return f"f32_of_bits({hex(int(number.view(np.uint32)))}u)"
    return _signed_text(f"{number}f")


def _double(number: float) -> str:
    if not np.isfinite(number):
        return f"f64_of_bits({hex(int(np.float64(number).view(np.uint64)))}ul)"
    return _signed_text(repr(number))


def _signed_text(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _integer(number: int, dtype: DType, dialect: Dialect) -> str:
    if dtype in (uint32, uint64):
        return f"{number}u{dialect.long if dtype == uint64 else ''}"
    bits = 8 * dtype.itemsize
    end = dialect.long if dtype == int64 else ""
    if bits >= 32 and number == -(1 << (bits - 1)):  # C has no negative literals
        return f"({number + 1}{end} - 1)"
    return _signed_text(f"{number}{end}")
