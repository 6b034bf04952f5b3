"""The outputs of a test against its expected ones, at the test's own tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from burnx.agreement.tolerance import close
from burnx.conformance.backend_tests import BackendTest, Value

BFLOAT16_RTOL = 2.0**-6
"""Two units in the last place; onnx's own runner allows bfloat16 as much."""


def find_mismatch(
    test: BackendTest, expected: Sequence[Value], found: Sequence[Value]
) -> str | None:
    """The first difference between two lists of outputs in words, or None if there is none."""
    if len(expected) != len(found):
        return f"{len(expected)} outputs expected, {len(found)} found"
    for number, (right, value) in enumerate(zip(expected, found, strict=True)):
        difference = close(right, value, _rtol_for(test, right), test.atol)
        if difference is not None:
            return f"output {number}: {difference}"
    return None


def _rtol_for(test: BackendTest, expected: Value) -> float | None:
    """The test's own tolerance; None leaves it to the dtype."""
    if test.rtol is None:
        return None
    coarse = any(array.dtype.name == "bfloat16" for array in _arrays_in(expected))
    return max(test.rtol, BFLOAT16_RTOL) if coarse else test.rtol


def _arrays_in(value: Value) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _arrays_in(item)
