"""com.microsoft: rotary embeddings."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError
from burnx.ops.attending import rotated
from burnx.ops.attention_parts import as_int64, at_dtype, divided, join_heads, split_heads
from burnx.ops.contrib_fused import MICROSOFT
from burnx.ops.kinds import Flag, Float32, M, T
from burnx.ops.operator import operator
from burnx.shape import Dim
from burnx.tensor import Tensor


@operator(
    "RotaryEmbedding",
    since=(1,),
    domain=MICROSOFT,
    ranks={"input": (3, 4), "cos_cache": 2, "sin_cache": 2, "position_ids": (1, 2)},
)
def rotary_embedding(
    input: T,
    position_ids: M,
    cos_cache: T,
    sin_cache: T,
    *,
    interleaved: Flag = 0,
    is_packed_batching: Flag = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> T:
    """Rotate pairs of features by the angles of their positions, which start at one number or are given each.

    The caches say how many features turn; those of one head are told apart from the others by the caches, or by
    ``num_heads`` with ``rotary_embedding_dim``.  A packed batch is one row of tokens: nothing changes for it.
    ``scale`` changes nothing either, as in every kernel of onnxruntime.
    Shapes: (batch, seq, heads * size) or (batch, heads, seq, size); positions (1,) or (batch, seq).
    Source: onnxruntime com.microsoft RotaryEmbedding-1
    """
    if rotary_embedding_dim and not num_heads:
        raise ModelError("rotary_embedding_dim goes with num_heads")
    turned = 2 * cos_cache.shape[1]
    heads_first = input
    if input.ndim == 3:
        heads = num_heads or divided(input.shape[2], turned, "the hidden size")
        if not isinstance(heads, int):
            raise ModelError(f"RotaryEmbedding needs the number of heads, which is {heads} here")
        heads_first = split_heads(input, heads)
    result = turn_heads(heads_first, position_ids, cos_cache, sin_cache, bool(interleaved))
    return join_heads(result) if input.ndim == 3 else result


def turn_heads(x: Tensor, ids: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Rotary embedding of heads.  Shapes: (batch, heads, seq, size), ids (1,) or (batch, seq)"""
    seq, size = x.shape[2], x.shape[3]
    turned = 2 * cos.shape[1]
    wide = compute_dtype(x.dtype)
    places = positions(ids, seq)
    cosines, sines = (_at(cache, places) for cache in at_dtype([cos, sin], wide))
    source = waist.cast_to(x, wide)
    result = rotated(waist.slice_axis(source, 3, 0, turned), cosines, sines, interleaved)
    if turned != size:
        rest = waist.slice_axis(source, 3, turned, size - turned)
        result = waist.reshape(waist.concat([result, rest], 3), x.shape)
    return waist.cast_to(result, x.dtype)


def positions(ids: Tensor, seq: Dim) -> Tensor:
    """Shapes: (1,) -> (1, seq), counted from there; (batch, seq) stays."""
    ids = as_int64(ids)
    if ids.ndim == 2:
        return ids
    first = waist.reshape(ids, (1, 1))
    return waist.map("add", first, waist.reshape(waist.iota(seq), (1, seq)))


def _at(cache: Tensor, places: Tensor) -> Tensor:
    """Shapes: (positions, half), (batch, seq) -> (batch, 1, seq, half)"""
    found = waist.take(cache, places, 0)
    return waist.reshape(found, (found.shape[0], 1, *found.shape[1:]))


@operator(
    "GemmaRotaryEmbedding",
    since=(1,),
    domain=MICROSOFT,
    ranks={"emb": 3, "q": 4, "q_rot": 4, "k": 4, "k_rot": 4},
)
def gemma_rotary_embedding(emb: Float32, q: T, q_rot: T, k: T, k_rot: T) -> tuple[T, T]:
    """q cos(emb) + q_rot sin(emb), and the same of k.  Source: onnxruntime com.microsoft GemmaRotaryEmbedding-1"""
    angle = waist.reshape(emb, (emb.shape[0], 1, *emb.shape[1:]))
    factors = [waist.cast_to(waist.map(name, angle), q.dtype) for name in ("cos", "sin")]

    def turned(x: Tensor, other: Tensor) -> Tensor:
        parts = zip(at_dtype([x, other], q.dtype), factors, strict=True)
        left, right = (waist.map("mul", part, factor) for part, factor in parts)
        return waist.map("add", left, right)

    return turned(q, q_rot), turned(k, k_rot)
