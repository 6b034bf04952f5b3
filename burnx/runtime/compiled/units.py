"""A program made ready for a device: its units, native code and instructions for Python, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from burnx.program import Program, Var


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A program's units: native code of the device, or an instruction with what dies after it.

    ``unkept`` are called once the program has run.  ``whole`` makes the program itself where only its ends are there.
    ``inside`` are values that only native code reads.
    """

    units: tuple[Any, ...]
    results: tuple[Var, ...]
    bound: tuple[tuple[Var, int, str], ...]  # an input, its axis, the symbol that its size binds
    unkept: list[Callable[[], None]] = field(default_factory=list)
    whole: Callable[[], Program] | None = None
    inside: frozenset[Var] = frozenset()
