"""Operators that change nothing here: no padding, one part to join, times one."""

from __future__ import annotations

from collections.abc import Mapping

from burnx.dtype import INTEGERS
from burnx.graph import Node, Value
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match, rewrite
from burnx.types import TensorType


def _same(node: Node, value: Value | None) -> Value | None:
    """The value, if it can stand for the output of the node."""
    if value is None or len(node.outputs) != 1 or not isinstance(value.type, TensorType):
        return None
    return value if value.type.shape is not None and value.type == node.outputs[0].type else None


@rewrite("Pad")
def no_padding(node: Node, match: Match) -> Value | None:
    """pad(x, 0) = x"""
    pads = node.inputs[1] if len(node.inputs) > 1 else None
    if pads is None or pads.array is None or pads.array.any():
        return None
    return _same(node, node.inputs[0])


@rewrite("Concat", "Sum", "Max", "Min", "Mean")
def one_operand(node: Node, match: Match) -> Value | None:
    """concat(x) = x, and the same for sums and extremes of one"""
    return _same(node, node.inputs[0]) if len(node.inputs) == 1 else None


@rewrite("Mul", "Div", "Sub", "Pow", "Add")
def neutral_number(node: Node, match: Match) -> Value | None:
    """x * 1 = x / 1 = x - 0 = x ^ 1 = x"""
    neutral = _NEUTRAL[node.operator]
    if scalar(node.inputs[1]) == neutral and _is_kept(node):
        return _same(node, node.inputs[0])
    if node.operator in ("Mul", "Add") and scalar(node.inputs[0]) == neutral and _is_kept(node):
        return _same(node, node.inputs[1])
    return None


_NEUTRAL: Mapping[str, float] = {"Mul": 1, "Div": 1, "Sub": 0, "Pow": 1, "Add": 0}


def _is_kept(node: Node) -> bool:
    """Whether the neutral number leaves every number as it is: -0.0 + 0.0 is 0.0, and -0.0 - -0.0 too."""
    if node.operator not in ("Add", "Sub"):
        return True
    kind = node.outputs[0].type
    return isinstance(kind, TensorType) and kind.dtype in INTEGERS


@rewrite("Where")
def known_choice(node: Node, match: Match) -> Value | None:
    """where(true, x, y) = x"""
    condition = node.inputs[0]
    if condition is None or condition.array is None or not condition.array.size:
        return None
    if condition.array.all():
        return _same(node, node.inputs[1])
    return None if condition.array.any() else _same(node, node.inputs[2])
