"""Runs programs on the cpu: native segments, and between them what Python carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from burnx.program import Program, Var
from burnx.runtime.collection import collection_put_off
from burnx.runtime.compiled.symbols import find_bound
from burnx.runtime.compiled.units import Prepared
from burnx.runtime.devices.cpu.kept import plan_stamp, read_native, write_native
from burnx.runtime.devices.cpu.native import Failed, Native
from burnx.runtime.devices.cpu.objects import no_fork
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.runtime.kept.models import Read, Slot


@dataclass(slots=True, eq=False)
class Runner(Interpreter):
    """An interpreter whose runs of instructions are native code.

    ``slot`` is where the first program that it runs is to be kept.
    """

    threads: int = 1
    fuse: bool = True
    tune: bool = False
    slot: Slot | None = None
    prepared: MutableMapping[Program, Prepared] = field(default_factory=WeakKeyDictionary)

    def run(
        self,
        program: Program,
        inputs: Sequence[Any],
        captured: Sequence[Any] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """The outputs of ``program``; ``sizes`` are the symbols of the program around it."""
        known = dict(sizes) if sizes else {}
        values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        values.update(zip(program.captures, captured, strict=True))
        made = self.prepared.get(program)
        if made is None:
            if self.tune:
                self._tune(program, values, known)
            made = self.prepared[program] = self._prepare(program)
        for var, axis, name in made.bound:
            known[name] = values[var].shape[axis]
        try:
            for unit in made.units:
                if isinstance(unit, Native):
                    unit.run(values, known, self.times)
                else:
                    self.step(unit, values, known)
        except Failed:
            # the reference knows what is wrong; it may be something that it never comes to
            whole = program if made.whole is None else made.whole()
            return Interpreter().run(whole, inputs, captured, sizes)
        if made.unkept:
            from burnx.runtime.kept.preparing import keep_all

            keep_all(made)
        return [var.array if var.array is not None else values[var] for var in made.results]

    def open(self, whole: Callable[[], Program]) -> Program | None:
        """The program that is kept in the slot; ``whole`` makes it anew where it is needed."""
        found = self.slot.find(self._read) if self.slot is not None else None
        if found is None:
            return None
        program, made = found
        self.slot, self.prepared[program] = None, replace(made, whole=cache(whole))
        return program

    def _tune(self, program: Program, values: Mapping[Var, Any], known: Mapping[str, int]) -> None:
        """Race what the program is to be made of, for the sizes that come first."""
        with no_fork():
            from burnx.fusion import writers  # noqa: F401  (registers the writers)
            from burnx.runtime.devices.cpu.tuning import tune_program

        bound = {n: values[var].shape[axis] for var, axis, n in find_bound(program.inputs)}
        tune_program(program, {**known, **bound}, self.threads, self.fuse)

    @collection_put_off()
    def _prepare(self, program: Program) -> Prepared:
        with no_fork():  # what is only needed where there is something to build
            from burnx.fusion import writers  # noqa: F401  (registers the writers)
            from burnx.fusion.weights import Derive
            from burnx.runtime.compiled.segments import Segment, cut
            from burnx.runtime.devices.cpu import building
            from burnx.runtime.kept.preparing import Making, prepare_units

        def build(segment: Segment, derive: Derive) -> Native:
            return building.build_native(segment, self.threads, self.fuse, derive=derive)

        making = Making(build, self._read, write_native, plan_stamp, self.fuse)
        found = cut(program, self.fuse and find_target().multiplies_bytes)
        slot, self.slot = self.slot, None
        return prepare_units(program, found, making, slot)

    @property
    def _read(self) -> Read:
        return partial(read_native, threads=self.threads)
