"""Native code as texts and constants, and back.

What a start with the sizes of the first run needs is in the head: the kernels' names, where constants lie, and the plan.
What another plan is made of is in the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, dtype_name
from burnx.fusion.storage import Storage
from burnx.program import Var
from burnx.runtime.compiled.lines import Jump, Line, Lines, Task, Wait
from burnx.runtime.devices.cpu.machine import RUN
from burnx.runtime.devices.cpu.native import Code, Details, Native
from burnx.runtime.devices.cpu.object_files import describe_target, list_versions
from burnx.runtime.devices.cpu.objects import load_kept
from burnx.runtime.devices.cpu.plans import Plan, Work
from burnx.runtime.devices.cpu.results import tuning_stamp
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.kept.codec import Reader, Writer
from burnx.runtime.kept.constants import Find, Places, read_constant
from burnx.runtime.kept.identity import Stamp

Array = np.ndarray[Any, Any]
Ends = tuple[tuple[Var, ...], tuple[Var, ...]]


def plan_stamp() -> Stamp:
    """What native code of this processor depends on; plans that were made with other results of races are not taken."""
    target = find_target()
    makers = [*list_versions(), tuning_stamp(target)]
    return Stamp([target.triple, target.cpu, target.features], makers, describe_target(target))


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Storages:
    """The table of storages."""

    to: Writer
    constants: dict[Storage, int]
    rows: list[Any] = field(default_factory=list)
    _places: dict[Storage, int] = field(default_factory=dict)

    def add(self, each: Storage | None) -> int:
        if each is None:
            return -1
        if each not in self._places:
            within = self.add(each.within)
            self._places[each] = len(self.rows)
            self.rows.append(
                [
                    dtype_name(each.dtype),
                    self.to.shape(each.shape),
                    each.role,
                    list(each.order),
                    [list(pair) for pair in each.margin],
                    each.fill,
                    list(each.apart),
                    self.constants.get(each, -1),
                    within,
                    self.to.shape(each.start),
                ]
            )
        return self._places[each]


def write_native(native: Native, places: Places) -> tuple[Any, Any]:
    """(head, body) of native code that has been planned for once.

    Raises: Unkeepable.
    """
    details, code = native.details, native.code
    tasks = [line for line in details.work.lines.lines if isinstance(line, Task)]
    found = {s: s.array for task in tasks for s in task.storages if s.array is not None}
    constants = {storage: place for place, storage in enumerate(found)}
    unique = list(dict.fromkeys(code.kernels))
    numbers = {name: place for place, name in enumerate(unique)}
    head = {
        "kernels": unique,
        "tasks": [numbers[name] for name in code.kernels],
        "symbols": list(code.symbols),
        "constants": [places.write(array) for array in found.values()],
        "threads": native.threads,
        "plan": None,
    }
    plan = None if native.first is None else native.plan_of(native.first)
    if plan is not None and native.first is not None:
        head["plan"] = [list(native.first), *_write_plan(plan, native, constants)]
    return head, _write_details(details, native, constants)


def _write_plan(plan: Plan, native: Native, constants: Mapping[Storage, int]) -> list[Any]:
    numbers = [
        [[ends.index(var), list(shape), where.tolist()] for var, shape, where in part]
        for ends, part in ((native.inputs, plan.given), (native.outputs, plan.made))
    ]
    return [
        plan.arguments.tolist(),
        plan.starts.tolist(),
        plan.table.reshape(-1).tolist(),
        plan.in_arena.tolist(),
        *numbers,
        plan.size,
        list(plan.zeroed),
        [list(each) for each in plan.filled],
        plan.workers,
        [[constants[storage], list(where)] for storage, where in plan.constants.items()],
    ]


def _write_details(details: Details, native: Native, constants: dict[Storage, int]) -> Any:
    to = Writer()
    storages = _Storages(to, constants)
    lines = [_write_line(line, to, storages) for line in details.work.lines.lines]
    ends = [
        [storages.add(details.work.memory.get(var)) for var in part]
        for part in (native.inputs, native.outputs)
    ]
    demands = [
        [to.instruction(each) for each in part] for part in (details.demands, details.inner_demands)
    ]
    return {
        "lines": lines,
        "loops": [list(each) for each in details.work.lines.loops],
        "ends": ends,
        "demands": demands,
        "storages": storages.rows,
        "vars": to.vars,
        "dims": to.dims,
    }


def _write_line(line: Line, to: Writer, storages: _Storages) -> list[Any]:
    if isinstance(line, Jump):
        return ["jump", line.target, storages.add(line.unless)]
    if isinstance(line, Wait):
        return ["wait", storages.add(line.held)]
    return [
        "task",
        [storages.add(each) for each in line.storages],
        to.shape(line.sizes),
        [place for place, each in enumerate(line.storages) if each in line.writes],
        to.dim(line.work),
        line.place,
        line.kind,
        line.product,
        line.parallel,
    ]


# --- reading ----------------------------------------------------------------------------------------------------------


def read_native(
    head: Any, find_body: Callable[[], Any], ends: Ends, find: Mapping[str, Find], threads: int
) -> Native | None:
    """The native code of an entry; None if a kernel of it is not kept any more.

    Raises: any of LookupError, TypeError, ValueError and BurnxError if the entry is damaged.
    """
    addresses = load_kept(head["kernels"], find_target())
    if addresses is None:
        return None
    arrays = [read_constant(entry, find) for entry in head["constants"]]
    tasks = head["tasks"]
    code = Code(
        tuple([head["kernels"][place] for place in tasks]),
        [addresses[place] for place in tasks],
        tuple(head["symbols"]),
    )
    native = Native(ends, code, threads, lambda: _read_details(find_body(), ends, arrays))
    if head["plan"] is not None and head["threads"] == threads:
        sizes, *rest = head["plan"]
        native.add_plan(tuple(sizes), _read_plan(rest, native, arrays))
    return native


def _read_plan(entry: Sequence[Any], native: Native, arrays: Sequence[Array]) -> Plan:
    arguments, starts, table, in_arena, given, made, size, zeroed, filled, workers, constants = (
        entry
    )
    values = np.array(arguments, np.int64)
    for place, where in constants:
        values[where] = arrays[place].__array_interface__["data"][0]
    rows = np.array(table, np.int64).reshape(-1, 4)
    rows[(rows[:, 0] & 0xFF) == RUN, 1] = native.code.addresses
    ends = [
        tuple(
            [(vars[place], tuple(shape), np.array(where, np.int64)) for place, shape, where in part]
        )
        for vars, part in ((native.inputs, given), (native.outputs, made))
    ]
    return Plan(
        values,
        np.array(starts, np.int64),
        rows,
        np.array(in_arena, np.int64),
        ends[0],
        ends[1],
        size,
        (zeroed[0], zeroed[1]),
        tuple([(start, stop, fill) for start, stop, fill in filled]),
        workers,
    )


def _read_details(body: Any, ends: Ends, arrays: Sequence[Array]) -> Details:
    reader = Reader(body["dims"], body["vars"])
    storages: list[Storage] = []
    for dtype, shape, role, order, margin, fill, apart, constant, within, start in body["storages"]:
        storages.append(
            Storage(
                DTYPES[dtype],
                reader.shape(shape),
                role,
                tuple(order),
                tuple([(low, high) for low, high in margin]),
                fill,
                tuple(apart),
                arrays[constant] if constant >= 0 else None,
                storages[within] if within >= 0 else None,
                reader.shape(start),
            )
        )
    lines = [_LINES[kind](reader, storages, *rest) for kind, *rest in body["lines"]]
    memory = {
        var: storages[place]
        for vars, places in zip(ends, body["ends"], strict=True)
        for var, place in zip(vars, places, strict=True)
        if place >= 0
    }
    demands = [[reader.instruction(each) for each in part] for part in body["demands"]]
    loops = [(start, end) for start, end in body["loops"]]
    return Details(Work(Lines(lines, loops), memory), demands[0], demands[1])


def _read_task(reader: Reader, storages: Sequence[Storage], *entry: Any) -> Task:
    given, sizes, writes, work, place, kind, product, parallel = entry
    used = tuple([storages[each] for each in given])
    return Task(
        used,
        reader.shape(sizes),
        frozenset([used[each] for each in writes]),
        reader.dim(work),
        place,
        kind,
        product,
        parallel,
    )


def _read_jump(reader: Reader, storages: Sequence[Storage], target: int, unless: int) -> Jump:
    return Jump(target, storages[unless] if unless >= 0 else None)


def _read_wait(reader: Reader, storages: Sequence[Storage], held: int) -> Wait:
    return Wait(storages[held])


_LINES: dict[str, Callable[..., Line]] = {
    "task": _read_task,
    "jump": _read_jump,
    "wait": _read_wait,
}
