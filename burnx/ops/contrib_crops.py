"""com.microsoft: regions of images at another size."""

from __future__ import annotations

from dataclasses import dataclass

from burnx import waist
from burnx.dtype import DType, compute_dtype, int64
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, plus, scalar, times
from burnx.ops.kinds import T1, T2
from burnx.ops.operator import operator
from burnx.shape import Dim
from burnx.tensor import Tensor


@dataclass(frozen=True, slots=True)
class _Source:
    """Images whose pixels are read for every region from its own one.

    Shapes: rows (n, h, w, channels), batch (regions, *crop)
    """

    rows: Tensor
    batch: Tensor


@operator(
    "CropAndResize",
    since=(1,),
    domain=MICROSOFT,
    ranks={"x": 4, "rois": 2, "batch_indices": 1, "crop_size": 1},
)
def crop_and_resize(
    x: T1,
    rois: T1,
    batch_indices: T2,
    crop_size: T2,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> T1:
    """Regions of images, each read at as many places, their corners the corners of the crop.

    Shapes: (n, c, h, w), (r, 4) as y1, x1, y2, x2 from 0 to 1, (r,) -> (r, c, *crop_size).
    Source: onnxruntime com.microsoft CropAndResize-1
    """
    if mode not in ("bilinear", "nearest"):
        raise ModelError(f'CropAndResize has mode bilinear or nearest, not "{mode}"')
    wide = compute_dtype(x.dtype)
    sizes = waist.dims(crop_size)
    corners = waist.cast_to(rois, wide)
    ys, xs = (
        _places(corners, axis, size, room)
        for axis, size, room in zip((0, 1), sizes, x.shape[2:], strict=True)
    )
    regions = rois.shape[0]
    shape = (regions, *sizes)
    down = waist.broadcast(waist.reshape(ys, (regions, sizes[0], 1)), shape)
    across = waist.broadcast(waist.reshape(xs, (regions, 1, sizes[1])), shape)
    batch = waist.reshape(waist.cast_to(batch_indices, int64), (regions, 1, 1))
    source = _Source(waist.transpose(x, (0, 2, 3, 1)), waist.broadcast(batch, shape))
    read = _nearest if mode == "nearest" else _bilinear
    value = read(source, down, across, wide)
    inside = waist.map("and", _within(down, x.shape[2]), _within(across, x.shape[3]))
    inside = waist.reshape(inside, (*shape, 1))
    value = waist.map("select", inside, value, waist.constant(extrapolation_value, wide))
    return waist.cast_to(waist.transpose(value, (0, 3, 1, 2)), x.dtype)


def _last(size: Dim, like: Tensor) -> Tensor:
    return waist.cast_to(waist.reshape(waist.sizes(size - 1), ()), like.dtype)


def _places(corners: Tensor, axis: int, size: Dim, room: Dim) -> Tensor:
    """Where the pixels of each crop lie along an axis.  Shapes: -> (regions, size)"""
    low, high = (waist.slice_axis(corners, 1, place, 1) for place in (axis, axis + 2))
    reach = _last(room, corners)
    middle = times(times(plus(low, high), scalar(0.5, low)), reach)
    gaps = _last(size, corners)
    is_one = waist.map("eq", gaps, scalar(0, gaps))
    parts = waist.map("max", gaps, scalar(1, gaps))
    step = waist.map("div", times(waist.map("sub", high, low), reach), parts)
    first = waist.map("select", is_one, middle, times(low, reach))
    steps = waist.reshape(waist.iota(size, corners.dtype), (1, size))
    return plus(first, times(steps, step))


def _within(at: Tensor, size: Dim) -> Tensor:
    low = waist.map("le", scalar(0, at), at)
    return waist.map("and", low, waist.map("le", at, _last(size, at)))


def _pixels(source: _Source, down: Tensor, across: Tensor) -> Tensor:
    """Pixels, those outside replaced by the nearest inside.  Shapes: -> (regions, *crop, channels)"""
    places = [source.batch]
    for each, size in zip((down, across), source.rows.shape[1:3], strict=True):
        held = waist.map("min", waist.map("max", each, scalar(0, each)), _last(size, each))
        places.append(waist.cast_to(held, int64))
    columns = [waist.reshape(place, (*place.shape, 1)) for place in places]
    return waist.gather_nd(source.rows, waist.concat(columns, 3))


def _nearest(source: _Source, down: Tensor, across: Tensor, wide: DType) -> Tensor:
    half = scalar(0.5, down)
    found = _pixels(source, *(waist.map("floor", plus(each, half)) for each in (down, across)))
    return waist.cast_to(found, wide)


def _bilinear(source: _Source, down: Tensor, across: Tensor, wide: DType) -> Tensor:
    tops, lefts = (waist.map("floor", each) for each in (down, across))
    one = scalar(1, down)
    shares = [
        waist.reshape(waist.map("sub", each, low), (*source.batch.shape, 1))
        for each, low in ((down, tops), (across, lefts))
    ]

    def line(place: Tensor) -> Tensor:
        left, right = (
            waist.cast_to(_pixels(source, place, each), wide) for each in (lefts, plus(lefts, one))
        )
        return plus(left, times(waist.map("sub", right, left), shares[1]))

    top, bottom = line(tops), line(plus(tops, one))
    return plus(top, times(waist.map("sub", bottom, top), shares[0]))
