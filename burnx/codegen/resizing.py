"""Reads sizes from what is at hand: the tensor that an operator is applied to, rather than an input far away."""

from __future__ import annotations

from burnx.graph import Graph, Node, Value
from burnx.shape import symbol_name
from burnx.types import TensorType


def resource_sizes(graph: Graph) -> None:
    """Take each symbol of a ``Sizes`` node from its user's own operand, where that has it."""
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None:
                users.setdefault(value, []).append(node)
        for inner in node.subgraphs():
            resource_sizes(inner)
    place = {node: index for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if (node.domain, node.operator) == ("burnx", "Sizes"):
            _resource(node, users.get(node.outputs[0], []), place)


def _resource(node: Node, users: list[Node], place: dict[Node, int]) -> None:
    operands = [
        user.inputs[0] for user in users if user.inputs and user.inputs[0] is not node.outputs[0]
    ]
    if len(users) != 1 or not operands or operands[0] is None or operands[0].is_constant:
        return
    operand = operands[0]
    if operand.producer is not None and place.get(operand.producer, -1) > place[node]:
        return
    have = _plain_symbols(operand)
    sources: dict[str, str] = {}
    inputs: list[Value | None] = []
    for name, where in node.attributes["sources"].items():
        tensor, axis = where.split(".")
        value = node.inputs[int(tensor)]
        if name in have:
            value, axis = operand, str(have[name])
        if value not in inputs:
            inputs.append(value)
        sources[name] = f"{inputs.index(value)}.{axis}"
    node.inputs = inputs
    node.attributes = {**node.attributes, "sources": sources}


def _plain_symbols(value: Value) -> dict[str, int]:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return {}
    found: dict[str, int] = {}
    for axis, dim in enumerate(value.type.shape):
        name = symbol_name(dim)
        if name is not None:
            found.setdefault(name, axis)
    return found
