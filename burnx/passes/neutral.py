"""Operators that change nothing here: no padding, one part to join, times one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from burnx.dtype import INTEGERS
from burnx.graph import Node, Value, constant_value
from burnx.ops.movement import FAR
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


@rewrite("Slice")
def whole_axes(node: Node, match: Match) -> Value | None:
    """x[:, 1:] = x[1:] along axis 1: an axis that stays whole need not be named"""
    data, *bounds = [*node.inputs, None, None][:5]
    if data is None or any(value is not None and value.array is None for value in bounds):
        return None
    starts, ends = (_numbers(value) for value in bounds[:2])
    axes, steps = bounds[2], bounds[3]
    named = _numbers(axes) if axes is not None else list(range(len(starts)))
    each = list(zip(named, starts, ends, _numbers(steps) or [1] * len(starts), strict=True))
    kept = sorted(row for row in each if row[1:] != (0, row[2], 1) or row[2] < FAR)
    if len(kept) == len(each) or not kept or any(axis < 0 for axis, *_ in kept):
        return None
    axis, start, end, step = (np.array(column, np.int64) for column in zip(*kept, strict=True))
    parts = [start, end, axis] if (step == 1).all() else [start, end, axis, step]
    return match.make("Slice", data, *map(constant_value, parts))


def _numbers(value: Value | None) -> list[int]:
    return [] if value is None or value.array is None else [int(each) for each in value.array]


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


@rewrite("Add")
def filled(node: Node, match: Match) -> Value | None:
    """zeros + c = c everywhere"""
    for place in (0, 1):
        zeros, number = match.inner(node.inputs[place], "ConstantOfShape"), node.inputs[1 - place]
        if zeros is None or number is None or number.array is None or number.array.size != 1:
            continue
        given = zeros.attributes.get("value", np.zeros(1, np.float32))
        # 0.0 + -0.0 is 0.0
        if given.dtype == number.array.dtype and not given.any() and number.array.any():
            value = number.array.reshape(1)
            return match.make("ConstantOfShape", zeros.inputs[0], value=value)
    return None


@rewrite("Split")
def equal_parts(node: Node, match: Match) -> Value | None:
    """split(x, [n, n]) = split(x) in two"""
    data, sizes = [*node.inputs, None][:2]
    if (
        data is None
        or sizes is None
        or sizes.array is None
        or not isinstance(data.type, TensorType)
    ):
        return None
    count = len(node.outputs)
    if data.type.shape is None or len(set(sizes.array.tolist())) != 1 or sizes.array.size != count:
        return None
    axis = node.attributes.get("axis", 0)
    options = {"axis": axis} if axis else {}
    made = match.put_all("Split", data, outputs=count, num_outputs=count, **options)
    if not made or any(a.type != b.type for a, b in zip(made, node.outputs, strict=True)):
        return None
    for old, new in zip(node.outputs[1:], made[1:], strict=True):
        match.editor.replace(old, new)
    return made[0]


@rewrite("Where")
def known_choice(node: Node, match: Match) -> Value | None:
    """where(true, x, y) = x"""
    condition = node.inputs[0]
    if condition is None or condition.array is None or not condition.array.size:
        return None
    if condition.array.all():
        return _same(node, node.inputs[1])
    return None if condition.array.any() else _same(node, node.inputs[2])
