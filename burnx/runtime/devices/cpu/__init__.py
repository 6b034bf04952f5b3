"""The cpu device: burnx's own compiler.

Enters: a Program and arrays.  Leaves: arrays.  May import: fusion, kernels, primitives, program and below, and llvmlite.
A program is cut into segments (``segments.py``); fusion makes each a schedule of kernels, which become LLVM IR (``llvm/``)
and object code (``objects.py``); a plan for given sizes (``plans.py``) is run by the native machine (``machine.py``).
Start reading at ``runner.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnx.program import Program
from burnx.runtime.devices.cpu.objects import compiled_kernels
from burnx.runtime.devices.cpu.reports import name_foreign
from burnx.runtime.devices.cpu.runner import Runner
from burnx.runtime.devices.cpu.threads import prepare_threads


def prepare(program: Program, options: Mapping[str, Any]) -> Runner:
    """A runner for a program: ``threads`` and ``fuse`` are what it asks of ``options``."""
    return Runner(threads=prepare_threads(options.get("threads")), fuse=options.get("fuse", True))


__all__ = ["compiled_kernels", "name_foreign", "prepare"]
