"""A program cut into runs of instructions that become native code, and those that Python carries out between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import is_complex, is_low_precision, string
from burnx.fusion.expressions import VIRTUAL
from burnx.fusion.scheduler import WRITERS
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Program, Var
from burnx.shape import Expr, product
from burnx.types import TensorType

FOLDED_MOST = 1 << 16  # elements that a folded value may have more than its operands


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Instructions that become native code.  ``inputs`` come from outside, ``outputs`` are needed there."""

    instructions: tuple[Instruction, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


Unit = Segment | Instruction


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The units of a program in order; ``folded`` are values that turned out to be constants."""

    units: tuple[Unit, ...]
    folded: dict[Var, Var]


def cut(program: Program) -> Cut:
    """The units of a program."""
    folded: dict[Var, Var] = {}
    instructions = list(_fold(program.instructions, folded))
    kept = {folded.get(var, var) for var in program.outputs}
    units: list[Unit] = [
        run if isinstance(run, Instruction) else Segment(tuple(run), (), ())
        for run in _runs(instructions)
    ]
    return Cut(tuple(_linked(units, kept)), folded)


def _runs(instructions: Sequence[Instruction]) -> Iterator[list[Instruction] | Instruction]:
    run: list[Instruction] = []
    for instruction in instructions:
        if is_native(instruction):
            run.append(instruction)
            continue
        if run:
            yield run
        run = []
        yield instruction
    if run:
        yield run


def is_native(instruction: Instruction) -> bool:
    """Whether the compiler has kernels for an instruction."""
    from burnx.fusion import writers  # noqa: F401  (registers the writers)

    name = instruction.primitive
    if name not in WRITERS and name not in VIRTUAL:
        return False
    values = [var for var in (*instruction.inputs, *instruction.outputs) if var is not None]
    if not all(_has_native_type(var) for var in values):
        return False
    combined = instruction.attributes.get("reduction", "none") != "none"
    return not (combined and is_low_precision(values[0].type.dtype))  # type: ignore[union-attr]


def _has_native_type(var: Var) -> bool:
    kind = var.type
    if not isinstance(kind, TensorType) or kind.shape is None:
        return False
    return kind.dtype != string and not is_complex(kind.dtype)


def _linked(units: list[Unit], kept: set[Var]) -> Iterator[Unit]:
    """Units whose segments know what they take and give."""
    needed = set(kept)
    linked: list[Unit] = []
    for unit in reversed(units):
        members = (unit,) if isinstance(unit, Instruction) else unit.instructions
        made = {var for each in members for var in each.outputs}
        if isinstance(unit, Segment):
            outputs = tuple(var for var in made if var in needed)
            read = [var for each in members for var in each.inputs if var is not None]
            inputs = tuple(dict.fromkeys(v for v in read if v not in made and v.array is None))
            unit = Segment(members, inputs, _in_order(outputs, members))
        needed |= {var for each in members for var in each.inputs if var is not None}
        linked.append(unit)
    return reversed(linked)


def _in_order(outputs: Sequence[Var], members: Sequence[Instruction]) -> tuple[Var, ...]:
    wanted = set(outputs)
    return tuple(var for each in members for var in each.outputs if var in wanted)


def _fold(instructions: Sequence[Instruction], folded: dict[Var, Var]) -> Iterator[Instruction]:
    for instruction in instructions:
        inputs = tuple(
            folded.get(var, var) if var is not None else None for var in instruction.inputs
        )
        if any(one is not two for one, two in zip(inputs, instruction.inputs, strict=True)):
            instruction = Instruction(
                instruction.primitive,
                inputs,
                instruction.outputs,
                instruction.attributes,
                instruction.place,
                instruction.binds,
            )
        arrays = _folded(instruction)
        if arrays is None:
            yield instruction
            continue
        for var, array in zip(instruction.outputs, arrays, strict=True):
            folded[var] = Var(var.type, array)


def _folded(instruction: Instruction) -> list[Any] | None:
    """The outputs of an instruction whose operands are constants, if they are not much larger."""
    operands = [var.array if var is not None else None for var in instruction.inputs]
    primitive = PRIMITIVES[instruction.primitive]
    known = all(v is None or v.array is not None for v in instruction.inputs)
    if not known or not primitive.pure or instruction.binds:
        return None
    if any(_has_symbols(value) for value in instruction.attributes.values()):
        return None
    sizes = [_fixed_size(var) for var in instruction.outputs]
    given = sum(array.size for array in operands if array is not None)
    if None in sizes or sum(size or 0 for size in sizes) > given + FOLDED_MOST:
        return None
    result = primitive.evaluate(*operands, **instruction.attributes)
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [np.asarray(each) for each in results]


def _fixed_size(var: Var) -> int | None:
    """How many elements a value has, where that is plain."""
    shape = var.type.shape if isinstance(var.type, TensorType) else None
    size = product(shape) if shape is not None else None
    return size if isinstance(size, int) else None


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_has_symbols(item) for item in value)
    return isinstance(value, Expr)
