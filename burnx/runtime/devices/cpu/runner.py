"""Runs programs on the cpu: native segments, and between them what Python carries out."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from burnx.program import Program, Var
from burnx.runtime.devices.cpu.native import Failed, Native
from burnx.runtime.devices.cpu.segments import Segment, cut
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.devices.reference.interpreter import Interpreter, Step, make_steps
from burnx.shape import symbol_name
from burnx.types import TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A program's units: native code, or an instruction with what dies after it."""

    units: tuple[Native | Step, ...]
    results: tuple[Var, ...]
    bound: tuple[tuple[Var, int, str], ...]  # an input, its axis, the symbol that its size binds


@dataclass(slots=True, eq=False)
class Runner(Interpreter):
    """An interpreter whose runs of instructions are native code."""

    threads: int = 1
    fuse: bool = True
    prepared: MutableMapping[Program, Prepared] = field(default_factory=WeakKeyDictionary)

    def run(
        self,
        program: Program,
        inputs: Sequence[Any],
        captured: Sequence[Any] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """The outputs of ``program``; ``sizes`` are the symbols of the program around it."""
        made = self.prepared.get(program)
        if made is None:
            made = self.prepared[program] = self._prepare(program)
        known = dict(sizes) if sizes else {}
        values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        values.update(zip(program.captures, captured, strict=True))
        for var, axis, name in made.bound:
            known[name] = values[var].shape[axis]
        try:
            for unit in made.units:
                if isinstance(unit, Native):
                    unit.run(values, known, self.times_ns)
                else:
                    self.step(unit, values, known)
        except Failed:
            # the reference knows what is wrong; it may be something that it never comes to
            return Interpreter().run(program, inputs, captured, sizes)
        return [var.array if var.array is not None else values[var] for var in made.results]

    def _prepare(self, program: Program) -> Prepared:
        found = cut(program, self.fuse and find_target().int8 in ("vnni", "madd"))
        units: list[Native | Step] = []
        for unit in found.units:
            if isinstance(unit, Segment):
                units.append(Native(unit, self.threads, self.fuse))
            else:
                units.extend(make_steps([unit], unit.outputs))
        results = tuple(found.folded.get(var, var) for var in program.outputs)
        return Prepared(tuple(units), results, tuple(_bound(program)))


def _bound(program: Program) -> list[tuple[Var, int, str]]:
    found = []
    for var in program.inputs:
        if isinstance(var.type, TensorType):
            for axis, dim in enumerate(var.type.shape or ()):
                name = symbol_name(dim)
                if name is not None:
                    found.append((var, axis, name))
    return found
