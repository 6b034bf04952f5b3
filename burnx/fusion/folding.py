"""What is known before a program runs: instructions on constants are carried out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from burnx.errors import BurnxError
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Var
from burnx.shape import has_symbols, product
from burnx.types import TensorType

WIDENED_BYTES = 1 << 20
MOST = 1 << 16  # elements that a folded value may have where its operands have fewer


def fold(
    instructions: Sequence[Instruction], folded: dict[Var, Var], kept: Iterable[Var] = ()
) -> list[Instruction]:
    """The instructions that are left; ``folded`` gets the constants that others became, ``kept`` are read outside.

    A constant that was only spread out or widened is not stored so, but what is worked out from it may be.
    """
    kept = set(kept)
    left: list[Instruction] = []
    spread: dict[Var, Any] = {}
    readers = Counter(var for each in instructions for var in each.inputs)
    for original in instructions:
        instruction = replaced(original, folded)
        arrays = _folded(instruction, spread)
        if arrays is None:
            left.append(instruction)
        else:
            for var, array in zip(instruction.outputs, arrays, strict=True):
                folded[var] = Var(var.type, array)
        readers.subtract(original.inputs)
        for operand in original.inputs:
            if operand is not None and readers[operand] == 0:
                _let_go(operand, folded, spread, kept)
    return _without_unread(left, spread, {folded.get(var, var) for var in kept})


def _let_go(
    var: Var, folded: dict[Var, Var], spread: dict[Var, Any], kept: Collection[Var]
) -> None:
    """Forget the memory of a value that is not needed any longer."""
    if var not in kept:
        folded.pop(var, None)
    if var in spread:
        spread[var] = None


def _without_unread(
    instructions: Sequence[Instruction], spread: Mapping[Var, Any], kept: set[Var]
) -> list[Instruction]:
    """The instructions without those that only spread constants for others that are gone."""
    read = kept | {var for each in instructions for var in each.inputs if var is not None}
    return [
        each for each in instructions if each.outputs[0] not in spread or each.outputs[0] in read
    ]


def replaced(instruction: Instruction, by: Mapping[Var, Var]) -> Instruction:
    """An instruction that reads other values."""
    inputs = tuple(by.get(var, var) if var is not None else None for var in instruction.inputs)
    if all(one is two for one, two in zip(inputs, instruction.inputs, strict=True)):
        return instruction
    return Instruction(
        instruction.primitive,
        inputs,
        instruction.outputs,
        instruction.attributes,
        instruction.place,
        instruction.binds,
    )


def _folded(instruction: Instruction, spread: dict[Var, Any]) -> list[Any] | None:
    """The outputs of an instruction whose operands are constants, if they are not much larger."""
    operands = [_known(var, spread) if var is not None else None for var in instruction.inputs]
    primitive = PRIMITIVES[instruction.primitive]
    known = all(
        v is None or a is not None for v, a in zip(instruction.inputs, operands, strict=True)
    )
    if not known or not primitive.pure or instruction.binds:
        return None
    if any(has_symbols(value) for value in instruction.attributes.values()):
        return None
    sizes = [_fixed_size(var) for var in instruction.outputs]
    given = sum(array.size for array in operands if array is not None)
    total = sum(size or 0 for size in sizes)
    if instruction.primitive == "broadcast" and None not in sizes and total > given:
        (var,) = instruction.outputs
        spread[var] = primitive.evaluate(*operands, **instruction.attributes)
        return None
    if None in sizes or total > max(given, MOST):
        return None
    try:
        result = primitive.evaluate(*operands, **instruction.attributes)
    except (BurnxError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return None  # the error belongs to the run, which may never come here
    if instruction.primitive == "cast" and _widens(operands[0], result):
        spread[instruction.outputs[0]] = result
        return None
    results = result if isinstance(result, (tuple, list)) else (result,)
    return [np.asarray(each) for each in results]


def _widens(before: Any, after: Any) -> bool:
    """Whether a large constant is better kept in the narrower dtype that it came in."""
    return bool(after.nbytes > max(before.nbytes, WIDENED_BYTES))


def _known(var: Var, spread: Mapping[Var, Any]) -> Any:
    return var.array if var.array is not None else spread.get(var)


def _fixed_size(var: Var) -> int | None:
    """How many elements a value has, where that is plain."""
    shape = var.type.shape if isinstance(var.type, TensorType) else None
    size = product(shape) if shape is not None else None
    return size if isinstance(size, int) else None
