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
from burnx.shape import Dim, maximum, minimum
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
    """
    chosen = range(data.ndim) if axes is None else normal_axes(axis_list(axes), data.ndim)
    widths = waist.dims(pads)
    if len(widths) != 2 * len(chosen):
        raise ShapeError(f"Pad takes two widths for each of {len(chosen)} axes, not {len(widths)}")
    low: list[Dim] = [0] * data.ndim
    high: list[Dim] = [0] * data.ndim
    for axis, before, after in zip(
        chosen, widths[: len(chosen)], widths[len(chosen) :], strict=True
    ):
        low[axis], high[axis] = before, after
    if mode == "constant":
        return waist.pad(data, _filling(data, constant_value), low, high)
    if mode not in _SOURCES:
        raise ModelError(f'Pad has the modes constant, {", ".join(_SOURCES)}, not "{mode}"')
    for axis in chosen:
        data = _pad_axis(data, axis, low[axis], high[axis], mode)
    return data


def _filling(data: Tensor, value: Tensor | None) -> Tensor:
    if value is not None:
        return waist.reshape(value, ())
    return waist.constant("" if data.dtype == string else 0, data.dtype)


def _pad_axis(data: Tensor, axis: int, low: Dim, high: Dim, mode: str) -> Tensor:
    if low == 0 and high == 0:
        return data
    start = maximum(0 - low, 0)
    kept = maximum(data.shape[axis] - start - maximum(0 - high, 0), 0)
    data = waist.slice_axis(data, axis, minimum(start, data.shape[axis]), kept)
    before, after = maximum(low, 0), maximum(high, 0)
    place = waist.map("sub", along(before + kept + after, 0, 1), dim_tensor(before))
    return waist.take(data, _SOURCES[mode](place, dim_tensor(kept)), axis)


def _edge(place: Tensor, count: Tensor) -> Tensor:
    last = waist.map("sub", count, waist.constant(1, int64))
    return waist.map("min", waist.map("max", place, waist.constant(0, int64)), last)


def _reflect(place: Tensor, count: Tensor) -> Tensor:
    """0 1 2 3 2 1 0 1 …: the ends are not repeated, and a wide padding turns back more than once."""
    one = waist.constant(1, int64)
    period = waist.map("mul", waist.map("sub", count, one), waist.constant(2, int64))
    period = waist.map("max", period, one)
    phase = waist.map("floor_mod", place, period)
    return waist.map("min", phase, waist.map("sub", period, phase))


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
