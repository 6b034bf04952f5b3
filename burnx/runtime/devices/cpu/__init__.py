"""The cpu device.

Enters: a Program and arrays.  Leaves: arrays.  May import: primitives, program and below, and llvmlite.
It runs every primitive by its NumPy meaning, as the reference device does.
"""

from __future__ import annotations

from burnx.program import Program
from burnx.runtime.devices.reference.interpreter import Interpreter


def prepare(program: Program) -> Interpreter:
    """An interpreter for a program."""
    return Interpreter()
