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


class _OfTwo(Module):
    """An operator of two tensors of bytes that gives bytes."""

    operator = ""

    def __init__(self, *, dtype: str = "uint8") -> None:
        self.left_scale, self.left_zero_point = _scale(), Parameter(dtype=dtype)
        self.right_scale, self.right_zero_point = _scale(), Parameter(dtype=dtype)
        self.output_scale, self.output_zero_point = _scale(), Parameter(dtype=dtype)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        call = getattr(ops, self.operator)
        first = left, self.left_scale, self.left_zero_point
        second = right, self.right_scale, self.right_zero_point
        made: Tensor = call(*first, *second, self.output_scale, self.output_zero_point)
        return made


class QLinearAdd(_OfTwo):
    """The sum of two tensors of bytes."""

    operator = "q_linear_add"


class QLinearMul(_OfTwo):
    """The product of two tensors of bytes, element by element."""

    operator = "q_linear_mul"


class QLinearMatMul(_OfTwo):
    """The matrix product of two tensors of bytes."""

    operator = "q_linear_mat_mul"


class _OfOne(Module):
    """An operator of one tensor of bytes that gives bytes."""

    operator = ""

    def __init__(self, *, dtype: str = "uint8") -> None:
        self.input_scale, self.input_zero_point = _scale(), Parameter(dtype=dtype)
        self.output_scale, self.output_zero_point = _scale(), Parameter(dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        call = getattr(ops, self.operator)
        made: Tensor = call(
            x,
            self.input_scale,
            self.input_zero_point,
            self.output_scale,
            self.output_zero_point,
        )
        return made


class QLinearSigmoid(_OfOne):
    """The sigmoid of bytes."""

    operator = "q_linear_sigmoid"


class QLinearLeakyRelu(_OfOne):
    """LeakyRelu of bytes, with a slope of 0.01."""

    operator = "q_linear_leaky_relu"


class QLinearGlobalAveragePool(_OfOne):
    """The mean of each channel of bytes."""

    operator = "q_linear_global_average_pool"
