"""Graph: ONNX's own shape of a model, knowing no operator.

Values are compared by identity.  A subgraph uses the values of the graphs around it directly, so a capture needs no
name.  Names, doc strings and metadata are kept for the way back to a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.types import TensorType, Type

Array = np.ndarray[Any, Any]
KNOWN_ELEMENTS = 1024


@dataclass(slots=True, eq=False, repr=False)
class Value:
    """One value of a graph.

    ``array`` is what an initializer or constant holds.  ``known`` is what is known of the value while the graph is
    made: a small array, or an object array of dimensions for integers that follow from shapes.  ``name`` is the
    model's own name, empty where there is none.  ``held`` is what a plain call has left in a device's memory.
    """

    type: Type
    name: str = ""
    producer: Node | None = None
    array: Array | None = None
    known: Array | None = None
    held: Any = None

    @property
    def is_constant(self) -> bool:
        return self.array is not None

    def __repr__(self) -> str:
        return f"Value({f'{self.name}: ' if self.name else ''}{self.type})"


def constant_value(array: Array, name: str = "") -> Value:
    """A value that holds ``array``."""
    kind = TensorType(array.dtype, array.shape)
    return Value(kind, name, array=array, known=array if array.size <= KNOWN_ELEMENTS else None)


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """One call of an operator.

    ``operator`` and ``domain`` name it; ``attributes`` holds Python values, arrays, types and graphs, and only those
    that were given.  An input that is left out is None; an output that nobody asked for has no name.  ``line`` is the
    ``file.py:LINE`` of a call that was captured, ``origin`` the place of a file's node that this is a part of.
    """

    operator: str
    domain: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    line: str = ""
    origin: str = ""

    @property
    def place(self) -> str:
        """The node as an error message names it."""
        kind = f"{self.domain}.{self.operator}" if self.domain else self.operator
        label = self.name or next((value.name for value in self.outputs if value.name), "")
        at = f" at {self.line}" if self.line else ""
        own = f'node "{label}" ({kind}){at}' if label else f"node ({kind}){at}"
        return own if self.origin in ("", own) else f"{own}, part of {self.origin}"

    def __repr__(self) -> str:
        return f"<{self.place}>"

    def subgraphs(self) -> Iterator[Graph]:
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (item for item in value if isinstance(item, Graph))


@dataclass(slots=True, eq=False, repr=False)
class Graph:
    """Nodes in an order in which they can run, between inputs and outputs.

    ``defaults`` holds the values that overridable inputs have when they are not given.
    """

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    defaults: dict[Value, Array] = field(default_factory=dict)
    doc: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        given = ", ".join(f"{value.name} {value.type}".strip() for value in self.inputs)
        pairs = zip(self.output_names, self.outputs, strict=False)
        made = ", ".join(f"{name} {value.type}".strip() for name, value in pairs)
        return f"<graph {self.name}: {len(self.nodes)} nodes, ({given}) -> ({made})>"

    def constants(self) -> list[Value]:
        """Every constant that this graph's own nodes and outputs use, in order of first use."""
        seen: dict[Value, None] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and value.is_constant:
                    seen.setdefault(value)
        for value in self.outputs:
            if value.is_constant:
                seen.setdefault(value)
        return list(seen)

    def all_nodes(self) -> Iterator[Node]:
        """The nodes of this graph and of all its subgraphs."""
        for node in self.nodes:
            yield node
            for graph in node.subgraphs():
                yield from graph.all_nodes()

    def captures(self) -> list[Value]:
        """The values of graphs around this one that it uses, in order of first use; constants are not captures."""
        return captured_by(self.nodes, [*self.outputs], {*self.inputs})


def captured_by(nodes: list[Node], results: list[Value], given: set[Value]) -> list[Value]:
    """The values that ``nodes`` and ``results`` need beyond ``given`` and what the nodes produce."""
    known = set(given)
    needed: dict[Value, None] = {}
    for node in nodes:
        for value in uses(node):
            if value not in known and not value.is_constant:
                needed.setdefault(value)
        known.update(node.outputs)
    for value in results:
        if value not in known and not value.is_constant:
            needed.setdefault(value)
    return list(needed)


def uses(node: Node) -> Iterator[Value]:
    """The values a node reads, captures of its subgraphs included."""
    yield from (value for value in node.inputs if value is not None)
    for graph in node.subgraphs():
        yield from graph.captures()
