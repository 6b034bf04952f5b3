"""Resize and Upsample: each axis is resampled by itself, so that a result is a few ``take`` per axis."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from burnx import waist
from burnx.dtype import (
    DType,
    compute_dtype,
    dtype_name,
    float32,
    float64,
    int64,
    is_complex,
    is_float,
    string,
)
from burnx.errors import ModelError, UnsupportedError
from burnx.ops import arithmetic
from burnx.ops.kinds import T1, T2, Flag, Float32, Int64, T
from burnx.ops.movement import normal_axes
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.sampling import cubic_weights
from burnx.ops.windows import along, number
from burnx.shape import Dim
from burnx.tensor import Tensor, Undetermined

_UNROLLED = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis that is resampled.

    ``scale`` and ``length`` are scalars; ``length`` is the exact length of the result, which may not be whole.
    ``known`` is the scale as a number, if it is one.  ``roi`` is a range of the input, from 0 to 1.
    """

    place: int
    n: Dim
    out: Dim
    scale: Tensor
    length: Tensor
    known: float | None
    roi: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """How the pixels around a place are weighed."""

    mode: str
    cubic_a: float
    antialias: bool
    exclude_outside: bool


def _one() -> Tensor:
    return waist.constant(1, float32)


def _half_pixel(axis: Axis, place: Tensor) -> Tensor:
    return (place + 0.5) / axis.scale - 0.5


def _pytorch(axis: Axis, place: Tensor) -> Tensor:
    several = waist.map("lt", _one(), axis.length)
    return waist.map("select", several, _half_pixel(axis, place), waist.constant(0, float32))


def _symmetric(axis: Axis, place: Tensor) -> Tensor:
    adjust = number(axis.out, float32) / axis.length
    offset = number(axis.n, float32) * 0.5 * (1 - adjust)
    return offset + (place + 0.5) / axis.scale - 0.5


def _asymmetric(axis: Axis, place: Tensor) -> Tensor:
    return place / axis.scale


def _for_nearest(axis: Axis, place: Tensor) -> Tensor:
    return (place + 0.5) / axis.scale


def _steps(axis: Axis, place: Tensor) -> tuple[Tensor, Tensor]:
    """Whether the result has one pixel only, and its pixels as parts of the way from first to last."""
    single = waist.map("eq", axis.length, _one())
    safe = waist.map("select", single, _one(), axis.length - 1)
    return single, place / safe


def _align_corners(axis: Axis, place: Tensor) -> Tensor:
    _, part = _steps(axis, place)
    return part * (number(axis.n, float32) - 1)


def _crop(axis: Axis, place: Tensor) -> Tensor:
    assert axis.roi is not None
    start, end = axis.roi
    single, part = _steps(axis, place)
    part = waist.map("select", single, waist.constant(0.5, float32), part)
    return (start + part * (end - start)) * (number(axis.n, float32) - 1)


TRANSFORMS: dict[str, Callable[[Axis, Tensor], Tensor]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _for_nearest,
    "tf_crop_and_resize": _crop,
}

ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "round_prefer_floor": lambda at: waist.map("ceil", at - 0.5),
    "round_prefer_ceil": lambda at: waist.map("floor", at + 0.5),
    "floor": lambda at: waist.map("floor", at),
    "ceil": lambda at: waist.map("ceil", at),
}


