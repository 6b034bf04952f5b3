"""If, Loop, Scan, SequenceMap and FlexAttention in the source: inner functions, and the call that takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from burnx.codegen.constants import FLOW
from burnx.codegen.names import snake_case
from burnx.codegen.nodes import Call, Expr, FunctionDef, List, Param, Text, constant
from burnx.codegen.spelling import spell
from burnx.codegen.tree import Op
from burnx.graph import Graph, Node, Value

if TYPE_CHECKING:
    from burnx.codegen.block import Block

__all__ = ["FLOW", "flow_call"]


def flow_call(block: Block, node: Node) -> Expr:
    """Write the inner functions, and give the call."""
    return _RULES[node.operator](block, node)


def _function(block: Block, graph: Graph, wanted: str) -> str:
    """Write a subgraph as an inner function and give its name."""
    title = block._free_name(wanted, set())
    visible = set(block.env.values()) | block.outer | {title}
    env = dict(block.env)
    inner = type(block)(block.context, env, visible, frozenset(visible))
    params = []
    for place, value in enumerate(graph.inputs):
        param = inner._free_name(snake_case(value.name) or f"state_{place}", set())
        inner.outer.add(param)
        env[value] = param
        params.append(Param(param))
    items = [Op(each, order) for order, each in enumerate(graph.nodes)]
    body = inner.fill(items, graph.outputs)
    block.statements.append(FunctionDef(title, tuple(params), tuple(body)))
    block.outer.add(title)
    return title


def _args(
    block: Block, node: Node, values: Sequence[Value | None], start: int = 0
) -> tuple[Expr, ...]:
    return tuple(
        Text("None") if value is None else block.value(value, node, start + place)
        for place, value in enumerate(values)
    )


def _cond(block: Block, node: Node) -> Expr:
    branches = {
        key: _function(block, node.attributes[key], key) for key in ("then_branch", "else_branch")
    }
    block.context.flow.add("cond")
    condition = _args(block, node, node.inputs)
    return Call(Text("cond"), (*condition, *(Text(title) for title in branches.values())))


def _loop(block: Block, node: Node) -> Expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("loop")
    trips, condition = [*node.inputs, None, None][:2]
    state = _args(block, node, node.inputs[2:], 2)
    options: list[tuple[str, Expr]] = []
    for place, (key, value) in enumerate((("trips", trips), ("condition", condition))):
        if value is not None:
            options.append((key, block.value(value, node, place)))
    return Call(Text("loop"), (Text(body), *state), tuple(options))


def _scan(block: Block, node: Node) -> Expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("scan")
    count = len(node.inputs) - int(node.attributes["num_scan_inputs"])
    every = _args(block, node, node.inputs)
    options = [
        (key, constant(list(node.attributes[attribute])))
        for attribute, key in _SCAN_OPTIONS.items()
        if node.attributes.get(attribute) is not None
    ]
    return Call(
        Text("scan"), (Text(body), List(every[:count]), List(every[count:])), tuple(options)
    )


_SCAN_OPTIONS = {
    "scan_input_axes": "axes",
    "scan_input_directions": "backwards",
    "scan_output_axes": "output_axes",
    "scan_output_directions": "output_backwards",
}


def _sequence_map(block: Block, node: Node) -> Expr:
    body = _function(block, node.attributes["body"], "body")
    block.context.flow.add("sequence_map")
    return Call(Text("sequence_map"), (Text(body), *_args(block, node, node.inputs)))


def _flex_attention(block: Block, node: Node) -> Expr:
    """An operator whose graphs are attributes: functions in their place."""
    bodies: dict[str, Expr] = {
        key: Text(_function(block, graph, key))
        for key, graph in node.attributes.items()
        if isinstance(graph, Graph)
    }
    return spell(node, _args(block, node, node.inputs), bodies)


_RULES: dict[str, Callable[[Any, Node], Expr]] = {
    "If": _cond,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _sequence_map,
    "FlexAttention": _flex_attention,
}
