"""com.microsoft: products and sums of quantized tensors."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import DType, compute_dtype, float32, int32, is_float, uint8
from burnx.errors import ModelError, ShapeError
from burnx.ops.contrib_fused import MICROSOFT, find, plus, scalar, times
from burnx.ops.kinds import T1, T2, T3, T4, T5, T
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor


def _less(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("sub", left, right)


def _unpacked(x: Tensor, bits: int) -> Tensor:
    """The numbers in bytes, the low bits first.  Shapes: (*s, n) -> (*s, n * 8 / bits)"""
    each = 8 // bits
    if each == 1:
        return x
    column = waist.reshape(x, (*x.shape, 1))
    steps = waist.cast_to(times(waist.iota(each), scalar(bits, waist.iota(each))), uint8)
    shifted = waist.map("shift_right", column, steps)
    parts = waist.map("bit_and", shifted, waist.constant(2**bits - 1, uint8))
    return waist.reshape(parts, (*x.shape[:-1], x.shape[-1] * each))


@operator("MatMulNBits", since=(1,), domain=MICROSOFT)
def mat_mul_n_bits(
    a: T1,
    b: T2,
    scales: T1,
    zero_points: T3 | None = None,
    g_idx: T4 | None = None,
    bias: T1 | None = None,
    *,
    K: int = REQUIRED,  # type: ignore[assignment]
    N: int = REQUIRED,  # type: ignore[assignment]
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int = REQUIRED,  # type: ignore[assignment]
    weight_prepacked: int = 0,
) -> T1:
    """a times the transpose of a weight stored in blocks of few bits, each with a scale and a zero point.

    Shapes: a (*s, K), b (N, blocks, block bytes), scales (N, blocks) -> (*s, N).
    Source: onnxruntime com.microsoft MatMulNBits-1
    """
    if bits not in (2, 4, 8) or weight_prepacked:
        raise ModelError(f"MatMulNBits takes plain weights of 2, 4 or 8 bits, not {bits}")
    if g_idx is not None:
        raise ModelError("MatMulNBits takes no order of columns (g_idx)")
    blocks = -(-K // block_size)
    wide = compute_dtype(a.dtype)
    numbers = _unpacked(waist.reshape(b, (N, blocks, block_size * bits // 8)), bits)
    weight = waist.cast_to(numbers, wide)
    if zero_points is None:
        weight = _less(weight, waist.constant(2 ** (bits - 1), wide))
    else:
        weight = _less(weight, _zero_points(zero_points, N, blocks, bits, wide))
    weight = times(weight, waist.cast_to(waist.reshape(scales, (N, blocks, 1)), wide))
    weight = waist.slice_axis(waist.reshape(weight, (N, blocks * block_size)), 1, 0, K)
    left = waist.cast_to(a, wide)
    result = waist.contract(left, weight, ((), ()), ((a.ndim - 1,), (1,)))
    if bias is not None:
        result = plus(result, waist.cast_to(bias, wide))
    return waist.cast_to(result, a.dtype)


def _zero_points(given: Tensor, rows: int, blocks: int, bits: int, dtype: DType) -> Tensor:
    """Shapes: -> (rows, blocks, 1)"""
    if is_float(given.dtype):
        return waist.cast_to(waist.reshape(given, (rows, blocks, 1)), dtype)
    packed = waist.reshape(given, (rows, -(-blocks * bits // 8)))
    own = waist.slice_axis(_unpacked(packed, bits), 1, 0, blocks)
    return waist.cast_to(waist.reshape(own, (rows, blocks, 1)), dtype)


def _column_wise(x: Tensor) -> Tensor:
    """A scale or zero point of each column of a matrix, or of the whole, ready to be broadcast."""
    if x.ndim > 1 and x.shape[-2] != 1:
        x = waist.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    return waist.reshape(x, ()) if x.ndim == 1 and x.shape[0] == 1 else x


def _scaled_product(
    a: Tensor,
    b: Tensor,
    zeros: Sequence[Tensor | None],
    scales: Sequence[Tensor],
    bias: Tensor | None,
) -> Tensor:
    """(a - zero) (b - zero) times both scales, plus a bias; exact before it is scaled."""
    operands = []
    for x, zero in zip((a, b), zeros, strict=True):
        whole = waist.cast_to(x, int32)
        if zero is not None:
            whole = _less(whole, waist.cast_to(_column_wise(zero), int32))
        operands.append(whole)
    product: Tensor = waist.cast_to(find("MatMul")(*operands), float32)
    factor = times(*(_column_wise(scale) for scale in scales))
    result = times(product, factor)
    return result if bias is None else plus(result, bias)


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
    """The product of two quantized matrices as floats.  Source: onnxruntime com.microsoft MatMulIntegerToFloat-1"""
    return _scaled_product(a, b, (a_zero_point, b_zero_point), (a_scale, b_scale), bias)


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
    return _scaled_product(quantized, b, (zero, b_zero_point), (scale, b_scale), bias)


# ---------------------------------------------------------------------------------------- elementwise
def _real(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    whole = waist.cast_to(x, int32)
    if zero is not None:
        whole = _less(whole, waist.cast_to(waist.reshape(zero, ()), int32))
    return times(waist.cast_to(whole, float32), waist.reshape(scale, ()))


def _stored(x: Tensor, scale: Tensor, zero: Tensor | None, dtype: DType) -> Tensor:
    """Rounded half to even, moved by the zero point, and saturated."""
    whole = waist.map("round", waist.map("div", x, waist.reshape(scale, ())))
    if zero is not None:
        whole = plus(whole, waist.cast_to(waist.reshape(zero, ()), float32))
    return waist.cast_to(whole, dtype)


@operator("QLinearAdd", since=(1,), domain=MICROSOFT)
def q_linear_add(
    a: T,
    a_scale: T1,
    a_zero_point: T | None,
    b: T,
    b_scale: T1,
    b_zero_point: T | None,
    c_scale: T1,
    c_zero_point: T | None = None,
) -> T:
    """The sum of two quantized tensors, quantized.  Source: onnxruntime com.microsoft QLinearAdd-1"""
    total = plus(_real(a, a_scale, a_zero_point), _real(b, b_scale, b_zero_point))
    return _stored(total, c_scale, c_zero_point, a.dtype)


@operator("QLinearMul", since=(1,), domain=MICROSOFT)
def q_linear_mul(
    a: T,
    a_scale: T1,
    a_zero_point: T | None,
    b: T,
    b_scale: T1,
    b_zero_point: T | None,
    c_scale: T1,
    c_zero_point: T | None = None,
) -> T:
    """The product of two quantized tensors, quantized.  Source: onnxruntime com.microsoft QLinearMul-1"""
    product = times(_real(a, a_scale, a_zero_point), _real(b, b_scale, b_zero_point))
    return _stored(product, c_scale, c_zero_point, a.dtype)


@operator("QLinearSigmoid", since=(1,), domain=MICROSOFT)
def q_linear_sigmoid(
    x: T, x_scale: T1, x_zero_point: T | None, y_scale: T1, y_zero_point: T | None = None
) -> T:
    """The sigmoid of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearSigmoid-1"""
    real = _real(x, x_scale, x_zero_point)
    powers = plus(waist.map("exp", waist.map("neg", real)), scalar(1, real))
    return _stored(waist.map("div", scalar(1, real), powers), y_scale, y_zero_point, x.dtype)


@operator("QLinearLeakyRelu", since=(1,), domain=MICROSOFT)
def q_linear_leaky_relu(
    x: T,
    x_scale: T1,
    x_zero_point: T | None,
    y_scale: T1,
    y_zero_point: T | None = None,
    *,
    alpha: float = 0.01,
) -> T:
    """LeakyRelu of a quantized tensor, quantized.  Source: onnxruntime com.microsoft QLinearLeakyRelu-1"""
    real = _real(x, x_scale, x_zero_point)
    positive = waist.map("le", scalar(0, real), real)
    leaked = waist.map("select", positive, real, times(real, scalar(alpha, real)))
    return _stored(leaked, y_scale, y_zero_point, x.dtype)


@operator("QLinearConcat", since=(1,), domain=MICROSOFT)
def q_linear_concat(
    y_scale: T1,
    y_zero_point: T,
    *inputs: T5,
    axis: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Quantized tensors, each with a scale and zero point of its own, joined and quantized.

    Source: onnxruntime com.microsoft QLinearConcat-1
    """
    if len(inputs) % 3:
        raise ShapeError("QLinearConcat takes a scale and a zero point with each tensor")
    parts = [_real(*inputs[place : place + 3]) for place in range(0, len(inputs), 3)]
    place = axis % parts[0].ndim
    return _stored(waist.concat(parts, place), y_scale, y_zero_point, y_zero_point.dtype)
