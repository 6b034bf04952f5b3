"""com.microsoft: an LSTM of quantized weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, plus
from burnx.ops.contrib_quantized import dynamic_quantize_mat_mul
from burnx.ops.kinds import T1, T2, Flag, T
from burnx.ops.operator import operator
from burnx.ops.recurrent import lstm_turn, peepholes_of
from burnx.ops.recurrent_cells import (
    Layout,
    activations_of,
    over_time,
    part,
    reversals,
    rows,
    zeros_if_absent,
)
from burnx.shape import Dim
from burnx.tensor import Tensor


@operator(
    "DynamicQuantizeLSTM",
    since=(1,),
    domain=MICROSOFT,
    outputs=3,
    ranks={
        "x": 3,
        "w": 3,
        "r": 3,
        "b": 2,
        "sequence_lens": 1,
        "initial_h": 3,
        "initial_c": 3,
        "p": 2,
        "w_scale": (1, 2),
        "w_zero_point": (1, 2),
        "r_scale": (1, 2),
        "r_zero_point": (1, 2),
    },
)
def dynamic_quantize_lstm(
    x: T,
    w: T2,
    r: T2,
    b: T | None,
    sequence_lens: T1 | None,
    initial_h: T | None,
    initial_c: T | None,
    p: T | None,
    w_scale: T,
    w_zero_point: T2,
    r_scale: T,
    r_zero_point: T2,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: Flag = 0,
) -> tuple[T, T, T]:
    """LSTM whose input and state are quantized by their own range before they meet the quantized weights.

    Shapes: x (time, batch, in), w (dirs, in, 4 hidden), r (dirs, hidden, 4 hidden) -> (time, dirs, batch, hidden),
    (dirs, batch, hidden) twice; scales (dirs) or (dirs, 4 hidden).
    Source: onnxruntime com.microsoft DynamicQuantizeLSTM-1
    """
    hidden = r.shape[1]
    if hidden_size is not None and isinstance(hidden, int) and hidden_size != hidden:
        raise ModelError(f"hidden_size {hidden_size} is not that of the weights, {hidden}")
    backwards, order = reversals(direction), Layout(batch_first=False)
    default = ["Sigmoid", "Tanh", "Tanh"]
    chosen = activations_of(activations, activation_alpha, activation_beta, default, len(backwards))
    outputs, finals = [], []
    for place, reverse in enumerate(backwards):
        through_w = _product_of(w, w_scale, w_zero_point, place)
        through_r = _product_of(r, r_scale, r_zero_point, place)
        projected = _biased(through_w(x), b, place, hidden)
        turn = lstm_turn(
            through_r, peepholes_of(p, place, hidden), chosen[place], clip, bool(input_forget)
        )
        start = [
            zeros_if_absent(order.state(initial, place), projected, hidden)
            for initial in (initial_h, initial_c)
        ]
        output, final = over_time(projected, start, sequence_lens, reverse, turn)
        outputs.append(output)
        finals.append(final)
    states = [order.final(list(each)) for each in zip(*finals, strict=True)]
    return order.sequence(outputs), states[0], states[1]


def _product_of(weight: Tensor, scale: Tensor, zero: Tensor, place: int) -> partial[Tensor]:
    """The product with the weight of one direction."""
    own, own_scale, own_zero = (part(each, place) for each in (weight, scale, zero))
    return partial(dynamic_quantize_mat_mul, b=own, b_scale=own_scale, b_zero_point=own_zero)


def _biased(projected: Tensor, bias: Tensor | None, place: int, hidden: Dim) -> Tensor:
    """With the biases of the input and of the state."""
    if bias is None:
        return projected
    own = part(bias, place)
    both = waist.map("add", rows(own, 0, hidden * 4), rows(own, hidden * 4, hidden * 4))
    return plus(projected, both)
