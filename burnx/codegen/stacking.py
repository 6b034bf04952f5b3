"""Tensors that each get a new axis and are joined along it: ``stack([a, b], axis=-1)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from burnx.codegen.expressions import call
from burnx.codegen.literal import constant
from burnx.codegen.subscripts import rank_of
from burnx.graph import Node, Value
from burnx.structure.tree import Op

if TYPE_CHECKING:
    from burnx.codegen.block import Block


def stacked(block: Block, node: Node) -> ast.expr | None:
    """The call of ``stack`` that a Concat is; None if it joins along an axis that was there."""
    if node.operator != "Concat" or node.domain or len(node.inputs) < 2:
        return None
    axis = int(node.attributes["axis"])
    parts = [_without_axis(block, value, axis) for value in node.inputs]
    if any(part is None for part in parts):
        return None
    given = [
        block.value(part.inputs[0], part, 0)
        for part in parts
        if part is not None and part.inputs[0] is not None
    ]
    options = {"axis": constant(axis)} if axis else {}
    block.context.flow.add("stack")
    return call("stack", ast.List(given, ast.Load()), **options)


def _without_axis(block: Block, value: Value | None, axis: int) -> Node | None:
    """The Unsqueeze written in place that adds just this axis."""
    item = block.in_place.get(value) if value is not None else None
    if value is None or not isinstance(item, Op) or item.node.domain:
        return None
    if item.node.operator != "Unsqueeze" or item.node.inputs[1] is None:
        return None
    axes, rank = item.node.inputs[1].array, rank_of(value.type)
    if axes is None or axes.size != 1 or rank is None:
        return None
    return item.node if int(axes.reshape(-1)[0]) % rank == axis % rank else None
