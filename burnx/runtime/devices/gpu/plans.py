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
from burnx.runtime.compiled.layout import place_all, size_bytes
from burnx.runtime.devices.gpu.branches import find_waits
from burnx.runtime.devices.gpu.choosing import pick_form
from burnx.runtime.devices.gpu.driver import Built, Driver
from burnx.runtime.devices.gpu.flow import Flows, Run, Turns, task_of
from burnx.runtime.devices.gpu.launches import End, Launched, Origin, Plan, Sizes
from burnx.runtime.devices.gpu.library import LIBRARY
from burnx.runtime.devices.gpu.library_attentions import is_tame
from burnx.runtime.devices.gpu.library_forms import asked_of, rest_form
from burnx.runtime.devices.gpu.library_products import rest_of
from burnx.shape import evaluate


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a segment does, whatever the sizes.  ``texts`` name the kernels; ``constants`` lie on the device."""

    flows: Flows
    texts: tuple[str, ...]
    memory: Mapping[Var, Storage]
    constants: Mapping[Storage, Any]


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
    zeroed, filled = layout.zeroed, layout.filled
    launched, origins = zip(*launches, strict=True) if launches else ((), ())
    waits = find_waits(
        work.flows.flow,
        [each.task for each in origins],
        offsets,
        sizes,
        driver.workers,
        [each.asked is not None for each in launched],
    )
    return Plan(launched, offsets, total, zeroed, filled, given, made, checked, origins, waits)


_ALIGNMENT = 256


def _shaped(work: Work, values: Sequence[Var], sizes: Sizes) -> tuple[End, ...]:
    return tuple(
        (var, tuple(evaluate(size, sizes) for size in work.memory[var].shape), work.memory[var])
        for var in values
        if var in work.memory
    )


def _plan_launches(work: Work, sizes: Sizes, driver: Driver) -> list[tuple[Launched, Origin]]:
    flows, chosen = work.flows, []
    known: dict[Any, Form] = {}  # layers are alike
    for line, kernel in enumerate(flows.kernels):
        task = task_of(flows, line)
        numbers = tuple(evaluate(size, sizes) for size in task.sizes)
        named = dict(zip(kernel.sizes, numbers, strict=True))
        guards = _guards_of(flows, line)
        text = work.texts[line]
        _check_dtypes(driver, text, task.place)
        tame = bool(driver.libraries.get("attentions")) and is_tame(kernel, named, task.storages)
        key = (text, numbers, guards, tame)
        if key not in known:
            known[key] = pick_form(driver, kernel, text, named, guards, tame)
        chosen.append((known[key], Origin(task, kernel, text, named, sizes, tame)))
    build_missing(driver, [(origin.kernel, origin.text, form) for form, origin in chosen])
    return [(_launch(driver, origin, form), origin) for form, origin in chosen]


def _check_dtypes(driver: Driver, text: str, place: str) -> None:
    """Raises: UnsupportedError if a kernel needs numbers that the device does not have."""
    if driver.limits.doubles or dtype_name(float64) not in text:
        return
    raise UnsupportedError(
        f"{driver.name} ({driver.about}) has no float64, which {place or 'a kernel'} needs: "
        "take another device, or name one as fallback"
    )


def _launch(driver: Driver, origin: Origin, form: Form) -> Launched:
    code, function = driver.functions[origin.text, form]
    groups, fixed = code.groups(origin.named, driver.workers), dict(form.fixed)
    passed = tuple(number for name, number in origin.named.items() if name not in fixed)
    asked = None
    if form.kind == LIBRARY:
        asked = asked_of(driver, origin.kernel, origin.named, form)
    return Launched(code, function, groups, origin.task.storages, passed, asked)


def plan_again(driver: Driver, origin: Origin, form: Form) -> Launched:
    """The same launch in another form."""
    build_missing(driver, [(origin.kernel, origin.text, form)])
    return _launch(driver, origin, form)


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
            missing[text, form] = _write(kernel, driver, form)
    by_name = {code.name: code for code in missing.values() if code.text}
    built = driver.build(list(by_name.values())) if by_name else []
    functions = dict(zip(by_name, built, strict=True))
    for key, code in missing.items():
        driver.functions[key] = (code, functions.get(code.name, Built(None, "")))


def _write(kernel: Kernel, driver: Driver, form: Form) -> Code:
    """The function of a form; one without a text where a library leaves nothing to do."""
    if form.kind != LIBRARY:
        return write(kernel, driver.dialect, form)
    rest = rest_form(form)
    if rest is None:
        return Code("", "", form)
    return write(rest_of(kernel), driver.dialect, rest)


def name_kernels(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    return tuple(kernel_text(kernel) for kernel in kernels)
