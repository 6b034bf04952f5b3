"""com.microsoft: attention with its projections."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError
from burnx.ops.attending import rotated
from burnx.ops.attention_parts import (
    divided,
    join_heads,
    number,
    places,
    size_scalar,
    split_heads,
)
from burnx.ops.contrib_attention_parts import (
    HIDDEN,
    Heads,
    Scoring,
    appended,
    attend,
    causal_mask,
    padding_bias,
)
from burnx.ops.contrib_fused import MICROSOFT
from burnx.ops.contrib_rotary import positions
from burnx.ops.kinds import Count, Flag, M, T
from burnx.ops.linalg import mat_mul
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim
from burnx.tensor import Tensor


@operator(
    "Attention",
    since=(1,),
    domain=MICROSOFT,
    outputs=1,
    ranks={"input": 3, "weights": 2, "bias": 1, "past": 5, "attention_bias": 4},
)
def attention(
    input: T,
    weights: T,
    bias: T | None = None,
    mask_index: M | None = None,
    past: T | None = None,
    attention_bias: T | None = None,
    past_sequence_length: M | None = None,
    *,
    do_rotary: Flag = 0,
    mask_filter_value: float = HIDDEN,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
    past_present_share_buffer: Flag = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: Flag = 0,
) -> tuple[T, T]:
    """Attention of what one product with packed weights gives as queries, keys and values.

    Shapes: (batch, seq, hidden), (hidden, q + k + v) -> (batch, seq, v); the past (2, batch, heads, past, size).
    Source: onnxruntime com.microsoft Attention-1
    """
    if past_present_share_buffer and (past is None or past_sequence_length is None):
        raise ModelError("past_present_share_buffer goes with past and past_sequence_length")
    q, k, v = _projected(input, weights, bias, num_heads, qkv_hidden_sizes)
    length = past_sequence_length if past_present_share_buffer else None
    if do_rotary:
        begin = _begin(past, length)
        q, k = (_by_tenthousands(each, begin, rotary_embedding_dim) for each in (q, k))
    past_key, past_value = (None, None) if past is None else _halves(past)
    k, kept_key, before = appended(past_key, k, length)
    v, kept_value, _ = appended(past_value, v, length)
    how = Scoring(
        scale,
        biases=(
            attention_bias,
            padding_bias(mask_index, q, (k.shape[2], before), mask_filter_value),
        ),
        visible=causal_mask(q.shape[2], k.shape[2], before) if unidirectional else None,
    )
    result, _, _ = attend(Heads(q, k, v), how)
    output = waist.cast_to(join_heads(result), input.dtype)
    if kept_key.shape != kept_value.shape:
        return (output,)  # type: ignore[return-value]
    kept = [waist.reshape(each, (1, *each.shape)) for each in (kept_key, kept_value)]
    return output, waist.cast_to(waist.concat(kept, 0), input.dtype)


def _projected(
    x: Tensor, weights: Tensor, bias: Tensor | None, heads: int, sizes: Sequence[int] | None
) -> list[Tensor]:
    """Queries, keys and values.  Shapes: -> (batch, heads, seq, size) each"""
    wide = compute_dtype(x.dtype)
    product: Tensor = mat_mul(waist.cast_to(x, wide), waist.cast_to(weights, wide))
    if bias is not None:
        product = waist.map("add", product, waist.cast_to(bias, wide))
    third = divided(product.shape[2], 3, "the width of the weights") if not sizes else 0
    widths: list[Dim] = [third] * 3 if not sizes else list(sizes)
    if len(widths) != 3:
        raise ModelError(f"qkv_hidden_sizes has 3 sizes, not {len(widths)}")
    starts: list[Dim] = [0, widths[0], widths[0] + widths[1]]
    return [
        split_heads(waist.slice_axis(product, 2, start, width), heads)
        for start, width in zip(starts, widths, strict=True)
    ]


def _halves(past: Tensor) -> list[Tensor]:
    """Shapes: (2, *s) -> (*s) and (*s)"""
    return [waist.reshape(waist.slice_axis(past, 0, n, 1), past.shape[1:]) for n in (0, 1)]


def _begin(past: Tensor | None, length: Tensor | None) -> Tensor:
    if length is not None:
        return length
    return size_scalar(0 if past is None else past.shape[3])


def _by_tenthousands(x: Tensor, begin: Tensor, turned: Dim) -> Tensor:
    """Rotary embedding of halves whose angles are position / 10000^(2 i / turned)."""
    seq, size = x.shape[2], x.shape[3]
    turned = turned or size
    half = divided(turned, 2, "the rotated size")
    steps = waist.cast_to(places(half, (1, 1, half)), x.dtype)
    share = waist.map("div", steps, waist.cast_to(size_scalar(half), x.dtype))
    rates = waist.map(
        "pow", waist.broadcast(number(10000, x), share.shape), waist.map("neg", share)
    )
    here = waist.reshape(positions(begin, seq), (seq, 1))
    angles = waist.map("mul", waist.cast_to(here, x.dtype), rates)
    angles = waist.reshape(angles, (1, 1, seq, half))
    part = waist.slice_axis(x, 3, 0, turned)
    done = rotated(part, waist.map("cos", angles), waist.map("sin", angles), False)
    if turned == size:
        return done
    return waist.concat([done, waist.slice_axis(x, 3, turned, size - turned)], 3)
