"""Runs programs on a device with a driver: segments there, and between them what Python carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from burnx.program import Program, Var
from burnx.runtime.collection import collection_put_off
from burnx.runtime.compiled.units import Prepared
from burnx.runtime.devices.gpu.driver import DeviceArray, Driver
from burnx.runtime.devices.gpu.kept import plan_stamp, read_native, write_native
from burnx.runtime.devices.gpu.launches import Failed, Unplanned
from burnx.runtime.devices.gpu.native import Native
from burnx.runtime.devices.reference.interpreter import Interpreter, Step
from burnx.runtime.kept.models import Read, Slot


@dataclass(slots=True, eq=False)
class Runner(Interpreter):
    """An interpreter whose runs of instructions are launched on a device.

    ``slot`` is where the first program that it runs is to be kept, ``opened`` where one was found that has not run yet.
    """

    driver: Driver = None  # type: ignore[assignment]  # the fields of the interpreter have defaults
    fuse: bool = True
    tune: bool = False
    slot: Slot | None = None
    opened: Slot | None = None
    prepared: MutableMapping[Program, Prepared] = field(default_factory=WeakKeyDictionary)

    def run(
        self,
        program: Program,
        inputs: Sequence[Any],
        captured: Sequence[Any] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """The outputs of ``program``, on the device if an input is; ``sizes`` are the symbols around it."""
        made = self.prepared.get(program)
        if made is None:
            made = self.prepared[program] = self._prepare(program)
        try:
            return self._carry_out(program, made, inputs, captured, sizes)
        except Failed:
            # the reference knows what is wrong; it may be something that it never comes to
            there = [_here(value) for value in inputs], [_here(value) for value in captured]
            whole = program if made.whole is None else made.whole()
            return Interpreter().run(whole, *there, sizes)
        except Unplanned:
            pass
        program = self._leave_kept(program, made)
        del made  # its constants are to go before others are put there
        return self.run(program, inputs, captured, sizes)

    def _carry_out(
        self,
        program: Program,
        made: Prepared,
        inputs: Sequence[Any],
        captured: Sequence[Any],
        sizes: Mapping[str, int] | None,
    ) -> list[Any]:
        """Raises: Failed, Unplanned."""
        if (self.times is not None and _is_kept(made)) or (made.whole and not made.units):
            raise Unplanned
        known = dict(sizes) if sizes else {}
        values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        values.update(zip(program.captures, captured, strict=True))
        for var, axis, name in made.bound:
            known[name] = values[var].shape[axis]
        results = frozenset(made.results) if _is_there(inputs) else frozenset[Var]()

        def stays(var: Var) -> bool:
            return var in made.inside or var in results

        for unit in made.units:
            if isinstance(unit, Native):
                unit.run(values, known, stays, self.times)
            else:
                self._fetch(unit, values)
                self.step(unit, values, known)
        if made.unkept:
            from burnx.runtime.kept.preparing import keep_all

            keep_all(made)
        self.opened = None  # what was kept is right for the sizes that come first
        return [var.array if var.array is not None else values[var] for var in made.results]

    def _fetch(self, step: Step, values: MutableMapping[Var, Any]) -> None:
        for var in step.instruction.inputs:
            if var is not None and isinstance(values.get(var), DeviceArray):
                values[var] = values[var].numpy()

    # --- what was kept ----------------------------------------------------------------------------------------------

    def open(self, whole: Callable[[], Program]) -> Program | None:
        """The program that is kept in the slot; ``whole`` makes it anew where it is needed."""
        found = self.slot.find(self._read) if self.slot is not None else None
        if found is None:
            return None
        program, made = found
        self.slot, self.opened = None, self.slot
        self.prepared[program] = replace(made, whole=cache(whole), inside=_find_inside(made))
        return program

    def _leave_kept(self, program: Program, made: Prepared) -> Program:
        """What to run instead of a program that an earlier process has left: sizes came, or a profile was asked for.

        A program of which only the ends are there is made anew; another one gets its segments built.
        """
        if made.whole is None:
            self.prepared[program] = self._prepare(program, kept=False)
            return program
        self.prepared[program] = replace(made, units=())
        whole = made.whole()
        if whole not in self.prepared:
            self.slot, self.opened = self.opened, None
        return whole

    @property
    def _read(self) -> Read:
        return partial(read_native, driver=self.driver)

    @collection_put_off()
    def _prepare(self, program: Program, kept: bool = True) -> Prepared:
        # what is only needed where there is something to build
        from burnx.fusion import writers  # noqa: F401  (registers the writers)
        from burnx.fusion.weights import Derive
        from burnx.runtime.compiled.segments import Segment, cut
        from burnx.runtime.devices.gpu.building import build_native
        from burnx.runtime.kept.preparing import Making, prepare_units

        def build(segment: Segment, derive: Derive) -> Native:
            return build_native(segment, self.driver, self.fuse, self.tune)

        alone = kept and not self.tune and self.times is None
        stamp = partial(plan_stamp, self.driver)
        making = Making(build, self._read, write_native, stamp, self.fuse, alone)
        slot, self.slot = self.slot, None
        made = prepare_units(program, cut(program, spread=True), making, slot)
        return replace(made, inside=_find_inside(made))


def _is_kept(made: Prepared) -> bool:
    return any(isinstance(unit, Native) and unit.body.kept for unit in made.units)


def _find_inside(made: Prepared) -> frozenset[Var]:
    """Values that only segments read."""
    natives = [unit for unit in made.units if isinstance(unit, Native)]
    steps = [unit for unit in made.units if not isinstance(unit, Native)]
    foreign = {var for step in steps for var in step.instruction.inputs if var is not None}
    inner = {var for unit in natives for var in unit.outputs}
    return frozenset(inner - foreign - set(made.results))


def _is_there(inputs: Sequence[Any]) -> bool:
    return any(isinstance(value, DeviceArray) for value in inputs)


def _here(value: Any) -> Any:
    return value.numpy() if isinstance(value, DeviceArray) else value
