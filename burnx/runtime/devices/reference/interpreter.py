"""Runs a program one primitive at a time in NumPy: the oracle for every other device."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from burnx.dtype import bool_, int64
from burnx.errors import ModelError, located
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Program, Var
from burnx.runtime.profile import Spent, Times, note, total_ns
from burnx.shape import evaluate, has_symbols, settled, symbol_name, symbols
from burnx.types import TensorType

Array = np.ndarray[Any, Any]
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction with what can be worked out once: its dynamic attributes and what dies after it."""

    instruction: Instruction
    dynamic: tuple[str, ...]
    dies: tuple[Var, ...]


@dataclass(slots=True, eq=False)
class Interpreter:
    """Runs programs; keeps the steps of each it has seen for as long as there is that program.

    ``times`` collects the time of each instruction by its primitive and node when it is set; that of a branch or a
    loop is without what runs in it.
    """

    plans: MutableMapping[Program, list[Step]] = field(default_factory=WeakKeyDictionary)
    times: Times | None = None

    def run(
        self,
        program: Program,
        inputs: Sequence[Any],
        captured: Sequence[Any] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """The outputs of ``program``; ``sizes`` are the symbols of the program around it."""
        known: Sizes = dict(sizes or {})
        values: dict[Var, Any] = dict(zip(program.captures, captured, strict=True))
        for var, value in zip(program.inputs, inputs, strict=True):
            values[var] = value
            _bind_input(var, value, known)
        for step in self._plan(program):
            self.step(step, values, known)
            for var in step.dies:
                values.pop(var, None)
        return [var.array if var.array is not None else values[var] for var in program.outputs]

    def _plan(self, program: Program) -> list[Step]:
        plan = self.plans.get(program)
        if plan is None:
            plan = self.plans[program] = make_steps(program.instructions, program.outputs)
        return plan

    def step(self, step: Step, values: dict[Var, Any], sizes: Sizes) -> None:
        instruction = step.instruction
        times = self.times
        started = 0 if times is None else perf_counter_ns() - total_ns(times)
        operands = [
            None if var is None else var.array if var.array is not None else values[var]
            for var in instruction.inputs
        ]
        with located(instruction.place):
            attributes = dict(instruction.attributes)
            for name in step.dynamic:
                attributes[name] = settled(attributes[name], sizes)
            run = _CONTROL.get(instruction.primitive)
            results: Sequence[Any]
            if run is not None:
                results = run(self, operands, attributes, sizes)
            else:
                result = PRIMITIVES[instruction.primitive].evaluate(*operands, **attributes)
                results = result if isinstance(result, (tuple, list)) else (np.asarray(result),)
        values.update(zip(instruction.outputs, results, strict=True))
        for binding in instruction.binds:
            sizes[binding.name] = results[binding.output].shape[binding.axis]
        if times is not None:
            elapsed_ns = perf_counter_ns() - started - total_ns(times)
            note(times, Spent(instruction.primitive, instruction.place, 1, elapsed_ns))


def _align_constants(instructions: Sequence[Instruction]) -> None:
    """Copy the constants that lie unaligned in a mapped file: BLAS would copy them at every use."""
    for instruction in instructions:
        for var in instruction.inputs:
            if var is not None and var.array is not None and not var.array.flags.aligned:
                var.array = np.array(var.array)


def make_steps(instructions: Sequence[Instruction], kept_values: Sequence[Var]) -> list[Step]:
    """Instructions with what dies after each; ``kept_values`` do not."""
    _align_constants(instructions)
    last: dict[Var, int] = {}
    for index, instruction in enumerate(instructions):
        for var in instruction.inputs:
            if var is not None:
                last[var] = index
        for var in instruction.outputs:
            last.setdefault(var, index)
    dies: dict[int, list[Var]] = {}
    kept = set(kept_values)
    for var, index in last.items():
        if var not in kept:
            dies.setdefault(index, []).append(var)
    return [
        Step(each, _dynamic(each.attributes), tuple(dies.get(index, ())))
        for index, each in enumerate(instructions)
    ]


def _dynamic(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, value in attributes.items() if has_symbols(value))


def _bind_input(var: Var, value: Any, sizes: Sizes) -> None:
    if not isinstance(var.type, TensorType) or var.type.shape is None:
        return
    for dim, size in zip(var.type.shape, np.shape(value), strict=True):
        name = symbol_name(dim)
        if name is not None:
            sizes[name] = size


def _run_cond(
    runner: Interpreter, operands: Sequence[Any], attributes: Mapping[str, Any], sizes: Sizes
) -> list[Any]:
    then, otherwise = attributes["programs"]
    split = 1 + len(then.captures)
    if bool(np.asarray(operands[0]).reshape(())):
        return runner.run(then, (), operands[1:split], sizes)
    return runner.run(otherwise, (), operands[split:], sizes)


def _run_loop(
    runner: Interpreter, operands: Sequence[Any], attributes: Mapping[str, Any], sizes: Sizes
) -> list[Any]:
    program: Program = attributes["program"]
    count = len(program.inputs) - 2
    trips = None if operands[0] is None else int(np.asarray(operands[0]).reshape(()))
    going = operands[1] is None or bool(np.asarray(operands[1]).reshape(()))
    carried, captured = list(operands[2 : 2 + count]), operands[2 + count :]
    items: list[list[Array]] = [[] for _ in program.outputs[1 + count :]]
    turn = 0
    while going and (trips is None or turn < trips):
        given = [np.asarray(turn, int64), np.asarray(True, bool_), *carried]
        going_now, *results = runner.run(program, given, captured, sizes)
        going = bool(np.asarray(going_now).reshape(()))
        carried = results[:count]
        for stack, item in zip(items, results[count:], strict=True):
            stack.append(np.array(item))
        turn += 1
    stacked = [
        _stack(stack, var, sizes)
        for stack, var in zip(items, program.outputs[1 + count :], strict=True)
    ]
    return [*carried, *stacked]


def _stack(items: list[Array], var: Var, sizes: Sizes) -> Array:
    if items:
        if any(item.shape != items[0].shape for item in items):
            raise ModelError("the items that a loop stacks have different shapes")
        return np.stack(items)
    if not isinstance(var.type, TensorType) or var.type.shape is None:
        raise ModelError("a loop that never runs gives an item of unknown rank")
    known = [evaluate(dim, sizes) if _is_known(dim, sizes) else 0 for dim in var.type.shape]
    return np.empty((0, *known), var.type.dtype)


def _is_known(dim: Any, sizes: Sizes) -> bool:
    return all(name in sizes for name in symbols(dim))


def _run_defer(
    runner: Interpreter, operands: Sequence[Any], attributes: Mapping[str, Any], sizes: Sizes
) -> list[Any]:
    program, inputs = attributes["continuation"](operands)
    return runner.run(program, [operands[index] for index in inputs])


_CONTROL = {"cond": _run_cond, "loop": _run_loop, "defer": _run_defer}
