"""com.microsoft: weights of few bits in blocks, each with a scale and mostly a zero point of its own."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import DTYPES, DType, compute_dtype, dtype_name, int64, is_float, uint8
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, plus, scalar, times
from burnx.ops.kinds import T1, T2, T3, T4, Count, Tind
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.quantization import spread_scale
from burnx.shape import Dim, product
from burnx.tensor import Tensor

BIT_WIDTHS = (2, 4, 8)
int4, uint4 = DTYPES["int4"], DTYPES["uint4"]


def unpacked(x: Tensor, bits: int) -> Tensor:
    """The numbers in bytes, the low bits first.  Shapes: (*s, n) -> (*s, n * 8 / bits)"""
    each = 8 // bits
    if each == 1:
        return x
    column = waist.reshape(x, (*x.shape, 1))
    steps = waist.cast_to(times(waist.iota(each), scalar(bits, waist.iota(each))), uint8)
    shifted = waist.map("shift_right", column, steps)
    parts = waist.map("bit_and", shifted, waist.constant(2**bits - 1, uint8))
    return waist.reshape(parts, (*x.shape[:-1], x.shape[-1] * each))


def check_blocks(name: str, bits: int, block_size: int) -> None:
    """Raises: ModelError unless blocks are of a power of 2 of numbers, 16 or more, of 2, 4 or 8 bits."""
    if bits not in BIT_WIDTHS:
        raise ModelError(f"{name} takes weights of 2, 4 or 8 bits, not {bits}")
    if block_size < 16 or block_size & (block_size - 1):
        raise ModelError(f"{name} takes blocks of a power of 2, at least 16, not {block_size}")


# ---------------------------------------------------------------------------------------- MatMulNBits
@operator("MatMulNBits", since=(1,), domain=MICROSOFT, ranks={"a": -1, "g_idx": 1, "bias": 1})
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
    block_size: Count = REQUIRED,  # type: ignore[assignment]
    weight_prepacked: int = 0,
) -> T1:
    """a times the transpose of a weight stored in blocks of few bits, each with a scale and a zero point.

    ``accuracy_level`` allows an engine to be less exact, which burnx makes no use of.  ``g_idx`` names the block
    whose scale and zero point each of the K columns has.  A weight without elements counts as zeros.
    Shapes: a (*s, K), b (N, blocks, block bytes), scales (N, blocks) -> (*s, N).
    Source: onnxruntime com.microsoft MatMulNBits-1
    """
    check_blocks("MatMulNBits", bits, block_size)
    if weight_prepacked:
        raise ModelError(
            f"MatMulNBits takes weights as they are in files, not weight_prepacked {weight_prepacked}"
        )
    wide = compute_dtype(a.dtype)
    if 0 in b.shape:
        result = waist.broadcast(waist.constant(0, wide), (*a.shape[:-1], N))
    else:
        size = (N, K, block_size)
        weight = _weight_of(b, scales, zero_points, g_idx, size, bits, wide)
        left = waist.cast_to(a, wide)
        result = waist.contract(left, weight, ((), ()), ((a.ndim - 1,), (1,)))
    if bias is not None:
        result = plus(result, waist.cast_to(bias, wide))
    return waist.cast_to(result, a.dtype)


mat_mul_n_bits.limit(
    "weight_prepacked: the layout of a CUDA kernel, which no document describes",
    tests="matmulnbits.*prepacked",
)


def _weight_of(
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    g_idx: Tensor | None,
    size: tuple[int, int, int],
    bits: int,
    dtype: DType,
) -> Tensor:
    """Shapes: -> (N, K)"""
    N, K, block_size = size
    blocks = -(-K // block_size)
    numbers = unpacked(waist.reshape(b, (N, blocks, block_size * bits // 8)), bits)
    zero = _block_zeros(zero_points, N, blocks, bits, dtype)
    scale = waist.cast_to(waist.reshape(scales, (N, blocks)), dtype)
    if g_idx is None:
        column = (N, blocks, 1)
        moved = waist.map("sub", waist.cast_to(numbers, dtype), waist.reshape(zero, column))
        real = times(moved, waist.reshape(scale, column))
        return waist.slice_axis(waist.reshape(real, (N, blocks * block_size)), 1, 0, K)
    flat = waist.slice_axis(waist.reshape(numbers, (N, blocks * block_size)), 1, 0, K)
    group = waist.slice_axis(g_idx, 0, 0, K)
    zero, scale = (waist.take(each, group, 1) for each in (zero, scale))
    return times(waist.map("sub", waist.cast_to(flat, dtype), zero), scale)


def _block_zeros(given: Tensor | None, rows: int, blocks: int, bits: int, dtype: DType) -> Tensor:
    """Shapes: -> (rows, blocks)"""
    if given is None:
        return waist.broadcast(waist.constant(2 ** (bits - 1), dtype), (rows, blocks))
    if is_float(given.dtype):
        return waist.cast_to(waist.reshape(given, (rows, blocks)), dtype)
    packed = waist.reshape(given, (rows, -(-blocks * bits // 8)))
    return waist.cast_to(waist.slice_axis(unpacked(packed, bits), 1, 0, blocks), dtype)


# ---------------------------------------------------------------------------------------- GatherBlockQuantized
@operator("GatherBlockQuantized", since=(1,), domain=MICROSOFT, ranks={"data": -1, "scales": -1})
def gather_block_quantized(
    data: T1,
    indices: Tind,
    scales: T2,
    zero_points: T1 | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> T2:
    """Slices of a tensor quantized in blocks, as floats; an index out of range gives zeros.

    Numbers in bytes are packed along the last axis, their zero point is in the middle unless it is given.
    Source: onnxruntime com.microsoft GatherBlockQuantized-1
    """
    axis, blocked = normal_axis(gather_axis, data.ndim), normal_axis(quantize_axis, data.ndim)
    in_bytes = data.dtype == uint8
    _check_gathered(data, zero_points, bits, block_size)
    if in_bytes and (axis != 0 or blocked != data.ndim - 1 or axis == blocked):
        raise ModelError(
            "GatherBlockQuantized of bytes gathers along axis 0 and has its blocks along the last one, "
            f"not {gather_axis} and {quantize_axis}"
        )
    width = bits if in_bytes else 8
    place, inside = _place_in(indices, data.shape[axis])
    before = axis != blocked  # slices of the blocks themselves are taken once they are numbers
    taken, scale, zero = (
        _rows(each, place, axis, data.shape[axis]) if before else each
        for each in (data, scales, zero_points)
    )
    assert taken is not None and scale is not None
    real = _gathered_numbers(taken, scale, zero, width, (blocked, block_size))
    real = real if before else waist.take(real, place, axis)
    column = [place.shape[0] if place_of == axis else 1 for place_of in range(real.ndim)]
    real = waist.map("select", waist.reshape(inside, column), real, scalar(0, real))
    shape = (*real.shape[:axis], *indices.shape, *real.shape[axis + 1 :])
    return waist.cast_to(waist.reshape(real, shape), scales.dtype)


def _check_gathered(data: Tensor, zero_points: Tensor | None, bits: int, block_size: int) -> None:
    if is_float(data.dtype) and zero_points is not None:
        raise ModelError("GatherBlockQuantized of floats takes no zero points")
    if not (is_float(data.dtype) and block_size == 0):
        width = 8 if is_float(data.dtype) else bits
        check_blocks("GatherBlockQuantized", width, block_size)
    if data.dtype in (int4, uint4) and bits != 4:
        raise ModelError(f"GatherBlockQuantized of {dtype_name(data.dtype)} has 4 bits, not {bits}")


def _place_in(indices: Tensor, length: Dim) -> tuple[Tensor, Tensor]:
    """The indices in a row, those out of range as 0, and which of them are in range."""
    row = waist.reshape(waist.cast_to(indices, int64), (product(indices.shape),))
    size = waist.reshape(waist.sizes(length), ())
    negative = waist.map("lt", row, scalar(0, row))
    counted = waist.map("select", negative, plus(row, size), row)
    inside = waist.map(
        "and", waist.map("le", scalar(0, row), counted), waist.map("lt", counted, size)
    )
    return waist.map("select", inside, counted, scalar(0, row)), inside


def _rows(x: Tensor | None, place: Tensor, axis: int, length: Dim) -> Tensor | None:
    """The slices of x, unless its only one is for all."""
    shared = x is None or (x.shape[axis] == 1 and length != 1)
    return x if x is None or shared else waist.take(x, place, axis)


def _gathered_numbers(
    x: Tensor, scale: Tensor, zero: Tensor | None, bits: int, blocks: tuple[int, int]
) -> Tensor:
    """(x - zero) scale, x and zero packed along the last axis if they have fewer bits than a byte."""
    axis, block_size = blocks
    wide = compute_dtype(scale.dtype)
    numbers = waist.cast_to(unpacked(x, bits) if bits < 8 else x, wide)
    if zero is not None:
        own = unpacked(zero, bits) if bits < 8 else zero
        own = waist.slice_axis(own, axis, 0, scale.shape[axis]) if bits < 8 else own
        own = spread_scale(waist.cast_to(own, wide), numbers, axis, block_size)
        numbers = waist.map("sub", numbers, own)
    elif x.dtype == uint8:
        numbers = waist.map("sub", numbers, scalar(2 ** (bits - 1), numbers))
    factor = waist.cast_to(scale, wide)
    return times(numbers, spread_scale(factor, numbers, axis, block_size) if block_size else factor)
