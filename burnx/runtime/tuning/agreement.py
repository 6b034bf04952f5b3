"""Whether two kernels wrote the same numbers, sums taken in another order aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx.dtype import is_low_precision

Array = np.ndarray[Any, Any]

_RELATIVE = {"float32": 1e-3, "float64": 1e-9}
_ABSOLUTE = {"float32": 1e-4, "float64": 1e-10}  # times the largest number that is expected
_LOW = 1e-2  # float16, bfloat16 and less


def all_agree(expected: Sequence[Array], found: Sequence[Array]) -> bool:
    """Whether arrays agree one by one; integers and bools exactly, NaN with NaN, Inf with the same."""
    pairs = zip(expected, found, strict=True)
    return all(_agree(one, two) for one, two in pairs)


def _agree(expected: Array, found: Array) -> bool:
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return False
    low = is_low_precision(expected.dtype)
    if not low and expected.dtype.kind != "f":
        return bool(np.array_equal(_as_bytes(expected), _as_bytes(found)))
    name = expected.dtype.name
    wide = np.float64 if name == "float64" else np.float32
    one, two = expected.astype(wide), found.astype(wide)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(two)):
        return False
    if not np.array_equal(one[~finite], two[~finite], equal_nan=True):
        return False
    one, two = one[finite], two[finite]
    most = float(np.abs(one).max(initial=0.0))
    relative, absolute = _RELATIVE.get(name, _LOW), _ABSOLUTE.get(name, _LOW)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.all(np.abs(one - two) <= absolute * most + relative * np.abs(one)))


def _as_bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
