"""com.microsoft: quantized tensors element by element."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import DType, compute_dtype, float32, int32, uint8
from burnx.errors import ShapeError
from burnx.ops.contrib_fused import MICROSOFT, find, plus, scalar, times
from burnx.ops.kinds import T1, T2, T5, Bool, Float32, T
from burnx.ops.movement import normal_axes
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.quantization import quantize
from burnx.ops.reduction import mean_along
from burnx.tensor import Tensor
from burnx.types import TensorType


def moved(x: Tensor, zero: Tensor | None) -> Tensor:
    """x - zero in int32, of one zero point for all."""
    whole = waist.cast_to(x, int32)
    if zero is None:
        return whole
    return waist.map("sub", whole, waist.cast_to(waist.reshape(zero, ()), int32))


def real_of(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """What quantized numbers stand for."""
    return times(waist.cast_to(moved(x, zero), float32), waist.reshape(scale, ()))


def stored_as(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """Rounded half to even, moved by the zero point, and saturated."""
    moved_by = None if zero is None else waist.reshape(zero, ())
    return quantize(waist.map("div", x, waist.reshape(scale, ())), moved_by, dtype)


@operator("QLinearAdd", since=(1,), domain=MICROSOFT)
def q_linear_add(
    a: T,
    a_scale: Float32,
    a_zero_point: T | None,
    b: T,
    b_scale: Float32,
    b_zero_point: T | None,
    c_scale: Float32,
    c_zero_point: T | None = None,
) -> T:
    """The sum of two quantized tensors, quantized; it is moved by the zero point before it is rounded.

    Source: onnxruntime com.microsoft QLinearAdd-1
    """
    total = plus(real_of(a, a_scale, a_zero_point), real_of(b, b_scale, b_zero_point))
    total = waist.map("div", total, waist.reshape(c_scale, ()))
    if c_zero_point is not None:
        total = plus(total, waist.cast_to(waist.reshape(c_zero_point, ()), float32))
    return quantize(total, None, a.dtype)


@operator("QLinearMul", since=(1,), domain=MICROSOFT)
def q_linear_mul(
    a: T,
    a_scale: Float32,
    a_zero_point: T | None,
    b: T,
    b_scale: Float32,
    b_zero_point: T | None,
    c_scale: Float32,
    c_zero_point: T | None = None,
) -> T:
    """The product of two quantized tensors, quantized.  Source: onnxruntime com.microsoft QLinearMul-1"""
    product = times(real_of(a, a_scale, a_zero_point), real_of(b, b_scale, b_zero_point))
    return stored_as(product, c_scale, c_zero_point, a.dtype)


@operator("QLinearSigmoid", since=(1,), domain=MICROSOFT)
def q_linear_sigmoid(
    x: T, x_scale: Float32, x_zero_point: T | None, y_scale: Float32, y_zero_point: T | None = None
) -> T:
    """The sigmoid of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearSigmoid-1"""
    real = real_of(x, x_scale, x_zero_point)
    powers = plus(waist.map("exp", waist.map("neg", real)), scalar(1, real))
    return stored_as(waist.map("div", scalar(1, real), powers), y_scale, y_zero_point, x.dtype)


@operator("QLinearLeakyRelu", since=(1,), domain=MICROSOFT)
def q_linear_leaky_relu(
    x: T,
    x_scale: Float32,
    x_zero_point: T | None,
    y_scale: Float32,
    y_zero_point: T | None = None,
    *,
    alpha: float = 0.01,
) -> T:
    """LeakyRelu of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearLeakyRelu-1"""
    real = real_of(x, x_scale, x_zero_point)
    positive = waist.map("le", scalar(0, real), real)
    leaked = waist.map("select", positive, real, times(real, scalar(alpha, real)))
    return stored_as(leaked, y_scale, y_zero_point, x.dtype)


@operator("QLinearConcat", since=(1,), domain=MICROSOFT)
def q_linear_concat(
    y_scale: Float32,
    y_zero_point: T,
    *inputs: T5,
    axis: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Quantized tensors, each with a scale and zero point of its own, joined and quantized.

    Source: onnxruntime com.microsoft QLinearConcat-1
    """
    if len(inputs) % 3:
        raise ShapeError("QLinearConcat takes a scale and a zero point with each tensor")
    parts = [real_of(*inputs[place : place + 3]) for place in range(0, len(inputs), 3)]
    place = axis % parts[0].ndim
    return stored_as(waist.concat(parts, place), y_scale, y_zero_point, y_zero_point.dtype)


@operator("QLinearWhere", since=(1,), domain=MICROSOFT)
def q_linear_where(
    condition: Bool,
    x: T,
    x_scale: T1,
    x_zero_point: T,
    y: T,
    y_scale: T1,
    y_zero_point: T,
    z_scale: T1,
    z_zero_point: T,
) -> T:
    """x where the condition holds, else y, quantized.  Source: onnxruntime com.microsoft QLinearWhere-1"""
    chosen = waist.map(
        "select",
        condition,
        stored_as(real_of(x, x_scale, x_zero_point), z_scale, z_zero_point, x.dtype),
        stored_as(real_of(y, y_scale, y_zero_point), z_scale, z_zero_point, x.dtype),
    )
    return chosen


@operator("QLinearReduceMean", since=(1,), domain=MICROSOFT)
def q_linear_reduce_mean(
    data: T,
    data_scale: Float32,
    data_zero_point: T | None,
    reduced_scale: Float32,
    reduced_zero_point: T | None = None,
    *,
    axes: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    keepdims: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """The mean along axes of a quantized tensor, quantized; along all where none is listed.

    Source: onnxruntime com.microsoft QLinearReduceMean-1
    """
    real = real_of(data, data_scale, data_zero_point)
    mean = mean_along(real, _axes_of(real, axes), keepdims)
    return stored_as(mean, reduced_scale, reduced_zero_point, data.dtype)


def _axes_of(x: Tensor, axes: Sequence[int]) -> tuple[int, ...]:
    return normal_axes(axes, x.ndim) if axes else tuple(range(x.ndim))


# ---------------------------------------------------------------------------------------- few bits
@operator("QuantizeLinear", since=(1,), domain=MICROSOFT)
def contrib_quantize_linear(
    x: T1, y_scale: T1, y_zero_point: T2 | None = None, *, axis: int | None = None
) -> T2:
    """Numbers of 4 to 16 bits, divided in float32; a scale of many stands along ``axis``, 1 if it is not given.

    Source: onnxruntime com.microsoft QuantizeLinear-1
    """
    place = 1 if axis is None else axis
    wide, scale = (waist.cast_to(each, compute_dtype(each.dtype)) for each in (x, y_scale))
    result: Tensor = find("QuantizeLinear")(wide, scale, y_zero_point, axis=place)
    return result


@contrib_quantize_linear.infer
def _quantize_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    given = inputs[2] if len(inputs) > 2 else None
    return [TensorType(uint8 if given is None else given.dtype, None)]


@operator("DequantizeLinear", since=(1,), domain=MICROSOFT)
def contrib_dequantize_linear(
    x: T1, x_scale: T2, x_zero_point: T1 | None = None, *, axis: int | None = None
) -> T2:
    """(x - x_zero_point) x_scale of numbers of 4 to 32 bits.  Source: onnxruntime com.microsoft DequantizeLinear-1"""
    place = 1 if axis is None else axis
    result: Tensor = find("DequantizeLinear")(x, x_scale, x_zero_point, axis=place)
    return result
