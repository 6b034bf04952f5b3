"""A program made ready for the cpu: its units, native code and instructions for Python, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from burnx.program import Program, Var
from burnx.runtime.devices.cpu.native import Native
from burnx.runtime.devices.reference.interpreter import Step

Unit = Native | Step


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A program's units: native code, or an instruction with what dies after it.

    ``unkept`` are called once the program has run.  ``whole`` makes the program itself where only its ends are there.
    """

    units: tuple[Unit, ...]
    results: tuple[Var, ...]
    bound: tuple[tuple[Var, int, str], ...]  # an input, its axis, the symbol that its size binds
    unkept: list[Callable[[], None]] = field(default_factory=list)
    whole: Callable[[], Program] | None = None
