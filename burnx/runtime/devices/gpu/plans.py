"""A segment's launches for given sizes: forms, groups, and where everything lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.dtype import dtype_name, float64
from burnx.errors import UnsupportedError
from burnx.fusion.storage import Storage
from burnx.gpu.code import Code, Form
from burnx.gpu.emitter import write
from burnx.kernels.ir import Kernel, Lookup, walk
from burnx.kernels.text import kernel_text
from burnx.program import Var
from burnx.runtime.compiled.layout import Layout, place_all, size_bytes
from burnx.runtime.compiled.lines import Task
from burnx.runtime.devices.gpu.choosing import pick_form
from burnx.runtime.devices.gpu.driver import Driver, Function
from burnx.runtime.devices.gpu.flow import Flows, Run, Turns, task_of
from burnx.shape import evaluate

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a segment does, whatever the sizes.  ``texts`` name the kernels; ``constants`` lie on the device."""

    flows: Flows
    texts: tuple[str, ...]
    memory: Mapping[Var, Storage]
    constants: Mapping[Storage, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """One launch: its function, groups (none: nothing to do), buffers with the guards last, and sizes.

    ``named`` are all sizes of the kernel, ``symbols`` those of the segment, that the task's sizes are made of.
    """

    code: Code
    function: Function
    groups: tuple[int, int, int]
    storages: tuple[Storage, ...]
    sizes: tuple[int, ...]
    task: Task
    kernel: Kernel
    text: str
    named: Mapping[str, int]
    symbols: Sizes

    @property
    def place(self) -> str:
        return self.task.place


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """``ends`` are (value, shape, storage) of what enters and of what leaves; their memory is part of the arena."""

    launches: tuple[Planned, ...]
    offsets: Mapping[Storage, int]
    layout: Layout
    size: int
    given: tuple[tuple[Var, tuple[int, ...], Storage], ...]
    made: tuple[tuple[Var, tuple[int, ...], Storage], ...]
    checked: bool  # whether a kernel may find an index outside its axis


def make_plan(
    work: Work, sizes: Sizes, ends: tuple[Sequence[Var], Sequence[Var]], driver: Driver
) -> Plan:
    """The plan of a segment; what it needs is built, if it was not yet."""
    for storage in work.memory.values():
        size_bytes(storage, sizes)
    launches = _plan_launches(work, sizes, driver)
    layout = place_all(work.flows.lines, sizes, driver.workers)
    offsets = dict(layout.offsets)
    given = _shaped(work, ends[0], sizes)
    made = _shaped(work, ends[1], sizes)
    total = layout.size
    for _, _, storage in (*given, *made):
        if storage.root not in offsets and storage.role != "constant":
            offsets[storage.root] = total
            total += -(-size_bytes(storage.root, sizes) // _ALIGNMENT) * _ALIGNMENT
    kernels = work.flows.kernels
    lookups = [each for one in kernels for each in walk(one.body) if isinstance(each, Lookup)]
    checked = not all(each.sure for each in lookups)
    return Plan(tuple(launches), offsets, layout, total, given, made, checked)


_ALIGNMENT = 256


def _shaped(
    work: Work, values: Sequence[Var], sizes: Sizes
) -> tuple[tuple[Var, tuple[int, ...], Storage], ...]:
    return tuple(
        (var, tuple(evaluate(size, sizes) for size in work.memory[var].shape), work.memory[var])
        for var in values
        if var in work.memory
    )


def _plan_launches(work: Work, sizes: Sizes, driver: Driver) -> list[Planned]:
    flows, chosen = work.flows, []
    known: dict[Any, Form] = {}  # layers are alike
    for line, kernel in enumerate(flows.kernels):
        task = task_of(flows, line)
        numbers = tuple(evaluate(size, sizes) for size in task.sizes)
        named = dict(zip(kernel.sizes, numbers, strict=True))
        guards = _guards_of(flows, line)
        text = work.texts[line]
        _check_dtypes(driver, text, task.place)
        key = (text, numbers, guards)
        if key not in known:
            known[key] = pick_form(driver, kernel, text, named, guards)
        chosen.append((kernel, text, known[key], named, task))
    build_missing(driver, [(kernel, text, form) for kernel, text, form, _, _ in chosen])
    return [
        _planned(driver, (kernel, text, form), named, task, sizes)
        for kernel, text, form, named, task in chosen
    ]


def _check_dtypes(driver: Driver, text: str, place: str) -> None:
    """Raises: UnsupportedError if a kernel needs numbers that the device does not have."""
    if driver.limits.doubles or dtype_name(float64) not in text:
        return
    raise UnsupportedError(
        f"{driver.name} ({driver.about}) has no float64, which {place or 'a kernel'} needs: "
        "take another device, or name one as fallback"
    )


def _planned(
    driver: Driver,
    wanted: tuple[Kernel, str, Form],
    named: Mapping[str, int],
    task: Task,
    symbols: Sizes,
) -> Planned:
    kernel, text, form = wanted
    code, function = driver.functions[text, form]
    groups, fixed = code.groups(named, driver.workers), dict(form.fixed)
    passed = tuple(number for name, number in named.items() if name not in fixed)
    return Planned(
        code, function, groups, task.storages, passed, task, kernel, text, named, symbols
    )


def plan_again(driver: Driver, planned: Planned, form: Form) -> Planned:
    """The same launch in another form."""
    wanted = planned.kernel, planned.text, form
    build_missing(driver, [wanted])
    return _planned(driver, wanted, planned.named, planned.task, planned.symbols)


def _guards_of(flows: Flows, line: int) -> tuple[bool, ...]:
    found: list[Any] = list(flows.flow)
    while found:
        each = found.pop()
        if isinstance(each, Turns):
            found.extend(each.body)
        elif isinstance(each, Run) and each.line == line:
            return tuple(guard.value for guard in each.guards)
    return ()


def build_missing(driver: Driver, wanted: Sequence[tuple[Kernel, str, Any]]) -> None:
    """Build the functions that are not there, all together."""
    missing: dict[tuple[str, Any], Code] = {}
    for kernel, text, form in wanted:
        if (text, form) not in driver.functions and (text, form) not in missing:
            missing[text, form] = write(kernel, driver.dialect, form)
    if not missing:
        return
    by_name = {code.name: code for code in missing.values()}
    built = dict(zip(by_name, driver.build(list(by_name.values())), strict=True))
    for key, code in missing.items():
        driver.functions[key] = (code, built[code.name])


def name_kernels(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    return tuple(kernel_text(kernel) for kernel in kernels)
