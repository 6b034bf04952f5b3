"""The reference device: NumPy, one primitive at a time, the oracle for the others.

Enters: a Program and arrays.  Leaves: arrays.  May import: primitives, program and below.
Start reading at ``interpreter.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from burnx.program import Program, walk
from burnx.runtime.devices.reference.interpreter import Interpreter


def prepare(program: Program, options: Mapping[str, Any]) -> Interpreter:
    """An interpreter for a program; it has nothing to fuse, and one thread."""
    return Interpreter()


def name_foreign(program: Program) -> Iterator[tuple[str, str]]:
    """(name, place) of what is not a primitive: work that is handed to Python, and what is lowered only while running."""
    for instruction in walk(program):
        if instruction.primitive in ("host", "defer"):
            yield str(instruction.attributes.get("name", instruction.primitive)), instruction.place
