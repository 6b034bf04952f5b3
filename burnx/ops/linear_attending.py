"""Attention by recurrence."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import float32
from burnx.errors import ModelError, ShapeError
from burnx.ops.attention_parts import divided, number, scaled, split_heads
from burnx.ops.kinds import Count, S, T
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor
from burnx.types import TensorType

# update rule -> (the state decays, the value is corrected by what the state holds)
RULES: dict[str, tuple[bool, bool]] = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


@operator("LinearAttention", since=(27,), ranks={"query": 3, "key": 3, "value": 3, "past_state": 4})
def linear_attention(
    query: T,
    key: T,
    value: T,
    past_state: S | None = None,
    decay: T | None = None,
    beta: T | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: Count = REQUIRED,  # type: ignore[assignment]
    q_num_heads: Count = REQUIRED,  # type: ignore[assignment]
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[T, S]:
    """Attention with a state that every step decays, corrects and adds key times value to.

    ``chunk_size`` is a hint and changes nothing.  Computed in float32.
    Shapes: (batch, time, heads * size) -> (batch, time, heads * value size), (batch, groups, size, value size).
    Source: ONNX LinearAttention-27
    """
    inputs, states = (query, key, value), (past_state, decay, beta)
    heads = (q_num_heads, kv_num_heads)
    output, state, _ = attend_linearly(inputs, states, heads, scale, update_rule)
    return output, state


@linear_attention.infer
def _linear_attention_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    state = inputs[3] if len(inputs) > 3 and inputs[3] is not None else inputs[0]
    return [TensorType(inputs[0].dtype, None), TensorType(state.dtype, None)]


def attend_linearly(
    inputs: tuple[Tensor, Tensor, Tensor],
    states: tuple[Tensor | None, Tensor | None, Tensor | None],
    heads: tuple[int, int],
    scale: float,
    update_rule: str,
    keeps_states: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Queries, keys and values; past state, decay and update rate -> output, last state, if asked for the state after every step.

    Shapes: (batch, time, heads * size) -> (batch, time, heads * value size), (batch, groups, size, value size),
    (time, batch, groups, size, value size).
    """
    (query, key, value), (past_state, decay, beta) = inputs, states
    q_num_heads, kv_num_heads = heads
    decays, corrects = _rule(update_rule, decay, beta)
    dtype = query.dtype
    q, k, v = (
        waist.cast_to(split_heads(each, heads), float32)
        for each, heads in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))
    )
    q = scaled(q, scale if scale else None)
    gates = _gates(decay, kv_num_heads, k) if decays and decay is not None else None
    rates = (
        split_heads(beta, _heads_of(beta, kv_num_heads)) if corrects and beta is not None else None
    )
    by_time = [
        None if each is None else waist.transpose(waist.cast_to(each, float32), (2, 0, 1, 3))
        for each in (q, k, v, gates, rates)
    ]
    if past_state is None:
        shape = (k.shape[0], k.shape[1], k.shape[3], v.shape[3])
        state = waist.broadcast(number(0, q), shape)
    else:
        state = waist.cast_to(past_state, float32)

    def turn(iteration: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        now = [None if each is None else waist.take(each, iteration, 0) for each in by_time]
        new = _updated(held, now)
        return [going, new, _read(now[0], new), *([new] if keeps_states else [])]

    trips = waist.reshape(waist.sizes(q.shape[2]), ())
    state, stacked, *every = waist.repeat(trips, None, [state], turn)
    output = waist.transpose(stacked, (1, 0, 2, 3))
    batch, time = query.shape[:2]
    output = waist.reshape(output, (batch, time, output.shape[2] * output.shape[3]))
    kept = past_state.dtype if past_state is not None else dtype
    return waist.cast_to(output, dtype), waist.cast_to(state, kept), every[0] if every else None


def _rule(name: str, decay: Tensor | None, beta: Tensor | None) -> tuple[bool, bool]:
    if name not in RULES:
        raise ModelError(f'an update rule is one of {", ".join(RULES)}, not "{name}"')
    decays, corrects = RULES[name]
    for what, needed, given in (("decay", decays, decay), ("beta", corrects, beta)):
        if needed != (given is not None):
            raise ModelError(f'update rule "{name}" {"needs" if needed else "takes no"} {what}')
    return decays, corrects


def _heads_of(beta: Tensor, heads: int) -> int:
    """How many update rates a step has: one for each head, or one for all."""
    for count in (1, heads):
        if waist.is_size(beta, 2, count):
            return count
    raise ShapeError(f"beta has 1 or {heads} elements a step, not {beta.shape[2]}")


def _gates(decay: Tensor, heads: int, k: Tensor) -> Tensor:
    """Decay in log space.  Shapes: -> (batch, groups, time, 1 or size)"""
    if waist.is_size(decay, 2, heads):
        return split_heads(decay, heads)
    rule = f"decay has {heads} or {heads * k.shape[3]} elements a step"
    return split_heads(waist.with_size(decay, 2, heads * k.shape[3], rule), heads)


def _column(x: Tensor) -> Tensor:
    """Shapes: (*s) -> (*s, 1)"""
    return waist.reshape(x, (*x.shape, 1))


def _updated(state: Tensor, now: Sequence[Tensor | None]) -> Tensor:
    """The state after one step.  Shapes: (batch, groups, size, value size)"""
    _, k, v, gate, rate = now
    assert k is not None and v is not None
    if gate is not None:
        state = waist.map("mul", state, _column(waist.map("exp", gate)))
    if rate is not None:
        found = waist.contract(k, state, ((0, 1), (0, 1)), ((2,), (2,)))
        v = waist.map("mul", waist.map("sub", v, found), rate)
    row = waist.reshape(v, (*v.shape[:2], 1, v.shape[2]))
    return waist.map("add", state, waist.map("mul", _column(k), row))


def _read(q: Tensor | None, state: Tensor) -> Tensor:
    """Shapes: (batch, heads, size), (batch, groups, size, value size) -> (batch, heads, value size)"""
    assert q is not None
    groups = state.shape[1]
    each = divided(q.shape[1], groups, "the number of query heads")
    wide = waist.reshape(q, (q.shape[0], groups, each, q.shape[2]))
    found = waist.contract(wide, state, ((0, 1), (0, 1)), ((3,), (2,)))
    return waist.reshape(found, (found.shape[0], q.shape[1], found.shape[3]))
