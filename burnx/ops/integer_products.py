"""Products and convolutions of quantized numbers, added up in int32.

A zero point is never taken from every element.  (a - p)(b - q) = ab - p sum(b) - q sum(a) + pq n: the large product
stays one of 8-bit numbers, and the sums are small.
"""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import DType, float32, int32, is_integer
from burnx.errors import ShapeError
from burnx.ops.convolution import check_kernel
from burnx.ops.kinds import T1, T2, T3, T4, TS, Count, Float32, Int32
from burnx.ops.operator import operator
from burnx.ops.quantization import quantize
from burnx.ops.reduction import count_along
from burnx.ops.windows import Window, place_window, spatial_shape
from burnx.shape import broadcast_shapes
from burnx.tensor import Tensor

Ints = Sequence[int] | None


def _zero_point(value: Tensor | None, dtype: DType = int32) -> Tensor | None:
    """A zero point in the dtype of sums, None where it is known to be 0."""
    if value is None or (waist.is_known(value) and not waist.const(value).astype("float32").any()):
        return None
    return waist.cast_to(value, dtype)


def _wide_sum(x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
    total = waist.reduce("sum", waist.cast_to(x, int32), axes)
    if not keepdims:
        return total
    return waist.reshape(total, [1 if axis in axes else n for axis, n in enumerate(x.shape)])


# ---------------------------------------------------------------- matrices
def _stacked_product(a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    """NumPy's matmul of stacks of matrices, added up in ``dtype``."""
    if b.ndim == 2:
        return waist.contract(a, b, ((), ()), ([a.ndim - 1], [0]), dtype)
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = waist.broadcast(a, (*batch, *a.shape[-2:]))
    right = waist.broadcast(b, (*batch, *b.shape[-2:]))
    axes, rows = tuple(range(len(batch))), len(batch)
    return waist.contract(left, right, (axes, axes), ([rows + 1], [rows]), dtype)


def _per_row(value: Tensor, a: Tensor) -> Tensor:
    """A number for each row of a, shaped so that it broadcasts with a: a vector becomes a column."""
    if value.ndim != 1 or a.ndim < 2:
        return value
    return waist.reshape(value, [value.shape[0], 1])


def _matrix_product(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """(a - a_zero) @ (b - b_zero) of 8-bit matrices in int32; of float8 ones in float32."""
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("a matrix product takes vectors and matrices, not scalars")
    left = waist.reshape(a, [1, *a.shape]) if a.ndim == 1 else a
    right = waist.reshape(b, [*b.shape, 1]) if b.ndim == 1 else b
    row_zero = None if a_zero is None else _per_row(a_zero, a)
    if is_integer(a.dtype):
        y = _corrected_product(left, right, _zero_point(row_zero), _zero_point(b_zero))
    else:
        left, right = (
            waist.cast_to(x, float32) - waist.cast_to(zero, float32) if zero is not None else x
            for x, zero in ((left, row_zero), (right, b_zero))
        )
        y = _stacked_product(left, right, float32)
    kept = y.shape if a.ndim > 1 else (*y.shape[:-2], y.shape[-1])
    return waist.reshape(y, kept if b.ndim > 1 else kept[:-1])


def _corrected_product(
    a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None
) -> Tensor:
    y = _stacked_product(a, b, int32)
    if a_zero is not None:
        y = y - a_zero * _wide_sum(b, [b.ndim - 2])
    if b_zero is not None:
        row_sums = _wide_sum(a, [a.ndim - 1])
        if a_zero is not None:
            row_sums = row_sums - a_zero * count_along(a, (a.ndim - 1,), int32)
        y = y - b_zero * row_sums
    return y


@operator("MatMulInteger", since=(10,), meaning=10)
def mat_mul_integer(
    a: T1, b: T2, a_zero_point: T1 | None = None, b_zero_point: T2 | None = None
) -> Int32:
    """(a - a_zero_point) @ (b - b_zero_point) in int32.  Source: ONNX MatMulInteger-10"""
    return _matrix_product(a, b, a_zero_point, b_zero_point)


@operator("QLinearMatMul", since=(10, 21), meaning=10)
def q_linear_mat_mul(
    a: T1,
    a_scale: TS,
    a_zero_point: T1,
    b: T2,
    b_scale: TS,
    b_zero_point: T2,
    y_scale: TS,
    y_zero_point: T3,
) -> T3:
    """A matrix product of quantized numbers, quantized again.  Source: ONNX QLinearMatMul-21"""
    product = _matrix_product(a, b, a_zero_point, b_zero_point)
    left, right, out = (waist.cast_to(scale, float32) for scale in (a_scale, b_scale, y_scale))
    factor = _per_row(left, a) * right / _per_row(out, product)
    moved = waist.cast_to(product, float32) * factor
    zero = _per_row(y_zero_point, product)
    return quantize(moved, zero, y_zero_point.dtype)


# ---------------------------------------------------------------- convolutions
def _integer_window(x: Tensor, w: Tensor, kernel_shape: Ints, **attributes: object) -> Window:
    spatial = spatial_shape(x, "an integer convolution")
    check_kernel(w, kernel_shape, len(spatial))
    return place_window(spatial, w.shape[2:], **attributes)  # type: ignore[arg-type]


def _per_filter(values: Tensor, rank: int) -> Tensor:
    """A scalar, or a number for each output channel, so that it broadcasts along axis 1."""
    if values.ndim == 0:
        return values
    return waist.reshape(values, [values.shape[0], *[1] * (rank - 2)])


def _integer_conv(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None,
    w_zero: Tensor | None,
    window: Window,
    group: int,
) -> Tensor:
    """The convolution of (x - x_zero) with (w - w_zero); the padding is x_zero, which counts as 0."""
    lead = [0, 0]
    fill = waist.constant(0, x.dtype) if x_zero is None else waist.reshape(x_zero, ())
    padded = waist.pad(x, fill, [*lead, *window.low], [*lead, *window.high])
    x_wide, w_wide = _zero_point(x_zero), _zero_point(w_zero)
    y = _conv_int32(padded, w, window, group)
    if x_wide is not None:
        sums = _wide_sum(w, tuple(range(1, w.ndim)), keepdims=False)
        y = y - _per_filter(waist.reshape(x_wide, ()) * sums, x.ndim)
    if w_wide is not None:
        under = _sum_under_window(padded, w, window, group)
        if x_wide is not None:
            per_place = count_along(w, tuple(range(1, w.ndim)), int32)
            under = under - waist.reshape(x_wide, ()) * per_place
        y = y - _per_filter(w_wide, x.ndim) * under
    return waist.reshape(y, [*y.shape[:2], *window.out])


def _conv_int32(x: Tensor, w: Tensor, window: Window, group: int) -> Tensor:
    none = [(0, 0)] * window.rank
    return waist.conv(x, w, window.strides, none, window.dilations, groups=group, dtype=int32)


def _sum_under_window(x: Tensor, w: Tensor, window: Window, group: int) -> Tensor:
    """What each filter's window adds up to, once for each output channel.

    Shapes: (n, c, *s) -> (n, m, *o).
    """
    ones = waist.broadcast(waist.constant(1, w.dtype), (group, *w.shape[1:]))
    sums = _conv_int32(x, ones, window, group)
    n, _, *out = sums.shape
    each = w.shape[0] // group
    wide = waist.broadcast(waist.reshape(sums, [n, group, 1, *out]), (n, group, each, *out))
    return waist.reshape(wide, [n, w.shape[0], *out])


@operator("ConvInteger", since=(10,), meaning=10)
def conv_integer(
    x: T1,
    w: T2,
    x_zero_point: T1 | None = None,
    w_zero_point: T2 | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Int32:
    """The convolution of (x - x_zero_point) with (w - w_zero_point) in int32.  Source: ONNX ConvInteger-10"""
    window = _integer_window(
        x, w, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides
    )
    return _integer_conv(x, w, x_zero_point, w_zero_point, window, group)


@operator("QLinearConv", since=(10,), meaning=10)
def q_linear_conv(
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
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T3:
    """A convolution of quantized numbers with a bias in int32, quantized again.  Source: ONNX QLinearConv-10"""
    window = _integer_window(
        x, w, kernel_shape, auto_pad=auto_pad, dilations=dilations, pads=pads, strides=strides
    )
    y = _integer_conv(x, w, x_zero_point, w_zero_point, window, group)
    if b is not None:
        y = y + _per_filter(waist.cast_to(b, int32), x.ndim)
    factor = waist.reshape(x_scale, ()) * w_scale / waist.reshape(y_scale, ())
    moved = waist.cast_to(y, float32) * _per_filter(factor, x.ndim)
    return quantize(moved, waist.reshape(y_zero_point, ()), y_zero_point.dtype)
