"""com.microsoft: weights whose four bits stand in a table, and weights as a kernel packs them."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype, int64
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, times
from burnx.ops.kinds import T1, T2, Count, Flag
from burnx.ops.operator import REQUIRED, operator

# sixteen levels that a normal distribution fills evenly: Dettmers et al. 2023, QLoRA, appendix E
_NORMAL = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
# a sign and three bits, the tiniest of which is 1/192
_FLOAT = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
CODES = {0: (*_FLOAT, *(-each for each in _FLOAT)), 1: _NORMAL}


@operator("MatMulBnb4", since=(1,), domain=MICROSOFT)
def mat_mul_bnb4(
    a: T1,
    b: T2,
    absmax: T1,
    *,
    K: int = REQUIRED,  # type: ignore[assignment]
    N: int = REQUIRED,  # type: ignore[assignment]
    block_size: Count = REQUIRED,  # type: ignore[assignment]
    quant_type: int = REQUIRED,  # type: ignore[assignment]
    training_mode: Flag = 0,
    transB: Flag = 1,
) -> T1:
    """a times a weight of codes of four bits, the first in the high bits; each block of the flat weight has its scale.

    Shapes: a (*s, K), the weight (N, K) -> (*s, N), or (*s, N) -> (*s, K) without ``transB``.
    Source: onnxruntime com.microsoft MatMulBnb4-1
    """
    if quant_type not in CODES:
        raise ModelError(f"MatMulBnb4 knows quant_type 0 (FP4) and 1 (NF4), not {quant_type}")
    if block_size < 16 or block_size & (block_size - 1):
        raise ModelError(f"MatMulBnb4 takes blocks of a power of 2, at least 16, not {block_size}")
    wide = compute_dtype(a.dtype)
    count, blocks = N * K, -(-N * K // block_size)
    pairs = waist.reshape(b, ((count + 1) // 2, 1))
    codes = waist.concat(
        [
            waist.map("shift_right", pairs, waist.constant(4, b.dtype)),
            waist.map("bit_and", pairs, waist.constant(15, b.dtype)),
        ],
        1,
    )
    filled = (count + 1) // 2 * 2
    flat = waist.cast_to(waist.reshape(codes, (filled,)), int64)
    levels = waist.take(waist.constant(CODES[quant_type], wide), flat, 0)
    padded = waist.pad(levels, waist.constant(0, wide), [0], [blocks * block_size - filled])
    real = times(
        waist.reshape(padded, (blocks, block_size)),
        waist.reshape(waist.cast_to(absmax, wide), (blocks, 1)),
    )
    weight = waist.slice_axis(waist.reshape(real, (blocks * block_size,)), 0, 0, count)
    result = waist.contract(
        waist.cast_to(a, wide),
        waist.reshape(weight, (N, K)),
        ((), ()),
        ((a.ndim - 1,), (1 if transB else 0,)),
    )
    return waist.cast_to(result, a.dtype)
