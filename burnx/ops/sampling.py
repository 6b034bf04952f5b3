"""Reading images between their pixels: GridSample, AffineGrid and deformable convolution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from burnx import waist
from burnx.dtype import DType, compute_dtype, dtype_name, int64, is_complex, is_float, string
from burnx.errors import ModelError, ShapeError, UnsupportedError
from burnx.ops.convolution import add_bias
from burnx.ops.kinds import T1, T2, Count, Flag, T
from burnx.ops.operator import operator
from burnx.ops.windows import along, each_axis, number, place_window, spatial_shape
from burnx.shape import Dim, product, shape_text
from burnx.tensor import Tensor

# a pixel that counts along one axis: its coordinate, a whole number, and its weight (None: 1)
Tap = tuple[Tensor, Tensor | None]
CUBIC = -0.75


def cubic_weights(t: Tensor, a: float) -> list[Tensor]:
    """Weights of the pixels at -1, 0, 1 and 2 for a place between 0 and 1.

    Source: Keys 1981, with the free parameter ``a``.
    """

    def near(d: Tensor) -> Tensor:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _linear_taps(at: Tensor) -> list[Tap]:
    low = waist.map("floor", at)
    t = at - low
    return [(low, 1 - t), (low + 1, t)]


def _cubic_taps(at: Tensor) -> list[Tap]:
    low = waist.map("floor", at)
    weights = cubic_weights(at - low, CUBIC)
    return [(low + (place - 1), weight) for place, weight in enumerate(weights)]


TAPS: dict[str, Callable[[Tensor], list[Tap]]] = {
    "nearest": lambda at: [(waist.map("round", at), None)],
    "linear": _linear_taps,
    "cubic": _cubic_taps,
}


def _reflect(at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Fold a coordinate into a range, as between two mirrors."""
    span = waist.map("max", high - low, waist.constant(1, at.dtype))
    twice = span * 2
    turned = waist.map("floor_mod", waist.map("abs", at - low), twice)
    return low + waist.map("min", turned, twice - turned)


def _inside(at: Tensor, n: Dim, padding: str, align: int) -> tuple[Tensor, Tensor | None]:
    """The index of a tap, and for zero padding whether there is such a pixel."""
    last = number(n - 1, at.dtype)
    zero = waist.constant(0, at.dtype)
    valid: Tensor | None = None
    if padding == "zeros":
        valid = waist.map("le", zero, at) & waist.map("le", at, last)
    elif padding == "reflection":
        edge = 0.0 if align else 0.5
        at = _reflect(at, zero - edge, last + edge)
    held = waist.map("min", waist.map("max", at, zero), last)
    return waist.cast_to(held, int64), valid


def sample(
    x: Tensor, places: Sequence[Tensor], mode: str, padding: str = "zeros", align: int = 0
) -> Tensor:
    """Read an image at coordinates, one tensor for each spatial axis.

    Shapes: (n, c, *s), (n, p) for each of s -> (n, c, p).
    """
    n, channels, *spatial = x.shape
    rows = waist.transpose(x, (0, *range(2, x.ndim), 1))
    rows = waist.reshape(rows, (n, product(spatial), channels))
    axes = []
    for axis, (at, size) in enumerate(zip(places, spatial, strict=True)):
        stride = number(product(spatial[axis + 1 :]), int64)
        taps = []
        for coordinate, weight in TAPS[mode](at):
            index, valid = _inside(coordinate, size, padding, align)
            taps.append((index * stride, weight, valid))
        axes.append(taps)
    total: Tensor | None = None
    for combination in itertools.product(*axes):
        value = _read(rows, combination)
        total = value if total is None else total + value
    assert total is not None
    return waist.transpose(total, (0, 2, 1))


