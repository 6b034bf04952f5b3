"""A schedule for given sizes: where everything lies, the arguments of each step, and the table the machine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.errors import DeviceError
from burnx.fusion.storage import Schedule, Storage
from burnx.kernels.ir import Contract, Loop, walk
from burnx.program import Var
from burnx.runtime.devices.cpu.machine import END, RUN, SOLO, THEN_BARRIER, make_state
from burnx.runtime.devices.cpu.memory import Workspace, plan_arena
from burnx.shape import evaluate

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
SOLO_WORK = 30_000  # below that a second thread costs more than it saves
ALONE_WORK = 400_000  # a whole program below that runs on the thread that calls


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """``arguments`` of all steps one behind the other, addresses of the arena counted from its start.

    ``in_arena`` are the positions of those; ``given`` and ``made`` those of each input's and output's address.
    """

    arguments: Array
    starts: Array
    table: Array
    in_arena: Array
    given: tuple[tuple[Var, Array], ...]
    made: tuple[tuple[Var, tuple[int, ...], Array], ...]
    size: int
    workers: int
    free: list[Bench] = field(default_factory=list)

    def bench(self) -> Bench:
        """Memory for one running call: one that is free, or a new one."""
        try:
            return self.free.pop()
        except IndexError:
            return Bench(self)


class Bench:
    """The memory, arguments and state of one running call."""

    __slots__ = ("arguments", "memory", "state", "state_address", "steps", "table")

    def __init__(self, plan: Plan) -> None:
        self.memory = Workspace(max(plan.size, 64))
        self.arguments = plan.arguments.copy()
        self.arguments[plan.in_arena] += self.memory.address
        self.table = plan.table.copy()
        rows = len(plan.starts)
        self.table[:rows, 2] = self.arguments.ctypes.data + 8 * plan.starts
        self.state = make_state()
        self.state_address: int = self.state.ctypes.data
        self.steps: int = self.table.ctypes.data


def make_plan(
    schedule: Schedule,
    addresses: Sequence[int],
    sizes: Sizes,
    ends: tuple[Sequence[Var], Sequence[Var]],
    threads: int,
) -> Plan:
    """The plan of a schedule whose kernels lie at ``addresses``; ``ends`` are its inputs and outputs."""
    offsets, total = _place_all(schedule, sizes, threads)
    values: list[int] = []
    starts: list[int] = []
    in_arena: list[int] = []
    positions: dict[Storage, list[int]] = {}
    for step in schedule.steps:
        starts.append(len(values))
        for storage in step.storages:
            if storage in offsets:
                in_arena.append(len(values))
            elif storage.role != "constant":
                positions.setdefault(storage, []).append(len(values))
            values.append(offsets[storage] if storage in offsets else _address(storage))
        values += [evaluate(size, sizes) for size in step.sizes]
    works = [max(evaluate(step.work, sizes), 0) for step in schedule.steps]
    workers = 1 if sum(works) < ALONE_WORK else threads
    return Plan(
        np.array(values, np.int64),
        np.array(starts, np.int64),
        _table(schedule, addresses, works),
        np.array(in_arena, np.int64),
        _given(schedule, ends[0], positions),
        _made(schedule, ends[1], positions, sizes),
        total,
        workers,
    )


def _address(storage: Storage) -> int:
    return storage.array.ctypes.data if storage.array is not None else 0


def _given(
    schedule: Schedule, inputs: Sequence[Var], positions: Mapping[Storage, list[int]]
) -> tuple[tuple[Var, Array], ...]:
    found = [(var, positions.get(schedule.memory.get(var))) for var in inputs]  # type: ignore[arg-type]
    return tuple((var, np.array(where, np.int64)) for var, where in found if where)


def _made(
    schedule: Schedule, outputs: Sequence[Var], positions: Mapping[Storage, list[int]], sizes: Sizes
) -> tuple[tuple[Var, tuple[int, ...], Array], ...]:
    made = []
    for var in outputs:
        storage = schedule.memory[var]
        shape = tuple(evaluate(size, sizes) for size in storage.shape)
        made.append((var, shape, np.array(positions.get(storage, []), np.int64)))
    return tuple(made)


def _table(schedule: Schedule, addresses: Sequence[int], works: Sequence[int]) -> Array:
    solo = [
        work < SOLO_WORK or not _is_parallel(step.kernel.body)
        for step, work in zip(schedule.steps, works, strict=True)
    ]
    rows = []
    for place, address in enumerate(addresses):
        last = place + 1 == len(addresses)
        counts = any(isinstance(each, Contract) for each in walk(schedule.steps[place].kernel.body))
        waits = last or counts or not (solo[place] and solo[place + 1])
        what = RUN | (SOLO if solo[place] else 0) | (THEN_BARRIER if waits else 0)
        rows.append((what, address, 0, 0))
    return np.array([*rows, (END, 0, 0, 0)], np.int64)


def _is_parallel(body: Sequence[Any]) -> bool:
    return any(isinstance(each, (Loop, Contract)) and each.parallel for each in walk(tuple(body)))


def _place_all(schedule: Schedule, sizes: Sizes, threads: int) -> tuple[dict[Storage, int], int]:
    """(where each storage lies in the arena, the bytes of the whole)."""
    intervals: dict[Storage, tuple[int, int]] = {}
    for place, step in enumerate(schedule.steps):
        for storage in step.storages:
            if storage.role == "arena":
                first, _ = intervals.get(storage, (place, place))
                intervals[storage] = (first, place)
    bytes_of = {storage: _bytes(storage, sizes) for storage in intervals}
    plain = [storage for storage in intervals if not storage.zeroed]
    places, total = plan_arena([(bytes_of[each], *intervals[each]) for each in plain])
    offsets = dict(zip(plain, places, strict=True))
    total = _aligned(total)
    total = _place_zeroed(intervals, bytes_of, sizes, offsets, total)
    return offsets, _place_scratch(schedule, sizes, threads, offsets, total)


def _place_zeroed(
    intervals: Mapping[Storage, tuple[int, int]],
    bytes_of: Mapping[Storage, int],
    sizes: Sizes,
    offsets: dict[Storage, int],
    total: int,
) -> int:
    """Storages with zeros share memory with those of the same geometry only: who writes leaves the zeros alone."""
    slots: dict[object, list[list[int]]] = {}  # geometry -> [offset, last step that needs it]
    for storage in sorted((s for s in intervals if s.zeroed), key=lambda each: intervals[each]):
        first, last = intervals[storage]
        extents = tuple(evaluate(size, sizes) for size in storage.extents())
        key = (storage.dtype, extents, storage.order, storage.margin, storage.apart)
        taken = slots.setdefault(key, [])
        slot = next((each for each in taken if each[1] < first), None)
        if slot is None:
            slot = [total, last]
            taken.append(slot)
            total += _aligned(bytes_of[storage])
        slot[1] = last
        offsets[storage] = slot[0]
    return total


def _place_scratch(
    schedule: Schedule, sizes: Sizes, threads: int, offsets: dict[Storage, int], total: int
) -> int:
    end = total
    for step in schedule.steps:
        place = total
        for storage in step.storages:
            if storage.role == "scratch":
                offsets[storage] = place
                place += _aligned(_bytes(storage, sizes) * threads)
        end = max(end, place)
    return end


def _bytes(storage: Storage, sizes: Sizes) -> int:
    size = evaluate(storage.elements(), sizes) * storage.dtype.itemsize
    if size < 0 or size > 1 << 46:
        raise DeviceError(f"a value of {size} bytes cannot be held")
    return size


def _aligned(size: int) -> int:
    return -(-size // 64) * 64
