"""com.microsoft: layers of quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx import waist
from burnx.dtype import float32, int32
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, find, plus, scalar, times
from burnx.ops.contrib_quantized import column_wise, integer_product
from burnx.ops.contrib_quantized_elementwise import real_of, stored_as
from burnx.ops.kinds import T1, T2, T3, T4, Count, Flag, Float32, Int32, T
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor
from burnx.types import TensorType


@operator("QLinearAveragePool", since=(1,), domain=MICROSOFT)
def q_linear_average_pool(
    x: T,
    x_scale: Float32,
    x_zero_point: T | None,
    y_scale: Float32,
    y_zero_point: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: Flag = 0,
    channels_last: Flag = 0,
    count_include_pad: Flag = 0,
    kernel_shape: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """AveragePool of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearAveragePool-1"""
    place = {"pads": pads, "strides": strides}
    known: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
    known |= {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "kernel_shape": kernel_shape}
    real = _channels_second(real_of(x, x_scale, x_zero_point), channels_last)
    mean = find("AveragePool")(real, count_include_pad=count_include_pad, **known)
    return stored_as(_channels_back(mean, channels_last), y_scale, y_zero_point, x.dtype)


@operator("QLinearGlobalAveragePool", since=(1,), domain=MICROSOFT)
def q_linear_global_average_pool(
    x: T,
    x_scale: Float32,
    x_zero_point: T,
    y_scale: Float32,
    y_zero_point: T,
    *,
    channels_last: Flag = 0,
) -> T:
    """The mean of each channel, quantized.  Source: onnxruntime com.microsoft QLinearGlobalAveragePool-1"""
    real = _channels_second(real_of(x, x_scale, x_zero_point), channels_last)
    mean = find("GlobalAveragePool")(real)
    return stored_as(_channels_back(mean, channels_last), y_scale, y_zero_point, x.dtype)


def _channels_second(x: Tensor, channels_last: int) -> Tensor:
    rank = x.ndim
    return waist.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if channels_last else x


def _channels_back(x: Tensor, channels_last: int) -> Tensor:
    return waist.transpose(x, [0, *range(2, x.ndim), 1]) if channels_last else x


@operator("QLinearSoftmax", since=(1,), domain=MICROSOFT)
def q_linear_softmax(
    x: T,
    x_scale: Float32,
    x_zero_point: T | None,
    y_scale: Float32,
    y_zero_point: T,
    *,
    axis: int = -1,
    opset: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Softmax of a quantized tensor, quantized; before opset 13 over all axes from ``axis`` on.

    Source: onnxruntime com.microsoft QLinearSoftmax-1
    """
    real = real_of(x, x_scale, x_zero_point)
    softmax = find("Softmax")
    if opset >= 13:
        return stored_as(softmax(real, axis=axis), y_scale, y_zero_point, x.dtype)
    rows = softmax(find("Flatten")(real, axis=axis), axis=-1)
    return stored_as(waist.reshape(rows, x.shape), y_scale, y_zero_point, x.dtype)


@operator("QLinearConv", since=(1,), domain=MICROSOFT)
def contrib_q_linear_conv(
    x: T1,
    x_scale: Float32,
    x_zero_point: T1,
    w: T2,
    w_scale: Float32,
    w_zero_point: T2,
    y_scale: Float32,
    y_zero_point: T3,
    b: T4 | None = None,
    *,
    auto_pad: str = "NOTSET",
    channels_last: Flag = 0,
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T3:
    """QLinearConv of the standard, x and y perhaps with their channels last, w always with them second.

    Source: onnxruntime com.microsoft QLinearConv-1
    """
    y = find("QLinearConv")(
        _channels_second(x, channels_last),
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        y_scale,
        y_zero_point,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return _channels_back(y, channels_last)


@operator("QGemm", since=(1,), domain=MICROSOFT)
def q_gemm(
    a: T1,
    a_scale: Float32,
    a_zero_point: T1,
    b: T2,
    b_scale: Float32,
    b_zero_point: T2,
    c: Int32 | None = None,
    y_scale: Float32 | None = None,
    y_zero_point: T3 | None = None,
    *,
    alpha: float = 1.0,
    transA: Flag = 0,
    transB: Flag = 0,
) -> T:
    """alpha a b + c of quantized matrices, c as the product is; quantized if there is a zero point for it.

    Source: onnxruntime com.microsoft QGemm-1
    """
    if (y_scale is None) != (y_zero_point is None):
        raise ModelError("QGemm takes y_scale and y_zero_point together")
    left, right = (
        waist.transpose(x, [1, 0]) if flag else x for x, flag in ((a, transA), (b, transB))
    )
    total = integer_product(left, right, a_zero_point, b_zero_point)
    total = total if c is None else plus(total, waist.cast_to(c, int32))
    factor = times(times(column_wise(a_scale), column_wise(b_scale)), scalar(alpha, a_scale))
    real = times(waist.cast_to(total, float32), factor)
    if y_scale is None or y_zero_point is None:
        return real
    return stored_as(real, y_scale, y_zero_point, y_zero_point.dtype)


@q_gemm.infer
def _q_gemm_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    zero = inputs[8] if len(inputs) > 8 else None
    return [TensorType(float32 if zero is None else zero.dtype, None)]
