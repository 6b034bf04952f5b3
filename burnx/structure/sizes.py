"""Sizes are written wherever they are used, by the tensors that they are sizes of."""

from __future__ import annotations

from burnx.graph import Node, Value

SIZES = ("burnx", "Sizes")


def is_sizes(node: Node | None) -> bool:
    """Whether a node gives sizes, which are written wherever they are used."""
    return node is not None and (node.domain, node.operator) == SIZES


def is_size(node: Node | None) -> bool:
    """Whether a node makes a scalar of one size."""
    if node is None or node.domain or node.operator != "Squeeze" or node.inputs[0] is None:
        return False
    source = node.inputs[0].producer
    return is_sizes(source) and source is not None and len(source.attributes["dims"]) == 1


def leaves(value: Value) -> list[Value]:
    """A value, or what is read where it stands if it is sizes."""
    node = value.producer
    if is_sizes(node) or is_size(node):
        assert node is not None
        return [leaf for source in node.inputs if source is not None for leaf in leaves(source)]
    return [value]
