"""Whether two results agree, and where they do not.

Without limits of its own, a comparison uses those of the result's dtype: float32 and float64 rtol 1e-3 and atol
1e-4 · max(1, max |expected|), smaller floats 1e-2 for both.  Integers, booleans and strings are exact; NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from burnx.dtype import as_array, dtype_name, is_complex, is_float, is_integer, is_low_precision

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """How a result differs from what was expected.

    ``where`` is the way into a sequence or map, such as ``[2]["a"]``; ``index`` the worst element of an array.
    ``max_abs`` and ``max_rel`` are the largest errors where both sides are numbers, else None.
    """

    reason: str
    where: str = ""
    index: tuple[int, ...] | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    count: int | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Two numbers agree if |actual - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float


def close(
    expected: Any, actual: Any, rtol: float | None = None, atol: float | None = None
) -> Difference | None:
    """None if ``actual`` agrees with ``expected``, else how it differs.

    Both are what a model gives: an array, a list for a sequence, a dict for a map, None for an empty optional.
    """
    if expected is None or actual is None:
        return None if expected is actual else _kinds_differ(expected, actual)
    for kind, compare in _COMPARE.items():
        if isinstance(expected, kind):
            if not isinstance(actual, kind):
                return _kinds_differ(expected, actual)
            return compare(expected, actual, rtol, atol)
    if isinstance(actual, (list, tuple, Mapping)):
        return _kinds_differ(expected, actual)
    if _is_python_number(expected) or _is_python_number(actual):
        expected, actual = _as_plain(expected), _as_plain(actual)
    return _close_arrays(as_array(expected), as_array(actual), rtol, atol)


def limits_for(expected: Array, rtol: float | None = None, atol: float | None = None) -> Limits:
    """The limits for one float array; what is given wins over what its dtype says."""
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    low = is_low_precision(expected.dtype)
    default = Limits(1e-2, 1e-2 * scale) if low else Limits(1e-3, 1e-4 * scale)
    return Limits(default.rtol if rtol is None else rtol, default.atol if atol is None else atol)


def _close_arrays(
    expected: Array, actual: Array, rtol: float | None, atol: float | None
) -> Difference | None:
    names = dtype_name(expected.dtype), dtype_name(actual.dtype)
    if names[0] != names[1]:
        return Difference(f"dtype is {names[1]}, expected {names[0]}")
    if expected.shape != actual.shape:
        return Difference(f"shape is {actual.shape}, expected {expected.shape}")
    if is_float(expected.dtype) or is_complex(expected.dtype):
        return _close_floats(expected, actual, rtol, atol)
    wrong = np.asarray(expected != actual, bool)
    return _exact_difference(expected, actual, wrong) if wrong.any() else None


def _close_floats(
    expected: Array, actual: Array, rtol: float | None, atol: float | None
) -> Difference | None:
    wide = np.complex128 if is_complex(expected.dtype) else np.float64
    limits = limits_for(_magnitudes(expected), rtol, atol)
    left, right = expected.astype(wide), actual.astype(wide)
    with np.errstate(all="ignore"):
        error = np.abs(right - left)
        within = error <= limits.atol + limits.rtol * np.abs(left)
    finite = np.isfinite(left) & np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    right_enough = same | (finite & within)
    if right_enough.all():
        return None
    return _float_difference(left, right, np.where(finite, error, np.inf), ~right_enough)


def _magnitudes(array: Array) -> Array:
    """An array whose dtype picks the limits and whose size scales them."""
    return np.abs(array).astype(np.float32) if is_complex(array.dtype) else array


def _float_difference(left: Array, right: Array, error: Array, wrong: Array) -> Difference:
    error = np.where(wrong, error, -1.0)
    index = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    count = int(wrong.sum())
    worst, size = float(error[index]), float(np.abs(left[index]))
    relative = worst / size if size > 0 and np.isfinite(worst) else float("inf")
    reason = (
        f"{count} of {left.size} elements differ, at most by {worst:.3g}: "
        f"expected {left[index]:.7g}, got {right[index]:.7g} at {list(index)}"
    )
    return Difference(reason, "", index, worst, relative, count)


def _exact_difference(left: Array, right: Array, wrong: Array) -> Difference:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = int(wrong.sum())
    reason = (
        f"{count} of {left.size} elements differ: "
        f"expected {left[index]!r}, got {right[index]!r} at {list(index)}"
    )
    if left.dtype.kind in "Ob":
        return Difference(reason, "", index, None, None, count)
    pairs = zip(left[wrong].tolist(), right[wrong].tolist(), strict=True)
    worst = float(max(abs(int(b) - int(a)) for a, b in pairs))
    return Difference(reason, "", index, worst, None, count)


def _close_sequences(
    expected: Sequence[Any], actual: Sequence[Any], rtol: float | None, atol: float | None
) -> Difference | None:
    if len(expected) != len(actual):
        return Difference(f"a list of {len(actual)} items, expected {len(expected)}")
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        difference = close(left, right, rtol, atol)
        if difference is not None:
            return replace(difference, where=f"[{index}]{difference.where}")
    return None


def _close_maps(
    expected: Mapping[Any, Any], actual: Mapping[Any, Any], rtol: float | None, atol: float | None
) -> Difference | None:
    if set(expected) != set(actual):
        keys = sorted(set(expected) ^ set(actual), key=str)[:4]
        return Difference(f"the keys of a map differ: {', '.join(map(repr, keys))}")
    for key, left in expected.items():
        difference = close(left, actual[key], rtol, atol)
        if difference is not None:
            return replace(difference, where=f"[{key!r}]{difference.where}")
    return None


def _is_python_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def _as_plain(value: Any) -> Any:
    """A number whose dtype says no more than its kind; float values compare as float32 does."""
    array = as_array(value)
    if is_float(array.dtype):
        return array.astype(np.float32)
    return array.astype(np.int64) if is_integer(array.dtype) else array


def _kinds_differ(expected: Any, actual: Any) -> Difference:
    return Difference(f"expected {_kind(expected)}, got {_kind(actual)}")


def _kind(value: Any) -> str:
    if value is None:
        return "nothing (an empty optional)"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"a map of {len(value)}"
    array = as_array(value)
    return f"a {array.dtype} array of shape {array.shape}"


_COMPARE: dict[Any, Callable[[Any, Any, float | None, float | None], Difference | None]] = {
    (list, tuple): _close_sequences,
    Mapping: _close_maps,
}
