"""Between which numbers a value surely is, or NaN: what was clipped needs no more care when it becomes an integer."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from burnx.dtype import is_float
from burnx.kernels.ir import Apply, Constant, Value

_ROUNDING = frozenset(("round", "floor", "ceil", "trunc"))
_DEEP = 8  # expressions looked through


@dataclass(frozen=True, slots=True)
class Range:
    low: float = -inf
    high: float = inf

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high


ANY = Range()


def range_of(value: Value, deep: int = _DEEP) -> Range:
    """The range of a float; its bounds are whole numbers or infinite."""
    if isinstance(value, Constant):
        number = float(value.value)
        return Range(number, number) if number.is_integer() else ANY
    if not isinstance(value, Apply) or not is_float(value.dtype) or deep == 0:
        return ANY
    if value.function in _ROUNDING:
        return range_of(value.arguments[0], deep - 1)
    if value.function not in ("min", "max"):
        return ANY
    left, right = (range_of(each, deep - 1) for each in value.arguments)
    pick = min if value.function == "min" else max
    return Range(pick(left.low, right.low), pick(left.high, right.high))


def is_whole(value: Value, deep: int = _DEEP) -> bool:
    """Whether a float is surely a whole number, an infinity or NaN."""
    if isinstance(value, Constant):
        return float(value.value).is_integer()
    if not isinstance(value, Apply) or deep == 0:
        return False
    if value.function in _ROUNDING:
        return True
    steps = value.function in ("min", "max", "add", "sub")
    return steps and all(is_whole(each, deep - 1) for each in value.arguments)
