"""Reductions: many elements combined into one.

``axes`` is an input, or an attribute before opset 13 or 18; without axes everything is reduced, or nothing where
``noop_with_empty_axes`` says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnx import waist
from burnx.dtype import DType
from burnx.ops.kinds import Flag, Int64, T
from burnx.ops.movement import axis_list, normal_axes
from burnx.ops.operator import Operator, operator
from burnx.ops.precision import as_float, number, widen
from burnx.shape import Dim, product
from burnx.tensor import Tensor
from burnx.types import TensorType

Axes = tuple[int, ...]


def reduced_axes(data: Tensor, axes: Tensor | None, noop: int) -> Axes:
    """The axes to reduce, counted from the start."""
    if axes is None or axes.shape == (0,):
        return () if noop else tuple(range(data.ndim))
    return normal_axes(axis_list(axes), data.ndim)


def fold_axes(function: str, x: Tensor, axes: Axes, keepdims: Flag = 1) -> Tensor:
    """Reduce along ``axes``, which stay with size 1 if ``keepdims``."""
    if not axes:
        return x
    kept: list[Dim] = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
    result = waist.reduce(function, x, axes)
    return waist.reshape(result, kept) if keepdims else result


def count_along(x: Tensor, axes: Axes, dtype: DType) -> Tensor:
    """How many elements of x are combined into one, as a scalar."""
    total = product(x.shape[axis] for axis in axes)
    if isinstance(total, int):
        return waist.constant(total, dtype)
    return waist.cast_to(waist.reshape(waist.sizes(total), ()), dtype)


def mean_along(x: Tensor, axes: Axes, keepdims: Flag = 1) -> Tensor:
    """The mean along ``axes``; integers truncate towards zero."""
    return waist.map("div", fold_axes("sum", x, axes, keepdims), count_along(x, axes, x.dtype))


def log_sum_exp(x: Tensor, axes: Axes, keepdims: Flag = 1) -> Tensor:
    """log(sum(exp(x))), shifted by the greatest element so that neither overflows nor vanishes."""
    top = fold_axes("max", x, axes)
    shift = waist.map("select", waist.map("is_inf", top), number(0, x), top)
    total = fold_axes("sum", waist.map("exp", x - shift), axes)
    result = waist.map("log", total) + shift
    if keepdims or not axes:
        return result
    return waist.reshape(result, [n for axis, n in enumerate(x.shape) if axis not in axes])


@operator("ReduceSum", since=(1, 11, 13))
def reduce_sum(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The sum.  Source: ONNX ReduceSum-13"""
    return fold_axes("sum", data, reduced_axes(data, axes, noop_with_empty_axes), keepdims)


@operator("ReduceMean", since=(1, 11, 13, 18), meaning=18)
def reduce_mean(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The mean; of integers, truncated.  Source: ONNX ReduceMean-18"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    return waist.cast_to(mean_along(widen(data), chosen, keepdims), data.dtype)


@operator("ReduceProd", since=(1, 11, 13, 18), meaning=18)
def reduce_prod(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The product.  Source: ONNX ReduceProd-18"""
    return fold_axes("prod", data, reduced_axes(data, axes, noop_with_empty_axes), keepdims)


@operator("ReduceMax", since=(1, 11, 12, 13, 18, 20), meaning=18)
def reduce_max(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The greatest element; NaN wins, and of nothing it is the least value there is.  Source: ONNX ReduceMax-20"""
    return fold_axes("max", data, reduced_axes(data, axes, noop_with_empty_axes), keepdims)


@operator("ReduceMin", since=(1, 11, 12, 13, 18, 20), meaning=18)
def reduce_min(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The least element; NaN wins, and of nothing it is the greatest value there is.  Source: ONNX ReduceMin-20"""
    return fold_axes("min", data, reduced_axes(data, axes, noop_with_empty_axes), keepdims)


@operator("ReduceL1", since=(1, 11, 13, 18), meaning=18)
def reduce_l1(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The sum of the absolute values.  Source: ONNX ReduceL1-18"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    return fold_axes("sum", waist.map("abs", data), chosen, keepdims)


@operator("ReduceL2", since=(1, 11, 13, 18), meaning=18)
def reduce_l2(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The root of the sum of squares.  Source: ONNX ReduceL2-18"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    wide = as_float(data)
    total = fold_axes("sum", wide * wide, chosen, keepdims)
    return waist.cast_to(waist.map("sqrt", total), data.dtype)


@operator("ReduceLogSum", since=(1, 11, 13, 18, 28), meaning=18)
def reduce_log_sum(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The logarithm of the sum.  Source: ONNX ReduceLogSum-28"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    total = fold_axes("sum", as_float(data), chosen, keepdims)
    return waist.cast_to(waist.map("log", total), data.dtype)


@operator("ReduceLogSumExp", since=(1, 11, 13, 18, 28), meaning=18)
def reduce_log_sum_exp(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The logarithm of the sum of exponentials, also of large numbers.  Source: ONNX ReduceLogSumExp-28"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    return waist.cast_to(log_sum_exp(as_float(data), chosen, keepdims), data.dtype)


@operator("ReduceSumSquare", since=(1, 11, 13, 18), meaning=18)
def reduce_sum_square(
    data: T, axes: Int64 | None = None, *, keepdims: Flag = 1, noop_with_empty_axes: Flag = 0
) -> T:
    """The sum of squares.  Source: ONNX ReduceSumSquare-18"""
    chosen = reduced_axes(data, axes, noop_with_empty_axes)
    wide = widen(data)
    return waist.cast_to(fold_axes("sum", wide * wide, chosen, keepdims), data.dtype)


def _axes_were_attribute(entry: Operator, until: int) -> None:
    """Register a reduction as it was: its axes are an attribute up to opset ``until``."""

    @entry.upgrade(from_version=until)
    def reduce_1(data: T, *, axes: Sequence[int] | None = None, keepdims: Flag = 1) -> T:
        chosen = np.array(axes, np.int64) if axes else None
        return entry(data, chosen, keepdims=keepdims)


def _rank_alone(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """As many axes as are left, where it is only known how many go."""
    data, axes = inputs[0], inputs[1] if len(inputs) > 1 else None
    shape = axes.shape if isinstance(axes, TensorType) else None
    gone = shape[0] if shape is not None and len(shape) == 1 else None
    if data.shape is None:
        return [data]
    if attributes.get("keepdims", 1):
        return [TensorType(data.dtype, (None,) * len(data.shape))]  # type: ignore[arg-type]
    if not isinstance(gone, int):
        return [TensorType(data.dtype, None)]
    return [TensorType(data.dtype, (None,) * (len(data.shape) - gone))]  # type: ignore[arg-type]


_axes_were_attribute(reduce_sum, 12)
reduce_sum.infer(_rank_alone)
for _entry in (
    reduce_mean,
    reduce_prod,
    reduce_max,
    reduce_min,
    reduce_l1,
    reduce_l2,
    reduce_log_sum,
    reduce_log_sum_exp,
    reduce_sum_square,
):
    _axes_were_attribute(_entry, 17)
    _entry.infer(_rank_alone)
