"""com.microsoft: attention by recurrence and causal convolutions, with windows of states."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError, ShapeError, UnsupportedError
from burnx.ops.attention_parts import divided, number
from burnx.ops.contrib_fused import MICROSOFT, scalar
from burnx.ops.convolution import add_bias
from burnx.ops.kinds import Count, Flag, S, T
from burnx.ops.linear_attending import attend_linearly
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, maximum, product, shape_text
from burnx.tensor import Tensor
from burnx.types import TensorType

LONGEST = 8  # states that a window holds at most


def _check_window(states: int) -> None:
    if not 0 <= states <= LONGEST:
        raise ModelError(f"state_window is 0 to {LONGEST}, not {states}")


@operator(
    "LinearAttention",
    since=(1,),
    domain=MICROSOFT,
    ranks={"query": 3, "key": 3, "value": 3, "past_state": 4},
)
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
    state_window: int = 0,
    update_rule: str = "gated_delta",
) -> tuple[T, S]:
    """The standard's LinearAttention, which may keep the states after the last steps.

    Fewer query heads than key heads are repeated.  ``chunk_size`` is a hint and changes nothing.
    Shapes: states (batch, groups, size, value size), with ``state_window`` behind an axis of as many.
    Source: onnxruntime com.microsoft LinearAttention-1
    """
    _check_window(state_window)
    if q_num_heads < kv_num_heads:
        query = _repeated(query, q_num_heads, kv_num_heads)
    if past_state is not None and state_window:
        past_state = _last_state(past_state)
    states = (past_state, decay, beta)
    heads = (max(q_num_heads, kv_num_heads), kv_num_heads)
    output, state, every = attend_linearly(
        (query, key, value), states, heads, scale, update_rule, bool(state_window)
    )
    if every is None:
        return output, state
    shape = (0, *state.shape)
    return output, _windowed(waist.cast_to(every, state.dtype), shape, state_window)


@linear_attention.infer
def _linear_attention_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    state = inputs[3] if len(inputs) > 3 and inputs[3] is not None else inputs[0]
    return [TensorType(inputs[0].dtype, None), TensorType(state.dtype, None)]


def _repeated(x: Tensor, heads: int, wanted: int) -> Tensor:
    """Shapes: (batch, time, heads * size) -> (batch, time, wanted * size)"""
    batch, time, width = x.shape
    size, times = divided(width, heads, "the width of the queries"), divided(wanted, heads, "heads")
    each = waist.reshape(x, (batch, time, heads, 1, size))
    wide = waist.broadcast(each, (batch, time, heads, times, size))
    return waist.reshape(wide, (batch, time, wanted * size))


def _last_state(states: Tensor) -> Tensor:
    """Shapes: (window, *s) -> (*s)"""
    last = waist.slice_axis(states, 0, states.shape[0] - 1, 1)
    return waist.reshape(last, states.shape[1:])


def _windowed(every: Tensor, shape: tuple[Dim, ...], window: int) -> Tensor:
    """The last states, behind zeros if there are too few.  Shapes: (time, *s) -> (window, *s)"""
    time = every.shape[0]
    low: list[Dim] = [window, *[0] * (every.ndim - 1)]
    grown = waist.pad(every, number(0, every), low, [0] * every.ndim)
    return waist.reshape(waist.slice_axis(grown, 0, time, window), (window, *shape[1:]))


# ---------------------------------------------------------------------------------------- convolution
@operator(
    "CausalConvWithState",
    since=(1,),
    domain=MICROSOFT,
    outputs=2,
    ranks={"input": -3, "weight": 3, "bias": 1, "past_state": -3},
)
def causal_conv_with_state(
    input: T,
    weight: T,
    bias: T | None = None,
    past_state: T | None = None,
    *,
    activation: str = "none",
    channels_last: Flag = 0,
    dilation: int = 1,
    input_channel_offset: int = 0,
    input_channels: int = 0,
    ndim: int = 1,
    state_channels_last: int = -1,
    state_length: int = 0,
    state_update_capacity: int = 0,
    state_window: int = 0,
) -> tuple[T, T, T]:
    """Correlate each channel with its own kernel, looking back only; the state is what the next step looks back on.

    Shapes: (batch, channels, time), or (batch, time, *channels) with ``channels_last``.
    Source: onnxruntime com.microsoft CausalConvWithState-1
    """
    extended = {
        "input_channel_offset": input_channel_offset,
        "input_channels": input_channels,
        "state_length": state_length,
        "state_update_capacity": state_update_capacity,
        "state_channels_last": state_channels_last + 1,
    }
    used = [name for name, value in extended.items() if value]
    if used or ndim != 1:
        raise UnsupportedError(
            f"CausalConvWithState is done without {', '.join(used) or f'ndim {ndim}'}"
        )
    if activation not in ("none", "silu", "swish"):
        raise ModelError(f'activation is none, silu or swish, not "{activation}"')
    if weight.ndim != 3 or dilation < 1:
        raise ShapeError(f"the kernel is (c, 1, k), not {shape_text(weight.shape)}; dilation 1 on")
    _check_window(state_window)
    lead = input.shape
    x = _channels_second(input) if channels_last else input
    back = (weight.shape[2] - 1) * dilation
    if past_state is not None and state_window:
        past_state = _last_state(past_state)
    if past_state is None:
        data = waist.pad(x, number(0, x), (0, 0, back), (0, 0, 0))
    else:
        data = waist.concat([_channels_second(past_state) if channels_last else past_state, x], 2)
    y = _correlated(data, weight, bias, dilation)
    if activation != "none":
        powers = waist.map("exp", waist.map("neg", y))
        y = waist.map("div", y, waist.map("add", powers, scalar(1, y)))
    y = waist.cast_to(y, input.dtype)
    states = _states(data, back, state_window)
    if channels_last:
        y = waist.reshape(waist.transpose(y, (0, 2, 1)), lead)
        rank = states.ndim
        states = waist.transpose(states, [*range(rank - 2), rank - 1, rank - 2])
        states = waist.reshape(states, (*states.shape[:-1], *lead[2:]))
    return y, states, waist.broadcast(number(0, input), (0,))


causal_conv_with_state.limit(
    "the attributes that onnxruntime's CPU kernel refuses as well: ndim 2 and 3, slices of channels, states of "
    "another layout or length, captured updates",
    tests=r"^gen_ms_CausalConvWithState_v1_slices_",
)


def _channels_second(x: Tensor) -> Tensor:
    """Shapes: (batch, time, *channels) -> (batch, channels, time)"""
    flat = waist.reshape(x, (*x.shape[:2], product(x.shape[2:])))
    return waist.transpose(flat, (0, 2, 1))


def _correlated(data: Tensor, weight: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    (channels,) = waist.static_shape(weight)[:1]
    wide = compute_dtype(data.dtype)
    y = waist.conv(data, weight, [1], [(0, 0)], [dilation], groups=channels, dtype=wide)
    return add_bias(y, bias)


def _states(data: Tensor, back: Dim, window: int) -> Tensor:
    """The last ``back`` positions; with a window those after each of the last steps, zeros before the first."""
    time = data.shape[2] - back
    if not window:
        return waist.slice_axis(data, 2, time, back)
    first = maximum(window - time, 0)
    low: list[Dim] = [0, 0, window]
    grown = waist.pad(data, number(0, data), low, [0, 0, 0])
    parts = []
    for slot in range(window):
        part = waist.slice_axis(grown, 2, time + slot + 1, back)
        is_there = waist.map("le", _size(first), _size(slot))
        part = waist.map("select", is_there, part, number(0, part))
        parts.append(waist.reshape(part, (1, *part.shape)))
    return waist.concat(parts, 0)


def _size(dim: Dim) -> Tensor:
    return waist.reshape(waist.sizes(dim), ())
