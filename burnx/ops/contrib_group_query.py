"""com.microsoft: attention whose key heads serve groups of query heads, with a cache of keys and values."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError
from burnx.ops.attention_parts import (
    as_int64,
    both,
    divided,
    join_heads,
    number,
    places,
    size_scalar,
    split_heads,
)
from burnx.ops.contrib_attention_parts import Heads, Scoring, attend
from burnx.ops.contrib_cache import Coding, Rows, Step, coding_of, decoded, encoded, slid, written
from burnx.ops.contrib_fused import MICROSOFT
from burnx.ops.contrib_rotary import turn_heads
from burnx.ops.kinds import Count, Flag, Int64, M, S, T, U
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.reduction import mean_along
from burnx.shape import Dim, broadcast_dim, product
from burnx.tensor import Tensor


@operator(
    "GroupQueryAttention",
    since=(1,),
    domain=MICROSOFT,
    outputs=3,
    ranks={
        "query": 3,
        "key": 3,
        "value": 3,
        "past_key": 4,
        "past_value": 4,
        "cos_cache": 2,
        "sin_cache": 2,
    },
)
def group_query_attention(
    query: T,
    key: T | None = None,
    value: T | None = None,
    past_key: S | None = None,
    past_value: S | None = None,
    seqlens_k: M = REQUIRED,  # type: ignore[assignment]
    total_sequence_length: M = REQUIRED,  # type: ignore[assignment]
    cos_cache: T | None = None,
    sin_cache: T | None = None,
    position_ids: Int64 | None = None,
    attention_bias: T | None = None,
    head_sink: T | None = None,
    k_scale: U | None = None,
    v_scale: U | None = None,
    q_norm_weight: T | None = None,
    k_norm_weight: T | None = None,
    query_seqlens: M | None = None,
    *,
    causal: int = 1,
    do_rotary: Flag = 0,
    k_norm_epsilon: float | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: Count = REQUIRED,  # type: ignore[assignment]
    local_window_size: int = -1,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: Flag = 0,
    scale: float | None = None,
    sliding_window_cache: Flag = 0,
    smooth_softmax: int = -1,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> tuple[T, S, S, T]:
    """Attention over a cache that takes up the new keys and values; rows that no token is in are not specified.

    Shapes: query (batch, seq, heads * size), or packed with keys and values behind; the caches
    (batch, groups, positions, size), coded ones with a byte for each two numbers of 4 bits.
    Source: onnxruntime com.microsoft GroupQueryAttention-1
    """
    if not causal and local_window_size > 0:
        raise ModelError("a local window goes with causal attention")
    if qk_output not in (0, 1, 2) or (qk_output and sliding_window_cache):
        raise ModelError(f"qk_output is 0, 1 or 2 of a whole cache, not {qk_output}")
    heads = _split(query, key, value, num_heads, kv_num_heads)
    step = _step(seqlens_k, query_seqlens, heads.q.shape[2])
    q = _normed(heads.q, q_norm_weight, (q_norm_epsilon, qk_norm_epsilon))
    k = _normed(heads.k, k_norm_weight, (k_norm_epsilon, qk_norm_epsilon))
    if do_rotary:
        prompt = None if query_seqlens is not None else total_sequence_length
        ids = _positions(step, heads.q.shape[2], position_ids, prompt)
        q, k = (_turned(x, ids, (cos_cache, sin_cache), rotary_interleaved) for x in (q, k))
    codings = [
        coding_of(kind, kv_cache_bit_width, factor, (query if past_key is None else past_key).dtype)
        for kind, factor in ((k_quant_type, k_scale), (v_quant_type, v_scale))
    ]
    length = waist.dims(waist.reshape(total_sequence_length, (1,)))[0]

    def cached(past: Tensor | None, new: Tensor, coding: Coding) -> Rows:
        new = encoded(new, coding)
        if not sliding_window_cache:
            return written(past, new, step, length)
        if past is None or local_window_size < 1:
            raise ModelError("a sliding cache goes with a past and a local window")
        return slid(past, new, step, local_window_size)

    keys, values = cached(past_key, k, codings[0]), cached(past_value, heads.v, codings[1])
    visible = _visible(step, q.shape[2], keys.positions, (bool(causal), local_window_size))
    how = Scoring(
        scale,
        softcap,
        (_bias_at(attention_bias, keys.positions, bool(sliding_window_cache)),),
        visible,
        _sink(head_sink, smooth_softmax, q),
    )
    attended = (
        decoded(rows.attended, coding, query.dtype)
        for rows, coding in zip((keys, values), codings, strict=True)
    )
    result, scores, probabilities = attend(Heads(q, *attended), how)
    shown = probabilities
    if qk_output == 1:
        shown = waist.map(
            "select", waist.broadcast(visible, scores.shape), scores, number(0, scores)
        )
    if qk_output:
        shown = waist.slice_axis(shown, 3, 0, length)
    output = waist.cast_to(join_heads(result), query.dtype)
    return output, keys.kept, values.kept, waist.cast_to(shown, query.dtype)


# ---------------------------------------------------------------------------------------- queries, keys and values
def _split(
    query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, groups: int
) -> Heads:
    """Shapes: -> (batch, heads, seq, size), (batch, groups, seq, size) twice"""
    if key is not None and value is not None:
        return Heads(split_heads(query, heads), *(split_heads(x, groups) for x in (key, value)))
    if key is not None or value is not None:
        raise ModelError("key and value go together, or both are packed in the query")
    size = divided(query.shape[2], heads + 2 * groups, "the packed width")
    spans = ((0, heads), (heads, groups), (heads + groups, groups))
    parts = [
        split_heads(waist.slice_axis(query, 2, start * size, count * size), count)
        for start, count in spans
    ]
    return Heads(*parts)


def _normed(x: Tensor, weight: Tensor | None, epsilons: tuple[float | None, float]) -> Tensor:
    """Each head over its root mean square; its own epsilon goes before the common one."""
    if weight is None:
        return x
    epsilon = epsilons[1] if epsilons[0] is None else epsilons[0]
    wide = waist.cast_to(x, compute_dtype(x.dtype))
    mean = mean_along(waist.map("mul", wide, wide), (3,))
    root = waist.map("sqrt", waist.map("add", mean, number(epsilon, mean)))
    factor = waist.cast_to(weight, wide.dtype)
    return waist.cast_to(waist.map("mul", waist.map("div", wide, root), factor), x.dtype)


def _step(seqlens: Tensor, brought: Tensor | None, seq: Dim) -> Step:
    """What each sequence has: one position more than ``seqlens`` says."""
    counts = waist.reshape(as_int64(seqlens), (product(seqlens.shape), 1, 1, 1))
    total = waist.map("add", counts, number(1, counts))
    if brought is None:
        news = waist.map("min", total, size_scalar(seq))
        return Step(total, waist.map("sub", total, news), size_scalar(seq))
    news = waist.reshape(as_int64(brought), total.shape)
    return Step(total, waist.map("sub", total, news), news)


# ---------------------------------------------------------------------------------------- positions
def _positions(step: Step, seq: Dim, given: Tensor | None, total: Tensor | None) -> Tensor:
    """Given ones, but a first prompt, after which there are as many as it brings, counts from the first of them.

    Shapes: -> (batch, seq)
    """
    steps = places(seq, (1, seq))
    if given is None:
        first = waist.reshape(step.before, (step.before.shape[0], 1))
        return waist.map("add", first, steps)
    if total is None:
        return as_int64(given)
    first = waist.slice_(as_int64(given), (0, 0), (1, 1), (1, 1))
    is_prompt = waist.map("eq", waist.reshape(as_int64(total), (1, 1)), size_scalar(seq))
    return waist.map("select", is_prompt, waist.map("add", first, steps), as_int64(given))


def _turned(
    x: Tensor, ids: Tensor, caches: tuple[Tensor | None, Tensor | None], interleaved: int
) -> Tensor:
    cos, sin = caches
    if cos is None or sin is None:
        raise ModelError("do_rotary goes with cos_cache and sin_cache")
    last = size_scalar(cos.shape[0] - 1)
    ids = waist.map("min", as_int64(ids), last)
    return turn_heads(x, ids, cos, sin, bool(interleaved))


def _visible(step: Step, seq: Dim, there: Tensor, how: tuple[bool, int]) -> Tensor:
    """Which rows a query sees.  Shapes: -> (batch, 1, seq, rows)"""
    causal, window = how
    if not causal:
        return waist.map("lt", there, step.total)
    here = waist.map("add", step.before, places(seq, (1, 1, seq, 1)))
    seen = waist.map("le", there, here)
    if window <= 0:
        return seen
    first = waist.map("sub", here, number(window, here))
    found = both(seen, waist.map("lt", first, there))
    assert found is not None
    return found


def _bias_at(bias: Tensor | None, there: Tensor, is_moved: bool) -> Tensor | None:
    """A bias whose last axis is that of the rows: positions without one get 0."""
    if bias is None:
        return None
    rows = there.shape[3]
    if is_moved:
        at = waist.map("min", there, size_scalar(bias.shape[3] - 1))
        batch = broadcast_dim(bias.shape[0], there.shape[0])
        shape = (batch, *bias.shape[1:3])
        full = waist.broadcast(bias, (*shape, bias.shape[3]))
        return waist.take_along(full, waist.broadcast(at, (*shape, rows)), 3)
    missing = rows - bias.shape[3]
    if missing == 0:
        return bias
    grown = waist.pad(bias, number(0, bias), [0] * 4, [0, 0, 0, missing])
    return waist.reshape(grown, (*bias.shape[:3], rows))


def _sink(given: Tensor | None, smooth: int, q: Tensor) -> Tensor | None:
    if given is None and smooth == 1:
        return waist.broadcast(number(0, q), (q.shape[1],))
    return given
