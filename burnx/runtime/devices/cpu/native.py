"""A segment as native code: scheduled and compiled once, planned for each set of sizes, run."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, MutableMapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from burnx import llvm
from burnx.errors import ModelError, ShapeError
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import steps_in
from burnx.kernels.blocking import block_windows
from burnx.kernels.clike import clike
from burnx.kernels.text import kernel_text
from burnx.llvm.contract_plan import choose_packing
from burnx.llvm.emitter import emit
from burnx.llvm.target import Target
from burnx.program import Var
from burnx.runtime.devices.cpu.checks import check_sizes, find_demands, find_inner_demands
from burnx.runtime.devices.cpu.objects import load_many
from burnx.runtime.devices.cpu.plans import Bench, Plan, make_plan
from burnx.runtime.devices.cpu.reports import Times, note, watch
from burnx.runtime.devices.cpu.segments import Segment
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.devices.cpu.threads import run_steps
from burnx.shape import symbols
from burnx.types import TensorType

Array = np.ndarray[Any, Any]
STAYS_BYTES = 1 << 20  # constants from this size on are not copied to be aligned
PLANS_MOST = 16  # sets of sizes that are kept ready


class Failed(Exception):
    """A kernel met an index outside its axis, or a body that may never run has sizes that do not fit."""


class Native:
    """Native code of a segment."""

    def __init__(self, segment: Segment, threads: int, fuse: bool = True) -> None:
        self.inputs, self.outputs, self.threads = segment.inputs, segment.outputs, threads
        target = find_target()
        kept = frozenset(segment.outputs)
        traits = Traits(target.lanes, partial(choose_packing, target), fuse)
        self.schedule = schedule(segment.instructions, kept, kept, traits)
        memory = self.schedule.memory  # constants are kept as they were packed, not as they came
        self.schedule.memory = {v: where for v, where in memory.items() if v.array is None}
        steps = list(steps_in(self.schedule.steps))
        self.addresses = _compile(steps, target)
        self._demands = find_demands(segment.instructions)
        self._inner_demands = find_inner_demands(segment.instructions)
        self._names = _names(segment, steps)
        self._plans: OrderedDict[tuple[int, ...], Plan] = OrderedDict()
        self._free: list[Bench] = []
        self._lock = Lock()
        _align_constants(steps)

    def run(
        self,
        values: MutableMapping[Var, Any],
        sizes: Mapping[str, int],
        times_ns: Times | None = None,
    ) -> None:
        """Put the segment's outputs into ``values``; ``times_ns`` collects what each kernel takes.

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
        spent = None if times_ns is None else watch(bench.state, len(bench.table))
        went_well = run_steps(bench.steps, bench.state_address, plan.workers)
        if times_ns is not None and spent is not None:
            note(times_ns, self.schedule.steps, bench.state, spent)
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

    def _check_bodies(self, sizes: Mapping[str, int]) -> None:
        """Raises: Failed where a body's sizes do not fit: whether it runs is not known here."""
        try:
            check_sizes(self._inner_demands, sizes)
        except ShapeError as error:
            raise Failed from error

    def _plan(self, sizes: Mapping[str, int]) -> Plan:
        key = tuple(sizes[name] for name in self._names)
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                check_sizes(self._demands, sizes)
                self._check_bodies(sizes)
                ends = (self.inputs, self.outputs)
                plan = make_plan(self.schedule, self.addresses, sizes, ends, self.threads)
                self._plans[key] = plan
                while len(self._plans) > PLANS_MOST:
                    self._plans.popitem(last=False)
        return plan


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


def _align_constants(steps: Sequence[Any]) -> None:
    """Constants as kernels read them; large ones may stay where they lie in a mapped file."""
    found = {s for step in steps for s in step.storages if s.role == "constant"}
    for storage in found:
        array = storage.array
        crooked = not array.flags.aligned and array.nbytes < STAYS_BYTES
        if crooked or not array.flags.c_contiguous:
            storage.array = np.array(array, order="C")


def _names(segment: Segment, steps: Sequence[Any]) -> tuple[str, ...]:
    """The symbols that a segment depends on."""
    found: set[str] = set()
    for step in steps:
        for size in (*step.sizes, step.work, *(s.elements() for s in step.storages)):
            found |= symbols(size)
    for instruction in segment.instructions:
        for var in (*instruction.inputs, *instruction.outputs):
            shape = var.type.shape if var is not None and isinstance(var.type, TensorType) else ()
            for dim in shape or ():
                found |= symbols(dim)
    return tuple(sorted(found))


@lru_cache(maxsize=1)
def emitter_stamp() -> str:
    """Which emitter this is: objects of another one are not taken from the cache."""
    folder = Path(llvm.__file__).parent
    files = sorted(folder.glob("*.py"))
    return repr([(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files]) + "\n"


def _compile(steps: Sequence[Any], target: Target) -> list[int]:
    stamp = emitter_stamp()
    debug = os.environ.get("BURNX_DEBUG") == "kernels"
    wanted = []
    shown: set[str] = set()
    for step in steps:
        kernel = block_windows(step.kernel)
        text = kernel_text(kernel)
        if debug and text not in shown:
            shown.add(text)
            print(f"# {step.place}\n{text}\n{clike(kernel)}\n")
        wanted.append((stamp + text, lambda kernel=kernel: emit(kernel, target)))
    return load_many(wanted, target)
