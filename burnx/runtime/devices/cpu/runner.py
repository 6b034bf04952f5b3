"""Runs programs on the cpu: native segments, and between them what Python carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from burnx.program import Instruction, Program, Var
from burnx.runtime.collection import collection_put_off
from burnx.runtime.compiled.symbols import find_bound
from burnx.runtime.devices.cpu.kept.models import Slot
from burnx.runtime.devices.cpu.native import Failed, Native
from burnx.runtime.devices.cpu.objects import no_fork
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.devices.cpu.units import Prepared, Unit
from burnx.runtime.devices.reference.interpreter import Interpreter, make_steps


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
            _keep(made)
        return [var.array if var.array is not None else values[var] for var in made.results]

    def open(self, whole: Callable[[], Program]) -> Program | None:
        """The program that is kept in the slot; ``whole`` makes it anew where it is needed."""
        found = self.slot.find(self.threads) if self.slot is not None else None
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
            from burnx.runtime.compiled.segments import Segment, cut
            from burnx.runtime.devices.cpu import building  # noqa: F401
            from burnx.runtime.devices.cpu.kept import segments  # noqa: F401

        found = cut(program, self.fuse and find_target().multiplies_bytes)
        slot, self.slot = self.slot, None
        if slot is not None and not _can_be_kept(found.units):
            slot = None
        units: list[Unit] = []
        unkept: list[Callable[[], None]] = []
        for unit in found.units:
            if isinstance(unit, Segment):
                units.append(self._native(unit, unkept, slot))
            else:
                units.extend(make_steps([unit], unit.outputs))
        results = tuple(found.folded.get(var, var) for var in program.outputs)
        made = Prepared(tuple(units), results, find_bound(program.inputs), unkept)
        if slot is not None:
            unkept.append(partial(slot.keep, program, made))
        return made

    def _native(self, segment: Any, unkept: list[Callable[[], None]], whole: Slot | None) -> Native:
        """The native code of a segment; if it is not kept with a ``whole``, it may be kept alone, when it has run."""
        from burnx.fusion.weights import make_anew
        from burnx.runtime.devices.cpu.building import build_native
        from burnx.runtime.devices.cpu.kept.segments import find_slot

        slot = find_slot(segment, self.fuse) if whole is None else None
        native = slot.find(self.threads) if slot is not None else None
        if native is None:
            keeper = whole or slot
            derive = make_anew if keeper is None else keeper.shared.derive
            native = build_native(segment, self.threads, self.fuse, derive=derive)
            if keeper is not None and not keeper.shared.settle():
                native = build_native(segment, self.threads, self.fuse, derive=derive)
            if slot is not None:
                unkept.append(partial(slot.keep, native))
        return native


@collection_put_off()
def _keep(made: Prepared) -> None:
    while made.unkept:
        try:
            keep = made.unkept.pop()
        except IndexError:  # another call has just taken it
            return
        try:
            keep()
        except Exception:  # what cannot be kept still ran; the log says why
            import logging

            logging.getLogger(__name__).warning("a plan was not kept", exc_info=True)


def _can_be_kept(units: Sequence[Any]) -> bool:
    """Whether a program is worth an entry, and Python's part of it can be written down."""
    from burnx.runtime.devices.cpu.kept.codec import Unkeepable, Writer
    from burnx.runtime.devices.cpu.kept.segments import LEAST

    count, to = 0, Writer()
    for unit in units:
        if not isinstance(unit, Instruction):
            count += len(unit.instructions)
            continue
        try:
            row = to.instruction(unit)
        except Unkeepable:
            return False
        if any(isinstance(value, list) and value[0] == "program" for value in row[3].values()):
            return False
    return count >= LEAST
