"""Pools over regions of interest."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import compute_dtype, int64
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Count, T
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.windows import along, number
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor

_MISSING: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Side:
    """One axis of the regions: where the samples lie and how many of them count.

    Shapes: coordinates (r, bins, samples), used (r) or None if all samples are.
    """

    low: Tensor
    high: Tensor
    low_weight: Tensor
    high_weight: Tensor
    counted: Tensor | None
    count: Tensor


@operator("RoiAlign", since=(10, 16, 22), ranks={"x": 4, "rois": 2, "batch_indices": 1})
def roi_align(
    x: T1,
    rois: T1,
    batch_indices: T2,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: Count = 1,
    output_width: Count = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> T1:
    """Cut regions (x1, y1, x2, y2) into bins and pool samples read between the pixels.

    ``max`` takes the greatest of the four weighted corners of every sample.  Source: ONNX RoiAlign-22
    """
    shifts = {"half_pixel": 0.5, "output_half_pixel": 0.0}
    if mode not in ("avg", "max") or coordinate_transformation_mode not in shifts:
        raise ModelError(
            f"RoiAlign takes mode avg or max, half_pixel or output_half_pixel, not {mode!r} and "
            f"{coordinate_transformation_mode!r}"
        )
    if x.ndim != 4:
        raise ModelError(f"RoiAlign takes images (n, c, h, w), not {shape_text(x.shape)}")
    work = compute_dtype(x.dtype)
    corners = waist.cast_to(rois, work) * spatial_scale - shifts[coordinate_transformation_mode]
    least = coordinate_transformation_mode == "output_half_pixel"
    ys = _side(corners, 1, x.shape[2], output_height, sampling_ratio, least)
    xs = _side(corners, 0, x.shape[3], output_width, sampling_ratio, least)
    y = _pool_samples(waist.cast_to(x, work), batch_indices, (ys, xs), mode)
    return waist.cast_to(y, x.dtype)


@roi_align.upgrade(from_version=15)
def roi_align_10(
    x: T1,
    rois: T1,
    batch_indices: T2,
    *,
    mode: str = "avg",
    output_height: Count = 1,
    output_width: Count = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> T1:
    """RoiAlign whose coordinates are not shifted."""
    return roi_align(
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


def _side(corners: Tensor, place: int, n: Dim, bins: int, ratio: int, least: bool) -> Side:
    """The samples of every region along one axis."""
    dtype, (regions,) = corners.dtype, corners.shape[:1]
    start = waist.reshape(waist.slice_axis(corners, 1, place, 1), (regions,))
    end = waist.reshape(waist.slice_axis(corners, 1, place + 2, 1), (regions,))
    one = waist.constant(1, dtype)
    length = waist.map("max", end - start, one) if least else end - start
    step = length / bins
    samples: Dim = ratio
    counted: Tensor | None = None
    count = waist.broadcast(waist.constant(ratio, dtype), (regions,))
    if ratio <= 0:
        count = waist.map("ceil", step)
        most = waist.map("max", waist.reduce("max", count, [0]), one)
        (samples,) = waist.dims(waist.reshape(waist.cast_to(most, int64), (1,)))
        used = waist.map(
            "lt", along(waist.iota(samples, dtype), 1, 2), waist.reshape(count, (regions, 1))
        )
        counted = waist.reshape(used, (regions, 1, samples))

    def column(values: Tensor) -> Tensor:
        return waist.reshape(values, (regions, 1, 1))

    inside = (along(waist.iota(samples, dtype), 2, 3) + 0.5) / column(waist.map("max", count, one))
    at = column(start) + (along(waist.iota(bins, dtype), 1, 3) + inside) * column(step)
    return _weighed(at, n, counted, count)


def _weighed(at: Tensor, n: Dim, counted: Tensor | None, count: Tensor) -> Side:
    """The two pixels around each sample; a sample more than one pixel outside weighs nothing."""
    zero, last = waist.constant(0, at.dtype), number(n - 1, at.dtype)
    near = waist.map("le", waist.constant(-1, at.dtype), at)
    near = near & waist.map("le", at, number(n, at.dtype))
    held = waist.map("min", waist.map("max", at, zero), last)
    low = waist.map("floor", held)
    t = held - low
    return Side(
        waist.cast_to(low, int64),
        waist.cast_to(waist.map("min", low + 1, last), int64),
        waist.map("select", near, 1 - t, zero),
        waist.map("select", near, t, zero),
        counted,
        count,
    )


def _pool_samples(x: Tensor, batch: Tensor, sides: tuple[Side, Side], mode: str) -> Tensor:
    """Shapes: (n, c, h, w), (r) -> (r, c, oh, ow)."""
    ys, xs = sides
    (regions,) = batch.shape
    n, channels, height, width = x.shape
    rows = waist.reshape(waist.transpose(x, (0, 2, 3, 1)), (n * height * width, channels))
    plane = number(height * width, int64)
    first = waist.cast_to(batch, int64)
    first = waist.map(
        "select", waist.map("lt", first, waist.constant(0, int64)), first + number(n, int64), first
    )
    first = waist.reshape(first * plane, (regions, 1, 1, 1, 1))
    total: Tensor | None = None
    for (iy, wy), (ix, wx) in itertools.product(_ends(ys), _ends(xs)):
        index = first + _vertical(iy) * number(width, int64) + _horizontal(ix)
        weight = _vertical(wy) * _horizontal(wx)
        value = waist.take(rows, index, 0) * waist.reshape(weight, (*weight.shape, 1))
        if total is None:
            total = value
        else:
            total = total + value if mode == "avg" else waist.map("max", total, value)
    assert total is not None
    pooled = _pool_mean(total, sides) if mode == "avg" else _pool_max(total, sides)
    return waist.transpose(pooled, (0, 3, 1, 2))


def _ends(side: Side) -> list[tuple[Tensor, Tensor]]:
    return [(side.low, side.low_weight), (side.high, side.high_weight)]


def _vertical(x: Tensor) -> Tensor:
    """Shapes: (r, oh, s) -> (r, oh, 1, s, 1)."""
    return waist.reshape(x, (x.shape[0], x.shape[1], 1, x.shape[2], 1))


def _horizontal(x: Tensor) -> Tensor:
    """Shapes: (r, ow, s) -> (r, 1, ow, 1, s)."""
    return waist.reshape(x, (x.shape[0], 1, x.shape[1], 1, x.shape[2]))


def _mask(values: Tensor, sides: tuple[Side, Side], fill: float) -> Tensor:
    """Replace samples that a region does not have."""
    ys, xs = sides
    if ys.counted is None or xs.counted is None:
        return values
    used = _vertical(ys.counted) & _horizontal(xs.counted)
    return waist.map(
        "select",
        waist.reshape(used, (*used.shape, 1)),
        values,
        waist.constant(fill, values.dtype),
    )


def _pool_mean(values: Tensor, sides: tuple[Side, Side]) -> Tensor:
    total = waist.reduce("sum", _mask(values, sides, 0.0), (3, 4))
    count = (sides[0].count * sides[1].count).clip(1)
    return total / waist.reshape(count, (*count.shape, 1, 1, 1))


def _pool_max(values: Tensor, sides: tuple[Side, Side]) -> Tensor:
    top = waist.reduce("max", _mask(values, sides, -np.inf), (3, 4))
    if sides[0].counted is None:
        return top
    zero = waist.constant(0, top.dtype)
    some = waist.map("lt", zero, sides[0].count) & waist.map("lt", zero, sides[1].count)
    return waist.map("select", waist.reshape(some, (*some.shape, 1, 1, 1)), top, zero)


@operator("MaxRoiPool", since=(1, 22), ranks={"x": 4, "rois": 2})
def max_roi_pool(
    x: T, rois: T, *, pooled_shape: Sequence[int] = _MISSING, spatial_scale: float = 1.0
) -> T:
    """The greatest in each bin of regions (batch, x1, y1, x2, y2), rounded to pixels; an empty bin gives 0.

    Source: ONNX MaxRoiPool-22
    """
    if x.ndim != 4 or rois.ndim != 2 or len(pooled_shape) != 2:
        raise ModelError(
            f"MaxRoiPool takes images (n, c, h, w), rois (r, 5) and two bin counts: "
            f"{shape_text(x.shape)}, {shape_text(rois.shape)} and {list(pooled_shape)}"
        )
    work = compute_dtype(x.dtype)
    wide = waist.cast_to(rois, work)
    batch = waist.cast_to(waist.slice_axis(wide, 1, 0, 1), int64)
    images = waist.take(waist.cast_to(x, work), waist.reshape(batch, rois.shape[:1]), 0)
    corners = _round_away(waist.slice_axis(wide, 1, 1, 4) * spatial_scale)
    rows, no_row = _bin_masks(corners, 1, x.shape[2], int(pooled_shape[0]))
    columns, no_column = _bin_masks(corners, 0, x.shape[3], int(pooled_shape[1]))
    low = waist.constant(-np.inf, work)
    bands = [
        waist.reduce("max", waist.map("select", _spread(mask, 2), images, low), [2])
        for mask in rows
    ]
    y = _stack(bands, 2)
    y = _stack(
        [
            waist.reduce("max", waist.map("select", _spread(mask, 3), y, low), [3])
            for mask in columns
        ],
        3,
    )
    empty = _spread(no_row, 2) | _spread(no_column, 3)
    zero = waist.constant(0, work)
    return waist.cast_to(waist.map("select", empty, zero, y), x.dtype)


def _round_away(x: Tensor) -> Tensor:
    """Round to whole numbers, halves away from zero."""
    half = waist.map("floor", waist.map("abs", x) + 0.5)
    return half * waist.map("sign", x)


def _bin_masks(corners: Tensor, place: int, n: Dim, bins: int) -> tuple[list[Tensor], Tensor]:
    """Which pixels each bin covers along one axis, a list of (r, n), and which bins are empty, (r, bins)."""
    dtype = corners.dtype
    start = waist.slice_axis(corners, 1, place, 1)
    end = waist.slice_axis(corners, 1, place + 2, 1)
    step = waist.map("max", end - start + 1, waist.constant(1, dtype)) / bins
    at = along(waist.iota(n, dtype), 1, 2)
    masks, empties = [], []
    zero, limit = waist.constant(0, dtype), number(n, dtype)
    for place_of_bin in range(bins):
        first = waist.map("floor", step * place_of_bin) + start
        last = waist.map("ceil", step * (place_of_bin + 1)) + start
        first = waist.map("min", waist.map("max", first, zero), limit)
        last = waist.map("min", waist.map("max", last, zero), limit)
        masks.append(waist.map("le", first, at) & waist.map("lt", at, last))
        empties.append(waist.map("le", last, first))
    return masks, waist.concat(empties, 1)


def _spread(mask: Tensor, axis: int) -> Tensor:
    """(r, k) along one axis of an image."""
    shape: list[Dim] = [mask.shape[0], 1, 1, 1]
    shape[axis] = mask.shape[1]
    return waist.reshape(mask, shape)


def _stack(parts: Sequence[Tensor], axis: int) -> Tensor:
    wide = [waist.reshape(part, (*part.shape[:axis], 1, *part.shape[axis:])) for part in parts]
    return waist.concat(wide, axis)
