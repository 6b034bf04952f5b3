"""com.microsoft: layers of quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx import waist
from burnx.dtype import float32, int32
from burnx.ops.contrib_fused import MICROSOFT, find, plus, scalar, times
from burnx.ops.contrib_quantized import _real, _stored
from burnx.ops.kinds import T1, T2, T3, T
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor


@operator("QLinearAveragePool", since=(1,), domain=MICROSOFT)
def q_linear_average_pool(
    x: T,
    x_scale: T1,
    x_zero_point: T | None,
    y_scale: T1,
    y_zero_point: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """AveragePool of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearAveragePool-1"""
    place = {"pads": pads, "strides": strides}
    known: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
    known |= {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "kernel_shape": kernel_shape}
    real = _channels_second(_real(x, x_scale, x_zero_point), channels_last)
    mean = find("AveragePool")(real, count_include_pad=count_include_pad, **known)
    return _stored(_channels_back(mean, channels_last), y_scale, y_zero_point, x.dtype)


@operator("QLinearGlobalAveragePool", since=(1,), domain=MICROSOFT)
def q_linear_global_average_pool(
    x: T,
    x_scale: T1,
    x_zero_point: T | None,
    y_scale: T1,
    y_zero_point: T | None = None,
    *,
    channels_last: int = 0,
) -> T:
    """The mean of each channel, quantized.  Source: onnxruntime com.microsoft QLinearGlobalAveragePool-1"""
    real = _channels_second(_real(x, x_scale, x_zero_point), channels_last)
    mean = find("GlobalAveragePool")(real)
    return _stored(_channels_back(mean, channels_last), y_scale, y_zero_point, x.dtype)


def _channels_second(x: Tensor, channels_last: int) -> Tensor:
    rank = x.ndim
    return waist.transpose(x, [0, rank - 1, *range(1, rank - 1)]) if channels_last else x


def _channels_back(x: Tensor, channels_last: int) -> Tensor:
    return waist.transpose(x, [0, *range(2, x.ndim), 1]) if channels_last else x


@operator("QLinearSoftmax", since=(1,), domain=MICROSOFT)
def q_linear_softmax(
    x: T,
    x_scale: T1,
    x_zero_point: T | None,
    y_scale: T1,
    y_zero_point: T,
    *,
    axis: int = -1,
    opset: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Softmax of a quantized tensor, quantized; before opset 13 over all axes from ``axis`` on.

    Source: onnxruntime com.microsoft QLinearSoftmax-1
    """
    real = _real(x, x_scale, x_zero_point)
    softmax = find("Softmax")
    if opset >= 13:
        return _stored(softmax(real, axis=axis), y_scale, y_zero_point, x.dtype)
    rows = softmax(find("Flatten")(real, axis=axis), axis=-1)
    return _stored(waist.reshape(rows, x.shape), y_scale, y_zero_point, x.dtype)


@operator("QGemm", since=(1,), domain=MICROSOFT)
def q_gemm(
    a: T,
    a_scale: T1,
    a_zero_point: T,
    b: T2,
    b_scale: T1,
    b_zero_point: T2,
    c: T3 | None = None,
    y_scale: T1 | None = None,
    y_zero_point: T | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> T:
    """alpha a b + c of quantized matrices, c as the product is; quantized if there is a scale for it.

    Source: onnxruntime com.microsoft QGemm-1
    """
    left, right = (
        waist.transpose(x, [1, 0]) if flag else x for x, flag in ((a, transA), (b, transB))
    )
    total = find("MatMulInteger")(left, right, a_zero_point, b_zero_point)
    total = total if c is None else plus(total, waist.cast_to(c, int32))
    factor = times(times(a_scale, b_scale), scalar(alpha, a_scale))
    real = times(waist.cast_to(total, float32), factor)
    return real if y_scale is None else _stored(real, y_scale, y_zero_point, a.dtype)


@q_gemm.infer
def _q_gemm_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    from burnx.types import TensorType

    is_real = len(inputs) < 8 or inputs[7] is None
    return [TensorType(float32 if is_real else inputs[0].dtype, None)]
