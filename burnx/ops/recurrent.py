"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.kinds import T1, Flag, T
from burnx.ops.operator import operator
from burnx.ops.recurrent_cells import (
    Function,
    Layout,
    Turn,
    activations_of,
    clipped,
    over_time,
    part,
    project,
    reversals,
    rows,
    wide,
    zeros_if_absent,
)
from burnx.shape import Dim
from burnx.tensor import Tensor


def _add(*terms: Tensor | None) -> Tensor:
    given = [term for term in terms if term is not None]
    total = given[0]
    for term in given[1:]:
        total = waist.map("add", total, term)
    return total


def _mul(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("mul", left, right)


def _less(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("sub", left, right)


def _one(like: Tensor) -> Tensor:
    return waist.constant(1, like.dtype)


def _check_hidden(hidden_size: int | None, hidden: Dim) -> None:
    if hidden_size is not None and isinstance(hidden, int) and hidden_size != hidden:
        raise ModelError(f"hidden_size {hidden_size} is not that of the weights, {hidden}")


def _halves(bias: Tensor | None, direction: int, width: Dim) -> tuple[Tensor | None, Tensor | None]:
    """The biases of the input and of the state."""
    if bias is None:
        return None, None
    own = part(bias, direction)
    return rows(own, 0, width), rows(own, width, width)


# ---------------------------------------------------------------------------------------- RNN
@operator(
    "RNN",
    since=(1, 7, 14, 22),
    ranks={"x": 3, "w": 3, "r": 3, "b": 2, "sequence_lens": 1, "initial_h": 3},
)
def rnn(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: Flag = 0,
) -> tuple[T, T]:
    """h = f(x W + h R + b) over time.

    Shapes: x (time, batch, in), w (dirs, hidden, in) -> (time, dirs, batch, hidden), (dirs, batch, hidden).
    Source: ONNX RNN-22
    """
    _check_hidden(hidden_size, r.shape[2])
    backwards, order, dtype = reversals(direction), Layout(bool(layout)), x.dtype
    names = list(activations)[: len(backwards)]
    chosen = activations_of(names, activation_alpha, activation_beta, ["Tanh"], len(backwards))
    x, w, r, b, initial_h = wide(x, w, r, b, initial_h)  # type: ignore[assignment]
    source, outputs, finals = order.time_first(x), [], []
    for place, reverse in enumerate(backwards):
        (act,), weight = chosen[place], part(r, place)
        bias, state_bias = _halves(b, place, r.shape[2])
        projected = _add(project(source, part(w, place)), bias, state_bias)

        def turn(
            gates: Tensor, state: Sequence[Tensor], act: Function = act, weight: Tensor = weight
        ) -> list[Tensor]:
            return [act(clipped(_add(gates, project(state[0], weight)), clip))]

        start = zeros_if_absent(order.state(initial_h, place), projected, r.shape[2])
        output, (final,) = over_time(projected, [start], sequence_lens, reverse, turn)
        outputs.append(output)
        finals.append(final)
    results = (order.sequence(outputs), order.final(finals))
    return tuple(waist.cast_to(each, dtype) for each in results)  # type: ignore[return-value]


# ---------------------------------------------------------------------------------------- GRU
@operator(
    "GRU",
    since=(1, 3, 7, 14, 22),
    ranks={"x": 3, "w": 3, "r": 3, "b": 2, "sequence_lens": 1, "initial_h": 3},
)
def gru(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: Flag = 0,
    linear_before_reset: Flag = 0,
) -> tuple[T, T]:
    """Gated recurrent units: gates z, r, h side by side in the weights.

    Shapes: x (time, batch, in), w (dirs, 3 hidden, in) -> (time, dirs, batch, hidden), (dirs, batch, hidden).
    Source: ONNX GRU-22
    """
    hidden = r.shape[2]
    _check_hidden(hidden_size, hidden)
    backwards, order, dtype = reversals(direction), Layout(bool(layout)), x.dtype
    chosen = activations_of(
        activations, activation_alpha, activation_beta, ["Sigmoid", "Tanh"], len(backwards)
    )
    x, w, r, b, initial_h = wide(x, w, r, b, initial_h)  # type: ignore[assignment]
    source, outputs, finals = order.time_first(x), [], []
    for place, reverse in enumerate(backwards):
        bias, state_bias = _halves(b, place, hidden * 3)
        projected = _add(project(source, part(w, place)), bias)
        build = _gru_after_reset if linear_before_reset else _gru_before_reset
        turn = build(part(r, place), state_bias, chosen[place], clip, hidden)
        start = zeros_if_absent(order.state(initial_h, place), projected, hidden)
        output, (final,) = over_time(projected, [start], sequence_lens, reverse, turn)
        outputs.append(output)
        finals.append(final)
    results = (order.sequence(outputs), order.final(finals))
    return tuple(waist.cast_to(each, dtype) for each in results)  # type: ignore[return-value]


def _gru_before_reset(
    weight: Tensor,
    bias: Tensor | None,
    functions: Sequence[Function],
    clip: float | None,
    hidden: Dim,
) -> Turn:
    """h' = g(x + (r * h) R + b)"""
    f, g = functions
    gate_weight, own_weight = rows(weight, 0, hidden * 2), rows(weight, hidden * 2, hidden)
    gate_bias = None if bias is None else rows(bias, 0, hidden * 2)
    own_bias = None if bias is None else rows(bias, hidden * 2, hidden)

    def turn(given: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        h = state[0]
        gates = _add(rows(given, 0, hidden * 2, 1), project(h, gate_weight), gate_bias)
        gates = f(clipped(gates, clip))
        z, reset = rows(gates, 0, hidden, 1), rows(gates, hidden, hidden, 1)
        own = _add(
            rows(given, hidden * 2, hidden, 1), project(_mul(reset, h), own_weight), own_bias
        )
        return [_mixed(z, g(clipped(own, clip)), h)]

    return turn


def _gru_after_reset(
    weight: Tensor,
    bias: Tensor | None,
    functions: Sequence[Function],
    clip: float | None,
    hidden: Dim,
) -> Turn:
    """h' = g(x + r * (h R + b))"""
    f, g = functions

    def turn(given: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        h = state[0]
        through = _add(project(h, weight), bias)
        gates = _add(rows(given, 0, hidden * 2, 1), rows(through, 0, hidden * 2, 1))
        gates = f(clipped(gates, clip))
        z, reset = rows(gates, 0, hidden, 1), rows(gates, hidden, hidden, 1)
        own = _mul(reset, rows(through, hidden * 2, hidden, 1))
        return [_mixed(z, g(clipped(_add(rows(given, hidden * 2, hidden, 1), own), clip)), h)]

    return turn


def _mixed(z: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """(1 - z) * new + z * old"""
    return _add(_mul(_less(_one(z), z), new), _mul(z, old))


# ---------------------------------------------------------------------------------------- LSTM
@operator(
    "LSTM",
    since=(1, 7, 14, 22),
    ranks={
        "x": 3,
        "w": 3,
        "r": 3,
        "b": 2,
        "sequence_lens": 1,
        "initial_h": 3,
        "initial_c": 3,
        "p": 2,
    },
)
def lstm(
    x: T,
    w: T,
    r: T,
    b: T | None = None,
    sequence_lens: T1 | None = None,
    initial_h: T | None = None,
    initial_c: T | None = None,
    p: T | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: Flag = 0,
    layout: Flag = 0,
) -> tuple[T, T, T]:
    """Long short-term memory: gates i, o, f, c side by side in the weights, peepholes i, o, f in ``p``.

    Shapes: x (time, batch, in), w (dirs, 4 hidden, in) -> (time, dirs, batch, hidden), (dirs, batch, hidden) twice.
    Source: ONNX LSTM-22
    """
    hidden = r.shape[2]
    _check_hidden(hidden_size, hidden)
    backwards, order, dtype = reversals(direction), Layout(bool(layout)), x.dtype
    default = ["Sigmoid", "Tanh", "Tanh"]
    chosen = activations_of(activations, activation_alpha, activation_beta, default, len(backwards))
    x, w, r, b, initial_h, initial_c, p = wide(  # type: ignore[assignment]
        x, w, r, b, initial_h, initial_c, p
    )
    source, outputs, finals = order.time_first(x), [], []
    for place, reverse in enumerate(backwards):
        bias, state_bias = _halves(b, place, hidden * 4)
        projected = _add(project(source, part(w, place)), bias, state_bias)
        turn = lstm_turn(
            partial(project, weight=part(r, place)),
            peepholes_of(p, place, hidden),
            chosen[place],
            clip,
            bool(input_forget),
        )
        start = [
            zeros_if_absent(order.state(initial, place), projected, hidden)
            for initial in (initial_h, initial_c)
        ]
        output, final = over_time(projected, start, sequence_lens, reverse, turn)
        outputs.append(output)
        finals.append(final)
    states = [order.final(list(each)) for each in zip(*finals, strict=True)]
    results = (order.sequence(outputs), *states)
    return tuple(waist.cast_to(each, dtype) for each in results)  # type: ignore[return-value]


def peepholes_of(p: Tensor | None, place: int, hidden: Dim) -> list[Tensor | None]:
    """What the gates i, o and f of one direction add of the cell."""
    if p is None:
        return [None, None, None]
    own = part(p, place)
    return [rows(own, hidden * gate, hidden) for gate in range(3)]


def lstm_turn(
    through: Function,
    peepholes: Sequence[Tensor | None],
    functions: Sequence[Function],
    clip: float | None,
    coupled: bool,
) -> Callable[[Tensor, Sequence[Tensor]], list[Tensor]]:
    """One turn of an LSTM, whose state goes ``through`` a weight; with ``coupled`` gates f is 1 - i."""
    f, g, act = functions
    look_i, look_o, look_f = peepholes

    def turn(given: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        h, c = state
        gates, hidden = _add(given, through(h)), h.shape[1]
        i, o, forget, own = (rows(gates, hidden * gate, hidden, 1) for gate in range(4))
        i = f(clipped(_peeped(i, look_i, c), clip))
        if coupled:
            forget = _less(_one(i), i)
        else:
            forget = f(clipped(_peeped(forget, look_f, c), clip))
        new_c = _add(_mul(forget, c), _mul(i, g(clipped(own, clip))))
        o = f(clipped(_peeped(o, look_o, new_c), clip))
        return [_mul(o, act(new_c)), new_c]

    return turn


def _peeped(gate: Tensor, look: Tensor | None, c: Tensor) -> Tensor:
    return gate if look is None else _add(gate, _mul(look, c))
