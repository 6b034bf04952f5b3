"""Pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from burnx import waist
from burnx.dtype import int64, string
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import Int64, T, Tind
from burnx.ops.movement import axis_list, normal_axes
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.selection import along, dim_tensor
from burnx.shape import Dim, maximum, minimum, shape_text
from burnx.tensor import Tensor


@operator("Pad", since=(1, 2, 11, 13, 18, 19, 21, 23, 24, 25))
def pad(
    data: T,
    pads: Int64,
    constant_value: T | None = None,
    axes: Tind | None = None,
    *,
    mode: str = "constant",
) -> T:
    """Widen axes at both ends, by a constant or by the data's own elements; negative widths cut off first.

    ``pads`` holds the widths before, then those after.  Source: ONNX Pad-25
    Raises: ShapeError if an axis of one element is to be reflected: it has no other element.
    """
    chosen = range(data.ndim) if axes is None else normal_axes(axis_list(axes), data.ndim)
    count = len(chosen)
    cut, grown = _widths(pads, 2 * count)
    for place, axis in enumerate(chosen):
        data = _cut_axis(data, axis, cut[place], cut[count + place])
    if mode == "constant":
        low: list[Dim] = [0] * data.ndim
        high: list[Dim] = [0] * data.ndim
        for place, axis in enumerate(chosen):
            low[axis], high[axis] = grown[place], grown[count + place]
        return waist.pad(data, _filling(data, constant_value), low, high)
    if mode not in _SOURCES:
        raise ModelError(f'Pad has the modes constant, {", ".join(_SOURCES)}, not "{mode}"')
    for place, axis in enumerate(chosen):
        data = _pad_axis(data, axis, grown[place], grown[count + place], mode)
    return data


def _widths(pads: Tensor, count: int) -> tuple[Sequence[Dim], Sequence[Dim]]:
    """What is cut off, and what is added, at each end: a size is never negative."""
    if pads.shape != (count,) and all(isinstance(dim, int) for dim in pads.shape):
        raise ShapeError(f"Pad takes two widths for each of {count // 2} axes, not {pads.shape}")
    known = waist.known_dims(pads)
    if known is not None:
        return [maximum(0 - width, 0) for width in known], [maximum(width, 0) for width in known]
    zero = waist.constant(0, pads.dtype)
    negative = waist.map("max", waist.map("neg", pads), zero)
    return waist.dims(negative), waist.dims(waist.map("max", pads, zero))


def _cut_axis(data: Tensor, axis: int, low: Dim, high: Dim) -> Tensor:
    if low == 0 and high == 0:
        return data
    n = data.shape[axis]
    return waist.slice_axis(data, axis, minimum(low, n), maximum(n - low - high, 0))


def _filling(data: Tensor, value: Tensor | None) -> Tensor:
    if value is not None:
        return waist.reshape(value, ())
    return waist.constant("" if data.dtype == string else 0, data.dtype)


def _pad_axis(data: Tensor, axis: int, low: Dim, high: Dim, mode: str) -> Tensor:
    if low == 0 and high == 0:
        return data
    kept = data.shape[axis]
    if mode == "reflect" and kept == 1 and any(isinstance(n, int) and n > 0 for n in (low, high)):
        raise ShapeError(
            f"Pad reflects an axis of at least 2 elements, not axis {axis} of {shape_text(data.shape)}"
        )
    place = waist.map("sub", along(low + kept + high, 0, 1), dim_tensor(low))
    return waist.take(data, _SOURCES[mode](place, dim_tensor(kept)), axis)


def _edge(place: Tensor, count: Tensor) -> Tensor:
    last = waist.map("sub", count, waist.constant(1, int64))
    return waist.map("min", waist.map("max", place, waist.constant(0, int64)), last)


def _reflect(place: Tensor, count: Tensor) -> Tensor:
    """0 1 2 3 2 1 0 1 …: the ends are not repeated, and a wide padding turns back more than once.

    One element alone has no other beside it, so that a place outside the axis stays outside, which is an error.
    """
    one = waist.constant(1, int64)
    period = waist.map("mul", waist.map("sub", count, one), waist.constant(2, int64))
    period = waist.map("max", period, one)
    phase = waist.map("floor_mod", place, period)
    inside = waist.map("min", phase, waist.map("sub", period, phase))
    alone = waist.map("lt", count, waist.constant(2, int64))
    return waist.map("select", alone, waist.map("abs", place), inside)


def _wrap(place: Tensor, count: Tensor) -> Tensor:
    return waist.map("floor_mod", place, count)


# the element that each place of a padded axis takes, given the places counted from the first element, and their number
_SOURCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "reflect": _reflect,
    "edge": _edge,
    "wrap": _wrap,
}


@pad.upgrade(from_version=1)
def pad_1(
    data: T,
    *,
    paddings: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    mode: str = "constant",
    value: float = 0.0,
) -> T:
    """Pad whose widths are called paddings."""
    return pad_2(data, pads=paddings, mode=mode, value=value)


@pad.upgrade(from_version=10)
def pad_2(
    data: T,
    *,
    pads: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    mode: str = "constant",
    value: float = 0.0,
) -> T:
    """Pad with its widths and its constant as attributes."""
    return pad(data, np.array(pads, np.int64), np.array(value, data.dtype), mode=mode)
