"""CUDA devices, through CuPy.

Enters: a Program and arrays.  Leaves: arrays.  May import: runtime.devices.gpu and below, and cupy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnx.program import Program
from burnx.runtime.compiled.foreign import name_foreign
from burnx.runtime.devices.cuda.driver import find_driver
from burnx.runtime.devices.cuda.listing import describe_device, list_devices
from burnx.runtime.devices.gpu.runner import Runner


def prepare(program: Program, options: Mapping[str, Any], *, name: str) -> Runner:
    """A runner for a program on the device of this name: ``fuse`` is what it asks of ``options``."""
    return Runner(driver=find_driver(name), fuse=options.get("fuse", True))


__all__ = ["describe_device", "find_driver", "list_devices", "name_foreign", "prepare"]
