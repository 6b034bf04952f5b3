"""Functions that NumPy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SQRT_PI = 1.7724538509055160273
_SERIES_TERMS = 40
_FRACTION_TERMS = 60


def erf(x: Array) -> Array:
    """The error function, to within one or two units in the last place of float64.

    Source: Abramowitz and Stegun, 7.1.6 (series below 2.5) and 7.1.14 (continued fraction above).
    """
    wide = np.asarray(x, np.float64)
    size = np.minimum(np.abs(wide), 6.0)
    small = size < 2.5
    value = np.empty_like(size)
    value[small] = _erf_series(size[small])
    value[~small] = 1.0 - _erfc_fraction(size[~small])
    value = np.where(np.isnan(wide), np.nan, np.copysign(value, wide))
    return value.astype(x.dtype)


def _erf_series(x: Array) -> Array:
    square = x * x
    term = x.copy()
    total = x.copy()
    for n in range(1, _SERIES_TERMS):
        term = term * (2.0 * square) / (2 * n + 1)
        total = total + term
    return 2.0 / _SQRT_PI * np.exp(-square) * total


def _erfc_fraction(x: Array) -> Array:
    tail = np.zeros_like(x)
    for n in range(_FRACTION_TERMS, 0, -1):
        tail = (n / 2.0) / (x + tail)
    return np.exp(-x * x) / (_SQRT_PI * (x + tail))
