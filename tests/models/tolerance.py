"""When the outputs of two engines agree.

float32 and float64: rtol 1e-3, atol 1e-4 times the largest expected magnitude (at least 1);
float16 and bfloat16: 1e-2 for both; integers, booleans and strings exact; NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RELATIVE, ABSOLUTE, LOW_PRECISION = 1e-3, 1e-4, 1e-2
Array = np.ndarray[Any, Any]


class Mismatch(AssertionError):
    """Two engines disagree; ``error`` is the relative error where there is one."""

    def __init__(self, message: str, error: float | None = None) -> None:
        super().__init__(message)
        self.error = error


def compare(expected: Any, actual: Any, place: str = "outputs") -> float:
    """The largest relative error of any output: its absolute error by its largest magnitude.

    Raises: Mismatch if an output is missing, of another dtype or shape, or too far off.
    """
    if expected is None or isinstance(expected, (str, bool, int)):
        return _same(expected == actual, expected, actual, place)
    if isinstance(expected, Mapping):
        _same(list(expected) == list(actual), list(expected), list(actual), f"names of {place}")
        return max((compare(expected[key], actual[key], str(key)) for key in expected), default=0.0)
    if isinstance(expected, Sequence):
        _same(len(expected) == len(actual), len(expected), len(actual), f"length of {place}")
        pairs = enumerate(zip(expected, actual, strict=True))
        return max((compare(*pair, f"{place}/{index}") for index, pair in pairs), default=0.0)
    return compare_arrays(np.asarray(expected), np.asarray(actual), place)


def _same(holds: bool, expected: Any, actual: Any, place: str) -> float:
    if not holds:
        raise Mismatch(f"{place}: {expected!r} is right, found {actual!r}")
    return 0.0


def compare_arrays(expected: Array, actual: Array, place: str) -> float:
    _same(expected.dtype == actual.dtype, expected.dtype, actual.dtype, f"dtype of {place}")
    _same(expected.shape == actual.shape, expected.shape, actual.shape, f"shape of {place}")
    if expected.dtype.kind in "biuOUST":
        wrong = int(np.count_nonzero(expected != actual))
        return _same(wrong == 0, "every element", f"{wrong} of {expected.size} others", place)
    return compare_floats(expected, actual, place)


def compare_floats(expected: Array, actual: Array, place: str) -> float:
    low = expected.dtype.itemsize < 4
    right, found = expected.astype(np.complex128), actual.astype(np.complex128)
    finite = np.isfinite(right) & np.isfinite(found)
    magnitude = float(np.abs(right[finite]).max(initial=0.0))
    relative = LOW_PRECISION if low else RELATIVE
    absolute = LOW_PRECISION if low else ABSOLUTE * max(1.0, magnitude)
    off = np.abs(right[finite] - found[finite])
    error = float(off.max(initial=0.0)) / (magnitude or 1.0)
    too_far = int(np.count_nonzero(off > absolute + relative * np.abs(right[finite])))
    same_kind = (right == found) | (np.isnan(right) & np.isnan(found))
    too_far += int(np.count_nonzero(~finite & ~same_kind))
    if too_far:
        raise Mismatch(
            f"{place}: {too_far} of {expected.size} elements are off, "
            f"the worst by {error:.2g} of the largest magnitude",
            error,
        )
    return error