@operator("Resize", since=(10, 11, 13, 18, 19), ranks={"roi": 1, "scales": 1, "sizes": 1})
def resize(
    x: T1,
    roi: T2 | None = None,
    scales: Float32 | None = None,
    sizes: Int64 | None = None,
    *,
    antialias: Flag = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: Flag = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> T1:
    """Resample to scales or sizes.  Source: ONNX Resize-19"""
    _check_mode("mode", mode, ("nearest", "linear", "cubic"))
    _check_mode("coordinate_transformation_mode", coordinate_transformation_mode, TRANSFORMS)
    _check_mode("nearest_mode", nearest_mode, ROUNDINGS)
    chosen = normal_axes(axes if axes is not None else builtins.range(x.ndim), x.ndim)
    if sizes is not None and not _is_empty(sizes):
        if antialias:  # how many pixels count depends on the scale
            waist.static_shape(x), waist.const(sizes)
        found = _axes_of_sizes(x, sizes, chosen, keep_aspect_ratio_policy)
    elif scales is not None and not _is_empty(scales):
        found = _axes_of_scales(x, scales, chosen)
    else:
        raise ModelError("Resize needs scales or sizes")
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    if crops:
        found = _with_roi(found, roi)
    else:
        found = [axis for axis in found if axis.known != 1 or axis.out != axis.n]
    transform = TRANSFORMS[coordinate_transformation_mode]
    places = [transform(axis, waist.iota(axis.out, float32)) for axis in found]
    if mode == "nearest":
        y = _nearest(x, found, places, ROUNDINGS[nearest_mode])
    else:
        kernel = Kernel(mode, cubic_coeff_a, bool(antialias), bool(exclude_outside))
        y = _weighted(x, found, places, kernel)
    return _extrapolate(y, found, places, extrapolation_value) if crops else y


def _check_mode(name: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise ModelError(f"Resize takes a {name} of {', '.join(known)}, not {value!r}")


def _is_empty(x: Tensor) -> bool:
    return x.ndim == 1 and x.shape[0] == 0


def _axes_of_scales(x: Tensor, scales: Tensor, chosen: Sequence[int]) -> list[Axis]:
    factors = [np.float32(value) for value in waist.const(scales).reshape(-1)]
    if len(factors) != len(chosen) or any(not factor > 0 for factor in factors):
        raise ModelError(
            f"Resize takes a positive scale for each of {len(chosen)} axes, not "
            f"{[float(each) for each in factors]}"
        )
    found = []
    for place, factor in zip(chosen, factors, strict=True):
        n = x.shape[place]
        scale = waist.constant(factor, float32)
        length = number(n, float32) * scale
        found.append(Axis(place, n, _scaled_size(x, n, factor), scale, length, float(factor)))
    return found


def _scaled_size(x: Tensor, n: Dim, factor: np.float32) -> Dim:
    """floor(n * factor) in float32; of a size that is not known, if the factor is a short binary fraction."""
    if isinstance(n, int):
        return int(np.floor(np.float32(n) * factor))
    exact = Fraction(float(factor))
    if exact.denominator > 64:
        raise Undetermined(x.ref, "shape")
    return (n * exact.numerator) // exact.denominator


def _axes_of_sizes(x: Tensor, sizes: Tensor, chosen: Sequence[int], policy: str) -> list[Axis]:
    _check_mode("keep_aspect_ratio_policy", policy, ("stretch", "not_larger", "not_smaller"))
    if policy != "stretch":
        return _axes_of_aspect(x, sizes, chosen, policy)
    wanted = waist.dims(sizes)
    _check_count(wanted, chosen)
    found = []
    for place, out in zip(chosen, wanted, strict=True):
        n = x.shape[place]
        length = number(out, float32)
        scale = length / number(n, float32)
        fixed = isinstance(out, int) and isinstance(n, int)
        known = 1.0 if out == n else int(out) / int(n) if fixed and n else None
        found.append(Axis(place, n, out, scale, length, known))
    return found


def _check_count(wanted: Sequence[object], chosen: Sequence[int]) -> None:
    if len(wanted) != len(chosen):
        raise ModelError(f"Resize takes a size for each of {len(chosen)} axes, not {len(wanted)}")


def _axes_of_aspect(x: Tensor, sizes: Tensor, chosen: Sequence[int], policy: str) -> list[Axis]:
    """One scale for all axes: the least or the greatest that the sizes ask for."""
    shape = waist.static_shape(x)
    wanted = [int(size) for size in waist.const(sizes).reshape(-1)]
    _check_count(wanted, chosen)
    ratios = [size / shape[place] for place, size in zip(chosen, wanted, strict=True)]
    ratio = builtins.min(ratios) if policy == "not_larger" else builtins.max(ratios)
    scale = waist.constant(ratio, float32)
    return [
        Axis(
            place,
            shape[place],
            math.floor(ratio * shape[place] + 0.5),
            scale,
            waist.constant(ratio * shape[place], float32),
            ratio,
        )
        for place in chosen
    ]


def _with_roi(axes: Sequence[Axis], roi: Tensor | None) -> list[Axis]:
    if roi is None or _is_empty(roi):
        raise ModelError("Resize needs a roi for tf_crop_and_resize")
    wide, count = waist.cast_to(roi, float32), len(axes)
    corners = [
        waist.reshape(waist.slice_axis(wide, 0, place, 1), ())
        for place in builtins.range(2 * count)
    ]
    return [
        Axis(
            axis.place,
            axis.n,
            axis.out,
            axis.scale,
            axis.length,
            axis.known,
            (corners[index], corners[index + count]),
        )
        for index, axis in enumerate(axes)
    ]


def _nearest(
    x: Tensor,
    axes: Sequence[Axis],
    places: Sequence[Tensor],
    rounding: Callable[[Tensor], Tensor],
) -> Tensor:
    for axis, at in zip(axes, places, strict=True):
        x = waist.take(x, _clamped(rounding(at), axis), axis.place)
    return x


def _clamped(index: Tensor, axis: Axis) -> Tensor:
    """Whole numbers as indices into an axis, whose first and last pixel go on outside."""
    held = waist.map("max", index, waist.constant(0, index.dtype))
    return waist.cast_to(waist.map("min", held, number(axis.n - 1, index.dtype)), int64)


def _weighted(x: Tensor, axes: Sequence[Axis], places: Sequence[Tensor], kernel: Kernel) -> Tensor:
    """Weigh pixels along each axis in turn; integers are weighed in float64 and cut off."""
    if x.dtype == string or is_complex(x.dtype):
        raise UnsupportedError(f"pixels in between are not done for {dtype_name(x.dtype)}")
    wide = compute_dtype(x.dtype) if is_float(x.dtype) else float64
    y = waist.cast_to(x, wide)
    for axis, at in zip(axes, places, strict=True):
        indices, weights = _taps(axis, at, kernel, wide)
        y = _combine(y, axis, indices, weights)
    return waist.cast_to(y, x.dtype)


def _taps(
    axis: Axis, at: Tensor, kernel: Kernel, dtype: DType
) -> tuple[list[Tensor], list[Tensor]]:
    """The indices and the weights of the pixels around each place of an axis."""
    low = waist.map("floor", at)
    t = waist.cast_to(at - low, dtype)
    offsets, weights = _spread_weights(axis, t, kernel)
    whole = [low + float(offset) for offset in offsets]
    if kernel.exclude_outside:
        zero, last = waist.constant(0, float32), number(axis.n - 1, float32)
        nothing = waist.constant(0, dtype)
        weights = [
            waist.map(
                "select",
                waist.map("le", zero, index) & waist.map("le", index, last),
                weight,
                nothing,
            )
            for index, weight in zip(whole, weights, strict=True)
        ]
        weights = _normal(weights)
    return [_clamped(index, axis) for index in whole], weights


def _spread_weights(axis: Axis, t: Tensor, kernel: Kernel) -> tuple[Sequence[int], list[Tensor]]:
    """Which pixels count, relative to the one before a place, and their weights.

    With ``antialias`` the kernel of a shrinking axis is stretched by its scale.
    """
    radius = 1 if kernel.mode == "linear" else 2
    if not kernel.antialias:
        offsets = builtins.range(1 - radius, radius + 1)
        return offsets, [1 - t, t] if radius == 1 else cubic_weights(t, kernel.cubic_a)
    assert axis.known is not None
    scale = builtins.min(axis.known, 1.0)
    first = math.floor(-radius / scale) + 1
    offsets = builtins.range(first, 2 - first)
    distances = [waist.map("abs", (offset - t) * scale) for offset in offsets]
    return offsets, _normal([_filter(each, kernel) for each in distances])


def _filter(distance: Tensor, kernel: Kernel) -> Tensor:
    """The weight at a distance from 0 on: a tent, or Keys' cubic."""
    zero, one = waist.constant(0, distance.dtype), waist.constant(1, distance.dtype)
    if kernel.mode == "linear":
        return waist.map("max", 1 - distance, zero)
    a, d = kernel.cubic_a, distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    beyond = waist.map("select", waist.map("lt", d, one * 2), far, zero)
    return waist.map("select", waist.map("le", d, one), near, beyond)


def _normal(weights: Sequence[Tensor]) -> list[Tensor]:
    """Weights that add up to 1, but where all are 0."""
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    zero, one = waist.constant(0, total.dtype), waist.constant(1, total.dtype)
    safe = waist.map("select", waist.map("eq", total, zero), one, total)
    return [weight / safe for weight in weights]


def _combine(x: Tensor, axis: Axis, indices: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """The weighted sum of pixels along one axis."""
    if len(indices) <= _UNROLLED:
        parts = [
            waist.take(x, index, axis.place) * along(weight, axis.place, x.ndim)
            for index, weight in zip(indices, weights, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total
    places = waist.concat([waist.reshape(each, (axis.out, 1)) for each in indices], 1)
    factors = waist.concat([waist.reshape(each, (axis.out, 1)) for each in weights], 1)
    around = waist.take(x, places, axis.place)
    y = waist.contract(factors, around, ([0], [axis.place]), ([1], [axis.place + 1]))
    rest = builtins.range(axis.place + 1, x.ndim)
    return waist.transpose(y, (*builtins.range(1, axis.place + 1), 0, *rest))


def _extrapolate(y: Tensor, axes: Sequence[Axis], places: Sequence[Tensor], value: float) -> Tensor:
    """Pixels of places outside the input."""
    fill, zero = waist.constant(value, y.dtype), waist.constant(0, float32)
    for axis, at in zip(axes, places, strict=True):
        last = number(axis.n - 1, float32)
        inside = waist.map("le", zero, at) & waist.map("le", at, last)
        y = waist.map("select", along(inside, axis.place, y.ndim), y, fill)
    return y


_BETWEEN = (
    "the standard does not say what lies between strings, and no engine does it for complex numbers"
)
resize.limit(_BETWEEN, r"^gen_Resize_.*_(linear|cubic)_T1?_(string|complex\d+)$")


@resize.upgrade(from_version=10)
def resize_10(x: T, scales: Float32, *, mode: str = "nearest") -> T:
    """Resize without modes: asymmetric, and the nearest pixel is the one before a place.

    Where an axis shrinks it is the one behind, as onnxruntime has it.
    """
    if mode != "nearest" or (waist.is_known(scales) and bool(np.all(waist.const(scales) >= 1))):
        return _resize_10(x, scales, mode, False)
    enlarged = _resize_10(x, arithmetic.max(scales, 1.0), mode, False)
    return _resize_10(enlarged, arithmetic.min(scales, 1.0), mode, True)


def _resize_10(x: Tensor, scales: object, mode: str, shrinks: bool) -> Tensor:
    return resize(
        x,
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="ceil" if shrinks else "floor",
    )


@operator("Upsample", since=(1, 7, 9, 10))
def upsample(x: T, scales: Float32, *, mode: str = "nearest") -> T:
    """Enlarge by scales, from the first pixel on.  Source: ONNX Upsample-10"""
    return resize(
        x,
        None,
        scales,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


upsample.limit(_BETWEEN, r"^gen_Upsample_.*_linear_T_(string|complex\d+)$")


@upsample.upgrade(from_version=8)
def upsample_7(x: T, *, mode: str = "nearest", scales: Sequence[float] = REQUIRED) -> T:  # type: ignore[assignment]
    """Upsample with its scales as an attribute."""
    return upsample(x, np.array(scales, np.float32), mode=mode)


@upsample.upgrade(from_version=6)
def upsample_1(
    x: T,
    *,
    height_scale: float = REQUIRED,  # type: ignore[assignment]
    mode: str = "nearest",
    width_scale: float = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Upsample of the last two axes."""
    scales = np.array([1, 1, height_scale, width_scale], np.float32)
    return upsample(x, scales, mode="linear" if mode == "bilinear" else mode)
