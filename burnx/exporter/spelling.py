"""Spellings: a node said in other operators, where its own is burnx's or newer than the opset.

    def spell_swish(node: Node, emitter: Emitter) -> list[Value] | None:
        ...  # None: the node says it best itself

A spelled graph shares its values with the graph it was made from, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from burnx.errors import located
from burnx.graph import Graph, Node, Value, uses
from burnx.types import TensorType, Type

Spelling: TypeAlias = "Callable[[Node, Emitter], list[Value] | None]"
Spellings: TypeAlias = Mapping[tuple[str, str], Spelling]

SIZES = ("burnx", "Sizes")


@dataclass(slots=True, eq=False)
class Emitter:
    """Makes the nodes of one spelled graph.

    ``aliases`` says which new value stands for an old one; ``pending`` holds the sizes that nobody needed so far, and
    ``sizes`` all of them; ``emitted`` are the nodes that spellings made: they mean what their opset says.
    """

    opset: int
    spellings: Spellings
    nodes: list[Node] = field(default_factory=list)
    aliases: dict[Value, Value] = field(default_factory=dict)
    pending: dict[Value, Node] = field(default_factory=dict)
    sizes: dict[Value, Node] = field(default_factory=dict)
    emitted: set[Node] = field(default_factory=set)
    made: dict[tuple[Any, ...], Value] = field(default_factory=dict)

    def child(self) -> Emitter:
        """An emitter for a subgraph."""
        return Emitter(
            self.opset,
            self.spellings,
            aliases=self.aliases,
            pending=self.pending,
            sizes=self.sizes,
            emitted=self.emitted,
        )

    def resolve(self, value: Value) -> Value:
        """The value that stands for ``value`` here; sizes are emitted when they are first needed."""
        node = self.pending.pop(value, None)
        if node is not None:
            self.spell(node)
        while value in self.aliases:
            value = self.aliases[value]
        return value

    def operands(self, values: Sequence[Value | None]) -> list[Value | None]:
        return [None if value is None else self.resolve(value) for value in values]

    def emit_all(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        types: Sequence[Type],
        **attributes: Any,
    ) -> list[Value]:
        """Add a node of a standard operator; gives its outputs."""
        given = {name: value for name, value in attributes.items() if value is not None}
        node = Node(operator, "", self.operands(inputs), [], given)
        node.outputs = [Value(kind, producer=node) for kind in types]
        self.nodes.append(node)
        self.emitted.add(node)
        return node.outputs

    def emit(
        self, operator: str, inputs: Sequence[Value | None], kind: Type, **attributes: Any
    ) -> Value:
        return self.emit_all(operator, inputs, [kind], **attributes)[0]

    def once(self, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """The value of a key, made when it is first asked for in this graph."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def constant(self, values: Any, dtype: Any = np.int64) -> Value:
        """A constant; equal ones are one value."""
        array = np.asarray(values, dtype)
        key = ("constant", array.dtype, array.shape, array.tobytes())
        return self.once(key, lambda: Value(TensorType(array.dtype, array.shape), array=array))

    def spell(self, node: Node) -> None:
        """Add a node, in other operators where there is a spelling."""
        start = len(self.nodes)
        spelling = self.spellings.get((node.domain, node.operator))
        with located(node.place):
            results = spelling(node, self) if spelling is not None else None
        if results is None:
            self.nodes.append(self._copy(node))
            return
        for old, new in zip(node.outputs, results, strict=False):
            self.aliases[old] = new
            if not new.is_constant and not new.name and new.producer in self.emitted:
                new.name = old.name
        _label(
            [each for each in self.nodes[start:] if each in self.emitted and not each.name], node
        )

    def _copy(self, node: Node) -> Node:
        for value in uses(node):
            self.resolve(value)
        attributes = {name: self._attribute(value) for name, value in node.attributes.items()}
        inputs = self.operands(node.inputs)
        return Node(
            node.operator,
            node.domain,
            inputs,
            list(node.outputs),
            attributes,
            node.name,
            node.doc,
            node.metadata,
        )

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, Graph):
            return self.child().graph(value)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Graph) for item in value):
            return [self._attribute(item) for item in value]
        return value

    def graph(self, graph: Graph) -> Graph:
        """The graph with all its nodes spelled."""
        for node in graph.nodes:
            if (node.domain, node.operator) == SIZES:
                self.pending[node.outputs[0]] = self.sizes[node.outputs[0]] = node
            else:
                self.spell(node)
        outputs = [self.resolve(value) for value in graph.outputs]
        return Graph(
            graph.name,
            list(graph.inputs),
            outputs,
            list(graph.output_names),
            self.nodes,
            graph.defaults,
            graph.doc,
            graph.metadata,
            graph.producer,
            graph.opsets,
        )


def _label(nodes: Sequence[Node], node: Node) -> None:
    """Give the nodes of a spelling what the spelled one carried; the last has its very name."""
    for each in nodes:
        each.name = f"{node.name}/{each.operator}" if node.name else ""
        each.metadata = node.metadata
    if nodes:
        nodes[-1].name, nodes[-1].doc = node.name, node.doc
