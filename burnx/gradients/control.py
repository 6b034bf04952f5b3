"""Derivatives of branches and loops, and what has none: the host's functions, and parts that wait for a value.

A branch goes back through the side that was taken.  A loop runs once more and keeps what every turn started from;
then a loop goes back through the turns, from the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burnx import waist
from burnx.dtype import bool_, is_float
from burnx.gradients.backward import pull_back
from burnx.gradients.replay import replay
from burnx.gradients.rules import Cotangents, Step, filled, rule
from burnx.program import Program
from burnx.tensor import Tensor, Undetermined, recorder_of
from burnx.types import TensorType


def _taken(step: Step, start: int) -> list[int]:
    """The inputs from ``start`` on by which derivatives are wanted."""
    return [
        place
        for place in range(start, len(step.inputs))
        if step.takes[place] and _is_smooth(step.inputs[place])
    ]


def _is_smooth(x: Tensor) -> bool:
    return isinstance(x.type, TensorType) and is_float(x.dtype)


def _replaced(
    values: Sequence[Tensor], places: Sequence[int], new: Sequence[Tensor]
) -> list[Tensor]:
    """Values with new ones at some places."""
    result = list(values)
    for place, each in zip(places, new, strict=True):
        result[place] = each
    return result


# ------------------------------------------------------------------------------- branches
@rule("cond")
def branch_rule(step: Step, *by: Tensor | None) -> Cotangents:
    condition, *captured = step.inputs
    wanted = [place - 1 for place in _taken(step, 1)]
    start = 0
    sides = []
    for program in step.attributes["programs"]:
        span = range(start, start + len(program.captures))
        sides.append(_side(program, captured, span, wanted, by))
        start = span.stop
    found = iter(waist.branch(condition, *sides))
    return [None, *(next(found) if place in wanted else None for place in range(len(captured)))]


def _side(
    program: Program, captured: Sequence[Tensor], span: range, wanted: Sequence[int], by: Cotangents
) -> Callable[[], list[Tensor]]:
    """One side as a function that gives the derivatives by all that both sides capture."""
    own = [place for place in wanted if place in span]

    def run() -> list[Tensor]:
        def function(xs: Sequence[Tensor]) -> list[Tensor]:
            given = _replaced(captured, own, xs)[span.start : span.stop]
            return replay(recorder_of(given), program, [], given)

        found = pull_back(function, [captured[place] for place in own], by)
        slopes = dict(zip(own, found, strict=True))
        return [_or_zero(slopes.get(place), captured[place]) for place in wanted]

    return run


# ------------------------------------------------------------------------------- loops
@rule("loop")
def loop_rule(step: Step, *by: Tensor | None) -> Cotangents:
    program: Program = step.attributes["program"]
    count = len(program.inputs) - 2
    carried, captured = step.inputs[2 : 2 + count], step.inputs[2 + count :]
    _check_steady(step, program)
    turns, *history = _history(step, program, carried, captured)
    smooth = [place for place, x in enumerate(carried) if _is_smooth(x)]
    wanted = [place - 2 - count for place in _taken(step, 2 + count)]
    finals, items = by[:count], by[count:]
    starts = [_or_zero(finals[place], carried[place]) for place in smooth]
    sums = [filled(0, captured[place]) for place in wanted]

    def back(turn: Tensor, going: Tensor, *state: Tensor) -> Sequence[Tensor]:
        place = _from_the_end(turns, turn)
        values = [waist.reshape(waist.take(each, place, 0), each.shape[1:]) for each in history]
        index = waist.reshape(place, ())

        def function(xs: Sequence[Tensor]) -> list[Tensor]:
            given = _replaced(values, smooth, xs[: len(smooth)])
            around = _replaced(captured, wanted, xs[len(smooth) :])
            inputs = [index, waist.constant(True, bool_), *given]
            return replay(recorder_of(xs), program, inputs, around)[1:]

        xs = [*(values[each] for each in smooth), *(captured[each] for each in wanted)]
        here = [None if each is None else _row(each, place) for each in items]
        ends: list[Tensor | None] = [None] * count
        for each, slope in zip(smooth, state, strict=False):
            ends[each] = slope
        found = pull_back(function, xs, [*ends, *here])
        slopes = [_or_zero(each, x) for each, x in zip(found, xs, strict=True)]
        added = [
            waist.map("add", *pair)
            for pair in zip(state[len(smooth) :], slopes[len(smooth) :], strict=True)
        ]
        return [going, *slopes[: len(smooth)], *added]

    trips = waist.reshape(waist.sizes(turns.shape[0]), ())
    results = waist.repeat(trips, waist.constant(True, bool_), [*starts, *sums], back)
    found: list[Tensor | None] = [None] * len(step.inputs)
    for place, slope in zip(
        [*(2 + each for each in smooth), *(2 + count + each for each in wanted)],
        results,
        strict=True,
    ):
        found[place] = slope
    return found


def _history(
    step: Step, program: Program, carried: Sequence[Tensor], captured: Sequence[Tensor]
) -> list[Tensor]:
    """The number of every turn, and what it started from: each stacked."""
    count = len(carried)

    def forward(turn: Tensor, going: Tensor, *state: Tensor) -> Sequence[Tensor]:
        results = replay(recorder_of([turn]), program, [turn, going, *state], captured)
        return [*results[: 1 + count], turn, *state]

    trips, condition = step.inputs[:2]
    return waist.repeat(trips, condition, list(carried), forward)[count:]


def _check_steady(step: Step, program: Program) -> None:
    """Raises: UnsupportedError unless what a loop carries keeps its type: only then can it be stacked."""
    for var, start in zip(program.inputs[2:], step.inputs[2:], strict=False):
        if not isinstance(var.type, TensorType) or var.type.shape is None or var.type != start.type:
            raise step.refuse("a loop that carries sequences, or what changes its shape")


def _from_the_end(turns: Tensor, turn: Tensor) -> Tensor:
    """Shapes: () -> (1)."""
    last = waist.sizes(turns.shape[0] - 1)
    return waist.map("sub", last, waist.reshape(turn, (1,)))


def _row(x: Tensor, place: Tensor) -> Tensor:
    return waist.reshape(waist.take(x, place, 0), x.shape[1:])


def _or_zero(slope: Tensor | None, x: Tensor) -> Tensor:
    return filled(0, x) if slope is None else slope


# ------------------------------------------------------------------------------- what has none
@rule("defer")
def defer_rule(step: Step, *by: Tensor | None) -> Cotangents:
    """What the rest waits for, all of it waits for.

    Raises: Undetermined
    """
    rest = step.attributes["continuation"]
    for value, x in zip(rest.types, step.inputs, strict=True):
        if value in rest.wanted:
            raise Undetermined(x.ref, rest.wanted[value])
    raise step.refuse("a part that is lowered while running")


@rule("host")
def host_rule(step: Step, *by: Tensor | None) -> Cotangents:
    raise step.refuse(f"{step.attributes['name']}, which runs in Python")


@rule("bitcast")
def bitcast_rule(step: Step, *by: Tensor | None) -> Cotangents:
    raise step.refuse("the bits of numbers")
