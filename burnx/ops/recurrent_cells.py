"""What recurrent operators share: activations, directions, lengths, and the loop over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan, nan

from burnx import waist
from burnx.dtype import float32, float64, int64
from burnx.errors import ModelError
from burnx.shape import Dim
from burnx.tensor import Tensor

Function = Callable[[Tensor], Tensor]
# one turn: (projected input of the turn, state) -> new state; the first of the state is the output
Turn = Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]]


def scalar(value: float, like: Tensor) -> Tensor:
    """A number in the dtype of ``like``."""
    return waist.constant(value, like.dtype)


def times(x: Tensor, factor: float) -> Tensor:
    return waist.map("mul", x, scalar(factor, x))


def plus(x: Tensor, term: float) -> Tensor:
    return waist.map("add", x, scalar(term, x))


def above(x: Tensor, bound: float, otherwise: Tensor) -> Tensor:
    """x where it is greater than ``bound``."""
    return waist.map("select", waist.map("lt", scalar(bound, x), x), x, otherwise)


def sigmoid(x: Tensor) -> Tensor:
    return waist.map("div", scalar(1, x), plus(waist.map("exp", waist.map("neg", x)), 1))


def tanh(x: Tensor) -> Tensor:
    return waist.map("tanh", x)


def between(x: Tensor, low: float, high: float) -> Tensor:
    return waist.map("min", waist.map("max", x, scalar(low, x)), scalar(high, x))


def _elu(x: Tensor, alpha: float) -> Tensor:
    return above(x, 0, times(waist.map("expm1", x), alpha))


def _softsign(x: Tensor) -> Tensor:
    return waist.map("div", x, plus(waist.map("abs", x), 1))


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of a tensor and the numbers it takes, with what they are when not given (NaN: they must be)."""

    function: Callable[..., Tensor]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(lambda x: waist.map("max", x, scalar(0, x))),
    "tanh": Activation(tanh),
    "sigmoid": Activation(sigmoid),
    "softsign": Activation(_softsign),
    "softplus": Activation(lambda x: waist.map("softplus", x)),
    "affine": Activation(lambda x, a, b: plus(times(x, a), b), 1.0, 0.0),
    "leakyrelu": Activation(lambda x, a: above(x, 0, times(x, a)), 0.01),
    "thresholdedrelu": Activation(lambda x, a: above(x, a, scalar(0, x)), 1.0),
    "scaledtanh": Activation(lambda x, a, b: times(tanh(times(x, b)), a), nan, nan),
    "hardsigmoid": Activation(lambda x, a, b: between(plus(times(x, a), b), 0, 1), 0.2, 0.5),
    "elu": Activation(_elu, 1.0),
}


def activations_of(
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    default: Sequence[str],
    directions: int,
) -> list[list[Function]]:
    """The activations of each direction; those that take an alpha or beta use up the given ones in order."""
    wanted = list(names) if names else [*default] * directions
    if len(wanted) != len(default) * directions:
        raise ModelError(
            f"{len(default)} activations for each of {directions} directions are needed, not {wanted}"
        )
    left, right = list(alphas or ()), list(betas or ())
    found: list[Function] = []
    for name in wanted:
        entry = ACTIVATIONS.get(name.lower())
        if entry is None:
            raise ModelError(f'"{name}" is not an activation of a recurrent operator')
        numbers = [
            given.pop(0) if given else number
            for given, number in ((left, entry.alpha), (right, entry.beta))
            if number is not None
        ]
        if any(isnan(number) for number in numbers):
            raise ModelError(f'activation "{name}" needs an alpha and a beta')
        found.append(_bound(entry.function, numbers))
    return [found[at : at + len(default)] for at in range(0, len(found), len(default))]


def _bound(function: Callable[..., Tensor], numbers: Sequence[float]) -> Function:
    return lambda x: function(x, *numbers)


def clipped(x: Tensor, clip: float | None) -> Tensor:
    """x between -clip and clip, if there is a clip."""
    return between(x, -clip, clip) if clip is not None and clip > 0 else x


DIRECTIONS: dict[str, tuple[bool, ...]] = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def reversals(direction: str) -> tuple[bool, ...]:
    """For each direction whether it runs backwards."""
    if direction not in DIRECTIONS:
        raise ModelError(f'a direction is one of {", ".join(DIRECTIONS)}, not "{direction}"')
    return DIRECTIONS[direction]


