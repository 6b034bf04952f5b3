"""Lowering: Graph to Program.

Enters: a Graph and the types its inputs have.  Leaves: a Program of primitives, with a Region per operator.
May import: ops, builder and below.  The bodies of operators do the work; see ``burnx/builder/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burnx.builder import Builder, remove_dead
from burnx.graph import Graph, Value
from burnx.ops import operators
from burnx.program import Program
from burnx.shape import Dim, symbol, symbol_name, symbols
from burnx.types import TensorType, Type

Array = np.ndarray[Any, Any]


def lower(
    graph: Graph, types: Sequence[Type], fixed: Mapping[Value, Array] | None = None
) -> Program:
    """The program of a graph for inputs of these types; what ``fixed`` holds is always given for its inputs."""
    builder = Builder(operators())
    kinds = _bindable(types, builder)
    inputs = [builder.input(kind) for kind in kinds]
    for place, value in enumerate(graph.inputs if fixed else ()):
        if fixed and value in fixed:
            inputs[place] = builder.constant(fixed[value])
    with builder.ambient():
        results = builder.run_graph(graph, inputs)
    return remove_dead(builder.finish(results))


def _bindable(types: Sequence[Type], builder: Builder) -> list[Type]:
    """Types whose symbols the inputs themselves bind: an expression of unbound ones becomes a symbol of its own."""
    bound = {
        name
        for kind in types
        if isinstance(kind, TensorType)
        for dim in kind.shape or ()
        if (name := symbol_name(dim)) is not None
    }

    def settled(dim: Dim) -> Dim:
        return dim if symbols(dim) <= bound else symbol(str(builder.fresh()))

    return [
        TensorType(kind.dtype, tuple(settled(dim) for dim in kind.shape))
        if isinstance(kind, TensorType) and kind.shape is not None
        else kind
        for kind in types
    ]
