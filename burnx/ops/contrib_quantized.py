"""com.microsoft: products of quantized matrices."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import DType, compute_dtype, float32, int32
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, find, plus, times
from burnx.ops.kinds import T1, T2, T3
from burnx.ops.operator import operator
from burnx.shape import shape_text
from burnx.tensor import Tensor


def column_wise(x: Tensor) -> Tensor:
    """A scale or zero point of each column of a matrix, or of the whole, ready to be broadcast.

    Raises: ModelError if it is for something else.
    """
    if x.ndim == 1:
        return waist.reshape(x, ()) if x.shape[0] == 1 else x
    if x.ndim > 1 and isinstance(x.shape[-2], int) and x.shape[-2] != 1:
        raise ModelError(
            "a scale or zero point is for the whole matrix or for each column, "
            f"not {shape_text(x.shape)}"
        )
    # a row that is not known to be the only one: there is none but it, or that is an error while running
    return waist.reshape(x, (*x.shape[:-2], 1, x.shape[-1])) if x.ndim > 1 else x


def _moved(x: Tensor, zero: Tensor | None) -> Tensor:
    whole = waist.cast_to(x, int32)
    return whole if zero is None else waist.map("sub", whole, waist.cast_to(zero, int32))


def integer_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """(a - a_zero) (b - b_zero) in int32, of zero points of the whole or of each column."""
    a_zero, b_zero = (None if zero is None else column_wise(zero) for zero in (a_zero, b_zero))
    if a_zero is not None and a_zero.ndim:
        return _wide_product(_moved(a, a_zero), _moved(b, b_zero))
    result: Tensor = find("MatMulInteger")(a, b, a_zero, b_zero)
    return result


def _wide_product(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = find("MatMul")(a, b)
    return result


def _scaled(product: Tensor, scale: Tensor, bias: Tensor | None, dtype: DType) -> Tensor:
    """The product in floats, times a scale, plus a bias."""
    wide = compute_dtype(dtype)
    result = times(waist.cast_to(product, wide), waist.cast_to(scale, wide))
    result = result if bias is None else plus(result, waist.cast_to(bias, wide))
    return waist.cast_to(result, dtype)


@operator("MatMulIntegerToFloat", since=(1,), domain=MICROSOFT)
def mat_mul_integer_to_float(
    a: T1,
    b: T2,
    a_scale: T3,
    b_scale: T3,
    a_zero_point: T1 | None = None,
    b_zero_point: T2 | None = None,
    bias: T3 | None = None,
) -> T3:
    """The product of two quantized matrices as floats; scales and zero points may be those of columns.

    Source: onnxruntime com.microsoft MatMulIntegerToFloat-1
    """
    left, right = column_wise(a_scale), column_wise(b_scale)
    dtype = a_scale.dtype
    if (
        left.ndim
    ):  # the columns of a are summed over, so that their scales do not stand before the sum
        zero = None if a_zero_point is None else column_wise(a_zero_point)
        wide = compute_dtype(dtype)
        real = times(waist.cast_to(_moved(a, zero), wide), waist.cast_to(left, wide))
        zero = None if b_zero_point is None else column_wise(b_zero_point)
        product = _wide_product(real, waist.cast_to(_moved(b, zero), wide))
        return _scaled(product, right, bias, dtype)
    product = integer_product(a, b, a_zero_point, b_zero_point)
    wide_scale = times(*(waist.cast_to(each, compute_dtype(dtype)) for each in (left, right)))
    return _scaled(product, wide_scale, bias, dtype)


@operator("DynamicQuantizeMatMul", since=(1,), domain=MICROSOFT)
def dynamic_quantize_mat_mul(
    a: T1,
    b: T2,
    b_scale: T1,
    b_zero_point: T2 | None = None,
    bias: T1 | None = None,
) -> T1:
    """a, quantized by its own range, times a quantized matrix.

    Source: onnxruntime com.microsoft DynamicQuantizeMatMul-1
    """
    quantized, scale, zero = find("DynamicQuantizeLinear")(a)
    product = integer_product(quantized, b, zero, b_zero_point)
    return _scaled(product, times(scale, column_wise(b_scale)), bias, float32)
