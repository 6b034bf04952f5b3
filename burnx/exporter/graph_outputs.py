"""Outputs as a file needs them: each given by a node of its own graph, and none that nobody asked for."""

from __future__ import annotations

from burnx.exporter.schemas import schema, slot_of
from burnx.graph import Graph, Node, Value


def settle_outputs(graph: Graph, is_main: bool = True) -> None:
    """Put an Identity before each output that no node of this graph gives, or that has another name too.

    The main graph's outputs get their names; there, an input may be an output of the same name.
    """
    made = {value for node in graph.nodes for value in node.outputs}
    fixed = {value: value.name for value in graph.inputs} if is_main else {}
    for place, value in enumerate(graph.outputs):
        wanted = output_name(graph, place)
        if fixed.get(value) == wanted and is_main and wanted:
            continue
        if value not in made:
            node = Node("Identity", "", [value], [])
            value = Value(value.type, wanted, node)
            node.outputs = [value]
            graph.nodes.append(node)
            graph.outputs[place] = value
        made.discard(value)
        fixed.setdefault(value, wanted)
    for node in graph.nodes:
        for inner in node.subgraphs():
            settle_outputs(inner, False)


def output_name(graph: Graph, place: int) -> str:
    """The name of an output: the given one, else its value's."""
    if place < len(graph.output_names) and graph.output_names[place]:
        return graph.output_names[place]
    return graph.outputs[place].name


def used_values(graph: Graph) -> set[Value]:
    """Every value that a node or an output of this graph or its subgraphs reads."""
    used = set(graph.outputs)
    for node in graph.nodes:
        used.update(value for value in node.inputs if value is not None)
        for inner in node.subgraphs():
            used |= used_values(inner)
    return used


def drop_unused(graph: Graph, opset: int) -> None:
    """Take away the last outputs of nodes while they have no name and no use, and may be left out."""
    used = used_values(graph)
    for node in graph.all_nodes():
        while len(node.outputs) > 1 and may_be_left_out(node, len(node.outputs) - 1, opset, used):
            node.outputs.pop()


def may_be_left_out(node: Node, place: int, opset: int, used: set[Value]) -> bool:
    """Whether nobody would miss an output; how many a variadic one has says something, and some must be there."""
    value = node.outputs[place]
    if place == 0 or value.name or value in used:
        return False
    rules = schema(node.domain, node.operator, opset)
    slot = None if rules is None else slot_of(rules.outputs, place)
    return slot is None or slot.optional