@dataclass(frozen=True, slots=True)
class Layout:
    """How inputs and outputs are ordered: time first, or batch first."""

    batch_first: bool

    def time_first(self, x: Tensor) -> Tensor:
        return waist.transpose(x, (1, 0, 2)) if self.batch_first else x

    def state(self, x: Tensor | None, direction: int) -> Tensor | None:
        """The initial state of one direction.  Shapes: (dirs, batch, hidden) -> (batch, hidden)"""
        return None if x is None else part(self.time_first(x), direction)

    def sequence(self, outputs: Sequence[Tensor]) -> Tensor:
        """Shapes: a (time, batch, hidden) for each direction -> (time, dirs, batch, hidden)"""
        joined = waist.concat([_inserted(each, 1) for each in outputs], 1)
        return waist.transpose(joined, (2, 0, 1, 3)) if self.batch_first else joined

    def final(self, states: Sequence[Tensor]) -> Tensor:
        """Shapes: a (batch, hidden) for each direction -> (dirs, batch, hidden)"""
        axis = 1 if self.batch_first else 0
        return waist.concat([_inserted(each, axis) for each in states], axis)


def _inserted(x: Tensor, axis: int) -> Tensor:
    return waist.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def part(x: Tensor, index: int) -> Tensor:
    """x[index]"""
    return waist.reshape(waist.slice_axis(x, 0, index, 1), x.shape[1:])


def rows(x: Tensor, start: Dim, count: Dim, axis: int = 0) -> Tensor:
    """x[start : start + count] along an axis"""
    return waist.slice_axis(x, axis, start, count)


def project(x: Tensor, weight: Tensor) -> Tensor:
    """Shapes: (*s, in), (out, in) -> (*s, out)"""
    return waist.contract(x, weight, ((), ()), ((x.ndim - 1,), (1,)))


def wide(*tensors: Tensor | None) -> list[Tensor | None]:
    """Floats as float32 or float64, in which all of a recurrent operator is computed."""
    return [x if x is None or x.dtype == float64 else waist.cast_to(x, float32) for x in tensors]


def zeros_if_absent(x: Tensor | None, like: Tensor, hidden: Dim) -> Tensor:
    """A state, zero if it is not given.

    Shapes: (batch, hidden) -> (batch, hidden), where ``like`` is (time, batch, gates).
    Raises: ShapeError if the state is that of another batch or another number of units.
    """
    if x is not None:
        x = waist.with_size(x, 0, like.shape[1], f"a state has {like.shape[1]} rows, as the batch")
        return waist.with_size(x, 1, hidden, f"a state has {hidden} units, as the weights")
    return waist.broadcast(scalar(0, like), (like.shape[1], hidden))


def over_time(
    projected: Tensor,
    state: Sequence[Tensor],
    lengths: Tensor | None,
    backwards: bool,
    turn: Turn,
) -> tuple[Tensor, list[Tensor]]:
    """Every output in the order of time, and the last state.

    Past the end of its sequence an output is zero and the state is kept, so that a direction that runs backwards
    starts at the end of each sequence.  Shapes: (time, batch, gates) -> (time, batch, hidden)
    """
    time = projected.shape[0]
    trips = waist.reshape(waist.sizes(time), ())
    limits = None
    if lengths is not None:
        limits = waist.reshape(waist.cast_to(lengths, int64), (lengths.shape[0], 1))
    ordered = waist.flip(projected, [0]) if backwards else projected

    def body(iteration: Tensor, going: Tensor, *old: Tensor) -> list[Tensor]:
        new = list(turn(waist.take(ordered, iteration, 0), old))
        output = new[0]
        if limits is not None:
            last = waist.map("sub", trips, waist.constant(1, int64))
            place = waist.map("sub", last, iteration) if backwards else iteration
            inside = waist.map("lt", place, limits)
            output = waist.map("select", inside, new[0], scalar(0, new[0]))
            new = [waist.map("select", inside, *pair) for pair in zip(new, old, strict=True)]
        return [going, *new, output]

    *final, outputs = waist.repeat(trips, None, list(state), body)
    return waist.flip(outputs, [0]) if backwards else outputs, final
