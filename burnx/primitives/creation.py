"""Primitives that make values from nothing but sizes, and sizes from values."""

from __future__ import annotations

import os

import numpy as np

from burnx.dtype import DType, bool_, compute_dtype, int64, uint32
from burnx.errors import ShapeError
from burnx.primitives.core import Array, primitive
from burnx.shape import Dim, Shape
from burnx.types import TensorType


def _infer_iota(*, size: Dim, dtype: DType) -> TensorType:
    return TensorType(dtype, (size,))


@primitive("iota", _infer_iota)
def evaluate_iota(*, size: int, dtype: DType) -> Array:
    """0, 1, … size - 1."""
    return np.arange(size, dtype=compute_dtype(dtype)).astype(dtype, copy=False)


def _infer_sizes(*, dims: Shape) -> TensorType:
    return TensorType(int64, (len(dims),))


@primitive("sizes", _infer_sizes)
def evaluate_sizes(*, dims: tuple[int, ...]) -> Array:
    """Dimensions as an int64 vector.

    Shapes: () -> (len(dims)).
    """
    return np.array(dims, np.int64).reshape(len(dims))


def _infer_size_of(x: TensorType) -> TensorType:
    return TensorType(bool_, (None,))  # type: ignore[arg-type]


@primitive("size_of", _infer_size_of)
def evaluate_size_of(x: Array) -> Array:
    """A view without memory whose only axis has the size that a scalar says: it binds a symbol to a value.

    Raises: ShapeError if the size is negative.
    """
    size = int(x.reshape(()))
    if size < 0:
        raise ShapeError(f"a size is never negative: {size}")
    return np.broadcast_to(np.False_, (size,))


def _infer_draw_key(*, seed: float | None) -> TensorType:
    return TensorType(uint32, (2,))


@primitive("draw_key", _infer_draw_key, pure=False)
def evaluate_draw_key(*, seed: float | None) -> Array:
    """What random numbers are drawn with: another one in every call, the same one with a seed.

    Shapes: () -> (2).
    """
    if seed is None:
        return np.frombuffer(os.urandom(8), np.uint32)
    return np.array([np.float32(seed).view(np.uint32), 0], np.uint32)
