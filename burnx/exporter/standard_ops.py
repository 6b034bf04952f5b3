"""A graph in operators of the standard alone: those of other makers are lowered to primitives and said in its words."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from burnx.builder import Builder, remove_dead
from burnx.capture.recorder import GraphRecorder
from burnx.errors import ExportError, located
from burnx.exporter.schemas import newest_version, schema
from burnx.exporter.spell_operators import SPELLINGS
from burnx.exporter.standard_words import Env, Speaker
from burnx.graph import Graph, Node, Value
from burnx.ops import find, operators
from burnx.tensor import Tensor, Undetermined

FIRST_FRESH = 1_000_000  # above the numbers that a capture gave to sizes without a name
Aliases = dict[Value, Value]


def in_standard_ops(graph: Graph) -> Graph:
    """The same graph in operators that the installed ONNX knows.

    Raises: ExportError naming the node, where an operator cannot be said in them.
    """
    if all(is_standard(node) for node in graph.all_nodes()):
        return graph
    recorder = GraphRecorder(counter=count(FIRST_FRESH))
    return _said(graph, recorder, {})


def is_standard(node: Node) -> bool:
    """Whether ONNX has the operator, or the exporter its own words for it."""
    if node.domain == "burnx":
        return True
    if (node.domain, node.operator) in SPELLINGS and len(node.outputs) == 1:
        return True
    newest = newest_version(node.domain)
    return (
        bool(newest)
        and schema(node.domain, node.operator, newest) is not None
        or (not node.domain and _is_older(node))
    )


def _is_older(node: Node) -> bool:
    """An operator that ONNX dropped is left to the choice of the opset."""
    versions = range(1, newest_version(""))
    return any(schema("", node.operator, version) is not None for version in versions)


def _said(graph: Graph, recorder: GraphRecorder, aliases: Aliases) -> Graph:
    made = recorder.graph
    made.name, made.inputs, made.defaults = graph.name, list(graph.inputs), graph.defaults
    made.doc, made.metadata = graph.doc, graph.metadata
    made.producer, made.opsets = graph.producer, graph.opsets
    made.output_names = list(graph.output_names)
    for value in graph.inputs:
        recorder.settle(value)
    for node in graph.nodes:
        with located(node.place), recorder.ambient():
            if is_standard(node):
                _kept(node, recorder, aliases)
            else:
                _lowered(node, recorder, aliases)
    made.outputs = [aliases.get(value, value) for value in graph.outputs]
    return made


def _kept(node: Node, recorder: GraphRecorder, aliases: Aliases) -> None:
    inputs = [None if value is None else aliases.get(value, value) for value in node.inputs]
    attributes = {
        name: _said(value, recorder.child(), aliases) if isinstance(value, Graph) else value
        for name, value in node.attributes.items()
    }
    copy = Node(
        node.operator,
        node.domain,
        inputs,
        list(node.outputs),
        attributes,
        node.name,
        node.doc,
        node.metadata,
    )
    copy.line = node.line
    recorder.add(copy)
    for value in node.outputs:
        recorder.settle(value)


def _lowered(node: Node, recorder: GraphRecorder, aliases: Aliases) -> None:
    builder = Builder(operators(), counter=recorder.counter)
    env: Env = {}
    inputs: list[Tensor | None] = []
    for value in node.inputs:
        inputs.append(None if value is None else _operand(value, builder, env, recorder, aliases))
    operator = find(node.domain, node.operator)
    try:
        with builder.ambient():
            results = operator.lower(builder, inputs, node.attributes, len(node.outputs))
    except Undetermined as need:
        raise ExportError(
            f"{operator.qualified} is said in standard operators where all is known that its form "
            f"depends on: {need}"
        ) from need
    program = remove_dead(builder.finish(results))
    recorder.metadata, recorder.place = node.metadata, node.place
    outputs = Speaker(recorder, env).say_program(program)
    recorder.metadata, recorder.place = {}, ""
    for old, tensor in zip(node.outputs, outputs, strict=True):
        new = tensor.ref
        assert isinstance(new, Value)
        if not new.name and not new.is_constant:
            new.name = old.name
        aliases[old] = new
        recorder.settle(old)


def _operand(
    value: Value,
    builder: Builder,
    env: Env,
    recorder: GraphRecorder,
    aliases: Mapping[Value, Value],
) -> Tensor:
    """An input of a node in the program that its operator becomes."""
    own = aliases.get(value, value)
    if own.array is not None:
        tensor = builder.constant(own.array)
    else:
        tensor = builder.input(value.type)
        known: Any = value.known
        tensor.ref.known = known
    var: Any = tensor.ref
    env[var] = Tensor(recorder, own)
    return tensor
