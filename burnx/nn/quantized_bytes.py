"""Layers of bytes: what they take and give is quantized, each side with a scale and a zero point of its own."""

from __future__ import annotations

from burnx import ops
from burnx.nn.convolution import Padding, Size, conv_settings, each_axis
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


def _scale(*shape: int) -> Parameter:
    return Parameter(*shape, init="ones")


class _QLinearConv(Module):
    """A convolution of bytes: QLinearConv.  ``per_channel``: a scale and zero point of the weight for each output."""

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
        per_channel: bool = False,
        *,
        dtype: str = "uint8",
        weight_dtype: str = "int8",
        output: str = "uint8",
    ) -> None:
        kernel = each_axis(kernel_size, self.axes)
        shape = (out_channels,) if per_channel else ()
        self.input_scale, self.input_zero_point = _scale(), Parameter(dtype=dtype)
        self.weight = Parameter(out_channels, in_channels // groups, *kernel, dtype=weight_dtype)
        self.weight_scale = _scale(*shape)
        self.weight_zero_point = Parameter(*shape, dtype=weight_dtype)
        self.output_scale, self.output_zero_point = _scale(), Parameter(dtype=output)
        self.bias = Parameter(out_channels, dtype="int32") if bias else None
        self.attributes = conv_settings(kernel, stride, padding, dilation, groups)

    def forward(self, x: Tensor) -> Tensor:
        return ops.q_linear_conv(
            x,
            self.input_scale,
            self.input_zero_point,
            self.weight,
            self.weight_scale,
            self.weight_zero_point,
            self.output_scale,
            self.output_zero_point,
            self.bias,
            **self.attributes,
        )


class QLinearConv1d(_QLinearConv):
    __doc__ = _QLinearConv.__doc__
    axes = 1


class QLinearConv2d(_QLinearConv):
    __doc__ = _QLinearConv.__doc__
    axes = 2


class QLinearConv3d(_QLinearConv):
    __doc__ = _QLinearConv.__doc__
    axes = 3


class QGemm(Module):
    """A linear layer of bytes; weight (out_features, in_features).

    ``output`` is the dtype of what it gives; without one that is floats.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        *,
        dtype: str = "uint8",
        weight_dtype: str = "int8",
        output: str | None = "uint8",
    ) -> None:
        shape = (out_features,) if per_channel else ()
        self.input_scale, self.input_zero_point = _scale(), Parameter(dtype=dtype)
        self.weight = Parameter(out_features, in_features, dtype=weight_dtype)
        self.weight_scale = _scale(*shape)
        self.weight_zero_point = Parameter(*shape, dtype=weight_dtype)
        self.bias = Parameter(out_features, dtype="int32") if bias else None
        self.output_scale = None if output is None else _scale()
        self.output_zero_point = None if output is None else Parameter(dtype=output)

    def forward(self, x: Tensor) -> Tensor:
        return ops.q_gemm(
            x,
            self.input_scale,
            self.input_zero_point,
            self.weight,
            self.weight_scale,
            self.weight_zero_point,
            self.bias,
            self.output_scale,
            self.output_zero_point,
            transB=1,
        )


class IntegerLinear(Module):
    """A linear layer of bytes that gives floats; weight (in_features, out_features).

    What it takes was quantized before, by a scale and a zero point that come with it.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        zero_point: bool = True,
        *,
        weight_dtype: str = "int8",
        dtype: str = "float32",
    ) -> None:
        shape = (out_features,) if per_channel else ()
        self.weight = Parameter(in_features, out_features, dtype=weight_dtype)
        self.weight_scale = Parameter(*shape, dtype=dtype, init="ones")
        self.weight_zero_point = Parameter(*shape, dtype=weight_dtype) if zero_point else None
        self.bias = Parameter(out_features, dtype=dtype, init="zeros") if bias else None

    def forward(self, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Tensor:
        return ops.mat_mul_integer_to_float(
            x,
            self.weight,
            scale,
            self.weight_scale,
            zero_point,
            self.weight_zero_point,
            self.bias,
        )
