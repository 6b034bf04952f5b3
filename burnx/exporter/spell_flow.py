"""Loops and branches of primitives in standard operators: Loop and If, their bodies written the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burnx.errors import ExportError
from burnx.exporter.spell_primitives import PrimitiveWriter, Writing
from burnx.graph import Graph, Value
from burnx.program import Instruction, Program, Var
from burnx.shape import symbol_name
from burnx.types import TensorType


def write_program(
    program: Program, write: PrimitiveWriter, writers: Mapping[str, Writing]
) -> list[Value]:
    """Write every instruction; gives the values that are the program's outputs.

    Raises: ExportError naming the node whose primitive has no standard operator.
    """
    for instruction in program.instructions:
        writing = writers.get(instruction.primitive)
        if writing is None:
            raise ExportError(
                f"the primitive {instruction.primitive} has no standard operator, {instruction.place}"
            )
        write.add(instruction, writing(write, instruction))
    return [write.value(var) for var in program.outputs]


def flow_writers(writers: Mapping[str, Writing]) -> dict[str, Writing]:
    """Writers of loops and branches, whose bodies are written by these and by themselves."""

    def body(
        write: PrimitiveWriter, program: Program, captured: Sequence[Var | None], name: str
    ) -> Graph:
        emitter = write.emitter.child()
        inner = PrimitiveWriter(emitter, dict(write.values), dict(write.homes), write.held)
        inputs = [Value(var.type) for var in program.inputs]
        for var, value in zip(program.inputs, inputs, strict=True):
            inner.values[id(var)] = value
            _note_sizes(inner, value)
        for var, outer in zip(program.captures, captured, strict=True):
            inner.values[id(var)] = write.value(outer)
        outputs = write_program(program, inner, every)
        return Graph(name, inputs, outputs, [""] * len(outputs), emitter.nodes)

    def write_loop(write: PrimitiveWriter, step: Instruction) -> Sequence[Value]:
        program: Program = step.attributes["program"]
        place = len(program.inputs)
        inside = body(write, program, step.inputs[place:], "body")
        given = [None if var is None else write.value(var) for var in step.inputs[:place]]
        types = [var.type for var in step.outputs]
        return write.emitter.emit_all("Loop", given, types, body=inside)

    def write_branch(write: PrimitiveWriter, step: Instruction) -> Sequence[Value]:
        condition, *captured = step.inputs
        first, second = step.attributes["programs"]
        count = len(first.captures)
        bodies = {
            "then_branch": body(write, first, captured[:count], "then"),
            "else_branch": body(write, second, captured[count:], "else"),
        }
        types = [var.type for var in step.outputs]
        return write.emitter.emit_all("If", [write.value(condition)], types, **bodies)

    every: dict[str, Writing] = {**writers, "loop": write_loop, "cond": write_branch}
    return every


def _note_sizes(write: PrimitiveWriter, value: Value) -> None:
    """Where sizes that only this body knows can be read."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    for axis, dim in enumerate(shape or ()):
        name = symbol_name(dim)
        if name is not None:
            write.homes.setdefault(name, (value, axis))
