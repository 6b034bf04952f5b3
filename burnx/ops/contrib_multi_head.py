"""com.microsoft: attention of many heads, whose inputs may come packed and with a bias."""

from __future__ import annotations

from dataclasses import dataclass, replace

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError
from burnx.ops.attention_parts import divided, join_heads, split_heads
from burnx.ops.contrib_attention_parts import (
    HIDDEN,
    Heads,
    Scoring,
    appended,
    attend,
    causal_mask,
    of_beams,
    padding_bias,
)
from burnx.ops.contrib_fused import MICROSOFT
from burnx.ops.kinds import Count, Flag, M, T
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor


@dataclass(frozen=True, slots=True)
class _Past:
    """What earlier steps left; with ``length`` it is a buffer that is that full.

    ``beams`` says from which beam each position of each beam is read: (groups, width, longest).
    """

    key: Tensor | None
    value: Tensor | None
    length: Tensor | None
    beams: Tensor | None


@operator(
    "MultiHeadAttention",
    since=(1,),
    domain=MICROSOFT,
    outputs=1,
    ranks={
        "query": (3, 5),
        "key": (3, 4, 5),
        "value": (3, 4),
        "bias": 1,
        "attention_bias": 4,
        "past_key": 4,
        "past_value": 4,
    },
)
def multi_head_attention(
    query: T,
    key: T | None = None,
    value: T | None = None,
    bias: T | None = None,
    key_padding_mask: M | None = None,
    attention_bias: T | None = None,
    past_key: T | None = None,
    past_value: T | None = None,
    past_sequence_length: M | None = None,
    cache_indirection: M | None = None,
    *,
    mask_filter_value: float = HIDDEN,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
    scale: float | None = None,
    unidirectional: Flag = 0,
) -> tuple[T, T, T, T]:
    """Attention of queries, keys and values that may come packed; with the scores before softmax.

    Shapes: query (batch, seq, hidden) or (batch, seq, heads, 3, size); key (batch, keys, hidden),
    (batch, keys, heads, 2, size) or (batch, heads, keys, size); the past (batch, heads, past, size).
    Source: onnxruntime com.microsoft MultiHeadAttention-1
    """
    heads = _of_inputs(query, key, value, bias, num_heads)
    past = _past(past_key, past_value, past_sequence_length, cache_indirection)
    padding = (key_padding_mask, mask_filter_value)
    how = Scoring(scale, biases=(attention_bias,))
    return _stepped(heads, past, how, padding, bool(unidirectional))


@operator(
    "DecoderMaskedMultiHeadAttention",
    since=(1,),
    domain=MICROSOFT,
    outputs=1,
    ranks={"query": 3, "key": (3, 4), "value": (3, 4), "past_key": 4, "past_value": 4},
)
def decoder_masked_multi_head_attention(
    query: T,
    key: T | None = None,
    value: T | None = None,
    mask_index: M | None = None,
    attention_bias: T | None = None,
    past_key: T | None = None,
    past_value: T | None = None,
    past_sequence_length: M | None = None,
    beam_width: M | None = None,
    cache_indirection: M | None = None,
    bias: T | None = None,
    *,
    mask_filter_value: float = HIDDEN,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
    output_qk: Flag = 0,
    past_present_share_buffer: Flag = 0,
    scale: float | None = None,
) -> tuple[T, T, T, T]:
    """One step of MultiHeadAttention: a query of one position.

    Source: onnxruntime com.microsoft DecoderMaskedMultiHeadAttention-1
    """
    if past_present_share_buffer and past_sequence_length is None and past_key is not None:
        raise ModelError("past_present_share_buffer goes with past_sequence_length")
    heads = _of_inputs(query, key, value, bias, num_heads)
    length = past_sequence_length if past_present_share_buffer else None
    past = _past(past_key, past_value, length, cache_indirection)
    how = Scoring(scale, biases=(attention_bias,))
    return _stepped(heads, past, how, (mask_index, mask_filter_value), False)


