"""Pools: the greatest, the mean or the p-norm of what is under a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import bool_, compute_dtype, int64, is_float, is_integer
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Flag, I, T
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.windows import (
    Ints,
    Window,
    along,
    each_axis,
    number,
    pad_spatial,
    place_window,
    reduce_window,
    spatial_shape,
    split_pads,
)
from burnx.shape import Dim, product
from burnx.tensor import Tensor
from burnx.types import TensorType

_MISSING: Any = REQUIRED


def lowest_of(x: Tensor) -> Any:
    """The value that no element is below."""
    return np.iinfo(x.dtype).min if is_integer(x.dtype) else -np.inf


@operator("MaxPool", since=(1, 8, 10, 11, 12, 22), outputs=1, ranks={"x": -3})
def max_pool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] = _MISSING,
    pads: Sequence[int] | None = None,
    storage_order: Flag = 0,
    strides: Sequence[int] | None = None,
) -> tuple[T, I]:
    """The greatest under the window, and where it stands in the whole tensor.  Source: ONNX MaxPool-22"""
    window = _pool_window(
        x,
        "MaxPool",
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    y = reduce_window("max", x, window, lowest_of(x))
    return y, _positions(x, y, window, storage_order)


@max_pool.infer
def _max_pool_types(inputs: Any, attributes: Any, count: int) -> list[TensorType]:
    return [TensorType(inputs[0].dtype, None), TensorType(int64, None)]


def _pool_window(x: Tensor, name: str, kernel_shape: Sequence[int], **moves: Any) -> Window:
    spatial = spatial_shape(x, name)
    return place_window(spatial, each_axis("kernel_shape", kernel_shape, len(spatial)), **moves)


def _positions(x: Tensor, y: Tensor, window: Window, storage_order: int) -> Tensor:
    """The flat position in ``x`` of the first element under the window that equals the greatest."""
    inside = waist.broadcast(waist.constant(True, bool_), (1, 1, *x.shape[2:]))
    items = _under_window(pad_spatial(x, window, lowest_of(x)), window)
    valid = _under_window(pad_spatial(inside, window, False), window)
    hits = waist.map("eq", items, waist.reshape(y, (*y.shape, 1)))
    if is_float(x.dtype):
        hits = hits | waist.map("is_nan", items)
    hits = waist.cast_to(hits & valid, np.dtype(np.uint8))
    return _flat_positions(x, waist.argreduce("max", hits, x.ndim), window, storage_order)


def _under_window(x: Tensor, window: Window) -> Tensor:
    """What the window meets at each of its places.

    Shapes: (n, c, *s) -> (n, c, *out, elements of the window).
    """
    rank, lead = window.rank, list(x.shape[:2])
    for axis in range(rank):
        starts = along(waist.iota(window.out[axis]) * window.strides[axis], 0, 2)
        offsets = along(waist.iota(window.size[axis]) * window.dilations[axis], 1, 2)
        x = waist.take(x, starts + offsets, 2 + 2 * axis)
    outer, inner = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    moved = waist.transpose(x, (0, 1, *outer, *inner))
    return waist.reshape(moved, (*lead, *window.out, product(window.size)))


def _flat_positions(x: Tensor, first: Tensor, window: Window, storage_order: int) -> Tensor:
    spatial = x.shape[2:]
    planes = waist.iota(x.shape[0] * x.shape[1]) * number(product(spatial), int64)
    total = waist.reshape(planes, (*x.shape[:2], *[1] * window.rank))
    for axis in range(window.rank):
        behind = math.prod(int(size) for size in window.size[axis + 1 :])
        offset = waist.map("div", first, waist.constant(behind, int64)) % int(window.size[axis])
        start = waist.iota(window.out[axis]) * window.strides[axis]
        at = along(start - number(window.low[axis], int64), 2 + axis, x.ndim)
        stride = product(spatial[:axis] if storage_order else spatial[axis + 1 :])
        total = total + (at + offset * window.dilations[axis]) * number(stride, int64)
    return total


@operator("AveragePool", since=(1, 7, 10, 11, 19, 22), ranks={"x": -3})
def average_pool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    count_include_pad: Flag = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] = _MISSING,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """The mean under the window: of the input, or with ``count_include_pad`` also of its padding.

    What ``ceil_mode`` adds behind the padding never counts.  Source: ONNX AveragePool-22
    """
    window = _pool_window(
        x,
        "AveragePool",
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    wide = waist.cast_to(x, compute_dtype(x.dtype))
    total = reduce_window("sum", wide, window, 0)
    declared = window.high if auto_pad.startswith("SAME") else _declared(pads, auto_pad, window)
    count = _counts(wide, window, declared if count_include_pad else None)
    return waist.cast_to(total / count, x.dtype)


def _declared(pads: Ints, auto_pad: str, window: Window) -> Sequence[Dim]:
    """The padding at the end as the attributes have it, without what ceil_mode adds."""
    return split_pads(pads if auto_pad == "NOTSET" else None, window.rank)[1]


def _counts(x: Tensor, window: Window, padding: Sequence[Dim] | None) -> Tensor:
    """How many elements each place of the window averages: a product over the axes.

    ``padding`` is the one at the end, if padding counts.
    """
    total = waist.constant(1, x.dtype)
    for axis in range(window.rank):
        n, before, after = x.shape[2 + axis], window.low[axis], window.high[axis]
        if padding is not None:
            n, before, after = n + before + padding[axis], 0, after - padding[axis]
        here = slice(axis, axis + 1)
        one = Window(
            window.size[here],
            window.strides[here],
            window.dilations[here],
            (before,),
            (after,),
            window.out[here],
        )
        ones = waist.broadcast(waist.constant(1, x.dtype), (n,))
        total = total * along(reduce_window("sum", ones, one, 0), axis, window.rank)
    return total.clip(1)


def _norm(total: Tensor, p: float) -> Tensor:
    if p == 1:
        return total
    if p == 2:
        return waist.map("sqrt", total)
    return waist.map("pow", total, waist.constant(1.0 / p, total.dtype))


def _powered(x: Tensor, p: float) -> Tensor:
    """|x| to the power of p, in the dtype to add up in."""
    wide = waist.map("abs", waist.cast_to(x, compute_dtype(x.dtype)))
    if p == 1:
        return wide
    return wide * wide if p == 2 else waist.map("pow", wide, waist.constant(p, wide.dtype))


@operator("LpPool", since=(1, 2, 11, 18, 22), ranks={"x": -3})
def lp_pool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] = _MISSING,
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """The p-norm under the window: (sum of |x|^p)^(1/p).  Source: ONNX LpPool-22"""
    window = _pool_window(
        x,
        "LpPool",
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
    )
    total = reduce_window("sum", _powered(x, p), window, 0)
    return waist.cast_to(_norm(total, p), x.dtype)


def _global(function: str, x: Tensor) -> Tensor:
    """Combine all spatial axes, which keep a size of 1."""
    spatial_shape(x, "a global pool")
    y = waist.reduce(function, x, range(2, x.ndim))
    return waist.reshape(y, (*x.shape[:2], *[1] * (x.ndim - 2)))


@operator("GlobalAveragePool", since=(1, 22))
def global_average_pool(x: T) -> T:
    """The mean of each channel.  Source: ONNX GlobalAveragePool-22"""
    wide = waist.cast_to(x, compute_dtype(x.dtype))
    mean = _global("sum", wide) / number(product(x.shape[2:]), wide.dtype)
    return waist.cast_to(mean, x.dtype)


@operator("GlobalMaxPool", since=(1, 22))
def global_max_pool(x: T) -> T:
    """The greatest of each channel.  Source: ONNX GlobalMaxPool-22"""
    return _global("max", x)


@operator("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(x: T, *, p: int = 2) -> T:
    """The p-norm of each channel.  Source: ONNX GlobalLpPool-22"""
    return waist.cast_to(_norm(_global("sum", _powered(x, p)), p), x.dtype)


@operator("MaxUnpool", since=(9, 11, 22))
def max_unpool(
    x: T1,
    i: T2,
    output_shape: T2 | None = None,
    *,
    kernel_shape: Sequence[int] = _MISSING,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T1:
    """Put elements where MaxPool found them, zeros elsewhere; a larger output shape adds zeros at the end.

    Source: ONNX MaxUnpool-22
    """
    spatial = spatial_shape(x, "MaxUnpool")
    rank = len(spatial)
    low, high = split_pads(pads, rank)
    steps = each_axis("strides", strides, rank)
    size = each_axis("kernel_shape", kernel_shape, rank)
    sides = zip(spatial, steps, low, high, size, strict=True)
    full: list[Dim] = [(n - 1) * step - a - b + k for n, step, a, b, k in sides]
    shape = (*x.shape[:2], *full)
    zero = waist.constant(0, x.dtype)
    flat = waist.broadcast(zero, (product(shape),))
    elements = (product(x.shape),)
    indices = waist.reshape(waist.cast_to(i, int64), elements)
    y = waist.scatter_along(flat, indices, waist.reshape(x, elements), 0, "none")
    y = waist.reshape(y, shape)
    if output_shape is None:
        return y
    wanted = waist.dims(output_shape)
    if len(wanted) != x.ndim:
        raise ModelError(f"output_shape has a size for each of {x.ndim} axes, not {len(wanted)}")
    more = [after - before for before, after in zip(shape, wanted, strict=True)]
    return waist.pad(y, zero, [0] * x.ndim, more)
