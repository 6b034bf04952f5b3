"""Operators that pick elements by their value or place: NonZero, Compress, TopK, Unique, OneHot and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import compute_dtype, dtype_of_code, int64
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T1, T2, T3, Flag, I, Int64, T
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, Undecided, at_least, product
from burnx.tensor import Tensor
from burnx.types import TensorType

Array = np.ndarray[Any, Any]


def scalar_dim(x: Tensor) -> Dim:
    """The one element of a tensor as a size."""
    return waist.dims(waist.reshape(x, (1,)))[0]


def along(size: Dim, axis: int, rank: int) -> Tensor:
    """0, 1, … size - 1 along one axis of ``rank``."""
    return waist.reshape(waist.iota(size), [size if each == axis else 1 for each in range(rank)])


def dim_tensor(dim: Dim) -> Tensor:
    """A size as an int64 scalar."""
    return waist.reshape(waist.sizes(dim), ())


@operator("NonZero", since=(9, 13))
def non_zero(x: T) -> Int64:
    """The coordinates of the elements that are not zero, one row per axis.  Source: ONNX NonZero-13"""
    return waist.nonzero(x)


@operator("Compress", since=(9, 11, 28), ranks={"condition": 1})
def compress(input: T, condition: T1, *, axis: int | None = None) -> T:
    """The slices whose condition holds; elements of the flattened input without ``axis``.

    Source: ONNX Compress-28
    """
    if axis is None:
        data, place = waist.reshape(input, (product(input.shape),)), 0
    else:
        data, place = input, normal_axis(axis, input.ndim)
    chosen = waist.nonzero(condition)
    return waist.take(data, waist.reshape(chosen, (chosen.shape[1],)), place)


@operator("OneHot", since=(9, 11, 28), ranks={"depth": (0, 1), "values": 1})
def one_hot(indices: T1, depth: T2, values: T3, *, axis: int = -1) -> T3:
    """values[1] where the place along a new axis is the index, values[0] elsewhere.

    An index below zero counts from the end; one outside of the axis gives values[0] everywhere.
    Source: ONNX OneHot-28
    """
    rank = indices.ndim + 1
    place = normal_axis(axis, rank)
    size = scalar_dim(waist.cast_to(depth, int64))
    wide = waist.cast_to(indices, int64)
    below = waist.map("lt", wide, waist.constant(0, int64))
    wide = waist.map("select", below, waist.map("add", wide, dim_tensor(size)), wide)
    shape = [*indices.shape[:place], 1, *indices.shape[place:]]
    hot = waist.map("eq", waist.reshape(wide, shape), along(size, place, rank))
    off, on = (waist.reshape(waist.slice_axis(values, 0, k, 1), ()) for k in (0, 1))
    return waist.map("select", hot, on, off)


@operator("TopK", since=(1, 10, 11, 24))
def top_k(x: T, k: Int64, *, axis: int = -1, largest: Flag = 1, sorted: Flag = 1) -> tuple[T, I]:
    """The ``k`` greatest (or least) elements along an axis, in order, and where they stood.

    NaN is the greatest of all; of equal elements the first comes first.  Source: ONNX TopK-24
    """
    place = normal_axis(axis, x.ndim)
    count = scalar_dim(waist.cast_to(k, int64))
    try:
        fits = at_least(count, 0) and at_least(x.shape[place], count)
    except Undecided:
        fits = True
    if not fits:
        raise ShapeError(f"TopK takes at most the {x.shape[place]} elements there are, not {count}")
    values, order = waist.sort(x, place, bool(largest))
    return (
        waist.slice_axis(values, place, 0, count),
        waist.slice_axis(order, place, 0, count),
    )


@top_k.infer
def _top_k_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    shape = inputs[0].shape
    open_shape = None if shape is None else (None,) * len(shape)
    return [TensorType(inputs[0].dtype, open_shape), TensorType(int64, open_shape)]  # type: ignore[arg-type]


@top_k.upgrade(from_version=9)
def top_k_1(x: T, *, k: int = REQUIRED, axis: int = -1) -> tuple[T, I]:  # type: ignore[assignment]
    """TopK whose count is an attribute."""
    return top_k(x, np.array([k], np.int64), axis=axis)


@operator("Unique", since=(11, 28), outputs=1)
def unique(x: T, *, axis: int | None = None, sorted: Flag = 1) -> tuple[T, Int64, Int64, Int64]:
    """The distinct elements (or slices along ``axis``), where each stood first, which one each was, and how often.

    In ascending order, or by first appearance if not ``sorted``.  Source: ONNX Unique-28
    """
    place = None if axis is None else normal_axis(axis, x.ndim)
    counted = TensorType(int64, (None,))  # type: ignore[arg-type]
    if place is None:
        found = TensorType(x.dtype, (None,))  # type: ignore[arg-type]
        inverse = TensorType(int64, (product(x.shape),))
    else:
        dims = tuple(None if each == place else dim for each, dim in enumerate(x.shape))
        found = TensorType(x.dtype, dims)  # type: ignore[arg-type]
        inverse = TensorType(int64, (x.shape[place],))
    types = (found, counted, inverse, counted)

    def run(array: Array) -> list[Array]:
        return _unique(array, place, bool(sorted))

    return tuple(waist.host("Unique", run, [x], types))  # type: ignore[return-value]


def _unique(x: Array, axis: int | None, in_order: bool) -> list[Array]:
    keys = x.astype(compute_dtype(x.dtype), copy=False) if x.dtype != object else _ranks(x, axis)
    _, first, inverse, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not in_order:
        order = np.argsort(first, kind="stable")
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse] if inverse.size else inverse
    values = np.take(x.reshape(-1) if axis is None else x, first, axis=axis or 0)
    return [values, *(each.astype(np.int64) for each in (first, inverse, counts))]


def _ranks(texts: Array, axis: int | None) -> Array:
    """Numbers in the order of the texts, for NumPy finds no distinct slices of objects."""
    if axis is None:
        return texts
    return np.unique(texts, return_inverse=True)[1].reshape(texts.shape)


@operator("ReverseSequence", since=(10, 28))
def reverse_sequence(
    input: T,
    sequence_lens: Int64,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> T:
    """Reverse the first sequence_lens[b] steps of each batch b.  Source: ONNX ReverseSequence-28"""
    batch, time = normal_axis(batch_axis, input.ndim), normal_axis(time_axis, input.ndim)
    if batch == time:
        raise ModelError(f"ReverseSequence takes two axes, not axis {batch} twice")
    step = along(input.shape[time], time, input.ndim)
    dims = [input.shape[batch] if axis == batch else 1 for axis in range(input.ndim)]
    length = waist.reshape(sequence_lens, dims)
    last = waist.map("sub", length, waist.constant(1, int64))
    inside = waist.map("lt", step, length)
    source = waist.map("select", inside, waist.map("sub", last, step), step)
    return waist.take_along(input, waist.broadcast(source, input.shape), time)


def _diagonal_distance(rows: Dim, columns: Dim, k: Tensor) -> Tensor:
    """column - row - k for every place of a matrix."""
    return waist.map("sub", waist.map("sub", along(columns, 1, 2), along(rows, 0, 2)), k)


@operator("Trilu", since=(14,))
def trilu(input: T, k: Int64 | None = None, *, upper: Flag = 1) -> T:
    """The upper (or lower) triangle from the k-th diagonal on, zero elsewhere.  Source: ONNX Trilu-14"""
    if input.ndim < 2:
        raise ShapeError(f"Trilu takes matrices, not rank {input.ndim}")
    shift = waist.constant(0, int64) if k is None else waist.reshape(k, ())
    distance = _diagonal_distance(input.shape[-2], input.shape[-1], shift)
    zero = waist.constant(0, int64)
    kept = waist.map("le", zero, distance) if upper else waist.map("le", distance, zero)
    return waist.map("select", kept, input, waist.constant(0, input.dtype))


@operator("EyeLike", since=(9, 22))
def eye_like(input: T1, *, dtype: int | None = None, k: int = 0) -> T2:
    """Ones on the k-th diagonal of a matrix of the input's shape, zero elsewhere.  Source: ONNX EyeLike-22"""
    if input.ndim != 2:
        raise ShapeError(f"EyeLike takes a matrix, not rank {input.ndim}")
    rows, columns = input.shape
    distance = _diagonal_distance(rows, columns, waist.constant(k, int64))
    ones = waist.map("eq", distance, waist.constant(0, int64))
    return waist.cast_to(ones, input.dtype if dtype is None else dtype_of_code(dtype))


@eye_like.infer
def _eye_like_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    code = attributes.get("dtype")
    return [TensorType(inputs[0].dtype if code is None else dtype_of_code(code), None)]
