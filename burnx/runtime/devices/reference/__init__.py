"""The reference device: NumPy, one primitive at a time, the oracle for the others.

Enters: a Program and arrays.  Leaves: arrays.  May import: primitives, program and below.
Start reading at ``interpreter.py``.
"""

from __future__ import annotations

from burnx.program import Program
from burnx.runtime.devices.reference.interpreter import Interpreter


def prepare(program: Program) -> Interpreter:
    """An interpreter for a program."""
    return Interpreter()
