"""Primitives that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnx.dtype import dtype_name
from burnx.errors import DTypeError, ShapeError
from burnx.primitives.core import Array, primitive
from burnx.shape import Dim, Shape, Undecided, maximum, product, same, shape_text
from burnx.types import TensorType


def _surely_differ(left: Dim, right: Dim) -> bool:
    try:
        return not same(left, right)
    except Undecided:
        return False


def _infer_broadcast(x: TensorType, *, shape: Shape) -> TensorType:
    assert x.shape is not None
    lead = len(shape) - len(x.shape)
    for have, want in zip(x.shape, shape[lead:], strict=True) if lead >= 0 else [(0, 1)]:
        if have != 1 and _surely_differ(have, want):
            raise ShapeError(f"{shape_text(x.shape)} does not broadcast to {shape_text(shape)}")
    return TensorType(x.dtype, tuple(shape))


@primitive("broadcast", _infer_broadcast, symbolic=True)
def evaluate_broadcast(x: Array, *, shape: tuple[int, ...]) -> Array:
    """Repeat along axes of size 1 and new leading axes, by stride 0.

    Shapes: (*t) -> shape, aligned at the last axis.
    """
    try:
        return np.broadcast_to(x, shape)
    except ValueError:
        raise ShapeError(f"{x.shape} does not broadcast to {shape}") from None


def _infer_reshape(x: TensorType, *, shape: Shape) -> TensorType:
    assert x.shape is not None
    if _surely_differ(product(x.shape), product(shape)):
        raise ShapeError(
            f"reshape keeps the element count: {shape_text(x.shape)} has {product(x.shape)}, "
            f"{shape_text(shape)} has {product(shape)}"
        )
    return TensorType(x.dtype, tuple(shape))


@primitive("reshape", _infer_reshape, symbolic=True)
def evaluate_reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    """The same elements in row-major order under another shape."""
    if x.size != int(np.prod(shape, dtype=np.int64)):
        raise ShapeError(
            f"reshape keeps the element count: {x.shape} has {x.size}, "
            f"{tuple(shape)} has {int(np.prod(shape, dtype=np.int64))}"
        )
    return x.reshape(shape)


def _infer_transpose(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    assert x.shape is not None
    if sorted(perm) != list(range(len(x.shape))):
        raise ShapeError(f"a permutation of {len(x.shape)} axes is needed, not {list(perm)}")
    return TensorType(x.dtype, tuple(x.shape[axis] for axis in perm))


@primitive("transpose", _infer_transpose, symbolic=True)
def evaluate_transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    """Reorder the axes: output axis i is input axis perm[i]."""
    return x.transpose(perm)


def _infer_slice(
    x: TensorType, *, starts: Shape, sizes: Shape, steps: tuple[int, ...]
) -> TensorType:
    assert x.shape is not None
    if not len(x.shape) == len(starts) == len(sizes) == len(steps):
        raise ShapeError(f"slice takes a start, size and step for each of {len(x.shape)} axes")
    return TensorType(x.dtype, tuple(sizes))


@primitive("slice", _infer_slice, symbolic=True)
def evaluate_slice(
    x: Array, *, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
) -> Array:
    """Take ``sizes[i]`` elements of axis i from ``starts[i]`` on, ``steps[i]`` apart (which may be negative)."""
    index = []
    for length, start, size, step in zip(x.shape, starts, sizes, steps, strict=True):
        last = start + (size - 1) * step
        if size and not (0 <= start < length and 0 <= last < length):
            raise ShapeError(f"a slice from {start} to {last} leaves an axis of {length}")
        stop = start + size * step
        index.append(slice(start, None if stop < 0 else stop, step) if size > 0 else slice(0, 0))
    return x[tuple(index)]


def _infer_pad(x: TensorType, value: TensorType, *, low: Shape, high: Shape) -> TensorType:
    assert x.shape is not None
    if x.dtype != value.dtype:
        raise DTypeError(
            f"pad fills with its own dtype {dtype_name(x.dtype)}, not {dtype_name(value.dtype)}"
        )
    dims = zip(low, x.shape, high, strict=True)
    return TensorType(x.dtype, tuple(maximum(before + n + after, 0) for before, n, after in dims))


@primitive("pad", _infer_pad, symbolic=True)
def evaluate_pad(x: Array, value: Array, *, low: tuple[int, ...], high: tuple[int, ...]) -> Array:
    """Surround with a scalar; negative widths cut off.

    Shapes: (*s), () -> (low + s + high), per axis.
    """
    crop = tuple(
        slice(max(-before, 0), max(n - max(-after, 0), max(-before, 0)))
        for n, before, after in zip(x.shape, low, high, strict=True)
    )
    kept = x[crop]
    shape = [
        max(n + before + after, 0) for n, before, after in zip(x.shape, low, high, strict=True)
    ]
    result = np.empty(shape, x.dtype)
    result[...] = value
    inside = tuple(
        slice(max(before, 0), max(before, 0) + n) for n, before in zip(kept.shape, low, strict=True)
    )
    if result.size and kept.size:
        result[inside] = kept
    return result


def _infer_concat(*types: TensorType, axis: int) -> TensorType:
    first = types[0]
    assert first.shape is not None
    total: Dim = 0
    for other in types:
        assert other.shape is not None
        if other.dtype != first.dtype:
            raise DTypeError(
                f"concat joins one dtype, not {dtype_name(first.dtype)} and {dtype_name(other.dtype)}"
            )
        apart = len(other.shape) != len(first.shape) or any(
            _surely_differ(left, right)
            for i, (left, right) in enumerate(zip(first.shape, other.shape, strict=True))
            if i != axis
        )
        if apart:
            raise _not_joined([each.shape for each in types if each.shape is not None], axis)
        total = total + other.shape[axis]
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _not_joined(shapes: Sequence[Shape], axis: int) -> ShapeError:
    return ShapeError(
        f"concat needs equal sizes but along axis {axis}: " + " and ".join(map(shape_text, shapes))
    )


@primitive("concat", _infer_concat, symbolic=True)
def evaluate_concat(*arrays: Array, axis: int) -> Array:
    """Join along ``axis``."""
    try:
        return np.concatenate(arrays, axis=axis)
    except ValueError as error:
        raise _not_joined([each.shape for each in arrays], axis) from error


def _infer_flip(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
    return x


@primitive("flip", _infer_flip, symbolic=True)
def evaluate_flip(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Reverse the order along ``axes``."""
    return np.flip(x, axes)
