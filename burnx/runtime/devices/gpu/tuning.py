"""Tuning on a device: the kernels of a plan are raced where they stand, on the memory that they really work on.

A race leaves everything as it found it: what a kernel writes is saved before, and put back behind each candidate.  All
candidates start from the same bytes, which are nobody's numbers, so that one that writes nothing does not look right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.errors import BurnxError
from burnx.fusion.storage import Storage
from burnx.gpu.code import Form
from burnx.runtime.compiled.layout import size_bytes
from burnx.runtime.compiled.spent import count_flops, describe_call
from burnx.runtime.devices.gpu.choosing import describe_form, list_forms, result_key
from burnx.runtime.devices.gpu.driver import Array, Driver, Launch, Place
from burnx.runtime.devices.gpu.launches import Launched, Origin, Plan
from burnx.runtime.devices.gpu.library import LIBRARY
from burnx.runtime.devices.gpu.plans import build_missing, plan_again
from burnx.runtime.devices.gpu.results import results_of
from burnx.runtime.devices.gpu.roofline import device_roofline
from burnx.runtime.tuning.agreement import all_agree
from burnx.runtime.tuning.racing import Outcome, race

POISON = 0x37  # as float32 about 1e-5, as float16 0.45, as an integer no small one
ROOM_BYTES = 4 << 30  # what a kernel writes may be as large as that to be raced


@dataclass(slots=True)
class Line:
    """A launch to be tuned: what it was made of, its form, its memory, and how a form of it is made ready."""

    origin: Origin
    form: Form
    written: Sequence[tuple[Storage, Place, int]]
    bind: Callable[[Form], Launch]


def open_line(
    driver: Driver,
    plan: Plan,
    line: int,
    bind: Callable[[Plan, Launched], Launch | None],
    place: Callable[[Storage], Place],
) -> Line:
    """The launch of a plan's line; ``bind`` makes a launch of what is planned, ``place`` says where a storage lies."""
    origin, form = plan.origins[line], plan.launches[line].code.form

    def bind_form(form: Form) -> Launch:
        found = bind(plan, plan_again(driver, origin, form))
        assert found is not None
        return found

    return Line(origin, form, written_memory(origin, place), bind_form)


@dataclass(slots=True)
class _Trial:
    """Forms of a kernel, each run from the same start."""

    driver: Driver
    line: Line
    launches: dict[Form, Launch] = field(default_factory=dict)

    def run(self, form: Form) -> list[Array]:
        launch = self.launches[form] = self.line.bind(form)
        for _, place, size in self.line.written:
            self.driver.fill(place, size, POISON)
        launch()
        found = []
        for storage, place, size in self.line.written:
            array = np.empty(size // storage.dtype.itemsize, storage.dtype)
            self.driver.download(place, array)
            found.append(array)
        return found

    def agrees(self, expected: list[Array], found: list[Array]) -> bool:
        return all_agree(expected, found)

    def time(self, form: Form) -> int:
        return self.driver.timed(self.launches[form])


def build_ahead(driver: Driver, plan: Plan) -> None:
    """Build what is going to be raced all at once; a form that cannot be built is found out in its race."""
    wanted = []
    for launched, origin in zip(plan.launches, plan.origins, strict=True):
        sizes, guards = dict(origin.named), launched.code.form.guards
        if results_of(driver).find(*result_key(origin.text, sizes, guards, origin.tame)) is None:
            offered = list_forms(driver, origin.kernel, sizes, guards, origin.tame)
            wanted += [(origin.kernel, origin.text, form) for form in offered]
    with suppress(BurnxError):
        build_missing(driver, wanted)


def tune_line(driver: Driver, line: Line) -> Outcome[Form] | None:
    """Race the forms of a kernel, and keep what comes of it; None if it is known, or there is one form alone."""
    origin = line.origin
    sizes, guards = dict(origin.named), line.form.guards
    store, key = results_of(driver), result_key(origin.text, sizes, guards, origin.tame)
    if store.find(*key) is not None:
        return None
    offered = list_forms(driver, origin.kernel, sizes, guards, origin.tame)
    total = sum(size for _, _, size in line.written)
    if len(offered) < 2 or not total or total > ROOM_BYTES:
        return None
    saved = _save(driver, line.written)
    try:
        outcome = race(offered, _Trial(driver, line), _least_ns(driver, origin, offered))
    except BurnxError:  # the safe form does not run alone; the plan's own run says why
        return None
    finally:
        for (_, place, size), copy in zip(line.written, saved, strict=True):
            driver.copy(place, copy, size)
    laps = [[describe_form(lap.candidate), lap.elapsed_ns, lap.verdict] for lap in outcome.laps]
    value = {"form": describe_form(outcome.best), "elapsed_ns": outcome.best_ns, "laps": laps}
    store.keep({**value, "place": origin.place, "sizes": sizes}, *key)
    return outcome


def stamp_results(driver: Driver) -> None:
    """Note that there are new results: plans that were made with others are not taken any more."""
    results_of(driver).keep(f"{time.time_ns():x}", "stamp")


def _save(driver: Driver, written: Sequence[tuple[Storage, Place, int]]) -> list[Place]:
    saved: list[Place] = []
    for _, place, size in written:
        copy: Place = (driver.allocate(size), 0)
        driver.copy(copy, place, size)
        saved.append(copy)
    return saved


def _least_ns(driver: Driver, origin: Origin, offered: Sequence[Form]) -> float:
    """What the device would take at its best; of matrix units only where that has been measured.

    0, so that nobody stops looking, where a library may know of units that burnx does not use.
    """
    if any(form.kind == LIBRARY for form in offered):
        return 0.0
    call = describe_call(origin.task, origin.symbols, 0)
    roofline = device_roofline(driver)
    dtype = origin.task.product
    flops = count_flops(origin.task, origin.symbols)
    if any(form.matrices for form in offered) and dtype not in roofline.matrices:
        flops = 0
    return roofline.least_ns(call.bytes, flops, dtype)


def written_memory(
    origin: Origin, place: Callable[[Storage], Place]
) -> list[tuple[Storage, Place, int]]:
    """The memory that a kernel writes, each piece once."""
    roots: dict[Storage, Any] = {}
    for storage in origin.task.writes:
        root = storage.root
        if root not in roots and root.role != "scratch":
            roots[root] = (root, place(root), size_bytes(root, origin.symbols))
    return [each for each in roots.values() if each[2]]
