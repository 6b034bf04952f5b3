"""Primitives that read and write at positions given by a tensor.

A negative index counts from the end of its axis; one outside the axis is an error, never a read of other memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnx.dtype import dtype_name, int64, is_integer, is_low_precision
from burnx.errors import DTypeError, ShapeError
from burnx.primitives.core import Array, primitive
from burnx.shape import Shape, shape_text
from burnx.types import TensorType


def _check_indices(indices: TensorType) -> None:
    if not is_integer(indices.dtype):
        raise DTypeError(f"indices are integers, not {dtype_name(indices.dtype)}")


def _check_range(indices: Array, length: int) -> None:
    if indices.size and not (-length <= int(indices.min()) and int(indices.max()) < length):
        raise ShapeError(
            f"an index is at least {-length} and below {length} here: "
            f"found {int(indices.min())} to {int(indices.max())}"
        )


def _infer_take(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    assert x.shape is not None and indices.shape is not None
    _check_indices(indices)
    return TensorType(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@primitive("take", _infer_take, symbolic=True)
def evaluate_take(x: Array, indices: Array, *, axis: int) -> Array:
    """Slices of ``x`` along ``axis``.

    Shapes: (*a, n, *b), (*i) -> (*a, *i, *b).
    """
    positions = indices.astype(np.int64)
    _check_range(positions, x.shape[axis])
    return np.take(x, positions, axis=axis)


def _infer_take_along(x: TensorType, indices: TensorType, *, axis: int) -> TensorType:
    assert x.shape is not None and indices.shape is not None
    _check_indices(indices)
    if len(x.shape) != len(indices.shape):
        raise ShapeError(
            f"indices have the rank of the data: {len(indices.shape)} and {len(x.shape)}"
        )
    _check_beside(x.shape, indices.shape, axis)
    return TensorType(x.dtype, indices.shape)


def _check_beside(shape: Shape, indices: Shape, axis: int) -> None:
    """Every other axis of the indices is also a place in the data."""
    for place, (length, count) in enumerate(zip(shape, indices, strict=True)):
        if place == axis or not (isinstance(length, int) and isinstance(count, int)):
            continue
        if count > length:
            raise ShapeError(
                f"indices are not longer than the data but along axis {axis}: "
                f"{shape_text(indices)} and {shape_text(shape)}"
            )


def _grid(shape: tuple[int, ...], axis: int, along: Array) -> tuple[Array, ...]:
    index = list(np.ogrid[tuple(slice(n) for n in shape)])
    index[axis] = along
    return tuple(index)


@primitive("take_along", _infer_take_along)
def evaluate_take_along(x: Array, indices: Array, *, axis: int) -> Array:
    """out[i, j, k] = x[indices[i, j, k], j, k] for axis 0, and so on; indices may be shorter than x elsewhere."""
    positions = indices.astype(np.int64)
    _check_range(positions, x.shape[axis])
    _check_beside(x.shape, indices.shape, axis)
    return np.asarray(x[_grid(indices.shape, axis, positions)])


def _infer_gather_nd(x: TensorType, indices: TensorType, *, batch: int) -> TensorType:
    assert x.shape is not None and indices.shape is not None
    _check_indices(indices)
    depth = indices.shape[-1]
    if not isinstance(depth, int) or not batch <= len(x.shape) - depth:
        raise ShapeError(f"gather_nd needs a fixed index length that fits rank {len(x.shape)}")
    _check_equal("the first axes of data and indices", x.shape[:batch], indices.shape[:batch])
    return TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth :]))


@primitive("gather_nd", _infer_gather_nd)
def evaluate_gather_nd(x: Array, indices: Array, *, batch: int) -> Array:
    """Slices of ``x`` at index tuples, side by side for the first ``batch`` axes.

    Shapes: (*b, *s), (*b, *i, d) -> (*b, *i, *s[d:]).
    """
    positions = indices.astype(np.int64)
    _check_equal("the first axes of data and indices", x.shape[:batch], indices.shape[:batch])
    for place in range(positions.shape[-1]):
        _check_range(positions[..., place], x.shape[batch + place])
    lead = tuple(
        np.arange(n).reshape((n,) + (1,) * (positions.ndim - 2 - axis))
        for axis, n in enumerate(x.shape[:batch])
    )
    if positions.shape[-1] == 0:  # no axis is chosen from: all of what the first axes lead to
        shape = (*indices.shape[:-1], *x.shape[batch:])
        inner = (1,) * (indices.ndim - 1 - batch)
        return np.broadcast_to(x.reshape(*x.shape[:batch], *inner, *x.shape[batch:]), shape).copy()
    return np.asarray(x[(*lead, *np.moveaxis(positions, -1, 0))])


_WRITE: dict[str, Callable[..., None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _write(x: Array, index: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    wide = np.dtype(np.float32) if is_low_precision(x.dtype) else x.dtype
    result = x.astype(wide)
    if reduction == "none":
        result[index] = updates.astype(wide)
    else:
        with np.errstate(all="ignore"):
            _WRITE[reduction](result, index, updates.astype(wide))
    return result.astype(x.dtype, copy=False)


def _infer_scatter_along(
    x: TensorType, indices: TensorType, updates: TensorType, *, axis: int, reduction: str
) -> TensorType:
    assert x.shape is not None and indices.shape is not None and updates.shape is not None
    _check_indices(indices)
    _check_updates(x, updates)
    _check_equal("updates and indices", updates.shape, indices.shape)
    if len(x.shape) == len(indices.shape):
        _check_beside(x.shape, indices.shape, axis)
    return x


def _check_equal(what: str, one: Shape, other: Shape) -> None:
    pairs = zip(one, other, strict=False)
    fits = all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    if len(one) != len(other) or not fits:
        raise ShapeError(f"{what} have equal sizes: {shape_text(one)} and {shape_text(other)}")


def _check_updates(x: TensorType, updates: TensorType) -> None:
    if x.dtype != updates.dtype:
        raise DTypeError(f"updates are {dtype_name(x.dtype)}, not {dtype_name(updates.dtype)}")


@primitive("scatter_along", _infer_scatter_along)
def evaluate_scatter_along(
    x: Array, indices: Array, updates: Array, *, axis: int, reduction: str
) -> Array:
    """A copy of ``x`` with ``updates`` written (or combined) where ``take_along`` would read."""
    positions = indices.astype(np.int64)
    _check_range(positions, x.shape[axis])
    _check_equal("updates and indices", updates.shape, indices.shape)
    _check_beside(x.shape, indices.shape, axis)
    return _write(x, _grid(indices.shape, axis, positions), updates, reduction)


def _infer_scatter_nd(
    x: TensorType, indices: TensorType, updates: TensorType, *, reduction: str
) -> TensorType:
    assert x.shape is not None and indices.shape is not None and updates.shape is not None
    _check_indices(indices)
    _check_updates(x, updates)
    depth = indices.shape[-1]
    if not isinstance(depth, int) or depth > len(x.shape):
        raise ShapeError(f"scatter_nd needs a fixed index length that fits rank {len(x.shape)}")
    expected = (*indices.shape[:-1], *x.shape[depth:])
    _check_equal("updates, and what the indices point at,", updates.shape, expected)
    return x


@primitive("scatter_nd", _infer_scatter_nd)
def evaluate_scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    """A copy of ``x`` with slices written (or combined) at index tuples.

    Shapes: (*s), (*i, d), (*i, *s[d:]) -> (*s).
    """
    positions = indices.astype(np.int64)
    for place in range(positions.shape[-1]):
        _check_range(positions[..., place], x.shape[place])
    expected = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    _check_equal("updates, and what the indices point at,", updates.shape, expected)
    return _write(x, tuple(np.moveaxis(positions, -1, 0)), updates, reduction)


def _infer_nonzero(x: TensorType) -> TensorType:
    assert x.shape is not None
    return TensorType(int64, (len(x.shape), None))  # type: ignore[arg-type]


@primitive("nonzero", _infer_nonzero)
def evaluate_nonzero(x: Array) -> Array:
    """The coordinates of the elements that are not zero, in row-major order.

    Shapes: (*s) -> (rank, n); the number n depends on the data.
    """
    if x.ndim == 0:
        return np.zeros((0, int(bool(x))), np.int64)
    return np.stack(np.nonzero(x)).astype(np.int64)


def _infer_compact(counts: TensorType, view: TensorType, *, shape: Shape) -> TensorType:
    assert view.shape is not None
    return TensorType(int64, (len(shape), view.shape[0]))


@primitive("compact", _infer_compact)
def evaluate_compact(counts: Array, view: Array, *, shape: tuple[int, ...]) -> Array:
    """The coordinates of the elements at which running counts rise: what devices make of ``nonzero``.

    Shapes: (product(shape)), (n) -> (rank, n); ``view`` only says how many there are.
    """
    places = np.searchsorted(counts, np.arange(len(view)), side="right")
    return np.stack(np.unravel_index(places, shape)).astype(np.int64)
