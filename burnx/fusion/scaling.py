"""Numbers that all elements of an operand are multiplied by, taken out of the products: the sums are, instead."""

from __future__ import annotations

import math
from collections.abc import Sequence

from burnx.dtype import DType, float16, float32
from burnx.kernels.ir import Apply, Cast, Constant, Load, Local, Value

SMALLEST = 2.0**-14


def unwidened(value: Value, dtype: DType) -> Value:
    """What is read, if it is of this dtype and only widened."""
    if isinstance(value, Cast) and not value.bits and _is_read(value.value, dtype):
        return value.value
    return value


def unscaled(value: Value) -> tuple[Value, float]:
    """(what is read, the number that it is multiplied by): of float16 by at most 1, all else as it is.

    The sums of such products are float32 and far from its limits, so they may as well be multiplied afterwards.
    """
    inner = value
    while isinstance(inner, Cast) and not inner.bits and inner.dtype in (float16, float32):
        inner = inner.value
    if not isinstance(inner, Apply) or inner.function != "mul" or inner.dtype != float32:
        return value, 1.0
    read = [one for each in inner.arguments if _is_read(one := unwidened(each, float16), float16)]
    numbers = [float(each.value) for each in inner.arguments if isinstance(each, Constant)]
    if len(read) != 1 or len(numbers) != 1 or not SMALLEST <= abs(numbers[0]) <= 1:
        return value, 1.0
    return read[0], numbers[0]


def scaled(name: str, dtype: DType, factors: Sequence[float]) -> Value:
    """A sum of products, multiplied by what was left out of its operands."""
    total, number = Local(name, dtype), math.prod(factors)
    return total if number == 1 else Apply("mul", (total, Constant(number, dtype)), dtype)


def _is_read(value: Value, dtype: DType) -> bool:
    return isinstance(value, Load) and value.dtype == dtype
