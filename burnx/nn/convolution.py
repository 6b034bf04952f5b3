"""Convolutions of channels-first data, over one, two or three axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx import ops
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor

Size = int | Sequence[int]
Padding = int | Sequence[int] | str


def each_axis(value: Size, axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)


def _padding(value: Padding, axes: int) -> dict[str, Any]:
    """``padding`` as attributes: a number, one for each axis, one for each begin and then each end, or a mode."""
    if isinstance(value, str):
        return {"auto_pad": value.upper()} if value != "valid" else {}
    pads = each_axis(value, axes)
    pads = pads if len(pads) == 2 * axes else [*pads, *pads]
    return {"pads": pads} if any(pads) else {}


def _unless_one(name: str, value: Size, axes: int) -> dict[str, Any]:
    values = each_axis(value, axes)
    return {name: values} if any(each != 1 for each in values) else {}


def conv_settings(
    kernel: list[int], stride: Size, padding: Padding, dilation: Size, groups: int
) -> dict[str, Any]:
    """The attributes of a convolution, those that are not the default."""
    axes = len(kernel)
    found: dict[str, Any] = {"kernel_shape": kernel, **_padding(padding, axes)}
    found |= _unless_one("strides", stride, axes)
    found |= _unless_one("dilations", dilation, axes)
    return found | ({"group": groups} if groups != 1 else {})


class _Conv(Module):
    """Correlation of (batch, channels, *s) with weight (out_channels, in_channels / groups, *kernel_size).

    ``padding``: a number, one for each axis, one for each begin and then each end, or ``"same_upper"``,
    ``"same_lower"``, ``"valid"``.
    """

    axes = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Padding = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str = "float32",
    ) -> None:
        kernel = each_axis(kernel_size, self.axes)
        self.weight = Parameter(out_channels, in_channels // groups, *kernel, dtype=dtype)
        self.bias = Parameter(out_channels, dtype=dtype, init="zeros") if bias else None
        self.attributes = conv_settings(kernel, stride, padding, dilation, groups)

    def forward(self, x: Tensor) -> Tensor:
        return ops.conv(x, self.weight, self.bias, **self.attributes)


class Conv1d(_Conv):
    __doc__ = _Conv.__doc__
    axes = 1


class Conv2d(_Conv):
    __doc__ = _Conv.__doc__
    axes = 2


class Conv3d(_Conv):
    __doc__ = _Conv.__doc__
    axes = 3


class _ConvTranspose(Module):
    """Transposed convolution of (batch, channels, *s) with weight (in_channels, out_channels / groups, *kernel_size)."""

    axes = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Padding = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        output_shape: Sequence[int] | None = None,
        dtype: str = "float32",
    ) -> None:
        kernel = each_axis(kernel_size, self.axes)
        self.weight = Parameter(in_channels, out_channels // groups, *kernel, dtype=dtype)
        self.bias = Parameter(out_channels, dtype=dtype, init="zeros") if bias else None
        self.attributes = conv_settings(kernel, stride, padding, dilation, groups)
        extra = each_axis(output_padding, self.axes)
        self.attributes |= {"output_padding": extra} if any(extra) else {}
        self.attributes |= {"output_shape": list(output_shape)} if output_shape is not None else {}

    def forward(self, x: Tensor) -> Tensor:
        return ops.conv_transpose(x, self.weight, self.bias, **self.attributes)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    axes = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    axes = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = _ConvTranspose.__doc__
    axes = 3
