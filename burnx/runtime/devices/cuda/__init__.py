"""CUDA devices, through CuPy.

Enters: a Program and arrays.  Leaves: arrays.  May import: runtime.devices.gpu and below, and cupy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burnx.program import Program
from burnx.runtime.compiled.foreign import name_foreign
from burnx.runtime.devices.cuda.listing import describe_device, list_devices

if TYPE_CHECKING:
    from burnx.runtime.devices.gpu.driver import Driver
    from burnx.runtime.devices.gpu.runner import Runner
    from burnx.runtime.tuning.roofline import Roofline


def prepare(program: Program, options: Mapping[str, Any], *, name: str) -> Runner:
    """A runner for a program on the device of this name: ``fuse`` and ``tune`` are what it asks of ``options``."""
    from burnx.runtime.devices.gpu.runner import Runner

    fuse, tune = options.get("fuse", True), bool(options.get("tune"))
    return Runner(driver=find_driver(name), fuse=fuse, tune=tune)


def find_driver(name: str) -> Driver:
    """The driver of a device of this name.

    Raises: DeviceError if its package, a driver or that device is missing.
    """
    from burnx.runtime.devices.cuda import (
        driver,
    )  # what it takes to compile is not needed to say what is here

    return driver.find_driver(name)


def find_roofline(options: Mapping[str, Any], name: str) -> Roofline:
    """What the device does at its best."""
    from burnx.runtime.devices.gpu.roofline import device_roofline

    return device_roofline(find_driver(name))


def measure_memory(name: str) -> dict[str, int]:
    """What is held of the device's memory."""
    from burnx.runtime.devices.gpu import pages

    return pages.measure_memory(find_driver(name))


__all__ = [
    "describe_device",
    "find_driver",
    "find_roofline",
    "list_devices",
    "measure_memory",
    "name_foreign",
    "prepare",
]
