"""OpenCL devices, through pyopencl: any driver that is installed, PoCL among them.

Enters: a Program and arrays.  Leaves: arrays.  May import: runtime.devices.gpu and below, and pyopencl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnx.program import Program
from burnx.runtime.compiled.foreign import name_foreign
from burnx.runtime.devices.gpu.runner import Runner
from burnx.runtime.devices.opencl.driver import find_driver
from burnx.runtime.devices.opencl.listing import describe_device, list_devices


def prepare(program: Program, options: Mapping[str, Any], *, name: str) -> Runner:
    """A runner for a program on the device of this name: ``fuse`` is what it asks of ``options``."""
    return Runner(driver=find_driver(name), fuse=options.get("fuse", True))


__all__ = ["describe_device", "find_driver", "list_devices", "name_foreign", "prepare"]
