"""A program again, as part of another one that is being built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from burnx.program import Instruction, Program, Var
from burnx.shape import Dim, Expr, substitute
from burnx.tensor import Tensor
from burnx.types import TensorType


def replay(
    builder: Any, program: Program, inputs: Sequence[Tensor], captured: Sequence[Tensor]
) -> list[Tensor]:
    """Call every primitive of ``program`` once more, for these values; gives its outputs.

    The types of ``inputs`` are those of the program's own.
    """
    known: dict[int, Tensor] = {}
    places = (*program.inputs, *program.captures)
    for var, tensor in zip(places, (*inputs, *captured), strict=True):
        known[id(var)] = tensor
    sizes: dict[str, Dim] = {}

    def value(var: Var | None) -> Any:
        if var is None:
            return None
        found = known.get(id(var))
        return Tensor(builder, var) if found is None else found

    for instruction in program.instructions:
        attributes = {name: _again(each, sizes) for name, each in instruction.attributes.items()}
        given = [value(var) for var in instruction.inputs]
        results = builder.emit(instruction.primitive, given, **attributes)
        known.update((id(old), new) for old, new in zip(instruction.outputs, results, strict=True))
        for binding in instruction.binds:
            sizes[binding.name] = results[binding.output].shape[binding.axis]
    return [value(var) for var in program.outputs]


def _again(value: Any, sizes: Mapping[str, Dim]) -> Any:
    """An attribute for its second use: sizes that have new names, and programs that are nobody else's."""
    if isinstance(value, Expr):
        return substitute(value, sizes)
    if isinstance(value, tuple):
        return tuple(_again(each, sizes) for each in value)
    if isinstance(value, TensorType) and value.shape is not None:
        return TensorType(value.dtype, _again(value.shape, sizes))
    return _copied(value, sizes) if isinstance(value, Program) else value


def _copied(program: Program, sizes: Mapping[str, Dim]) -> Program:
    def variable(var: Var) -> Var:
        return made.setdefault(id(var), replace(var, type=_again(var.type, sizes)))

    def read(var: Var | None) -> Var | None:
        return made.get(id(var), var)

    made: dict[int, Var] = {}
    inputs, captures = (
        tuple(variable(var) for var in each) for each in (program.inputs, program.captures)
    )
    instructions = [
        Instruction(
            each.primitive,
            tuple(read(var) for var in each.inputs),
            tuple(variable(var) for var in each.outputs),
            {name: _again(value, sizes) for name, value in each.attributes.items()},
            each.place,
            each.binds,
        )
        for each in program.instructions
    ]
    outputs = tuple(made.get(id(var), var) for var in program.outputs)
    return Program(inputs, outputs, captures, program.captured, instructions)
