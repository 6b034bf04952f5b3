"""Operators of many steps compute low-precision floats in float32 and round once, at their end."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype, float64, is_integer
from burnx.tensor import Tensor


def widen(x: Tensor) -> Tensor:
    """``x`` in the dtype that arithmetic on it is carried out in: float16 and its kin become float32."""
    return waist.cast_to(x, compute_dtype(x.dtype))


def as_float(x: Tensor) -> Tensor:
    """``x`` widened, integers as float64: for roots and logarithms."""
    return waist.cast_to(x, float64) if is_integer(x.dtype) else widen(x)


def number(value: float, like: Tensor) -> Tensor:
    """A constant scalar of the dtype of ``like``."""
    return waist.constant(value, like.dtype)


def map_float(function: str, x: Tensor) -> Tensor:
    """A scalar function of floats; integers are computed in float64 and truncated again."""
    return waist.cast_to(waist.map(function, as_float(x)), x.dtype)
