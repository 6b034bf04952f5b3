"""Editor: changes a graph and its subgraphs in place, knowing who uses which value.

A replaced value leaves every input, capture and output at once; a node that nobody needs any more leaves together
with what only it needed.  Each operation costs no more than the uses it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from burnx.errors import BurnxError, located
from burnx.graph import Graph, Node, Value
from burnx.ops import find, operators
from burnx.ops.infer import infer_outputs
from burnx.shape import symbols
from burnx.types import TensorType

Visit = Callable[[Node], bool]


@dataclass(slots=True, eq=False)
class Editor:
    """The uses of the values of ``root``: by nodes (how often each), and as outputs of graphs.

    ``owner`` is the graph that a node stands in, ``made`` are new nodes that have no place yet.
    """

    root: Graph
    users: dict[Value, dict[Node, int]] = field(default_factory=dict)
    results: dict[Value, list[Graph]] = field(default_factory=dict)
    owner: dict[Node, Graph] = field(default_factory=dict)
    removed: set[Node] = field(default_factory=set)
    made: list[Node] = field(default_factory=list)
    counter: Any = None

    # ---------------------------------------------------------------- questions
    def is_used(self, value: Value) -> bool:
        return bool(self.users.get(value)) or bool(self.results.get(value))

    def is_dead(self, node: Node) -> bool:
        return not any(self.is_used(value) for value in node.outputs)

    def is_only_used_by(self, value: Value, nodes: set[Node]) -> bool:
        """Whether nothing but these nodes reads the value."""
        return not self.results.get(value) and self.users.get(value, {}).keys() <= nodes

    # ---------------------------------------------------------------- changes
    def replace(self, old: Value, new: Value) -> None:
        """Let everything that reads ``old`` read ``new``, which takes its name, and its rank, if it has none."""
        if old is new:
            return
        new.name = new.name or old.name
        if isinstance(new.type, TensorType) and new.type.shape is None:
            new.type = old.type
        readers = self.users.setdefault(new, {})
        for node, times in self.users.pop(old, {}).items():
            node.inputs = [new if value is old else value for value in node.inputs]
            readers[node] = readers.get(node, 0) + times
        for graph in self.results.pop(old, []):
            graph.outputs = [new if value is old else value for value in graph.outputs]
            self.results.setdefault(new, []).append(graph)

    def redirect(self, old: Value, new: Value, nodes: Sequence[Node]) -> None:
        """Let these nodes read ``new`` where they read ``old``."""
        for node in nodes:
            node.inputs = [new if value is old else value for value in node.inputs]
            times = self.users.get(old, {}).pop(node, 0)
            if times:
                readers = self.users.setdefault(new, {})
                readers[node] = readers.get(node, 0) + times

    def remove(self, node: Node) -> int:
        """Remove a dead node and what only it needed; how many nodes went."""
        gone, waiting = 0, [node]
        while waiting:
            each = waiting.pop()
            if each in self.removed or not self.is_dead(each):
                continue
            gone += 1
            sources = [value.producer for value in self._forget(each)]
            waiting.extend(node for node in sources if node is not None and node in self.owner)
        return gone

    def _forget(self, node: Node) -> set[Value]:
        """Drop the uses of a node and of its subgraphs; the values it read."""
        self.removed.add(node)
        read = {value for value in node.inputs if value is not None}
        for value in read:
            self.users.get(value, {}).pop(node, None)
        for graph in node.subgraphs():
            for value in graph.outputs:
                self.results[value] = [each for each in self.results[value] if each is not graph]
                read.add(value)
            for inner in graph.nodes:
                if inner not in self.removed:
                    read |= self._forget(inner)
        return read

    def make(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        attributes: dict[str, Any],
        like: Node,
        domain: str = "",
        outputs: int = 1,
    ) -> Node | None:
        """A new node in place of ``like``, whose name, doc and metadata it takes; None if its operator refuses
        these inputs."""
        node = Node(operator, domain, list(inputs), [], attributes, like.name, like.doc)
        node.metadata = dict(like.metadata)
        try:
            with located(node.place):
                infer_outputs(
                    operators(), find(domain, operator), node, outputs, self.fresh_numbers()
                )
        except BurnxError:
            return None
        self.add(node, self.owner[like])
        self.made.append(node)
        return node

    def add(self, node: Node, graph: Graph) -> None:
        """Count the uses of a node of ``graph``, subgraphs included."""
        self.owner[node] = graph
        for value in node.inputs:
            if value is not None:
                readers = self.users.setdefault(value, {})
                readers[node] = readers.get(node, 0) + 1
        for inner in node.subgraphs():
            self.add_graph(inner)

    def add_graph(self, graph: Graph) -> None:
        for value in graph.outputs:
            self.results.setdefault(value, []).append(graph)
        for node in graph.nodes:
            self.add(node, graph)

    def splice(self, node: Node, graph: Graph) -> None:
        """Put the nodes of a subgraph without inputs in the place of the node that holds it."""
        around = self.owner[node]
        for inner in graph.nodes:
            self.owner[inner] = around
        self.made.extend(graph.nodes)
        outputs, nodes = graph.outputs, graph.nodes
        for value in set(outputs):
            self.results[value] = [each for each in self.results[value] if each is not graph]
        for old, new in zip(node.outputs, outputs, strict=True):
            self.replace(old, new)
        graph.nodes, graph.outputs = [], []
        self.remove(node)
        for inner in reversed(nodes):
            self.remove(inner)

    def fresh_numbers(self) -> Any:
        """Numbers for new symbols, none of which the graph has."""
        if self.counter is None:
            self.counter = count(1 + max(_symbol_numbers(self.root), default=0))
        return self.counter


def edit(graph: Graph) -> Editor:
    """An editor of a graph."""
    editor = Editor(graph)
    editor.add_graph(graph)
    return editor


def sweep(editor: Editor, graph: Graph, visit: Visit) -> int:
    """Visit every node in order, bodies before the nodes that hold them, and drop what was removed.

    ``visit`` says whether it changed anything; what it made is visited next, in its place.
    """
    kept: list[Node] = []

    def place(node: Node) -> int:
        if node in editor.removed:
            return 0
        changes = int(visit(node))
        made, editor.made = editor.made, []
        changes += sum(place(each) for each in made)
        kept.append(node)
        return changes

    total = 0
    for node in list(graph.nodes):
        if node not in editor.removed:
            total += sum(sweep(editor, inner, visit) for inner in list(node.subgraphs()))
        total += place(node)
    graph.nodes = [node for node in kept if node not in editor.removed]
    return total


def _symbol_numbers(graph: Graph) -> Iterator[int]:
    for node in graph.all_nodes():
        names = {name for value in (*node.inputs, *node.outputs) for name in _symbols_of(value)}
        yield from (int(name[1:]) for name in names if name[:1] == "_" and name[1:].isdecimal())


def _symbols_of(value: Value | None) -> set[str]:
    shape = value.type.shape if value is not None and isinstance(value.type, TensorType) else None
    return {name for dim in shape or () for name in symbols(dim)}