def _read(rows: Tensor, taps: Sequence[tuple[Tensor, Tensor | None, Tensor | None]]) -> Tensor:
    """The weighted pixel at one tap of each axis; zero where there is none."""
    place, weight, valid = taps[0]
    for index, factor, inside in taps[1:]:
        place = place + index
        if factor is not None:
            weight = factor if weight is None else weight * factor
        if inside is not None:
            valid = inside if valid is None else valid & inside
    shape = (*place.shape, 1)
    value = waist.gather_nd(rows, waist.reshape(place, shape), batch=1)
    if weight is not None:
        value = value * waist.cast_to(waist.reshape(weight, shape), value.dtype)
    if valid is not None:
        zero = waist.constant(0, value.dtype)
        value = waist.map("select", waist.reshape(valid, shape), value, zero)
    return value


def _work_dtype(x: Tensor, mode: str) -> DType:
    """The dtype to weigh pixels in; nearest ones are only moved."""
    if mode == "nearest":
        return x.dtype
    return compute_dtype(x.dtype) if is_float(x.dtype) else np.dtype(np.float64)


@operator("GridSample", since=(16, 20, 22), ranks={"x": -3, "grid": -3})
def grid_sample(
    x: T1,
    grid: T2,
    *,
    align_corners: Flag = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> T1:
    """Read (n, c, *s) at the places of a grid (n, *o, rank): -1 to 1, the last axis of s first.

    Each tap of a cubic is clamped or reflected by itself.  Source: ONNX GridSample-22
    """
    spatial = spatial_shape(x, "GridSample")
    rank = len(spatial)
    if mode not in TAPS or padding_mode not in ("zeros", "border", "reflection"):
        raise ModelError(
            f"GridSample takes mode {', '.join(TAPS)} and padding_mode zeros, border or reflection: "
            f"{mode!r} and {padding_mode!r}"
        )
    if grid.ndim != rank + 2:
        raise ShapeError(f"a grid over {rank} axes has no shape {shape_text(grid.shape)}")
    grid = waist.with_size(grid, -1, rank, f"a grid over {rank} axes has as many numbers a place")
    if x.dtype == string or (is_complex(x.dtype) and mode != "nearest"):
        raise UnsupportedError(f"GridSample is not done for {dtype_name(x.dtype)}")
    n, *out = grid.shape[:-1]
    flat = waist.cast_to(grid, compute_dtype(grid.dtype))
    flat = waist.reshape(flat, (n, product(out), rank))
    places = []
    for axis, size in enumerate(spatial):
        line = waist.slice_axis(flat, 2, rank - 1 - axis, 1)
        at = waist.reshape(line, flat.shape[:2]) + 1
        width = number(size, at.dtype)
        places.append(at * (width - 1) * 0.5 if align_corners else (at * width - 1) * 0.5)
    work = waist.cast_to(x, _work_dtype(x, mode))
    y = sample(work, places, mode, padding_mode, align_corners)
    return waist.cast_to(waist.reshape(y, (*x.shape[:2], *out)), x.dtype)


grid_sample.limit(
    "the standard does not say what lies between strings, and no engine does it for complex numbers",
    r"^gen_GridSample_.*_T1_(string|complex\d+)$",
)


@grid_sample.upgrade(from_version=19)
def grid_sample_16(
    x: T1,
    grid: T2,
    *,
    align_corners: Flag = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> T1:
    """GridSample whose modes have two-dimensional names."""
    names = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    if mode not in names:
        raise ModelError(f"GridSample before opset 20 takes mode {', '.join(names)}, not {mode!r}")
    return grid_sample(
        x, grid, align_corners=align_corners, mode=names[mode], padding_mode=padding_mode
    )


@operator("AffineGrid", since=(20,), ranks={"theta": 3, "size": 1})
def affine_grid(theta: T1, size: T2, *, align_corners: Flag = 0) -> T1:
    """The grid (n, *s, rank) that GridSample wants for affine maps (n, rank, rank + 1).

    Source: ONNX AffineGrid-20
    """
    shape = waist.dims(size)
    rank = len(shape) - 2
    rule = f"AffineGrid takes maps (n, 2, 3) or (n, 3, 4) that fit its size {shape_text(shape)}"
    if rank not in (2, 3):
        raise ShapeError(rule)
    theta = waist.with_size(theta, 1, rank, rule)
    theta = waist.with_size(theta, 2, rank + 1, rule)
    maps = waist.cast_to(theta, compute_dtype(theta.dtype))
    n = theta.shape[0]

    def column(place: int) -> Tensor:
        part = waist.slice_axis(maps, 2, place, 1)
        return waist.reshape(part, (n, *[1] * rank, rank))

    total = column(rank)
    for axis, length in enumerate(shape[2:]):
        line = waist.reshape(_line(length, maps.dtype, align_corners), (length, 1))
        spread = waist.reshape(line, (*[1] * axis, length, *[1] * (rank - axis)))
        total = total + column(rank - 1 - axis) * spread
    return waist.cast_to(total, theta.dtype)


def _line(n: Dim, dtype: DType, align: int) -> Tensor:
    """The coordinates of n pixels from -1 to 1: of their centres, or with ``align`` to the very ends."""
    steps = waist.iota(n, dtype) * 2
    width = number(n, dtype)
    if not align:
        return (steps + 1) / width - 1
    one = waist.constant(1, dtype)
    single = waist.map("eq", width, one)
    ends = steps / waist.map("max", width - 1, one) - 1
    return waist.map("select", single, waist.constant(0, dtype), ends)


@operator("DeformConv", since=(19, 22))
def deform_conv(
    x: T,
    w: T,
    offset: T,
    b: T | None = None,
    mask: T | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: Count = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """A convolution whose taps are moved by offsets, read between the pixels and weighed by a mask.

    Source: ONNX DeformConv-22
    """
    spatial = spatial_shape(x, "DeformConv")
    rank = len(spatial)
    size = waist.static_shape(w)[2:]
    if kernel_shape and list(size) != each_axis("kernel_shape", kernel_shape, rank):
        raise ModelError(
            f"kernel_shape is that of the kernel {list(size)}, not {list(kernel_shape)}"
        )
    window = place_window(
        spatial, size, strides=strides, dilations=dilations, pads=pads, auto_pad="NOTSET"
    )
    taps, work = int(np.prod(size)), compute_dtype(x.dtype)
    out, n = offset.shape[2:], x.shape[0]
    batch, points = n * offset_group, product((taps, *out))
    moved = waist.reshape(waist.cast_to(offset, work), (batch, taps, rank, *out))
    places = []
    for axis in range(rank):
        kernel = (np.indices(size)[axis] * window.dilations[axis]).reshape(-1)
        first = waist.constant((kernel - int(window.low[axis])).reshape((taps, *[1] * rank)), work)
        start = along(waist.iota(out[axis], work) * window.strides[axis], axis, rank)
        shift = waist.reshape(waist.slice_axis(moved, 2, axis, 1), (batch, taps, *out))
        places.append(waist.reshape(shift + (first + start), (batch, points)))
    image = waist.reshape(waist.cast_to(x, work), (batch, x.shape[1] // offset_group, *spatial))
    columns = sample(image, places, "linear")
    if mask is not None:
        columns = columns * waist.reshape(waist.cast_to(mask, work), (batch, 1, points))
    y = _contract_columns(columns, waist.cast_to(w, work), (n, group, taps), out)
    return waist.cast_to(add_bias(y, b), x.dtype)


def _contract_columns(
    columns: Tensor, w: Tensor, counts: tuple[Dim, int, int], out: Sequence[Dim]
) -> Tensor:
    """Shapes: (*, taps * points), (m, c / g, *k) -> (n, m, *out)."""
    n, group, taps = counts
    features, inner = w.shape[0], w.shape[1] * taps
    right = waist.reshape(columns, (n, group, inner, product(out)))
    left = waist.reshape(w, (group, features // group, inner))
    y = waist.contract(left, right, ([0], [1]), ([2], [2]))
    return waist.reshape(waist.transpose(y, (2, 0, 1, 3)), (n, features, *out))
