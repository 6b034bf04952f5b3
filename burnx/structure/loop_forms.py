"""Which Loop or Scan is a ``for`` or ``while``, and what its parts are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from burnx.graph import Graph, Node, Value
from burnx.types import TensorType

_FOREVER = 2**62  # so many turns are as good as no limit


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A variable of a loop: its value before (input number ``place``), in a turn, after the turn, after the loop."""

    start: Value
    place: int
    given: Value
    result: Value
    output: Value | None
    word: str = ""


@dataclass(frozen=True, slots=True)
class LoopForm:
    """A loop that is a statement.

    ``trips`` is the end of a range, ``rows`` the inputs that it goes over instead; ``given`` is what changes from turn
    to turn by itself. Where ``guard`` does not hold there is no turn; where ``stop`` does not the loop is left; where it
    is ``going``, its condition is the last state.
    ``items`` are appended to lists, which are ``stacked`` along ``axes``.
    """

    body: Graph
    states: list[State]
    items: list[Value]
    stacked: list[Value]
    axes: list[int]
    given: list[Value] = field(default_factory=list)
    trips: Value | None = None
    guard: Value | None = None
    rows: list[int] = field(default_factory=list)
    backwards: list[bool] = field(default_factory=list)
    stop: Value | None = None
    going: bool = False


def loop_form(node: Node) -> LoopForm | None:
    """The statement that a Loop is; None if there is none."""
    body: Graph = node.attributes["body"]
    trips, start = [*node.inputs, None, None][:2]
    given, result = body.inputs[1], body.outputs[0]
    states = _states(node.inputs[2:], body.inputs[2:], body.outputs[1:], node.outputs, 2)
    if states is None:
        return None
    count = len(states)
    stacked = node.outputs[count:]
    parts = (body, states, body.outputs[1 + count :], list(stacked), [0] * len(stacked))
    if (_constant(trips) or 0) >= _FOREVER:
        trips = None
    guard = start if _guards(trips, start) else None
    starts = start is None or bool(_constant(start)) or guard is not None
    passes, used = _passes(body, given, result), _is_used(body, given)
    counted = [body.inputs[0]]
    if starts and passes and not used and trips is not None:
        return LoopForm(*parts, counted, trips, guard)
    if result.is_constant or (starts and (passes or used)):
        return None
    if trips is not None:
        return LoopForm(*parts, counted, trips, guard, stop=result) if starts else None
    if _is_used(body, body.inputs[0]):
        return None
    if starts:
        return LoopForm(*parts, stop=result)
    if start is None or start.is_constant:
        return None
    states.append(State(start, 1, given, result, None, "going"))
    return LoopForm(*parts, going=True)


def _guards(trips: Value | None, start: Value | None) -> bool:
    """Whether a condition that is not known decides if there are any turns of a number of them.

    Both are scalars, of which ``ops.where`` makes the number of turns that there are.
    """
    if trips is None or start is None or start.is_constant:
        return False
    return all(
        isinstance(each.type, TensorType) and each.type.shape == () for each in (trips, start)
    )


def _constant(value: Value | None) -> int | None:
    """The number that a value always is."""
    if value is None or value.array is None or value.array.size != 1:
        return None
    return int(value.array.item())


def scan_form(node: Node) -> LoopForm | None:
    """The statement that a Scan is; None if it goes over another axis than the first, or stacks backwards."""
    body: Graph = node.attributes["body"]
    rows = int(node.attributes["num_scan_inputs"])
    count = len(node.inputs) - rows
    states = _states(node.inputs[:count], body.inputs[:count], body.outputs, node.outputs, 0)
    if states is None or not rows:
        return None
    stacked = list(node.outputs[count:])
    axes, out_axes = (_numbers(node, f"scan_{each}_axes") for each in ("input", "output"))
    backwards, out_back = (
        _numbers(node, f"scan_{each}_directions") for each in ("input", "output")
    )
    if any(axes) or any(out_back):
        return None
    return LoopForm(
        body,
        states,
        body.outputs[count:],
        stacked,
        out_axes or [0] * len(stacked),
        body.inputs[count:],
        rows=list(range(count, count + rows)),
        backwards=[bool(each) for each in backwards] or [False] * rows,
    )


def _numbers(node: Node, attribute: str) -> list[int]:
    return [int(each) for each in node.attributes.get(attribute) or ()]


def _states(
    starts: Sequence[Value | None],
    given: Sequence[Value],
    results: Sequence[Value],
    outputs: Sequence[Value],
    first: int,
) -> list[State] | None:
    found = []
    for place, start in enumerate(starts):
        if start is None:
            return None
        state = State(start, first + place, given[place], results[place], outputs[place])
        found.append(state)
    return found


def _passes(body: Graph, given: Value, result: Value) -> bool:
    """Whether a turn never asks for the end: the condition goes through it as it is, or is always true."""
    while result.producer is not None and result.producer.operator == "Identity":
        source = result.producer.inputs[0]
        if source is None:
            return False
        result = source
    return result is given or bool(_constant(result))


def _is_used(body: Graph, given: Value) -> bool:
    """Whether a turn reads a value for more than to pass it on as its condition."""
    passed = {given}
    for node in body.nodes:
        reads = [value for value in (*node.inputs, *_captured(node)) if value in passed]
        if reads and (node.operator != "Identity" or node.domain):
            return True
        if reads:
            passed |= set(node.outputs)
    return any(value in passed for value in body.outputs[1:])


def _captured(node: Node) -> list[Value]:
    return [value for graph in node.subgraphs() for value in graph.captures()]
