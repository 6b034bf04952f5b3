"""What devices with a driver share: from segments to launches, memory and plans; ``opencl`` and ``cuda`` add their drivers.

Enters: a Program and arrays.  Leaves: arrays, on the host or on the device.  May import: gpu, fusion, runtime.compiled and below;
no driver.  Start reading at ``runner.py``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnx.program import Program

if TYPE_CHECKING:
    from burnx.runtime.devices.gpu.driver import Driver
    from burnx.runtime.devices.gpu.runner import Runner
    from burnx.runtime.kept.models import Shelf, Slot
    from burnx.runtime.tuning.roofline import Roofline


def prepare(
    program: Program, options: Mapping[str, Any], slot: Slot | None = None, *, name: str
) -> Runner:
    """A runner for a program on the device of this name: ``fuse`` and ``tune`` are what it asks of ``options``.

    With a ``slot`` the program is kept there once it has run.
    """
    return _make_runner(options, slot, name)


def open_kept(
    slot: Slot, options: Mapping[str, Any], whole: Callable[[], Program], *, name: str
) -> tuple[Program, Runner] | None:
    """The program that is kept in a slot, and a runner for it; ``whole`` makes it anew where it is needed."""
    runner = _make_runner(options, slot, name)
    program = runner.open(whole)
    return None if program is None else (program, runner)


def find_shelf(
    path: Path, base_dir: Path | None, options: Mapping[str, Any], *, name: str
) -> Shelf | None:
    """What is kept of a model file; None where nothing is kept."""
    from burnx.runtime.devices.gpu.kept import plan_stamp
    from burnx.runtime.kept import models

    return models.find_shelf(path, base_dir, options, partial(plan_stamp, find_driver(name)))


def _make_runner(options: Mapping[str, Any], slot: Slot | None, name: str) -> Runner:
    from burnx.runtime.devices.gpu.runner import Runner

    fuse, tune = options.get("fuse", True), bool(options.get("tune"))
    return Runner(driver=find_driver(name), fuse=fuse, tune=tune, slot=slot)


def find_driver(name: str) -> Driver:
    """The driver of a device of this name.

    Raises: DeviceError if its package, a driver or that device is missing.
    """
    room = importlib.import_module(f"burnx.runtime.devices.{name.partition(':')[0]}")
    driver: Driver = room.find_driver(name)
    return driver


def name_foreign(program: Program) -> Iterator[tuple[str, str]]:
    """(name, place) of what Python carries out between segments."""
    from burnx.runtime.compiled import foreign

    return foreign.name_foreign(program, spread=True)


def find_roofline(options: Mapping[str, Any], name: str) -> Roofline:
    """What the device does at its best."""
    from burnx.runtime.devices.gpu.roofline import device_roofline

    return device_roofline(find_driver(name))


def measure_memory(name: str) -> dict[str, int]:
    """What is held of the device's memory."""
    from burnx.runtime.devices.gpu import pages

    return pages.measure_memory(find_driver(name))


__all__ = [
    "find_driver",
    "find_roofline",
    "find_shelf",
    "measure_memory",
    "name_foreign",
    "open_kept",
    "prepare",
]
