"""The cpu device: burnx's own compiler.

Enters: a Program and arrays.  Leaves: arrays.  May import: fusion, kernels, primitives, program and below, and llvmlite.
A program is cut into segments (``segments.py``); fusion makes each a schedule of kernels, which become LLVM IR (``llvm/``)
and object code (``objects.py``); a plan for given sizes (``plans.py``) is run by the native machine (``machine.py``).
Start reading at ``runner.py``.
"""

from __future__ import annotations

from burnx.program import Program
from burnx.runtime.devices.cpu.runner import Runner
from burnx.runtime.devices.cpu.threads import prepare_threads


def prepare(program: Program) -> Runner:
    """A runner for a program."""
    return Runner(threads=prepare_threads())
