"""A schedule's steps in the order of their launches, without a question to the host: guards instead of jumps.

Each kernel of a branch is launched, and does nothing unless its guards, bools in memory, have the values it wants.  A loop
whose turns are known is its body that many times.  Of another one some turns are launched before the host asks whether
there is more to do; a turn too many does nothing, either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from burnx.dtype import bool_
from burnx.fusion.storage import Branch, Node, Repeat, Step, Storage
from burnx.kernels.ir import Apply, Buffer, Kernel, Load, Store, Value
from burnx.runtime.compiled.lines import Lines, Task, make_task


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """A bool in memory and the value it must have."""

    storage: Storage
    value: bool


Guards = tuple[Guard, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Launch the kernel of the line with this number."""

    line: int
    guards: Guards


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """``body`` again and again: ``count`` times, or while ``running``, a bool in memory, is true."""

    body: tuple[Flow, ...]
    count: int | None
    running: Storage | None


Flow: TypeAlias = Run | Turns


@dataclass(slots=True)
class Flows:
    """``kernels`` are those of the lines, which are all tasks."""

    lines: Lines = field(default_factory=Lines)
    kernels: list[Kernel] = field(default_factory=list)
    flow: list[Flow] = field(default_factory=list)


def make_flows(nodes: Sequence[Node]) -> Flows:
    made = Flows()
    made.flow = _flow(made, nodes, ())
    return made


def _flow(made: Flows, nodes: Sequence[Node], guards: Guards) -> list[Flow]:
    flow: list[Flow] = []
    for node in nodes:
        if isinstance(node, Step):
            flow.append(_run(made, node, guards))
        elif isinstance(node, Branch):
            flow += _flow(made, node.then, (*guards, Guard(node.condition, True)))
            flow += _flow(made, node.otherwise, (*guards, Guard(node.condition, False)))
        else:
            flow += _turns(made, node, guards)
    return flow


def _run(made: Flows, step: Step, guards: Guards) -> Run:
    task = make_task(step)
    held = tuple(guard.storage for guard in guards)
    made.lines.lines.append(replace(task, storages=(*task.storages, *held)))
    made.kernels.append(step.kernel)
    return Run(len(made.kernels) - 1, guards)


def _turns(made: Flows, node: Repeat, guards: Guards) -> list[Flow]:
    if node.turns is not None:
        start = len(made.kernels)
        body = _flow(made, node.body, guards)
        _note_loop(made, start)
        return [Turns(tuple(body), node.turns, None)]
    running = Storage(bool_, ())
    before = _run(made, _note_going(node, running, guards), ())
    start = len(made.kernels)
    inner = (*guards, Guard(running, True))
    body = _flow(made, node.body, inner)
    body.append(_run(made, _note_going(node, running), inner))
    _note_loop(made, start)
    return [before, Turns(tuple(body), None, running)]


def _note_going(node: Repeat, running: Storage, guards: Guards = ()) -> Step:
    """The step that says for the host whether a loop goes on, and all ``guards`` hold.

    Before the first turn it has none itself, but reads them: the host asks, whether they hold or not.
    """
    given, to = Buffer("b0", bool_), Buffer("b1", bool_)
    buffers = [Buffer(f"g{place}", bool_) for place in range(len(guards))]
    value: Value = Load(given, 0)
    for guard, buffer in zip(guards, buffers, strict=True):
        held: Value = Load(buffer, 0)
        held = held if guard.value else Apply("not", (held,), bool_)
        value = Apply("and", (held, value), bool_)
    kernel = Kernel((given, *buffers, to), (), (Store(to, 0, value),))
    storages = (node.going, *(guard.storage for guard in guards), running)
    return Step(kernel, storages, (), frozenset([running]), 1, node.place)


def _note_loop(made: Flows, start: int) -> None:
    if len(made.kernels) > start:
        made.lines.loops.append((start, len(made.kernels) - 1))


def task_of(made: Flows, line: int) -> Task:
    task = made.lines.lines[line]
    assert isinstance(task, Task)
    return task
