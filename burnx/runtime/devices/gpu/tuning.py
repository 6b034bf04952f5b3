"""Tuning on a device: the kernels of a plan are raced where they stand, on the memory that they really work on.

A race leaves everything as it found it: what a kernel writes is saved before, and put back behind each candidate.  All
candidates start from the same bytes, which are nobody's numbers, so that one that writes nothing does not look right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.errors import BurnxError
from burnx.fusion.storage import Storage
from burnx.gpu.code import Form
from burnx.gpu.emitter import candidates
from burnx.runtime.compiled.layout import size_bytes
from burnx.runtime.compiled.spent import count_flops, describe_call, product_dtype
from burnx.runtime.devices.gpu.choosing import describe_form, result_key, results_of
from burnx.runtime.devices.gpu.driver import Array, Driver, Launch, Place
from burnx.runtime.devices.gpu.plans import Planned, build_missing
from burnx.runtime.devices.gpu.roofline import device_roofline
from burnx.runtime.tuning.agreement import all_agree
from burnx.runtime.tuning.racing import Outcome, race

POISON = 0x37  # as float32 about 1e-5, as float16 0.45, as an integer no small one
ROOM_BYTES = 4 << 30  # what a kernel writes may be as large as that to be raced


@dataclass(slots=True)
class Line:
    """A launch to be tuned: as it is planned, its memory, and how a form of it is made ready."""

    planned: Planned
    written: Sequence[tuple[Storage, Place, int]]
    bind: Callable[[Form], Launch]


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


def build_ahead(driver: Driver, launches: Sequence[Planned]) -> None:
    """Build what is going to be raced all at once; a form that cannot be built is found out in its race."""
    wanted = []
    for planned in launches:
        sizes, guards = dict(planned.named), planned.code.form.guards
        if results_of(driver).find(*result_key(planned.text, sizes, guards)) is None:
            offered = candidates(planned.kernel, driver.limits, sizes, guards)
            wanted += [(planned.kernel, planned.text, form) for form in offered]
    with suppress(BurnxError):
        build_missing(driver, wanted)


def tune_line(driver: Driver, line: Line) -> Outcome[Form] | None:
    """Race the forms of a kernel, and keep what comes of it; None if it is known, or there is one form alone."""
    planned = line.planned
    sizes, guards = dict(planned.named), planned.code.form.guards
    store, key = results_of(driver), result_key(planned.text, sizes, guards)
    if store.find(*key) is not None:
        return None
    offered = candidates(planned.kernel, driver.limits, sizes, guards)
    total = sum(size for _, _, size in line.written)
    if len(offered) < 2 or not total or total > ROOM_BYTES:
        return None
    saved = _save(driver, line.written)
    try:
        outcome = race(offered, _Trial(driver, line), _least_ns(driver, planned, offered))
    except BurnxError:  # the safe form does not run alone; the plan's own run says why
        return None
    finally:
        for (_, place, size), copy in zip(line.written, saved, strict=True):
            driver.copy(place, copy, size)
    laps = [[describe_form(lap.candidate), lap.elapsed_ns, lap.verdict] for lap in outcome.laps]
    value = {"form": describe_form(outcome.best), "elapsed_ns": outcome.best_ns, "laps": laps}
    store.keep({**value, "place": planned.place, "sizes": sizes}, *key)
    return outcome


def _save(driver: Driver, written: Sequence[tuple[Storage, Place, int]]) -> list[Place]:
    saved: list[Place] = []
    for _, place, size in written:
        copy: Place = (driver.allocate(size), 0)
        driver.copy(copy, place, size)
        saved.append(copy)
    return saved


def _least_ns(driver: Driver, planned: Planned, offered: Sequence[Form]) -> float:
    """What the device would take at its best; of matrix units only where that has been measured."""
    call = describe_call(planned.task, planned.symbols, 0)
    roofline = device_roofline(driver)
    dtype = product_dtype(planned.task)
    flops = count_flops(planned.task, planned.symbols)
    if any(form.matrices for form in offered) and dtype not in roofline.matrices:
        flops = 0
    return roofline.least_ns(call.bytes, flops, dtype)


def written_memory(
    planned: Planned, place: Callable[[Storage], Place]
) -> list[tuple[Storage, Place, int]]:
    """The memory that a kernel writes, each piece once."""
    roots: dict[Storage, Any] = {}
    for storage in planned.task.writes:
        root = storage.root
        if root not in roots and root.role != "scratch":
            roots[root] = (root, place(root), size_bytes(root, planned.symbols))
    return [each for each in roots.values() if each[2]]
