"""Names of values in a file: unique in all its graphs, for ONNX forbids that an inner name hides an outer one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from burnx.errors import ExportError
from burnx.exporter.graph_outputs import output_name
from burnx.graph import Graph, Node, Value


@dataclass(slots=True, eq=False)
class Names:
    """The name that each value was given, and how far each name has been counted on."""

    given: dict[Value, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def give(self, value: Value, wanted: str) -> None:
        """Name a value that has no name yet."""
        if value not in self.given:
            self.given[value] = self.unique(wanted)

    def unique(self, wanted: str) -> str:
        """``wanted``, or it with the first number that makes it new."""
        name, number = wanted, self.counts.get(wanted, 0)
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.counts[wanted] = number
        self.taken.add(name)
        return name


def name_values(graph: Graph) -> dict[Value, str]:
    """The name of every value: inputs and outputs have their own, then come parameters, then the others."""
    names = Names()
    for place, value in enumerate(graph.inputs):
        _give_exactly(names, value, value.name or f"input_{place}", "input")
    for place, value in enumerate(graph.outputs):
        wanted = output_name(graph, place) or f"output_{place}"
        if names.given.get(value) != wanted:
            _give_exactly(names, value, wanted, "output")
    values = list(_values(graph))
    for has_array in (True, False):
        for value, _ in values:
            if value.name and value.is_constant == has_array:
                names.give(value, value.name)
    for value, wanted in values:
        names.give(value, wanted)
    return names.given


def _give_exactly(names: Names, value: Value, wanted: str, role: str) -> None:
    if wanted in names.taken or value in names.given:
        raise ExportError(
            f"the inputs and outputs of a model have names of their own: {role} {wanted!r}"
        )
    names.give(value, wanted)


def _values(graph: Graph) -> Iterator[tuple[Value, str]]:
    """Every value of a graph and its subgraphs, with a name for those that have none."""
    for value in graph.constants():
        yield value, "constant"
    for node in graph.nodes:
        for place, value in enumerate(node.outputs):
            yield value, _made_name(node, place)
        for inner in node.subgraphs():
            for place, value in enumerate(inner.inputs):
                yield value, f"{node.operator.lower()}_input_{place}"
            yield from _values(inner)


def _made_name(node: Node, place: int) -> str:
    base = node.name or node.operator.lower()
    return f"{base}_output_{place}" if node.name or len(node.outputs) > 1 else base


def name_nodes(graph: Graph) -> dict[Node, str]:
    """The name of every node that has one, unique in the whole model."""
    names = Names()
    return {node: names.unique(node.name) for node in graph.all_nodes() if node.name}
