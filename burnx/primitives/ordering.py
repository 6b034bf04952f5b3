"""Primitives that put elements in order."""

from __future__ import annotations

import numpy as np

from burnx.dtype import compute_dtype, int64
from burnx.primitives.core import Array, primitive
from burnx.types import TensorType


def _infer_sort(x: TensorType, *, axis: int, descending: bool) -> tuple[TensorType, TensorType]:
    return x, TensorType(int64, x.shape)


@primitive("sort", _infer_sort)
def evaluate_sort(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    """Values in order along ``axis`` and where they stood; equal ones keep their order, NaN is the greatest."""
    keys = x.astype(compute_dtype(x.dtype), copy=False) if x.dtype != object else x
    if descending:
        length = x.shape[axis]
        backwards = np.argsort(np.flip(keys, axis), axis=axis, kind="stable")
        order = length - 1 - np.flip(backwards, axis)
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    return np.take_along_axis(x, order, axis), order.astype(np.int64)
