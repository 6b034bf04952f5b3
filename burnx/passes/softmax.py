"""Softmax that exporters spell out: exponentials of what is left of the greatest, over their sum."""

from __future__ import annotations

import math
from typing import Any

from burnx.graph import Graph, Node, Value
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import flat, shape_of, view_of

Along = tuple[int, list[Node]]


@rewrite("Div")
def _softmax(node: Node, match: Match) -> Value | None:
    """exp(x - max(x)) / sum(exp(x - max(x))) = softmax(x)"""
    powers = _maker(match, node.inputs[0], "Exp")
    left = None if powers is None else _maker(match, powers.inputs[0], "Sub")
    if powers is None or left is None or left.inputs[0] is None:
        return None
    x = left.inputs[0]
    total = _along(match, node.inputs[1], "ReduceSum", powers.outputs[0])
    greatest = _along(match, left.inputs[1], "ReduceMax", x)
    if total is None or greatest is None or total[0] != greatest[0]:
        return None
    if not match.is_inner((node, powers, left, *total[1], *greatest[1])):
        return None
    is_last = total[0] == len(shape_of(x) or ()) - 1
    options: dict[str, Any] = {} if is_last else {"axis": total[0]}
    return match.make("Softmax", x, **options)


def _maker(match: Match, value: Value | None, operator: str) -> Node | None:
    node = None if value is None else match.enter(value)
    return node if node is not None and not node.domain and node.operator == operator else None


def _along(match: Match, value: Value | None, operator: str, source: Value) -> Along | None:
    """The one axis along which a value reduces another, standing there with one element, and the nodes between."""
    view = None if value is None else view_of(value, match.enter)
    if value is None or view is None or flat(view.groups) != view.order:
        return None
    base, nodes = view.base, list(view.nodes)
    bounded = _maker(match, base, "Max")
    if bounded is not None:
        operands = [each for each in bounded.inputs if scalar(each) != -math.inf]
        if operator != "ReduceMax" or len(operands) != 1 or operands[0] is None:
            return None
        nodes.append(bounded)
        base = operands[0]
    node = _maker(match, base, operator)
    shape, own = shape_of(source), shape_of(value)
    if node is None or node.inputs[0] is not source or shape is None:
        return None
    axes = node.inputs[1].array if len(node.inputs) > 1 and node.inputs[1] is not None else None
    if axes is None or axes.size != 1:
        return None
    axis = int(axes.reshape(-1)[0]) % len(shape)
    wanted = (*shape[:axis], 1, *shape[axis + 1 :])
    return (axis, [*nodes, node]) if own == wanted else None


def lift_softmax(graph: Graph) -> int:
    return rewrite_graph(graph, _softmax)
