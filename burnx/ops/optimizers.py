"""Training steps of ONNX's preview domain: each takes and gives tensors in groups, all weights first."""

from __future__ import annotations

from collections.abc import Callable

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, T3
from burnx.ops.logic import where
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.precision import number, widen
from burnx.tensor import Tensor

_DOMAIN = "ai.onnx.preview.training"
_Step = Callable[..., list[Tensor]]


def _each_weight(inputs: tuple[Tensor, ...], states: int, step: _Step) -> list[Tensor]:
    """Run ``step(x, gradient, *states)`` for every weight; the results are grouped as the inputs are."""
    count, rest = divmod(len(inputs), states + 2)
    if rest or not count:
        raise ModelError(
            f"a training step takes {states + 2} tensors for each weight, not {len(inputs)}"
        )
    groups = [inputs[place::count] for place in range(count)]
    steps = [step(*(widen(tensor) for tensor in group)) for group in groups]
    return [
        waist.cast_to(results[place], group[0].dtype)
        for place in range(states + 1)
        for results, group in zip(steps, groups, strict=True)
    ]


@operator("Adam", since=(1,), domain=_DOMAIN)
def adam(
    r: T1,
    t: T2,
    *inputs: T3,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> list[T3]:
    """A step of Adam: weights, gradients, averaged gradients, averaged squares.  Source: ONNX Adam-1"""

    def step(x: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> list[Tensor]:
        rate, count = waist.cast_to(r, x.dtype), waist.cast_to(t, x.dtype)
        gradient = x * norm_coefficient + gradient
        mean = mean * alpha + gradient * (1.0 - alpha)
        square = square * beta + gradient * gradient * (1.0 - beta)
        decayed = [1.0 - waist.map("pow", number(base, x), count) for base in (beta, alpha)]
        adjusted = where(count > 0, rate * waist.map("sqrt", decayed[0]) / decayed[1], rate)
        moved = x - adjusted * mean / (waist.map("sqrt", square) + epsilon)
        return [moved * (1.0 - norm_coefficient_post), mean, square]

    return _each_weight(inputs, 2, step)


@operator("Adagrad", since=(1,), domain=_DOMAIN)
def adagrad(
    r: T1,
    t: T2,
    *inputs: T3,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> list[T3]:
    """A step of Adagrad: weights, gradients, sums of squares.  Source: ONNX Adagrad-1"""

    def step(x: Tensor, gradient: Tensor, square: Tensor) -> list[Tensor]:
        rate = waist.cast_to(r, x.dtype) / (waist.cast_to(t, x.dtype) * decay_factor + 1.0)
        gradient = x * norm_coefficient + gradient
        square = square + gradient * gradient
        return [x - rate * gradient / (waist.map("sqrt", square) + epsilon), square]

    return _each_weight(inputs, 1, step)


@operator("Momentum", since=(1,), domain=_DOMAIN)
def momentum(
    r: T1,
    t: T2,
    *inputs: T3,
    alpha: float = REQUIRED,  # type: ignore[assignment]
    beta: float = REQUIRED,  # type: ignore[assignment]
    mode: str = REQUIRED,  # type: ignore[assignment]
    norm_coefficient: float = REQUIRED,  # type: ignore[assignment]
) -> list[T3]:
    """A step with "standard" or "nesterov" momentum: weights, gradients, momenta.  Source: ONNX Momentum-1"""
    if mode not in ("standard", "nesterov"):
        raise ModelError(f'Momentum has mode "standard" or "nesterov", not "{mode}"')

    def step(x: Tensor, gradient: Tensor, velocity: Tensor) -> list[Tensor]:
        rate, count = waist.cast_to(r, x.dtype), waist.cast_to(t, x.dtype)
        gradient = x * norm_coefficient + gradient
        share = where(count > 0, number(beta, x), number(1, x))
        velocity = velocity * alpha + share * gradient
        direction = velocity if mode == "standard" else gradient + velocity * alpha
        return [x - rate * direction, velocity]

    return _each_weight(inputs, 1, step)
