"""Matrix products and convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name, is_complex, is_float, is_integer
from burnx.errors import DTypeError, ShapeError
from burnx.primitives.core import Array, primitive
from burnx.primitives.movement import _surely_differ
from burnx.primitives.reduction import _window_size, accumulator, pad_last, window_view
from burnx.shape import Dim, Shape, shape_text
from burnx.types import TensorType

Axes = tuple[int, ...]


def _free(rank: int, *taken: Axes) -> Axes:
    return tuple(axis for axis in range(rank) if not any(axis in axes for axes in taken))


def _infer_contract(
    left: TensorType,
    right: TensorType,
    *,
    batch: tuple[Axes, Axes],
    sum_over: tuple[Axes, Axes],
    dtype: DType,
) -> TensorType:
    assert left.shape is not None and right.shape is not None
    pairs = [*zip(*batch, strict=True), *zip(*sum_over, strict=True)]
    if any(_surely_differ(left.shape[a], right.shape[b]) for a, b in pairs):
        raise _unequal(left.shape, right.shape)
    if not (is_float(left.dtype) or is_integer(left.dtype) or is_complex(left.dtype)):
        raise DTypeError(f"a product is not defined for {dtype_name(left.dtype)}")
    dims: list[Dim] = [left.shape[axis] for axis in batch[0]]
    dims += [left.shape[axis] for axis in _free(len(left.shape), batch[0], sum_over[0])]
    dims += [right.shape[axis] for axis in _free(len(right.shape), batch[1], sum_over[1])]
    return TensorType(dtype, tuple(dims))


def _unequal(left: Shape, right: Shape) -> ShapeError:
    return ShapeError(
        f"a product needs equal inner and batch sizes: {shape_text(left)} times {shape_text(right)}"
    )


@primitive("contract", _infer_contract)
def evaluate_contract(
    left: Array,
    right: Array,
    *,
    batch: tuple[Axes, Axes],
    sum_over: tuple[Axes, Axes],
    dtype: DType,
) -> Array:
    """Multiply and add up over ``sum_over``, side by side for ``batch``; ``dtype`` is the result's.

    Shapes: batch, free axes of left, free axes of right.  Floats accumulate in at least float32.
    """
    rows, columns = (
        _free(left.ndim, batch[0], sum_over[0]),
        _free(right.ndim, batch[1], sum_over[1]),
    )
    pairs = zip(batch[0] + sum_over[0], batch[1] + sum_over[1], strict=True)
    if any(left.shape[a] != right.shape[b] for a, b in pairs):
        raise _unequal(left.shape, right.shape)
    inner = math.prod(left.shape[axis] for axis in sum_over[0])
    wide = product_dtype(left, right, inner, dtype)
    lead = tuple(left.shape[axis] for axis in batch[0])
    row_shape = tuple(left.shape[axis] for axis in rows)
    column_shape = tuple(right.shape[axis] for axis in columns)
    a = left.transpose((*batch[0], *rows, *sum_over[0])).astype(wide, copy=False)
    b = right.transpose((*batch[1], *sum_over[1], *columns)).astype(wide, copy=False)
    a = a.reshape((*lead, math.prod(row_shape), inner))
    b = b.reshape((*lead, inner, math.prod(column_shape)))
    with np.errstate(all="ignore"):
        return np.matmul(a, b).astype(dtype, copy=False).reshape((*lead, *row_shape, *column_shape))


def product_dtype(left: Array, right: Array, inner: int, dtype: DType) -> DType:
    """The dtype to multiply in: BLAS for 8-bit integers, where every sum fits a float exactly."""
    small = all(x.dtype.itemsize == 1 or x.dtype.kind == "V" for x in (left, right))
    if is_integer(left.dtype) and small and is_integer(right.dtype):
        return np.dtype(np.float32) if inner <= 256 else np.dtype(np.float64)
    if is_integer(left.dtype):
        return dtype
    return accumulator(left.dtype)


def _infer_conv(
    x: TensorType,
    w: TensorType,
    *,
    strides: Axes,
    pads: tuple[tuple[int, int], ...],
    dilations: Axes,
    spread: Axes,
    groups: int,
    dtype: DType,
    fill: int = 0,
) -> TensorType:
    assert x.shape is not None and w.shape is not None
    if len(x.shape) != len(w.shape) or len(x.shape) != len(strides) + 2:
        raise ShapeError(
            f"conv takes (n, c, *s) and (m, c / groups, *k): {shape_text(x.shape)} and {shape_text(w.shape)}"
        )
    channels, out_channels = w.shape[1] * groups, w.shape[0]
    if _surely_differ(x.shape[1], channels) or _surely_differ(out_channels % groups, 0):
        raise _unfit(x.shape, w.shape, groups)
    wide: list[Dim] = [
        n if step == 1 else (n - 1) * step + 1 for n, step in zip(x.shape[2:], spread, strict=True)
    ]
    places = zip(wide, w.shape[2:], strides, dilations, pads, strict=True)
    out = tuple(_window_size(n, k, stride, gap, pad) for n, k, stride, gap, pad in places)
    return TensorType(dtype, (x.shape[0], out_channels, *out))


def _unfit(x: Shape, w: Shape, groups: int) -> ShapeError:
    return ShapeError(
        f"conv of {shape_text(x)} with {shape_text(w)} in {groups} groups needs "
        f"{w[1] * groups} input channels and a multiple of {groups} output channels"
    )


@primitive("conv", _infer_conv)
def evaluate_conv(
    x: Array,
    w: Array,
    *,
    strides: Axes,
    pads: tuple[tuple[int, int], ...],
    dilations: Axes,
    spread: Axes,
    groups: int,
    dtype: DType,
    fill: int = 0,
) -> Array:
    """Convolution (correlation) of channels-first data; ``spread`` puts zeros between elements of x first.

    Around the data is ``fill``.

    Shapes: (n, c, *s), (m, c / groups, *k) -> (n, m, *o).
    """
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise _unfit(x.shape, w.shape, groups)
    kernel = w.shape[2:]
    wide = product_dtype(x, w, math.prod(w.shape[1:]), dtype)
    padded = pad_last(_spread(x.astype(wide, copy=False), spread), pads, fill)
    lengths = [n - a - b for n, (a, b) in zip(padded.shape[2:], pads, strict=True)]
    sizes = zip(lengths, kernel, strides, dilations, pads, strict=True)
    out = tuple(int(_window_size(*each)) for each in sizes)
    weight = w.astype(wide, copy=False)
    with np.errstate(all="ignore"):
        if groups == x.shape[1] and groups > 1:
            result = _depthwise(padded, weight, out, strides, dilations)
        else:
            result = _by_columns(padded, weight, out, strides, dilations, groups)
    return result.astype(dtype, copy=False)


def _spread(x: Array, spread: Axes) -> Array:
    if all(step == 1 for step in spread) or 0 in x.shape[2:]:
        return x
    sizes = [(n - 1) * step + 1 for n, step in zip(x.shape[2:], spread, strict=True)]
    result = np.zeros((*x.shape[:2], *sizes), x.dtype)
    index: tuple[Any, ...] = (..., *(slice(None, None, step) for step in spread))
    result[index] = x
    return result


def _depthwise(x: Array, w: Array, out: Axes, strides: Axes, dilations: Axes) -> Array:
    n, groups = x.shape[:2]
    each = w.shape[0] // groups
    weight = w.reshape((groups, each, *w.shape[2:]))
    total = np.zeros((n, groups, each, *out), x.dtype)
    for offset in np.ndindex(*w.shape[2:]):
        factor = weight[(slice(None), slice(None), *offset)].reshape(
            (1, groups, each) + (1,) * len(out)
        )
        total += window_view(x, offset, out, strides, dilations)[:, :, None] * factor
    return total.reshape((n, groups * each, *out))


def _by_columns(
    x: Array, w: Array, out: Axes, strides: Axes, dilations: Axes, groups: int
) -> Array:
    n, kernel = x.shape[0], w.shape[2:]
    per_group = x.shape[1] // groups
    columns = np.empty((n, groups, per_group, math.prod(kernel), *out), x.dtype)
    for place, offset in enumerate(np.ndindex(*kernel)):
        view = window_view(x, offset, out, strides, dilations)
        columns[:, :, :, place] = view.reshape((n, groups, per_group, *out))
    matrix = columns.reshape((n, groups, per_group * math.prod(kernel), math.prod(out)))
    weight = w.reshape((groups, w.shape[0] // groups, per_group * math.prod(kernel)))
    return np.matmul(weight[None], matrix).reshape((n, w.shape[0], *out))
