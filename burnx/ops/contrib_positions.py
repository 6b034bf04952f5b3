"""com.microsoft: biases of attention that come from how far apart positions are."""

from __future__ import annotations

import math

from burnx import waist
from burnx.dtype import float32, int64
from burnx.errors import ModelError
from burnx.ops.activations import logistic
from burnx.ops.attention_parts import divided, number, places
from burnx.ops.contrib_fused import MICROSOFT, plus, scalar, times, widened
from burnx.ops.kinds import Count, Flag, Int64, M, T
from burnx.ops.linalg import mat_mul
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor


@operator("RelativePositionBias", since=(1,), domain=MICROSOFT, ranks={"bias_table": 2})
def relative_position_bias(
    bias_table: T,
    query_length: Int64,
    key_length: Int64,
    *,
    is_bidirectional: Flag = 0,
    max_distance: int = REQUIRED,  # type: ignore[assignment]
) -> T:
    """For each pair of positions the bias of the bucket that their distance falls into, as in T5.

    The table is declared as (buckets, heads), and its memory holds the buckets of a head side by side.
    Shapes: -> (1, heads, queries, keys).  Source: onnxruntime com.microsoft RelativePositionBias-1
    """
    buckets, heads = bias_table.shape
    if not isinstance(buckets, int):
        buckets = waist.static_shape(bias_table)[0]
    queries, keys = (
        waist.dims(waist.reshape(length, (1,)))[0] for length in (query_length, key_length)
    )
    apart = waist.map("sub", places(keys, (1, keys)), places(queries, (queries, 1)))
    bucket = _bucket(apart, buckets, max_distance, bool(is_bidirectional))
    found = waist.take(waist.reshape(bias_table, (heads, buckets)), bucket, 1)
    return waist.reshape(found, (1, heads, queries, keys))


def _bucket(apart: Tensor, count: int, farthest: int, both_ways: bool) -> Tensor:
    """One bucket for each small distance, and ever wider ones up to the farthest."""
    zero = number(0, apart)
    first = waist.constant(0, int64)
    if both_ways:
        count //= 2
        first = times(waist.cast_to(waist.map("lt", zero, apart), int64), number(count, apart))
        distance = waist.map("abs", apart)
    else:
        distance = waist.map("max", waist.map("neg", apart), zero)
    exact = count // 2
    if exact < 1 or farthest <= exact:
        raise ModelError(f"max_distance is above {exact}, half of the buckets, not {farthest}")
    wide = waist.map("max", waist.cast_to(distance, float32), waist.constant(exact, float32))
    share = waist.map("log", waist.map("div", wide, waist.constant(exact, float32)))
    share = waist.map("div", share, waist.constant(math.log(farthest / exact), float32))
    steps = waist.cast_to(times(share, waist.constant(count - exact, float32)), int64)
    far = waist.map("min", plus(steps, number(exact, steps)), number(count - 1, steps))
    near = waist.map("lt", distance, number(exact, distance))
    return plus(first, waist.map("select", near, distance, far))


@operator(
    "GatedRelativePositionBias",
    since=(1,),
    domain=MICROSOFT,
    ranks={"query_layer": (2, 3), "query_bias": 1, "rel_pos": 4, "weight": 2, "bias": 1},
)
def gated_relative_position_bias(
    query_layer: T,
    query_bias: T,
    rel_pos: T,
    weight: T,
    bias: T,
    eco_a: T,
    token_offset: M | None = None,
    *,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
) -> T:
    """A bias times u (r a - 1) + 2, whose gates u and r come from each query, as in WavLM.

    With ``token_offset`` the queries are those of all tokens, one after another, and it says where they belong.
    Shapes: (batch, seq, heads * size) or (tokens, heads * size) -> (batch, heads, seq, seq).
    Source: onnxruntime com.microsoft GatedRelativePositionBias-1
    """
    query, own, distances, factors, shift, scale = widened(
        query_layer, query_bias, rel_pos, weight, bias, eco_a
    )
    if token_offset is not None:
        query = _unpacked(query, token_offset)
    batch, seq, width = query.shape
    size = divided(width, num_heads, "the hidden size")
    heads = waist.reshape(plus(query, own), (batch, seq, num_heads, size))
    heads = waist.transpose(heads, (0, 2, 1, 3))
    gates = plus(mat_mul(heads, factors), shift)
    half = divided(factors.shape[1], 2, "the width of the gates")
    gates = waist.reshape(gates, (batch, num_heads, seq, 2, half))
    gates = logistic(waist.reduce("sum", gates, [4]))
    u, r = (waist.slice_axis(gates, 3, place, 1) for place in (0, 1))
    one, two = scalar(1, gates), scalar(2, gates)
    gate = plus(times(u, waist.map("sub", times(r, scale), one)), two)
    return waist.cast_to(times(gate, distances), query_layer.dtype)


def _unpacked(tokens: Tensor, offsets: Tensor) -> Tensor:
    """Shapes: (tokens, width), (batch, seq) -> (batch, seq, width), zeros where no token is"""
    batch, seq = offsets.shape
    count, width = tokens.shape
    flat = waist.reshape(waist.cast_to(offsets, int64), (batch * seq,))
    rows = waist.reshape(waist.slice_axis(flat, 0, 0, count), (count, 1))
    empty = waist.broadcast(number(0, tokens), (batch * seq, width))
    return waist.reshape(waist.scatter_nd(empty, rows, tokens), (batch, seq, width))
