"""Reads sizes from what is at hand: the tensor that an operator is applied to, rather than an input far away."""

from __future__ import annotations

from burnx.graph import Graph, Node, Value, uses
from burnx.shape import symbol_name
from burnx.structure.sizes import is_sizes
from burnx.types import TensorType


def resource_sizes(graph: Graph) -> None:
    """Give each user of a ``Sizes`` node one of its own, which reads what it can from that user's operand."""
    here = set(graph.nodes)
    nodes: list[Node] = []
    for node in graph.nodes:
        for inner in node.subgraphs():
            resource_sizes(inner)
        for index, value in enumerate(node.inputs):
            source = value.producer if value is not None else None
            if index and source is not None and is_sizes(source) and source in here:
                own = _for_operand(source, node.inputs[0])
                if own is not None:
                    nodes.append(own)
                    node.inputs[index] = own.outputs[0]
        nodes.append(node)
    needed = {value for node in nodes for value in uses(node)} | set(graph.outputs)
    graph.nodes = [node for node in nodes if not is_sizes(node) or node.outputs[0] in needed]


def _for_operand(node: Node, operand: Value | None) -> Node | None:
    """A copy of a ``Sizes`` node that reads sizes of ``operand``; None if that has none of them."""
    if operand is None or operand.is_constant or not isinstance(operand.type, TensorType):
        return None
    have = {
        name: axis
        for axis, dim in reversed(list(enumerate(operand.type.shape or ())))
        if (name := symbol_name(dim)) is not None
    }
    old: dict[str, str] = node.attributes["sources"]
    if not any(name in have for name in old):
        return None
    sources: dict[str, str] = {}
    inputs: list[Value | None] = []
    for name, where in old.items():
        tensor, axis = where.split(".")
        value = node.inputs[int(tensor)]
        if name in have:
            value, axis = operand, str(have[name])
        if value not in inputs:
            inputs.append(value)
        sources[name] = f"{inputs.index(value)}.{axis}"
    attributes = {**node.attributes, "sources": sources}
    copy = Node(
        node.operator, node.domain, inputs, [], attributes, node.name, node.doc, node.metadata
    )
    (result,) = node.outputs
    copy.outputs = [Value(result.type, producer=copy, known=result.known)]
    return copy
