"""A schedule for given sizes: where everything lies, the arguments of each step, and the table the machine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.fusion.storage import Storage
from burnx.program import Var
from burnx.runtime.compiled.layout import place_all, size_bytes
from burnx.runtime.compiled.lines import Jump, Line, Lines, Task, Wait
from burnx.runtime.devices.cpu.machine import (
    BARRIER,
    END,
    JUMP,
    JUMP_UNLESS,
    RUN,
    SOLO,
    THEN_BARRIER,
    make_state,
)
from burnx.runtime.devices.cpu.memory import Workspace
from burnx.shape import evaluate

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
# about 15 operations take a nanosecond
SOLO_WORK = 40_000  # a step below that: a second thread costs more than it saves
ALONE_WORK = (
    1_000_000  # a program below that, in steps for several threads, runs on the thread that calls
)
_LOOP_TURNS = 16  # of a loop whose number is not known when its program is planned


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """``arguments`` of all steps one behind the other, addresses of the arena counted from its start.

    ``in_arena`` are the positions of those; ``given`` and ``made`` those of each input's and output's address, and
    ``constants`` those of each constant's, for whoever wants to keep the plan.
    """

    arguments: Array
    starts: Array
    table: Array
    in_arena: Array
    given: tuple[tuple[Var, tuple[int, ...], Array], ...]
    made: tuple[tuple[Var, tuple[int, ...], Array], ...]
    size: int
    zeroed: tuple[int, int]
    filled: tuple[tuple[int, int, int], ...]
    workers: int
    constants: Mapping[Storage, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What native code does, whatever the sizes: its lines, and where the values that enter and leave lie."""

    lines: Lines
    memory: Mapping[Var, Storage]


class Bench:
    """The memory, arguments and state of one running call."""

    __slots__ = ("arguments", "memory", "plan", "state", "state_address", "steps", "table")

    def __init__(self, plan: Plan, memory: Workspace | None = None) -> None:
        size = max(plan.size, 64)
        if memory is None or len(memory.array) < size:
            memory = Workspace(size)
        else:
            memory.array[slice(*plan.zeroed)] = 0
        for start, stop, fill in plan.filled:
            memory.array[start:stop] = fill
        self.plan, self.memory = plan, memory
        self.arguments = plan.arguments.copy()
        self.arguments[plan.in_arena] += self.memory.address
        self.table = plan.table.copy()
        rows = len(plan.starts)
        where = self.arguments.ctypes.data + 8 * plan.starts
        kinds = plan.table[:rows, 0] & 0xFF
        self.table[:rows, 2] = np.where(kinds == RUN, where, self.table[:rows, 2])
        unless = np.flatnonzero(kinds == JUMP_UNLESS)
        self.table[unless, 1] = self.arguments[plan.starts[unless]]
        self.state = make_state()
        self.state_address: int = self.state.ctypes.data
        self.steps: int = self.table.ctypes.data


def make_plan(
    work: Work,
    addresses: Sequence[int],
    sizes: Sizes,
    ends: tuple[Sequence[Var], Sequence[Var]],
    threads: int,
) -> Plan:
    """The plan of a schedule whose kernels lie at ``addresses``; ``ends`` are its inputs and outputs."""
    for storage in work.memory.values():
        size_bytes(storage, sizes)
    lines = work.lines
    layout = place_all(lines, sizes, threads)
    made = _Arguments(layout.offsets)
    for line in lines.lines:
        made.add(line, sizes)
    workers = 1 if _shared_work(lines, sizes) < ALONE_WORK else threads
    return Plan(
        np.array(made.values, np.int64),
        np.array(made.starts, np.int64),
        _table(lines.lines, addresses, sizes),
        np.array(made.in_arena, np.int64),
        _given(work.memory, ends[0], made.positions, sizes),
        _made(work.memory, ends[1], made.positions, sizes),
        layout.size,
        layout.zeroed,
        layout.filled,
        workers,
        made.constants,
    )


