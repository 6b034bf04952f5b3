"""Tuning on the cpu: products and convolutions raced alone, each on its own weights, before a program is built.

The one with the most work speaks for all that would be asked the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from burnx.dtype import float32
from burnx.errors import BurnxError, DeviceError
from burnx.llvm.context import Unsupported
from burnx.program import Instruction, Program, Var
from burnx.runtime.compiled.lines import Task
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.devices.cpu.building import build_native
from burnx.runtime.devices.cpu.choices import Choices, Key
from burnx.runtime.devices.cpu.native import Native
from burnx.runtime.devices.cpu.results import results_of
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.profile import Spent, total_ns
from burnx.runtime.tuning.agreement import all_agree
from burnx.runtime.tuning.racing import race
from burnx.runtime.tuning.roofline import Roofline, find_roofline
from burnx.shape import evaluate
from burnx.types import TensorType

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
_RACED = ("conv", "contract")


def tune_program(program: Program, sizes: Sizes, threads: int, fuse: bool) -> int:
    """Race what a program's products and convolutions are to be chosen from; how many races there were.

    Schemes first: which packings are asked for depends on them.
    """
    target, count = find_target(), 0
    bytewise = fuse and target.multiplies_bytes
    alone = [_Alone(each, sizes, threads) for each in _products(program, bytewise)]
    for kind in ("winograd", "packing"):
        found: dict[Key, tuple[int, _Alone, list[str]]] = {}
        for each in alone:
            for key, offered in each.ask().items():
                if key[0] == kind and len(offered) > 1 and each.work > found.get(key, (0,))[0]:
                    found[key] = (each.work, each, offered)
        races = [_race(key, each, offered) for key, (_, each, offered) in found.items()]
        count += races.count(True)
    if count:
        results_of(target).keep(f"{time.time_ns():x}", "stamp")
    return count


def _products(program: Program, bytewise: bool) -> Iterator[Instruction]:
    """The instructions with constant weights that kernels of products are made for."""
    for unit in cut(program, bytewise).units:
        for each in unit.instructions if isinstance(unit, Segment) else ():
            constant = any(var is not None and var.array is not None for var in each.inputs)
            if each.primitive in _RACED and constant:
                yield each


def _race(key: Key, alone: _Alone, offered: list[str]) -> bool:
    """Race the candidates of a choice, unless it is known, and keep what comes of it."""
    store = results_of(find_target())
    if store.find(*key, alone.threads) is not None:
        return False
    try:
        outcome = race(offered, _Trial(key, alone), alone.least_ns())
    except BurnxError:  # it does not run alone; the program's own run says why
        return False
    laps = [[lap.candidate, lap.elapsed_ns, lap.verdict] for lap in outcome.laps]
    value = {"choice": outcome.best, "elapsed_ns": outcome.best_ns, "laps": laps}
    store.keep({**value, "place": alone.instruction.place}, *key, alone.threads)
    return True


@dataclass(slots=True)
class _Alone:
    """An instruction as a program of its own."""

    instruction: Instruction
    sizes: Sizes
    threads: int
    values: dict[Var, Array] = field(default_factory=dict)
    work: int = 0

    def ask(self) -> dict[Key, list[str]]:
        """What its kernels are chosen from; nothing if its sizes are not known."""
        choices = Choices(find_target(), self.threads)
        try:
            native = self.build(choices)
            lines = native.details.work.lines.lines
            tasks = [each for each in lines if isinstance(each, Task)]
            self.work = sum(max(evaluate(each.work, self.sizes), 0) for each in tasks)
        except (BurnxError, KeyError):
            return {}
        return choices.asked

    def build(self, choices: Choices) -> Native:
        given = tuple(
            var for var in self.instruction.inputs if var is not None and var.array is None
        )
        segment = Segment((self.instruction,), given, self.instruction.outputs)
        return build_native(segment, self.threads, choices=choices)

    def run(self, native: Native, times: dict[str, Spent] | None = None) -> list[Array]:
        if not self.values:
            self.values = {var: _made_up(var, self.sizes) for var in native.inputs}
        values: dict[Var, Any] = dict(self.values)
        native.run(values, self.sizes, times)
        return [values[var] for var in native.outputs]

    def least_ns(self) -> float:
        sums = self.instruction.attributes.get("dtype")
        if sums != float32:
            return 0.0
        return cpu_roofline(self.threads).least_ns(0, 2 * self.work)


@dataclass(slots=True)
class _Trial:
    key: Key
    alone: _Alone
    built: dict[str, Native] = field(default_factory=dict)

    def run(self, candidate: str) -> list[Array]:
        choices = Choices(find_target(), self.alone.threads, {self.key: candidate})
        try:
            self.built[candidate] = self.alone.build(choices)
        except Unsupported as error:
            raise DeviceError(f"there is no code for {candidate}: {error}") from error
        return self.alone.run(self.built[candidate])

    def agrees(self, expected: list[Array], found: list[Array]) -> bool:
        return all_agree(expected, found)

    def time(self, candidate: str) -> int:
        times: dict[str, Spent] = {}
        self.alone.run(self.built[candidate], times)
        return total_ns(times)


def _made_up(var: Var, sizes: Sizes) -> Array:
    """Numbers for an input: nobody knows yet what comes."""
    kind = var.type
    assert isinstance(kind, TensorType)
    shape = tuple(evaluate(size, sizes) for size in kind.shape or ())
    random = np.random.default_rng(0)
    if kind.dtype.kind in "iu":
        return random.integers(0, 100, shape).astype(kind.dtype)
    return random.standard_normal(shape, np.float32).astype(kind.dtype)


# --- the roofline -----------------------------------------------------------------------------------------------------

COPY_FLOATS = 16 << 20
SIDE = 1024  # of the square product that the processor comes nearest to its peak with
RUNS = 5


def cpu_roofline(threads: int) -> Roofline:
    """What this processor does at its best with so many threads: as fast as burnx's own largest kernels go.

    It is measured with the emitter's own choices, so a kernel can come out a little above it.
    """
    store = results_of(find_target())
    return find_roofline(store, lambda: _measure(threads), threads)


def _measure(threads: int) -> Roofline:
    a, c = (Var(TensorType(float32, (SIDE, SIDE))) for _ in range(2))
    b = replace(a, array=_made_up(a, {}))
    attributes = {"batch": ((), ()), "sum_over": ((1,), (0,)), "dtype": float32}
    product = Instruction("contract", (a, b), (c,), attributes, "best")
    product_s = _best_s([product], "contract best", threads)
    flat = TensorType(float32, (COPY_FLOATS,))
    chain = [
        Var(flat) for _ in range(4)
    ]  # the first and the last lie in memory that is new in each call
    places = ("first", "best", "last")
    copies = [
        Instruction("map", (one,), (two,), {"function": "neg"}, place)
        for one, two, place in zip(chain, chain[1:], places, strict=False)
    ]
    copy_s = _best_s(copies, "map best", threads)
    return Roofline(2 * 4 * COPY_FLOATS / copy_s, 2 * SIDE**3 / product_s)


def _best_s(instructions: list[Instruction], label: str, threads: int) -> float:
    """The least that the step of this label takes."""
    given = tuple(v for v in instructions[0].inputs if v is not None and v.array is None)
    segment = Segment(tuple(instructions), given, instructions[-1].outputs)
    native = build_native(segment, threads, fuse=False)
    values = {var: _made_up(var, {}) for var in given}
    found = []
    for _ in range(RUNS):
        times: dict[str, Spent] = {}
        native.run({**values}, {}, times)
        found.append(times[label].elapsed_ns)
    return max(min(found), 1) / 1e9
