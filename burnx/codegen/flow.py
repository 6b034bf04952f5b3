"""Operators with graphs in the source: inner functions, and the call that takes them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from burnx.codegen.constants import FLOW
from burnx.codegen.expressions import call, name
from burnx.codegen.layout import Function
from burnx.codegen.literal import constant
from burnx.codegen.spelling import spell
from burnx.graph import Graph, Node, Value
from burnx.structure.paths import snake_case
from burnx.structure.tree import Op

if TYPE_CHECKING:
    from burnx.codegen.block import Block

__all__ = ["FLOW", "flow_call"]


def flow_call(block: Block, node: Node) -> ast.expr:
    """Write the inner functions, and give the call."""
    return _RULES[node.operator](block, node)


def _function(block: Block, graph: Graph, wanted: str) -> str:
    """Write a subgraph as an inner function and give its name."""
    title = block.free_name(wanted, set())
    visible = set(block.env.values()) | block.outer | {title}
    env = dict(block.env)
    inner = type(block)(block.context, env, visible, frozenset(visible))
    params = []
    for place, value in enumerate(graph.inputs):
        param = inner.free_name(snake_case(value.name) or f"state_{place}", set())
        inner.outer.add(param)
        env[value] = param
        params.append(param)
    items = [Op(each, order) for order, each in enumerate(graph.nodes)]
    body = inner.fill(items, graph.outputs)
    block.statements.append(Function(title, tuple(params), tuple(body)))
    block.outer.add(title)
    return title


def _args(
    block: Block, node: Node, values: Sequence[Value | None], start: int = 0
) -> tuple[ast.expr, ...]:
    return tuple(
        constant(None) if value is None else block.value(value, node, start + place)
        for place, value in enumerate(values)
    )


def _cond(block: Block, node: Node) -> ast.expr:
    branches = {
        key: _function(block, node.attributes[key], key) for key in ("then_branch", "else_branch")
    }
    block.context.flow.add("cond")
    condition = _args(block, node, node.inputs)
    return call("cond", *condition, *map(name, branches.values()))


def _loop(block: Block, node: Node) -> ast.expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("loop")
    trips, condition = [*node.inputs, None, None][:2]
    state = _args(block, node, node.inputs[2:], 2)
    options: dict[str, ast.expr] = {}
    for place, (key, value) in enumerate((("trips", trips), ("condition", condition))):
        if value is not None:
            options[key] = block.value(value, node, place)
    return call("loop", name(body), *state, **options)


def _scan(block: Block, node: Node) -> ast.expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("scan")
    count = len(node.inputs) - int(node.attributes["num_scan_inputs"])
    every = _args(block, node, node.inputs)
    options = {
        key: constant(list(node.attributes[attribute]))
        for attribute, key in _SCAN_OPTIONS.items()
        if node.attributes.get(attribute) is not None
    }
    state, rows = (ast.List(list(part), ast.Load()) for part in (every[:count], every[count:]))
    return call("scan", name(body), state, rows, **options)


_SCAN_OPTIONS = {
    "scan_input_axes": "axes",
    "scan_input_directions": "backwards",
    "scan_output_axes": "output_axes",
    "scan_output_directions": "output_backwards",
}


def _sequence_map(block: Block, node: Node) -> ast.expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("sequence_map")
    return call("sequence_map", name(body), *_args(block, node, node.inputs))


def _with_functions(block: Block, node: Node) -> ast.expr:
    """An operator whose graphs are attributes: functions in their place."""
    bodies: dict[str, ast.expr] = {
        key: name(_function(block, graph, key))
        for key, graph in node.attributes.items()
        if isinstance(graph, Graph)
    }
    return spell(node, _args(block, node, node.inputs), bodies)


_RULES: dict[str, Callable[[Any, Node], ast.expr]] = {
    "If": _cond,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    "FlexAttention": _with_functions,
    "Gradient": _with_functions,
}
