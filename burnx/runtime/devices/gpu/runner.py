"""Runs programs on a device with a driver: segments there, and between them what Python carries out."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from burnx.dtype import bfloat16, float16
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import Storage, steps_in
from burnx.program import Program, Var
from burnx.runtime.compiled.checks import find_demands, find_inner_demands
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.compiled.symbols import find_bound, find_symbols
from burnx.runtime.devices.gpu.driver import DeviceArray, Driver, Place
from burnx.runtime.devices.gpu.flow import make_flows
from burnx.runtime.devices.gpu.native import Details, Failed, Native
from burnx.runtime.devices.gpu.plans import Work, name_kernels
from burnx.runtime.devices.reference.interpreter import Interpreter, Step, make_steps


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A program's units in order; ``inside`` are values that only segments read."""

    units: tuple[Native | Step, ...]
    results: tuple[Var, ...]
    bound: tuple[tuple[Var, int, str], ...]
    inside: frozenset[Var]


@dataclass(slots=True, eq=False)
class Runner(Interpreter):
    """An interpreter whose runs of instructions are launched on a device."""

    driver: Driver = None  # type: ignore[assignment]  # the fields of the interpreter have defaults
    fuse: bool = True
    tune: bool = False
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
        known = dict(sizes) if sizes else {}
        values: dict[Var, Any] = dict(zip(program.inputs, inputs, strict=True))
        values.update(zip(program.captures, captured, strict=True))
        for var, axis, name in made.bound:
            known[name] = values[var].shape[axis]
        results = frozenset(made.results) if _is_there(inputs) else frozenset[Var]()
        try:
            for unit in made.units:
                if isinstance(unit, Native):
                    unit.run(
                        values,
                        known,
                        lambda var: var in made.inside or var in results,
                        self.times,
                    )
                else:
                    self._fetch(unit, values)
                    self.step(unit, values, known)
        except (
            Failed
        ):  # the reference knows what is wrong; it may be something that it never comes to
            there = [_here(value) for value in inputs], [_here(value) for value in captured]
            return Interpreter().run(program, *there, sizes)
        return [var.array if var.array is not None else values[var] for var in made.results]

    def _fetch(self, step: Step, values: MutableMapping[Var, Any]) -> None:
        for var in step.instruction.inputs:
            if var is not None and isinstance(values.get(var), DeviceArray):
                values[var] = values[var].numpy()

    def _prepare(self, program: Program) -> Prepared:
        found = cut(program, spread=True)
        units: list[Native | Step] = []
        foreign: set[Var] = set()
        for unit in found.units:
            if isinstance(unit, Segment):
                units.append(build_native(unit, self.driver, self.fuse, self.tune))
                continue
            units.extend(make_steps([unit], unit.outputs))
            foreign.update(var for var in unit.inputs if var is not None)
        results = tuple(found.folded.get(var, var) for var in program.outputs)
        made = {var for unit in units if isinstance(unit, Native) for var in unit.outputs}
        inside = frozenset(made - foreign - set(results))
        return Prepared(tuple(units), results, find_bound(program.inputs), inside)


def _is_there(inputs: Sequence[Any]) -> bool:
    return any(isinstance(value, DeviceArray) for value in inputs)


def _here(value: Any) -> Any:
    return value.numpy() if isinstance(value, DeviceArray) else value


NARROW = frozenset((float16, bfloat16))


def build_native(segment: Segment, driver: Driver, fuse: bool, tune: bool = False) -> Native:
    """The work of a segment on a device; its constants are put there."""
    kept = frozenset(segment.outputs)
    traits = Traits(1, fuse=fuse, winograd=False, narrow=NARROW, spread=True)
    found = schedule(segment.instructions, kept, kept, traits)
    steps = list(steps_in(found.steps))
    flows = make_flows(found.steps)
    ends = (*segment.inputs, *segment.outputs)
    memory = {var: found.memory[var] for var in ends if var in found.memory}
    roots = {s.root for line in flows.lines.lines for s in line.storages}  # type: ignore[union-attr]
    roots |= {storage.root for storage in memory.values()}
    constants = _put([each for each in roots if each.role == "constant"], driver)
    details = Details(
        Work(flows, name_kernels(flows.kernels), memory, constants),
        find_demands(segment.instructions),
        find_inner_demands(segment.instructions),
        find_symbols(segment, steps),
        sum(each.array.nbytes for each in constants if each.array is not None),
    )
    return Native((segment.inputs, segment.outputs), details, driver, tune)


_APART = 256  # bytes


def _put(storages: Sequence[Storage], driver: Driver) -> dict[Storage, Place]:
    """Constants one behind the other in the device's memory."""
    places: dict[Storage, int] = {}
    total = 0
    for storage in storages:
        assert storage.array is not None
        places[storage] = total
        total += -(-max(storage.array.nbytes, 1) // _APART) * _APART
    if not places:
        return {}
    with driver.lock:
        memory = driver.allocate(total)
        for storage, offset in places.items():
            if storage.array is not None and storage.array.nbytes:
                driver.upload((memory, offset), np.ascontiguousarray(storage.array))
    return {storage: (memory, offset) for storage, offset in places.items()}