@dataclass(slots=True)
class _Arguments:
    """The arguments of all lines one behind the other; a jump's is the address of its bool."""

    offsets: Mapping[Storage, int]
    values: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    in_arena: list[int] = field(default_factory=list)
    positions: dict[Storage, list[int]] = field(default_factory=dict)
    constants: dict[Storage, list[int]] = field(default_factory=dict)

    def add(self, line: Line, sizes: Sizes) -> None:
        self.starts.append(len(self.values))
        if isinstance(line, Task):
            for storage in line.storages:
                self._add_storage(storage)
            self.values += [evaluate(size, sizes) for size in line.sizes]
        elif isinstance(line, Jump) and line.unless is not None:
            self._add_storage(line.unless)

    def _add_storage(self, part: Storage) -> None:
        storage = part.root
        if storage in self.offsets:
            self.in_arena.append(len(self.values))
            self.values.append(self.offsets[storage])
            return
        positions = self.constants if storage.role == "constant" else self.positions
        positions.setdefault(storage, []).append(len(self.values))
        self.values.append(_address(storage))


def _address(storage: Storage) -> int:
    return storage.array.ctypes.data if storage.array is not None else 0


def _given(
    memory: Mapping[Var, Storage],
    inputs: Sequence[Var],
    positions: Mapping[Storage, list[int]],
    sizes: Sizes,
) -> tuple[tuple[Var, tuple[int, ...], Array], ...]:
    given = []
    for var in inputs:
        storage = memory.get(var)
        where = positions.get(storage) if storage is not None else None
        if storage is not None and where:
            shape = tuple(evaluate(size, sizes) for size in storage.shape)
            given.append((var, shape, np.array(where, np.int64)))
    return tuple(given)


def _made(
    memory: Mapping[Var, Storage],
    outputs: Sequence[Var],
    positions: Mapping[Storage, list[int]],
    sizes: Sizes,
) -> tuple[tuple[Var, tuple[int, ...], Array], ...]:
    made = []
    for var in outputs:
        storage = memory[var]
        shape = tuple(evaluate(size, sizes) for size in storage.shape)
        made.append((var, shape, np.array(positions.get(storage, []), np.int64)))
    return tuple(made)


def _table(lines: Sequence[Line], addresses: Sequence[int], sizes: Sizes) -> Array:
    """Rows of the machine; ``Bench`` puts in the addresses of arguments and bools."""
    solo = [isinstance(line, Task) and _is_solo(line, sizes) for line in lines]
    kernels = iter(addresses)
    rows = []
    for place, line in enumerate(lines):
        if isinstance(line, Jump):
            what = JUMP if line.unless is None else JUMP_UNLESS
            rows.append((what, line.target, 0, 0) if what == JUMP else (what, 0, line.target, 0))
            continue
        if isinstance(line, Wait):
            rows.append((BARRIER, 0, 0, 0))
            continue
        jumps = place + 1 == len(lines) or not isinstance(lines[place + 1], Task)
        waits = jumps or line.product or not (solo[place] and solo[place + 1])
        what = RUN | (SOLO if solo[place] else 0) | (THEN_BARRIER if waits else 0)
        rows.append((what, next(kernels), 0, 0))
    return np.array([*rows, (END, 0, 0, 0)], np.int64)


def _effort(task: Task, sizes: Sizes) -> int:
    """About how many operations a step takes; the multiplications of a product are four times as quick."""
    return max(evaluate(task.work, sizes), 0) // (4 if task.product else 1)


def _shared_work(lines: Lines, sizes: Sizes) -> int:
    """About how many operations are divided among workers."""
    total = 0
    for place, line in enumerate(lines.lines):
        if isinstance(line, Task) and not _is_solo(line, sizes):
            turns = _LOOP_TURNS if any(a <= place <= b for a, b in lines.loops) else 1
            total += _effort(line, sizes) * turns
    return total


def _is_solo(task: Task, sizes: Sizes) -> bool:
    return not task.parallel or _effort(task, sizes) < SOLO_WORK