def _past(
    key: Tensor | None, value: Tensor | None, length: Tensor | None, beams: Tensor | None
) -> _Past:
    if (key is None) != (value is None):
        raise ModelError("past_key and past_value go together")
    return _Past(key, value, length, beams)


def _stepped(
    heads: Heads, past: _Past, how: Scoring, padding: tuple[Tensor | None, float], causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output, the keys and values that are kept, and the scores."""
    dtype = heads.q.dtype
    k, kept_key, before = appended(past.key, heads.k, past.length)
    v, kept_value, _ = appended(past.value, heads.v, past.length)
    if past.beams is not None and before != 0:
        k, v = (of_beams(each, past.beams, before) for each in (k, v))
    if causal and before == 0:
        rule = f"unidirectional attention has as many keys as queries, {heads.q.shape[2]}"
        k = waist.with_size(k, 2, heads.q.shape[2], rule)
    mask, hidden = padding
    bias = padding_bias(mask, heads.q, (k.shape[2], before), hidden)
    visible = causal_mask(heads.q.shape[2], k.shape[2], before) if causal else None
    how = replace(how, biases=(*how.biases, bias), visible=visible)
    result, scores, _ = attend(Heads(heads.q, k, v), how)
    output = waist.cast_to(join_heads(result), dtype)
    return output, kept_key, kept_value, waist.cast_to(scores, dtype)


# ---------------------------------------------------------------------------------------- the forms of the inputs
def _of_inputs(
    query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None, heads: int
) -> Heads:
    """Queries, keys and values with their biases, whichever form they come in."""
    if key is None:
        packed = _unpacked(query, 3) if query.ndim == 5 else _side_by_side(query, heads)
        q, k, v = packed
    elif key.ndim == 5 and value is None:
        q = split_heads(query, heads)
        k, v = _unpacked(key, 2)
    elif value is None:
        raise ModelError(f"a key of the shape {shape_text(key.shape)} goes with a value")
    elif key.ndim == 4:
        q, k, v = split_heads(query, heads), key, value
    else:
        q, k, v = (split_heads(each, heads) for each in (query, key, value))
    if bias is None:
        return Heads(q, k, v)
    own = _split_bias(bias, q, v)
    q = _biased(q, own[0])
    if key is None or key.ndim != 4:
        k, v = _biased(k, own[1]), _biased(v, own[2])
    return Heads(q, k, v)


def _unpacked(x: Tensor, count: int) -> list[Tensor]:
    """Shapes: (batch, seq, heads, count, size) -> (batch, heads, seq, size) each"""
    batch, seq, heads, _, size = x.shape
    parts = [waist.slice_axis(x, 3, place, 1) for place in range(count)]
    flat = [waist.reshape(part, (batch, seq, heads, size)) for part in parts]
    return [waist.transpose(part, (0, 2, 1, 3)) for part in flat]


def _side_by_side(x: Tensor, heads: int) -> list[Tensor]:
    """Shapes: (batch, seq, 3 * heads * size) -> (batch, heads, seq, size) each"""
    width = divided(x.shape[2], 3, "the packed width")
    starts: list[Dim] = [0, width, 2 * width]
    return [split_heads(waist.slice_axis(x, 2, start, width), heads) for start in starts]


def _split_bias(bias: Tensor, q: Tensor, v: Tensor) -> list[Tensor]:
    """The biases of queries, keys and values.  Shapes: -> (1, heads, 1, size) each"""
    heads, size, last = q.shape[1], q.shape[3], v.shape[3]
    spans: list[tuple[Dim, Dim]] = [(0, size), (heads * size, size), (2 * heads * size, last)]
    return [
        waist.reshape(waist.slice_axis(bias, 0, start, heads * width), (1, heads, 1, width))
        for start, width in spans
    ]


def _biased(x: Tensor, bias: Tensor) -> Tensor:
    wide = compute_dtype(x.dtype)
    total = waist.map("add", waist.cast_to(x, wide), waist.cast_to(bias, wide))
    return waist.cast_to(total, x.dtype)
