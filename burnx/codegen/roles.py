"""What a value is to those who use it: the names of parameters that no name of the model fits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from burnx.codegen.names import identifier
from burnx.dtype import is_float
from burnx.graph import Node, Value
from burnx.types import TensorType

# operators between a mask and the softmax that it is for
_ON_THE_WAY = frozenset({"Add", "Where", "Reshape", "Unsqueeze", "Cast", "Mul", "Expand"})
STEPS = 4
MASK = 3  # the input of Attention
_COUNTER = re.compile(r"_?\d+$")  # which of many inputs it is: blocks that take one each are alike


def in_order(values: Sequence[Value], inside: Sequence[Node]) -> list[Value]:
    """The parameters of a module made of the nodes ``inside``: masks come after what they are for."""
    return sorted(values, key=lambda value: value.producer is not None and is_mask(value, inside))


def is_mask(value: Value, inside: Sequence[Node]) -> bool:
    """Whether a value chooses, or is added to what goes into a softmax."""
    readers = [node for node in inside if value in node.inputs]
    return any(_leads_to_softmax(value, node, inside, STEPS) for node in readers)


def parameter_word(value: Value, place: int, inside: Sequence[Node]) -> str:
    """What parameter number ``place`` of a module is called that is made of the nodes ``inside``.

    An input of the model and a weight have names; the first of all others, and features in any case, is ``x``: so
    a module that is called with the input is of one class with those that come after it.
    """
    if value.producer is None and value.name and not value.is_constant:
        is_main = place == 0 and _is_features(value)
        return "x" if is_main else plain_word(value.name) or value.name
    if value.is_constant and value.name:
        return identifier(value.name.rpartition(".")[2]) or "constant"
    if place == 0:
        return "x"
    readers = [node for node in inside if value in node.inputs]
    if is_mask(value, inside):
        return "mask"
    if readers and all(_place_in(value, node) == 1 for node in readers):
        return "cos"
    if readers and all(_place_in(value, node) == 2 for node in readers):
        return "sin"
    if readers and all(node.operator == "Add" and not node.domain for node in readers):
        return "residual"
    return "x"


def _place_in(value: Value, node: Node) -> int:
    """Which input of a rotary embedding a value is, -1 if of something else."""
    is_rotary = node.operator == "RotaryEmbedding" and not node.domain
    return node.inputs.index(value) if is_rotary else -1


def plain_word(name: str) -> str:
    """A name of the model without the number it ends with; "" if it says nothing."""
    return "" if name.isdigit() else _COUNTER.sub("", identifier(name))


def _is_features(value: Value) -> bool:
    return isinstance(value.type, TensorType) and is_float(value.type.dtype)


def _leads_to_softmax(value: Value, reader: Node, inside: Sequence[Node], steps: int) -> bool:
    if reader.operator == "Attention":
        return reader.inputs.index(value) == MASK
    if reader.operator == "Softmax":
        return steps < STEPS
    if reader.operator not in _ON_THE_WAY or steps == 0:
        return False
    if reader.operator == "Where" and reader.inputs[0] is value:
        return True
    (result, *_) = reader.outputs
    return any(
        _leads_to_softmax(result, node, inside, steps - 1)
        for node in inside
        if result in node.inputs
    )
