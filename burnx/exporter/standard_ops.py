"""A graph in operators of the standard alone: those of other makers are lowered to primitives and said in its words."""

from __future__ import annotations

from dataclasses import dataclass
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


def in_standard_ops(graph: Graph, keeps_domains: bool = False) -> Graph:
    """The same graph in operators that the installed ONNX knows; those of other domains may be kept.

    Raises: ExportError naming the node, where an operator cannot be said in them.
    """
    if all(is_standard(node, keeps_domains) for node in graph.all_nodes()):
        return graph
    recorder = GraphRecorder(counter=count(FIRST_FRESH))
    return _said(graph, _Telling(recorder, {}, keeps_domains))


def is_standard(node: Node, keeps_domains: bool = False) -> bool:
    """Whether ONNX has the operator, or the exporter its own words for it."""
    if node.domain == "burnx" or (keeps_domains and node.domain):
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


@dataclass(frozen=True, slots=True)
class _Telling:
    """Where nodes are recorded, and what stands for the values of the graph that they come from."""

    recorder: GraphRecorder
    aliases: Aliases
    keeps_domains: bool

    def child(self) -> _Telling:
        return _Telling(self.recorder.child(), self.aliases, self.keeps_domains)


def _said(graph: Graph, telling: _Telling) -> Graph:
    recorder, aliases = telling.recorder, telling.aliases
    made = recorder.graph
    made.name, made.inputs, made.defaults = graph.name, list(graph.inputs), graph.defaults
    made.doc, made.metadata = graph.doc, graph.metadata
    made.producer, made.opsets = graph.producer, graph.opsets
    made.output_names = list(graph.output_names)
    for value in graph.inputs:
        recorder.settle(value)
    for node in graph.nodes:
        with located(node.place), recorder.ambient():
            if is_standard(node, telling.keeps_domains):
                _kept(node, telling)
            else:
                _lowered(node, telling)
    made.outputs = [aliases.get(value, value) for value in graph.outputs]
    return made


def _kept(node: Node, telling: _Telling) -> None:
    recorder, aliases = telling.recorder, telling.aliases
    inputs = [None if value is None else aliases.get(value, value) for value in node.inputs]
    attributes = {
        name: _said(value, telling.child()) if isinstance(value, Graph) else value
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


def _lowered(node: Node, telling: _Telling) -> None:
    recorder, aliases = telling.recorder, telling.aliases
    builder = Builder(operators(), counter=recorder.counter)
    env: Env = {}
    inputs = [
        None if value is None else _operand(value, builder, env, telling) for value in node.inputs
    ]
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


def _operand(value: Value, builder: Builder, env: Env, telling: _Telling) -> Tensor:
    """An input of a node in the program that its operator becomes."""
    own = telling.aliases.get(value, value)
    if own.array is not None:
        tensor = builder.constant(own.array)
    else:
        tensor = builder.input(value.type)
        known: Any = value.known
        tensor.ref.known = known
    var: Any = tensor.ref
    env[var] = Tensor(telling.recorder, own)
    return tensor
