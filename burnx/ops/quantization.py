"""Quantization: floats to few bits and back, with a scale and a zero point.

A scale is one number, a vector along ``axis``, or, blocked, has the rank of the data and serves ``block_size``
elements along ``axis`` each.
"""

from __future__ import annotations

from burnx import waist
from burnx.dtype import (
    DType,
    compute_dtype,
    dtype_name,
    dtype_of_code,
    float32,
    float64,
    int32,
    is_float,
    is_integer,
    uint8,
)
from burnx.errors import DTypeError, ModelError, ShapeError
from burnx.ops.kinds import T1, T2, T3, Flag, Float32
from burnx.ops.movement import normal_axis
from burnx.ops.operator import operator
from burnx.ops.reduction import fold_axes
from burnx.tensor import Tensor
from burnx.types import TensorType

_LOW_BITS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and greatest number of an integer dtype of up to 16 bits."""
    name = dtype_name(dtype)
    if name in _LOW_BITS:
        return _LOW_BITS[name]
    bits = 8 * dtype.itemsize
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)


def spread_scale(scale: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or zero point shaped so that it broadcasts with x."""
    if block_size:
        return _spread_blocks(scale, x, axis, block_size)
    if scale.ndim == 0 or (scale.shape == (1,) and x.ndim < 2):
        return waist.reshape(scale, ())
    if scale.ndim > 1:
        raise ModelError(
            f"a scale is a scalar, a vector, or has a block_size; here it has {scale.ndim} axes and none"
        )
    place = 0 if x.ndim == 1 else normal_axis(axis, x.ndim)
    return waist.reshape(scale, [*[1] * place, scale.shape[0], *[1] * (x.ndim - place - 1)])


def _spread_blocks(scale: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    place = normal_axis(axis, x.ndim)
    if scale.ndim != x.ndim or block_size < 0:
        raise ShapeError(
            f"blocks of {block_size} need a scale with the rank of the data, {x.ndim}, not {scale.ndim}"
        )
    count, n = scale.shape[place], x.shape[place]
    if isinstance(count, int) and isinstance(n, int) and -(-n // block_size) != count:
        raise ShapeError(f"{n} elements in blocks of {block_size} do not have {count} scales")
    before, behind = scale.shape[:place], scale.shape[place + 1 :]
    each = waist.reshape(scale, [*before, count, 1, *behind])
    each = waist.broadcast(each, (*before, count, block_size, *behind))
    each = waist.reshape(each, [*before, count * block_size, *behind])
    return waist.slice_axis(each, place, 0, n)


def quantize(x: Tensor, zero_point: Tensor | None, dtype: DType, saturate: Flag = 1) -> Tensor:
    """Round numbers that are divided by their scale already, move them by the zero point, and saturate."""
    wide = waist.cast_to(x, compute_dtype(x.dtype) if is_float(x.dtype) else float32)
    if not is_integer(dtype):
        if zero_point is not None:
            wide = wide + waist.cast_to(zero_point, wide.dtype)
        return waist.cast_to(wide, dtype, bool(saturate))
    rounded = waist.map("round", wide)
    if zero_point is not None:
        rounded = rounded + waist.cast_to(zero_point, wide.dtype)
    low, high = (waist.constant(bound, wide.dtype) for bound in bounds(dtype))
    return waist.cast_to(waist.map("min", waist.map("max", rounded, low), high), dtype)


def _quantized_dtype(zero_point: TensorType | None, output_dtype: int) -> DType:
    """uint8, or what ``output_dtype`` or the zero point says."""
    if zero_point is None:
        return dtype_of_code(output_dtype) if output_dtype else uint8
    if output_dtype and dtype_of_code(output_dtype) != zero_point.dtype:
        raise DTypeError(
            f"output_dtype {dtype_name(dtype_of_code(output_dtype))} is that of the zero point, "
            f"{dtype_name(zero_point.dtype)}"
        )
    return zero_point.dtype


@operator("QuantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def quantize_linear(
    x: T1,
    y_scale: T2,
    y_zero_point: T3 | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: Flag = 1,
) -> T3:
    """saturate(round(x / y_scale) + y_zero_point), divided in ``precision`` or the dtype of the scale.

    Source: ONNX QuantizeLinear-28
    """
    kind = None if y_zero_point is None else waist.tensor_type(y_zero_point)
    wanted = _quantized_dtype(kind, output_dtype)
    exact = dtype_of_code(precision) if precision else y_scale.dtype
    if exact.itemsize == 1 or is_integer(exact):
        exact = float64 if is_integer(exact) else float32
    scale = waist.cast_to(spread_scale(y_scale, x, axis, block_size), exact)
    zero = None if y_zero_point is None else spread_scale(y_zero_point, x, axis, block_size)
    return quantize(waist.cast_to(x, exact) / scale, zero, wanted, saturate)


@quantize_linear.infer
def _quantize_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    zero_point = inputs[2] if len(inputs) > 2 else None
    return [TensorType(_quantized_dtype(zero_point, attributes.get("output_dtype", 0)), None)]


@operator("DequantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(
    x: T1,
    x_scale: T2,
    x_zero_point: T1 | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> T3:
    """(x - x_zero_point) * x_scale, in ``output_dtype`` or the dtype of the scale.  Source: ONNX DequantizeLinear-28"""
    wanted = dtype_of_code(output_dtype) if output_dtype else x_scale.dtype
    wide = compute_dtype(wanted)
    moved = waist.cast_to(x, int32 if is_integer(x.dtype) else wide)
    if x_zero_point is not None:
        zero = spread_scale(x_zero_point, x, axis, block_size)
        moved = moved - waist.cast_to(zero, moved.dtype)
    scale = waist.cast_to(spread_scale(x_scale, x, axis, block_size), wide)
    return waist.cast_to(waist.cast_to(moved, wide) * scale, wanted)


@dequantize_linear.infer
def _dequantize_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    code = attributes.get("output_dtype", 0)
    return [TensorType(dtype_of_code(code) if code else inputs[1].dtype, None)]


@operator("DynamicQuantizeLinear", since=(11,), meaning=11)
def dynamic_quantize_linear(x: T1) -> tuple[T2, Float32, T2]:
    """Quantize to uint8 by the range of the data, which is made to hold 0; of zeros alone the scale is 1.

    Source: ONNX DynamicQuantizeLinear-11
    """
    zero, levels = waist.constant(0, x.dtype), waist.constant(255, x.dtype)
    axes = tuple(range(x.ndim))
    low = waist.map("min", fold_axes("min", x, axes, 0), zero)
    high = waist.map("max", fold_axes("max", x, axes, 0), zero)
    scale = (high - low) / levels
    scale = waist.map("select", waist.map("eq", scale, zero), waist.constant(1, x.dtype), scale)
    middle = quantize(-low / scale, None, uint8)
    return quantize(x / scale, middle, uint8), scale, middle


@dynamic_quantize_linear.infer
def _dynamic_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(uint8, None), TensorType(float32, None), TensorType(uint8, None)]
