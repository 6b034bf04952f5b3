"""Expected values against found ones, at a test's own tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from burnx.conformance.backend_tests import Value

BFLOAT16_RTOL = 2.0**-6
"""Two units in the last place; onnx's own runner allows bfloat16 as much."""


@dataclass(frozen=True, slots=True)
class Closeness:
    """How far a floating-point value may be from the expected one; all else is exact."""

    rtol: float
    atol: float


def find_mismatch(
    expected: Sequence[Value], found: Sequence[Value], closeness: Closeness
) -> str | None:
    """The first difference between two lists of outputs in words, or None if there is none."""
    if len(expected) != len(found):
        return f"{len(expected)} outputs expected, {len(found)} found"
    for number, (right, value) in enumerate(zip(expected, found, strict=True)):
        difference = _compare(right, value, closeness)
        if difference is not None:
            return f"output {number}: {difference}"
    return None


def _compare(expected: Value, found: Value, closeness: Closeness) -> str | None:
    if expected is None:
        return None if found is None else f"None expected, {_kind(found)} found"
    if isinstance(expected, list):
        return _compare_sequences(expected, found, closeness)
    if isinstance(expected, Mapping):
        return _compare_maps(expected, found, closeness)
    if not isinstance(found, np.ndarray | np.generic):
        return f"an array expected, {_kind(found)} found"
    return _compare_arrays(np.asarray(expected), np.asarray(found), closeness)


def _kind(value: Value) -> str:
    return "None" if value is None else type(value).__name__


def _compare_sequences(expected: Sequence[Value], found: Value, closeness: Closeness) -> str | None:
    if not isinstance(found, list | tuple):
        return f"a sequence expected, {_kind(found)} found"
    if len(expected) != len(found):
        return f"a sequence of {len(expected)} expected, of {len(found)} found"
    for number, (right, value) in enumerate(zip(expected, found, strict=True)):
        difference = _compare(right, value, closeness)
        if difference is not None:
            return f"item {number}: {difference}"
    return None


def _compare_maps(
    expected: Mapping[Value, Value], found: Value, closeness: Closeness
) -> str | None:
    if not isinstance(found, Mapping):
        return f"a map expected, {_kind(found)} found"
    if set(expected) != set(found):
        return f"keys {sorted(expected)} expected, {sorted(found)} found"
    for key, right in expected.items():
        difference = _compare_arrays(np.asarray(right), np.asarray(found[key]), closeness)
        if difference is not None:
            return f"key {key!r}: {difference}"
    return None


def _compare_arrays(
    expected: NDArray[np.generic], found: NDArray[np.generic], closeness: Closeness
) -> str | None:
    if expected.shape != found.shape:
        return f"shape {expected.shape} expected, {found.shape} found"
    if _is_text(expected) and _is_text(found):
        return _first_difference(expected, found, np.asarray(_texts(expected) == _texts(found)))
    if expected.dtype != found.dtype:
        return f"dtype {expected.dtype} expected, {found.dtype} found"
    if expected.dtype.name.lstrip("u").startswith(("int", "bool")):
        return _first_difference(expected, found, np.asarray(expected == found))
    return _first_difference(expected, found, _close(expected, found, closeness))


def _is_text(array: NDArray[np.generic]) -> bool:
    return array.dtype.kind in "OUST"


def _texts(array: NDArray[np.generic]) -> NDArray[np.object_]:
    flat = [_text(item) for item in array.ravel().tolist()]
    texts = np.empty(len(flat), dtype=object)
    texts[:] = flat
    return texts.reshape(array.shape)


def _text(item: Value) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)


def _close(
    expected: NDArray[np.generic], found: NDArray[np.generic], closeness: Closeness
) -> NDArray[np.bool_]:
    rtol = closeness.rtol
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, BFLOAT16_RTOL)
    # NumPy cannot promote most dtypes of ml_dtypes, and float16 arithmetic would round the bound.
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    right, value = expected.astype(wide), found.astype(wide)
    return np.asarray(np.isclose(value, right, rtol, closeness.atol, equal_nan=True))


def _first_difference(
    expected: NDArray[np.generic], found: NDArray[np.generic], same: NDArray[np.bool_]
) -> str | None:
    if same.all():
        return None
    place = tuple(int(index) for index in np.argwhere(~same)[0])
    count = int(same.size - np.count_nonzero(same))
    return (
        f"{count} of {same.size} elements differ, first at {list(place)}: "
        f"{expected[place]!s} expected, {found[place]!s} found"
    )
