"""Attention, flexible attention and rotary embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnx import waist
from burnx.dtype import DType, bool_, compute_dtype, dtype_of_code, float32, float64, is_float
from burnx.errors import ModelError
from burnx.graph import Graph
from burnx.ops.attention_parts import (
    as_int64,
    at_dtype,
    both,
    divided,
    fitted,
    join_heads,
    masked,
    number,
    places,
    row_softmax,
    scaled,
    scores_of,
    size_scalar,
    softcapped,
    split_heads,
    weighted,
)
from burnx.ops.kinds import T1, T2, Flag, Int64, M, T, U
from burnx.ops.movement import has_rank
from burnx.ops.operator import operator
from burnx.shape import Dim
from burnx.tensor import Tensor
from burnx.types import TensorType, Type


@operator(
    "Attention",
    since=(23, 24, 25),
    outputs=1,
    meaning=25,
    ranks={
        "q": (3, 4),
        "k": (3, 4),
        "v": (3, 4),
        "attn_mask": (1, 2, 3, 4),
        "past_key": 4,
        "past_value": 4,
        "nonpad_kv_seqlen": 1,
    },
)
def attention(
    q: T1,
    k: T1,
    v: T2,
    attn_mask: U | None = None,
    past_key: T1 | None = None,
    past_value: T2 | None = None,
    nonpad_kv_seqlen: Int64 | None = None,
    *,
    is_causal: Flag = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[T1, T1, T2, T1]:
    """softmax(softcap(scale q k^T) + mask) v; a row without a visible key gives zeros.

    ``qk_matmul_output_mode`` chooses the last output: 0 scores, 1 after softcap, 2 after the mask, 3 after softmax.
    Shapes: q (batch, heads, seq, size) or (batch, seq, heads * size); k, v likewise, with as many heads or a divisor.
    Source: ONNX Attention-25
    """
    _check(past_key, past_value, nonpad_kv_seqlen, qk_matmul_output_mode)
    packed = q.ndim == 3
    if packed:
        q, k, v = (
            split_heads(q, q_num_heads),
            split_heads(k, kv_num_heads),
            split_heads(v, kv_num_heads),
        )
    elif q_num_heads is not None or kv_num_heads is not None:
        raise ModelError("Attention takes the numbers of heads only with inputs of rank 3")
    past: Dim = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = waist.concat([past_key, k], 2), waist.concat([past_value, v], 2)
    wide = compute_dtype(q.dtype)
    query = scaled(waist.cast_to(q, wide), scale)
    raw = scores_of(query, waist.cast_to(k, wide))
    capped = softcapped(raw, softcap)
    offset = size_scalar(past)
    if nonpad_kv_seqlen is not None:
        lengths = waist.reshape(nonpad_kv_seqlen, (nonpad_kv_seqlen.shape[0], 1, 1, 1))
        offset = waist.map("sub", lengths, size_scalar(q.shape[2]))
    seq, keys = q.shape[2], k.shape[2]
    visible = _visible(seq, keys, offset, is_causal, left_window_size, right_window_size)
    if nonpad_kv_seqlen is not None:
        visible = both(visible, waist.map("lt", places(keys, (1, keys)), lengths))
    biased = _with_mask(capped, visible, attn_mask)
    chosen = _precision(wide, softmax_precision)
    probabilities = waist.cast_to(row_softmax(waist.cast_to(biased, chosen)), wide)
    result = waist.cast_to(weighted(probabilities, waist.cast_to(v, wide)), q.dtype)
    shown = (raw, capped, biased, probabilities)[qk_matmul_output_mode]
    return join_heads(result) if packed else result, k, v, waist.cast_to(shown, q.dtype)


def _check(
    past_key: Tensor | None, past_value: Tensor | None, lengths: Tensor | None, mode: int
) -> None:
    if (past_key is None) != (past_value is None):
        raise ModelError("Attention takes past_key and past_value together")
    if past_key is not None and lengths is not None:
        raise ModelError("Attention takes either a past or nonpad_kv_seqlen")
    if mode not in (0, 1, 2, 3):
        raise ModelError(f"qk_matmul_output_mode is 0, 1, 2 or 3, not {mode}")


def _visible(
    seq: Dim, keys: Dim, offset: Tensor, causal: int, left: int, right: int
) -> Tensor | None:
    """Which keys a query may see by its position, ``offset`` positions after its place in the block."""
    if left < -1 or right < -1:
        raise ModelError(f"a window is -1 or more positions wide, not {left} and {right}")
    if not causal and left < 0 and right < 0:
        return None
    here = waist.map("add", places(seq, (seq, 1)), offset)
    there = places(keys, (1, keys))
    found = waist.map("le", there, here) if causal else None
    if left >= 0:
        first = waist.map("sub", here, number(left, here))
        found = both(found, waist.map("le", first, there))
    if right >= 0:
        last = waist.map("add", here, number(right, here))
        found = both(found, waist.map("le", there, last))
    return found


def _with_mask(scores: Tensor, visible: Tensor | None, mask: Tensor | None) -> Tensor:
    if mask is None:
        return masked(scores, visible, None)
    if mask.ndim > 4:
        raise ModelError(f"a mask of Attention has at most 4 axes, not {mask.ndim}")
    mask = fitted(mask, scores.shape[-1])
    if mask.dtype == bool_:
        return masked(scores, both(visible, mask), None)
    return masked(scores, visible, waist.cast_to(mask, scores.dtype))


def _precision(wide: DType, code: int | None) -> DType:
    """What softmax computes in: at least float32."""
    if code is None:
        return wide
    asked = dtype_of_code(code)
    if not is_float(asked):
        raise ModelError(f"softmax computes in a float dtype, not {asked}")
    return float64 if asked == float64 else wide


@attention.upgrade(from_version=24)
def attention_24(
    q: T1,
    k: T1,
    v: T2,
    attn_mask: U | None = None,
    past_key: T1 | None = None,
    past_value: T2 | None = None,
    nonpad_kv_seqlen: Int64 | None = None,
    *,
    is_causal: Flag = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int | None = None,
) -> list[T1]:
    """Attention without windows, whose numbers of heads may be given where the shapes say them."""
    packed = not has_rank(q) or q.ndim == 3
    result = attention(
        q,
        k,
        v,
        attn_mask,
        past_key,
        past_value,
        nonpad_kv_seqlen,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads if packed else None,
        q_num_heads=q_num_heads if packed else None,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
        outputs=outputs,
    )
    return list(result) if isinstance(result, tuple) else [result]


@operator("FlexAttention", since=(1,), domain="ai.onnx.preview", ranks={"q": 4, "k": 4, "v": 4})
def flex_attention(
    q: T1,
    k: T1,
    v: T1,
    *,
    prob_mod: Graph | None = None,
    scale: float | None = None,
    score_mod: Graph | None = None,
    softmax_precision: int | None = None,
) -> T1:
    """softmax(score_mod(scale q k^T)) v, the probabilities changed by ``prob_mod``.

    Shapes: (batch, heads, seq, size), (batch, groups, keys, size) -> (batch, heads, seq, size).
    Source: ONNX preview FlexAttention-1
    """
    wide = compute_dtype(q.dtype)
    chosen = flex_precision(q.dtype, softmax_precision)
    scores = scores_of(scaled(waist.cast_to(q, wide), scale), waist.cast_to(k, wide))
    scores = _modified(waist.cast_to(scores, chosen), score_mod)
    scores = waist.cast_to(scores, compute_dtype(chosen))
    probabilities = waist.cast_to(row_softmax(scores), chosen)
    probabilities = waist.cast_to(_modified(probabilities, prob_mod), wide)
    return waist.cast_to(weighted(probabilities, waist.cast_to(v, wide)), q.dtype)


@flex_attention.bodies
def flex_bodies(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> list[Type]:
    """Both graphs are given the scores."""
    q, k = inputs[:2]
    if not isinstance(q, TensorType) or not isinstance(k, TensorType):
        raise ModelError("FlexAttention needs tensors")
    dtype = flex_precision(q.dtype, attributes.get("softmax_precision"))
    if q.shape is None or k.shape is None:
        return [TensorType(dtype, None)]
    return [TensorType(dtype, (*q.shape[:3], k.shape[2]))]


def flex_precision(dtype: DType, code: int | None) -> DType:
    """The dtype that the graphs of FlexAttention work in."""
    if code is not None:
        return dtype_of_code(code)
    return float64 if dtype == float64 else float32


def _modified(x: Tensor, graph: Graph | None) -> Tensor:
    return x if graph is None else waist.inline(graph, [x])[0]


# ---------------------------------------------------------------------------------------- rotary embedding
@operator(
    "RotaryEmbedding",
    since=(23,),
    ranks={"x": (3, 4), "cos_cache": (2, 3), "sin_cache": (2, 3), "position_ids": 2},
)
def rotary_embedding(
    x: T,
    cos_cache: T,
    sin_cache: T,
    position_ids: M | None = None,
    *,
    interleaved: Flag = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> T:
    """Rotate pairs of features, halves apart or neighbours if ``interleaved``, by the angles of their positions.

    Shapes: (batch, heads, seq, size) or (batch, seq, heads * size); caches (positions, size / 2), or
    (batch, seq, size / 2) without ``position_ids``.  Source: ONNX RotaryEmbedding-23
    """
    heads_first = split_heads(x, num_heads) if x.ndim == 3 else x
    size = heads_first.shape[3]
    turned = rotary_embedding_dim or size
    cos, sin = (_angles(cache, position_ids, turned) for cache in (cos_cache, sin_cache))
    wide = compute_dtype(x.dtype)
    source, cos, sin = at_dtype([heads_first, cos, sin], wide)
    result = rotated(waist.slice_axis(source, 3, 0, turned), cos, sin, bool(interleaved))
    if turned != size:
        result = waist.concat([result, waist.slice_axis(source, 3, turned, size - turned)], 3)
    result = waist.cast_to(result, x.dtype)
    return join_heads(result) if x.ndim == 3 else result


def _angles(cache: Tensor, ids: Tensor | None, turned: Dim) -> Tensor:
    """Shapes: -> (batch, 1, seq, turned / 2)"""
    half = divided(turned, 2, "the rotated size")
    if isinstance(half, int) and isinstance(cache.shape[-1], int) and cache.shape[-1] != half:
        raise ModelError(f"the caches hold {half} angles a position here, not {cache.shape[-1]}")
    own = cache if ids is None else waist.take(cache, as_int64(ids), 0)
    return waist.reshape(own, (own.shape[0], 1, *own.shape[1:]))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The pairs of the last axis turned by angles."""
    *lead, size = x.shape
    half = size // 2
    pair = (*lead, half, 2) if interleaved else (*lead, 2, half)
    axis = len(lead) + 1 if interleaved else len(lead)
    pairs = waist.reshape(x, pair)

    def of(index: int) -> Tensor:
        return waist.reshape(waist.slice_axis(pairs, axis, index, 1), (*lead, half))

    first, second = of(0), of(1)
    real = _combined("sub", first, cos, second, sin)
    imaginary = _combined("add", first, sin, second, cos)
    column = (*lead, half, 1) if interleaved else (*lead, 1, half)
    joined = waist.concat([waist.reshape(part, column) for part in (real, imaginary)], axis)
    return waist.reshape(joined, x.shape)


def _combined(function: str, a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """a b + c d, or a b - c d"""
    left, right = waist.map("mul", a, b), waist.map("mul", c, d)
    return waist.map(function, left, waist.broadcast(right, left.shape))
