"""A program made ready for the cpu: its units, native code and instructions for Python, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from burnx.program import Program, Var
from burnx.runtime.devices.cpu.native import Native
from burnx.runtime.devices.reference.interpreter import Step
from burnx.shape import symbol_name
from burnx.types import TensorType

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


def find_bound(inputs: Sequence[Var]) -> tuple[tuple[Var, int, str], ...]:
    """The symbols that the sizes of inputs bind."""
    found = []
    for var in inputs:
        if isinstance(var.type, TensorType):
            for axis, dim in enumerate(var.type.shape or ()):
                name = symbol_name(dim)
                if name is not None:
                    found.append((var, axis, name))
    return tuple(found)
