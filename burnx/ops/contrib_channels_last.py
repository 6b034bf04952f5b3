"""com.microsoft: convolutions and pools whose channels are last, and pools under a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import int64
from burnx.errors import ModelError, ShapeError
from burnx.ops.contrib_activated import fused_conv
from burnx.ops.contrib_fused import MICROSOFT, find, scalar, times
from burnx.ops.kinds import Count, Flag, Int32, T
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.windows import pad_spatial, place_window
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor

Ints = Sequence[int] | None


def _channels_first(x: Tensor) -> Tensor:
    return waist.transpose(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


def _channels_last(x: Tensor) -> Tensor:
    return waist.transpose(x, [0, *range(2, x.ndim), 1])


def _given(**attributes: Any) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


@operator("NhwcConv", since=(1,), domain=MICROSOFT)
def nhwc_conv(
    x: T,
    w: T,
    b: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """Conv of data whose channels are last; the kernel is that of Conv.

    Source: onnxruntime com.microsoft NhwcConv-1
    """
    place = _given(dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides)
    y = find("Conv")(_channels_first(x), w, b, auto_pad=auto_pad, group=group, **place)
    return _channels_last(y)


@operator("NhwcFusedConv", since=(1,), domain=MICROSOFT)
def nhwc_fused_conv(
    x: T,
    w: T,
    b: T | None = None,
    z: T | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """FusedConv of data whose channels are last.  Source: onnxruntime com.microsoft NhwcFusedConv-1"""
    place = _given(dilations=dilations, kernel_shape=kernel_shape, pads=pads, strides=strides)
    other = None if z is None else _channels_first(z)
    how = _given(activation=activation, activation_params=activation_params)
    y = fused_conv(_channels_first(x), w, b, other, auto_pad=auto_pad, group=group, **how, **place)
    return _channels_last(y)


@operator("NhwcMaxPool", since=(1,), domain=MICROSOFT)
def nhwc_max_pool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """MaxPool of data whose channels are last.  Source: onnxruntime com.microsoft NhwcMaxPool-1"""
    place = _given(dilations=dilations, pads=pads, strides=strides)
    y = find("MaxPool")(
        _channels_first(x),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        **place,
    )
    return _channels_last(y)


@operator("MaxpoolWithMask", since=(1,), domain=MICROSOFT)
def maxpool_with_mask(
    x: T,
    m: Int32,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: Flag = 0,
    strides: Sequence[int] | None = None,
) -> T:
    """The greatest of a window's elements, each row of it read up to the first that the mask hides.

    The first element of a channel is never hidden.  Source: onnxruntime com.microsoft MaxpoolWithMask-1
    """
    if kernel_shape is None:
        raise ModelError("MaxpoolWithMask needs kernel_shape")
    if storage_order:
        raise ModelError(f"MaxpoolWithMask has storage_order 0, not {storage_order}")
    window = place_window(
        x.shape[2:], kernel_shape, strides=strides, dilations=None, pads=pads, auto_pad=auto_pad
    )
    if m.ndim != x.ndim:
        raise ShapeError(f"the mask has the rank of the data, not {shape_text(m.shape)}")
    for axis in (0, 1):
        m = waist.with_size(m, axis, 1, "the mask is one for all channels")
    lowest = float(np.finfo(np.float32).min)
    first: Tensor | None = None
    for axis in range(2, x.ndim):
        line = waist.map("eq", _line(x, axis), waist.constant(0, int64))
        first = line if first is None else waist.map("and", first, line)
    hides = waist.map("eq", m, waist.constant(0, m.dtype))
    assert first is not None
    shown = waist.map("not", waist.map("and", hides, waist.map("not", first)))
    data = pad_spatial(x, window, lowest)
    seen = pad_spatial(waist.broadcast(waist.cast_to(shown, x.dtype), x.shape), window, 1)
    best: Tensor | None = None
    for row in _offsets(kernel_shape[:-1]):
        going: Tensor | None = None
        for column in range(kernel_shape[-1]):
            here, mask = (_shifted(each, window, (*row, column)) for each in (data, seen))
            going = mask if going is None else times(going, mask)
            is_seen = waist.map("lt", scalar(0, going), going)
            value = waist.map("select", is_seen, here, scalar(lowest, here))
            best = value if best is None else waist.map("max", best, value)
    assert best is not None
    return best


def _line(x: Tensor, axis: int) -> Tensor:
    """How far each element is along an axis."""
    size = x.shape[axis]
    return waist.reshape(waist.iota(size), [size if n == axis else 1 for n in range(x.ndim)])


def _offsets(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for size in sizes:
        found = [(*each, place) for each in found for place in range(size)]
    return found


def _shifted(x: Tensor, window: Any, offset: Sequence[int]) -> Tensor:
    """The element at one place of every window."""
    starts: list[Dim] = [0, 0, *offset]
    return waist.slice_(x, starts, (*x.shape[:2], *window.out), (1, 1, *window.strides))
