"""A segment as native code: planned for each set of sizes, and run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from burnx.errors import ModelError, ShapeError
from burnx.program import Instruction, Var
from burnx.runtime.compiled.checks import check_sizes
from burnx.runtime.devices.cpu.plans import Bench, Plan, Work, make_plan
from burnx.runtime.devices.cpu.reports import note, watch
from burnx.runtime.devices.cpu.threads import run_steps
from burnx.runtime.profile import Times

Array = np.ndarray[Any, Any]
PLANS_MOST = 16  # sets of sizes that are kept ready


class Failed(Exception):
    """A kernel met an index outside its axis, or a body that may never run has sizes that do not fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Details:
    """What is needed to plan for other sizes; ``inner_demands`` are those of bodies that may never run."""

    work: Work
    demands: Sequence[Instruction]
    inner_demands: Sequence[Instruction]


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Kernels by the names of their objects, one for each task, and their addresses.

    ``symbols`` are the sizes that plans depend on.
    """

    kernels: tuple[str, ...]
    addresses: Sequence[int]
    symbols: tuple[str, ...]


class Native:
    """Native code of a segment.

    ``find_details`` is called when sizes come that there is no plan for; ``first`` are the sizes of the first plan.
    """

    def __init__(
        self,
        ends: tuple[tuple[Var, ...], tuple[Var, ...]],
        code: Code,
        threads: int,
        find_details: Callable[[], Details],
    ) -> None:
        self.inputs, self.outputs = ends
        self.code, self.threads = code, threads
        self.first: tuple[int, ...] | None = None
        self._find_details = find_details
        self._details: Details | None = None
        self._plans: OrderedDict[tuple[int, ...], Plan] = OrderedDict()
        self._free: list[Bench] = []
        self._lock = Lock()

    @property
    def details(self) -> Details:
        if self._details is None:
            self._details = self._find_details()
        return self._details

    def add_plan(self, sizes: tuple[int, ...], plan: Plan) -> None:
        """Have a plan ready for the symbols' sizes; of many the oldest goes."""
        self._plans[sizes] = plan
        while len(self._plans) > PLANS_MOST:
            self._plans.popitem(last=False)

    def plan_of(self, sizes: tuple[int, ...]) -> Plan | None:
        return self._plans.get(sizes)

    def run(
        self,
        values: MutableMapping[Var, Any],
        sizes: Mapping[str, int],
        times: Times | None = None,
    ) -> None:
        """Put the segment's outputs into ``values``; ``times`` collects what each kernel takes.

        Raises: Failed, ShapeError.
        """
        plan = self._plan(sizes)
        bench = self._bench(plan)
        arguments, held = bench.arguments, []
        for var, shape, where in plan.given:
            array = values[var]
            if not _lies_well(array, shape, var.type.dtype):  # type: ignore[union-attr]
                array = _laid_out(array, shape, var.type.dtype)  # type: ignore[union-attr]
                held.append(array)
            arguments[where] = array.__array_interface__["data"][0]
        for var, shape, where in plan.made:
            array = _empty(shape, var.type.dtype)  # type: ignore[union-attr]
            arguments[where] = array.__array_interface__["data"][0]
            values[var] = array
        spent = None if times is None else watch(bench.state, len(bench.table))
        went_well = run_steps(bench.steps, bench.state_address, plan.workers)
        if times is not None and spent is not None:
            note(times, self.details.work.lines, bench.state, spent, sizes)
        if not went_well:
            bench.state[:] = 0
            raise Failed
        self._free.append(bench)

    def _bench(self, plan: Plan) -> Bench:
        """Memory for one running call: that of an earlier one where there is such."""
        try:
            bench = self._free.pop()
        except IndexError:
            return Bench(plan)
        return bench if bench.plan is plan else Bench(plan, bench.memory)

    def _plan(self, sizes: Mapping[str, int]) -> Plan:
        key = tuple(sizes[name] for name in self.code.symbols)
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._make_plan(sizes)
                self.add_plan(key, plan)
                self.first = self.first or key
        return plan

    def _make_plan(self, sizes: Mapping[str, int]) -> Plan:
        check_sizes(self.details.demands, sizes)
        try:
            check_sizes(self.details.inner_demands, sizes)
        except ShapeError as error:  # whether that body runs is not known here
            raise Failed from error
        ends = (self.inputs, self.outputs)
        return make_plan(self.details.work, self.code.addresses, sizes, ends, self.threads)


def _lies_well(value: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether kernels can read a value where it is."""
    if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
        return False
    return value.flags.c_contiguous and value.flags.aligned


def _laid_out(value: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """A value as kernels read it.

    Raises: ShapeError if it has another shape: a kernel would read memory that is not its own.
    """
    array = np.asarray(value)
    if array.shape != shape:
        raise ShapeError(f"a value of shape {shape} is needed here, not {array.shape}")
    return np.require(array, dtype, ["C", "A"])


def _empty(shape: tuple[int, ...], dtype: Any) -> Array:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError) as error:
        raise ModelError(f"not enough memory for a value of shape {shape}: {error}") from error
