"""What is rounded in attention that a tool has quantized operator by operator: ``query_quant``, ``scores_quant``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from burnx.graph import Node, Value

# what lies between the product of queries and keys and the softmax
_SCALING = frozenset({"Add", "Cast", "Div", "FakeQuantize", "Mul", "Where"})
_MOVING = frozenset({"Reshape", "Transpose"})
STEPS = 6


def rounding_roles(nodes: Sequence[Node], users: Mapping[Value, set[Node]]) -> dict[Node, str]:
    """The role of each FakeQuantize of attention whose products are MatMul."""
    found: dict[Node, str] = {}
    for node in nodes:
        if node.operator == "Softmax" and not node.domain:
            _before(node, found)
            _behind(node, users, found)
    return found


def _is_rounding(node: Node | None) -> bool:
    return node is not None and node.operator == "FakeQuantize"


def _before(softmax: Node, found: dict[Node, str]) -> None:
    way: list[Node] = []
    node = softmax.inputs[0].producer if softmax.inputs[0] is not None else None
    while node is not None and node.operator in _SCALING and len(way) < STEPS:
        way.append(node)
        given = node.inputs[1 if node.operator == "Where" else 0]
        node = None if given is None else given.producer
    if node is None or node.operator != "MatMul":
        return
    if way and _is_rounding(way[-1]):
        found[way[-1]] = "scores_quant"
    for value, role in zip(node.inputs, ("query_quant", "key_quant"), strict=True):
        _note(value, role, found)


def _behind(softmax: Node, users: Mapping[Value, set[Node]], found: dict[Node, str]) -> None:
    weights = softmax.outputs[0]
    rounding = _only(users.get(weights, ()))
    if rounding is not None and _is_rounding(rounding):
        found[rounding] = "weights_quant"
        weights = rounding.outputs[0]
    product = _only(users.get(weights, ()))
    if product is None or product.operator != "MatMul" or product.inputs[0] is not weights:
        return
    _note(product.inputs[1], "value_quant", found)
    reader = _only(users.get(product.outputs[0], ()))
    if reader is not None and _is_rounding(reader):
        found[reader] = "context_quant"
        reader = _only(users.get(reader.outputs[0], ()))
    while reader is not None and reader.operator in _MOVING:
        reader = _only(users.get(reader.outputs[0], ()))
    if reader is not None and _is_rounding(reader):
        found.setdefault(reader, "output_quant")


def _note(value: Value | None, role: str, found: dict[Node, str]) -> None:
    """Note what rounds a value, as it is or before it is moved."""
    node = None if value is None else value.producer
    while node is not None and node.operator in _MOVING and node.inputs[0] is not None:
        node = node.inputs[0].producer
    if node is not None and _is_rounding(node):
        found[node] = role


def _only(readers: Collection[Node]) -> Node | None:
    """The one node among the readers, those left out that only ask for sizes."""
    rest = [node for node in readers if node.operator not in ("Shape", "Sizes")]
    return rest[0] if len(rest) == 1 else None
