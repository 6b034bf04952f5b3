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
from burnx.structure.tree import Op, inner_items

if TYPE_CHECKING:
    from burnx.codegen.block import Block

__all__ = ["FLOW", "flow_call"]


def flow_call(block: Block, item: Op) -> ast.expr:
    """Write the inner functions, and give the call."""
    return _RULES[item.node.operator](block, item)


def _function(block: Block, item: Op, key: str) -> str:
    """Write a subgraph, an attribute, as an inner function and give its name."""
    graph: Graph = item.node.attributes[key]
    title = block.free_name(key, set())
    visible = set(block.env.values()) | block.outer | {title}
    env = dict(block.env)
    inner = type(block)(block.context, env, visible, frozenset(visible))
    params = []
    for place, value in enumerate(graph.inputs):
        param = inner.free_name(snake_case(value.name) or f"state_{place}", set())
        inner.outer.add(param)
        env[value] = param
        params.append(param)
    items = inner_items(graph, item.inside)
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


def _cond(block: Block, item: Op) -> ast.expr:
    branches = {key: _function(block, item, key) for key in ("then_branch", "else_branch")}
    block.context.flow.add("cond")
    condition = _args(block, item.node, item.node.inputs)
    return call("cond", *condition, *map(name, branches.values()))


def _loop(block: Block, item: Op) -> ast.expr:
    body = _function(block, item, "body")
    block.context.flow.add("loop")
    node = item.node
    trips, condition = [*node.inputs, None, None][:2]
    state = _args(block, node, node.inputs[2:], 2)
    options: dict[str, ast.expr] = {}
    for place, (key, value) in enumerate((("trips", trips), ("condition", condition))):
        if value is not None:
            options[key] = block.value(value, node, place)
    return call("loop", name(body), *state, **options)


def _scan(block: Block, item: Op) -> ast.expr:
    body = _function(block, item, "body")
    block.context.flow.add("scan")
    node = item.node
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


def _sequence_map(block: Block, item: Op) -> ast.expr:
    body = _function(block, item, "body")
    block.context.flow.add("sequence_map")
    return call("sequence_map", name(body), *_args(block, item.node, item.node.inputs))


def _with_functions(block: Block, item: Op) -> ast.expr:
    """An operator whose graphs are attributes: functions in their place."""
    bodies: dict[str, ast.expr] = {
        key: name(_function(block, item, key))
        for key, graph in item.node.attributes.items()
        if isinstance(graph, Graph)
    }
    return spell(item.node, _args(block, item.node, item.node.inputs), bodies)


_RULES: dict[str, Callable[[Any, Op], ast.expr]] = {
    "If": _cond,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    "FlexAttention": _with_functions,
    "Gradient": _with_functions,
}
