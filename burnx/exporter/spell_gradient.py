"""Gradient in standard operators: its program is built, and each primitive of that written as nodes.

Few tools run Gradient; what is written so, all of them run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnx.builder import Builder, remove_dead
from burnx.errors import ExportError
from burnx.exporter.spell_flow import flow_writers, write_program
from burnx.exporter.spell_primitives import WRITERS, PrimitiveWriter
from burnx.exporter.spell_products import PRODUCTS
from burnx.exporter.spelling import Emitter, Spelling
from burnx.graph import Graph, Node, Value
from burnx.ops import find, operators
from burnx.ops.differentiation import TRAINING
from burnx.program import Program, Var
from burnx.shape import symbol_name
from burnx.tensor import Undetermined
from burnx.types import TensorType

OLDEST = 18


def spell_gradient(node: Node, emitter: Emitter) -> list[Value]:
    """The derivatives as the standard operators that compute them.

    Raises: ExportError if a part of it has no standard operator.
    """
    if emitter.opset < OLDEST:
        raise ExportError(f"Gradient is written at opset {OLDEST} and later, not {emitter.opset}")
    builder = Builder(operators(), open=True)
    inputs = [None if value is None else builder.lookup(value) for value in node.inputs]
    try:
        with builder.ambient():
            operator = find(node.domain, node.operator)
            results = operator.lower(builder, inputs, node.attributes, len(node.outputs))
    except Undetermined as need:
        raise ExportError(f"Gradient is not written in standard operators where {need}") from need
    # inputs of the inner graph came later than the values that are given for them
    given = {id(tensor.ref): value for value, tensor in reversed(builder.env.items())}
    program = remove_dead(builder.finish(results))
    values = {
        id(var): emitter.resolve(given[id(var)]) for var in program.inputs if id(var) in given
    }
    held = {id(value.array): value for value in _constants(node)}
    writer = PrimitiveWriter(emitter, values, _homes(program, values), held)
    return write_program(program, writer, flow_writers({**WRITERS, **PRODUCTS}))


def _homes(program: Program, values: dict[int, Value]) -> dict[str, tuple[Value, int]]:
    """Where the sizes that are symbols can be read: from the inputs."""
    found: dict[str, tuple[Value, int]] = {}
    for var in program.inputs:
        for axis, dim in enumerate(_shape(var)):
            name = symbol_name(dim)
            if name is not None and id(var) in values:
                found.setdefault(name, (values[id(var)], axis))
    return found


def _shape(var: Var) -> tuple[Any, ...]:
    return var.type.shape or () if isinstance(var.type, TensorType) else ()


def _constants(node: Node) -> Iterator[Value]:
    """The constants that a node and the graphs inside it use."""
    yield from (value for value in node.inputs if value is not None and value.is_constant)
    for graph in node.subgraphs():
        yield from _inner_constants(graph)


def _inner_constants(graph: Graph) -> Iterator[Value]:
    yield from graph.constants()
    for node in graph.nodes:
        for inner in node.subgraphs():
            yield from _inner_constants(inner)


GRADIENT: dict[tuple[str, str], Spelling] = {(TRAINING, "Gradient"): spell_gradient}
