"""Primitives that make values from nothing but sizes, and sizes from values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from burnx.dtype import DType, bool_, compute_dtype, float32, int64
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


# as text: numpy.random is only imported by who draws
_Draw: TypeAlias = "Callable[[np.random.Generator, tuple[int, ...], float, float], Array]"
_DRAWS: dict[str, _Draw] = {
    "uniform": lambda generator, shape, low, high: generator.uniform(low, high, shape),
    "normal": lambda generator, shape, mean, scale: generator.normal(mean, scale, shape),
}


def _infer_random(
    *, kind: str, shape: Shape, first: float, second: float, seed: float | None, dtype: DType
) -> TensorType:
    return TensorType(dtype, shape)


@primitive("random", _infer_random, pure=False)
def evaluate_random(
    *,
    kind: str,
    shape: tuple[int, ...],
    first: float,
    second: float,
    seed: float | None,
    dtype: DType,
) -> Array:
    """Random numbers: ``uniform`` from first to second, or ``normal`` of mean first and deviation second.

    With a seed every call draws the same numbers, without one every call draws others.
    """
    bits = None if seed is None else int(np.float32(seed).view(np.uint32))
    drawn = _DRAWS[kind](np.random.default_rng(bits), tuple(shape), first, second)
    return (
        np.asarray(drawn)
        .astype(float32 if compute_dtype(dtype) == float32 else dtype)
        .astype(dtype)
    )
