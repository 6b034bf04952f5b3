"""What a Gradient differentiates: the part of a graph between tensors that it names, as a graph of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from burnx.capture.recorder import GraphRecorder
from burnx.errors import ModelError, located
from burnx.graph import Graph, Node, Value, uses
from burnx.ops import find
from burnx.ops.differentiation import TRAINING
from burnx.tensor import Tensor


def is_gradient(node: Any) -> bool:
    return bool(node.op_type == "Gradient" and node.domain == TRAINING)


def target_name(node: Any) -> str:
    """The tensor that a Gradient node differentiates."""
    return next((each.s.decode() for each in node.attribute if each.name == "y"), "")


def with_function(
    attributes: Mapping[str, Any],
    inputs: Sequence[Any],
    recorder: GraphRecorder,
    find_tensor: Callable[[str], Tensor],
) -> dict[str, Any]:
    """The attributes of a Gradient with the graph that gives its tensor in place of that one's name."""
    names = [*attributes["xs"], *(attributes.get("zs") or ())]
    if len(names) != len(inputs) or len(set(names)) != len(inputs):
        raise ModelError(f"xs and zs name each of {len(inputs)} inputs once: found {names}")
    starts = [cast(Value, find_tensor(name).ref) for name in names]
    target = cast(Value, find_tensor(attributes["y"]).ref)
    given = dict(zip(names, inputs, strict=True))
    return {**attributes, "y": _cut_out(target, starts, given, recorder)}


def _cut_out(
    target: Value, starts: Sequence[Value], given: Mapping[str, Tensor], recorder: GraphRecorder
) -> Graph:
    """The nodes between ``starts`` and ``target`` again, as a graph that starts from values like ``given``.

    What does not depend on ``starts`` is taken from around.
    """
    inner = recorder.child("y")
    env: dict[Value, Value] = {}
    with inner.ambient():
        for start, (name, tensor) in zip(starts, given.items(), strict=True):
            env[start] = cast(Value, inner.input(name, tensor.type).ref)
        for node in _between(target, set(starts)):
            _record_again(node, env, inner)
    graph = inner.graph
    graph.outputs, graph.output_names = [env.get(target, target)], [target.name]
    return graph


def _between(target: Value, starts: set[Value]) -> list[Node]:
    """The nodes that ``target`` needs and that depend on ``starts``, producers first."""
    done: dict[Node, bool] = {}
    stack = (
        [(target.producer, False)] if target.producer is not None and target not in starts else []
    )
    while stack:
        node, is_ready = stack.pop()
        if node in done:
            continue
        behind = [value for value in uses(node) if value not in starts]
        producers = [value.producer for value in behind if value.producer is not None]
        if is_ready:
            reads = any(value in starts for value in uses(node))
            done[node] = reads or any(done[each] for each in producers)
            continue
        stack.append((node, True))
        stack.extend((each, False) for each in producers if each not in done)
    return [node for node, depends in done.items() if depends]


def _record_again(node: Node, env: dict[Value, Value], recorder: GraphRecorder) -> None:
    attributes = {name: _substituted(value, env) for name, value in node.attributes.items()}
    recorder.name, recorder.metadata, recorder.place = node.name, node.metadata, node.place
    values = [None if value is None else env.get(value, value) for value in node.inputs]
    operator = find(node.domain, node.operator)
    with located(node.place):
        made = recorder.record(operator, values, attributes, len(node.outputs))
    for old, tensor in zip(node.outputs, made, strict=True):
        env[old] = cast(Value, tensor.ref)
        env[old].name = env[old].name or old.name


def _substituted(value: Any, env: Mapping[Value, Value]) -> Any:
    """An attribute whose graphs, at any depth, take values of ``env`` for those around them."""
    if isinstance(value, (list, tuple)):
        return [_substituted(each, env) for each in value]
    if not isinstance(value, Graph) or not any(each in env for each in value.captures()):
        return value
    nodes = []
    for node in value.nodes:
        inputs = [None if each is None else env.get(each, each) for each in node.inputs]
        attributes = {name: _substituted(each, env) for name, each in node.attributes.items()}
        nodes.append(replace(node, inputs=inputs, attributes=attributes))
    return replace(value, nodes=nodes, outputs=[env.get(each, each) for each in value.outputs])
