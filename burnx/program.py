"""Program: a lowered graph, primitives only; what a device receives.

Sizes in a program are dimensions over symbols.  Symbols are bound by the shapes of the inputs and by the instructions
whose output sizes depend on data (``Instruction.binds``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.types import Type

Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class Var:
    """One value of a program; ``array`` is set on constants, ``known`` on values that could be worked out early."""

    type: Type
    array: Array | None = None
    known: Array | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """The symbol ``name`` is the size of axis ``axis`` of output ``output``."""

    name: str
    output: int
    axis: int


@dataclass(slots=True, eq=False)
class Instruction:
    """One primitive applied to values.

    ``place`` names the node it comes from.  Attributes may hold dimensions, arrays, callables and programs.
    """

    primitive: str
    inputs: tuple[Var | None, ...]
    outputs: tuple[Var, ...]
    attributes: Mapping[str, Any]
    place: str = ""
    binds: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """What one operator expanded to: instructions[start:stop].  A device may take a region whole."""

    operator: str
    attributes: Mapping[str, Any]
    inputs: tuple[Var | None, ...]
    outputs: tuple[Var, ...]
    start: int
    stop: int


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """Instructions in order, between inputs and outputs.

    ``captures`` are the values of the program around this one that it reads; they come behind ``inputs``.
    """

    inputs: tuple[Var, ...] = ()
    outputs: tuple[Var, ...] = ()
    captures: tuple[Var, ...] = ()
    captured: tuple[Var, ...] = ()
    instructions: list[Instruction] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)


def bodies(instruction: Instruction) -> Iterator[Program]:
    """The programs that an instruction runs."""
    for value in instruction.attributes.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Program):
                yield each


def walk(program: Program) -> Iterator[Instruction]:
    """All instructions of a program, those in bodies included."""
    for instruction in program.instructions:
        yield instruction
        for body in bodies(instruction):
            yield from walk(body)
