"""A graph as the text of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.codegen.attributes import keep_attributes, kept_attributes
from burnx.codegen.block import Block
from burnx.codegen.classes import Classes, returned
from burnx.codegen.constants import literal_input, literal_result
from burnx.codegen.dims import type_text
from burnx.codegen.expressions import call, compare, group, name
from burnx.codegen.families import Family, every_member, find_families
from burnx.codegen.flow_statements import decorators
from burnx.codegen.layout import Assign, Class, Function, Stmt, docstring, formatted, plain_text
from burnx.codegen.literal import constant
from burnx.codegen.names import LOCAL_RESERVED, Names, parameter_names
from burnx.codegen.parameters import without_defaults
from burnx.codegen.placing import Places, place_constants
from burnx.codegen.resizing import resource_sizes
from burnx.codegen.roles import plain_word
from burnx.codegen.selfpath import self_path
from burnx.graph import Graph, Node, Value, constant_value
from burnx.nn.declared import entry_of
from burnx.structure.scopes import Scopes, read_scopes
from burnx.structure.tree import Call as ModuleCall
from burnx.structure.tree import Item, LayerCall, Op, build_tree, with_inside
from burnx.types import Type

LONGEST_DIM = 50  # characters of a dimension that the head of a file says
IMPORTED = frozenset({"Input", "Output", "Tensor", "nn", "ops"})


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a module, and its weights: (path of the parameter, name in the model, array)."""

    text: str
    weights: tuple[tuple[str, str, Any], ...]
    classes: int


def make_source(
    graph: Graph, origin: str, file: str, class_name: str = "Model", flat: bool = False
) -> Source:
    """The source of a graph; ``origin`` is where it comes from, ``file`` its weights."""
    resource_sizes(graph)
    scopes = Scopes() if flat else read_scopes(graph.nodes)
    keep_attributes(graph, scopes)
    classes, model, unread = _written(graph, scopes, class_name, flat, frozenset())
    if unread:
        classes, model, _ = _written(graph, scopes, class_name, flat, unread)
    weights = tuple(_weights(classes.places))
    definitions = (*classes.definitions.values(), model)
    code = plain_text((*_weights_file(file, weights), *definitions))
    imports = f"from burnx import {', '.join(sorted(_names(code) & IMPORTED | classes.flow))}\n"
    head = docstring(_describe(graph, origin, class_name, weights))
    return Source(formatted(head + imports + code), weights, len(classes.definitions) + 1)


def _written(
    graph: Graph, scopes: Scopes, title: str, flat: bool, left_out: frozenset[Value]
) -> tuple[Classes, Class, frozenset[Value]]:
    """The classes, that of the model, and the parameters that no statement reads: these are for another attempt.

    Which constants a loop or branch reads is only known when it is written: one that is always entered has no test.
    """
    root = build_tree(graph, scopes, flat)
    defaults = {value: constant_value(array, value.name) for value, array in graph.defaults.items()}
    own = [*defaults.values(), *(value for value in graph.outputs if value.is_constant)]
    kept = kept_constants(graph, root).union(own) - left_out
    places = place_constants(root, kept, scopes, own)
    classes = Classes(places, kept, scopes.classes, _results(graph), _families(graph))
    classes.names.take(title)
    classes.define(root.items)
    model = _model(graph, root, classes, title, defaults)
    layers = (item for item in _items(root) if isinstance(item, LayerCall))
    fields = {value for item in layers for value in item.layer.fields.values()}
    return classes, model, frozenset(kept - classes.read - fields - set(own))


def _results(graph: Graph) -> dict[Value, str]:
    """What the outputs of a model are called where they are made, if it has several."""
    if len(graph.outputs) < 2:
        return {}
    pairs = zip(graph.outputs, graph.output_names, strict=True)
    return {value: word for value, label in pairs if (word := plain_word(label))}


def _families(graph: Graph) -> list[Family]:
    """The inputs that come last, and the outputs, that are one thing many times."""
    labels = [value.name for value in graph.inputs]
    inputs = [] if graph.defaults else find_families(graph.inputs, labels)
    last = [each for each in inputs if each.values[-1] is graph.inputs[-1]]
    given = set(graph.inputs)
    outputs = find_families(graph.outputs, graph.output_names)
    return [*last, *(each for each in outputs if not given.intersection(each.values))]


def _names(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def _weights_file(file: str, weights: Sequence[Any]) -> list[Stmt]:
    return [Assign(name("WEIGHTS"), constant(file))] if weights else []


def kept_constants(graph: Graph, root: ModuleCall) -> set[Value]:
    """The constants that are parameters, not literals."""
    kept = {value for value in graph.outputs if value.is_constant}
    for item in _items(root):
        if isinstance(item, LayerCall):
            kept |= set(item.layer.fields.values())
            kept |= {
                value for value in item.layer.inputs if value is not None and value.is_constant
            }
        elif isinstance(item, Op):
            kept |= set(_not_literal(item.node))
    return kept


def _items(call: ModuleCall) -> Iterator[Item]:
    for item in with_inside(call.items):
        yield item
        if isinstance(item, ModuleCall):
            yield from _items(item)


def _not_literal(node: Node) -> Iterator[Value]:
    for place, value in enumerate(node.inputs):
        if value is not None and value.is_constant and literal_input(node, place) is None:
            yield value
    yield from (value for _, value in kept_attributes(node))
    for graph in node.subgraphs():
        yield from (v for v in graph.outputs if v.is_constant and literal_result(v) is None)
        for inner in graph.nodes:
            yield from _not_literal(inner)


def _weights(places: Places) -> Iterator[tuple[str, str, Any]]:
    pairs = [*places.constants.items(), *((value, path) for path, value in places.ties.items())]
    for value, path in pairs:
        if value.array is not None:
            legal = ".".join(places.legal(path))
            yield legal, value.name or legal, value.array


# ------------------------------------------------------------------------------- the model's class
def _model(
    graph: Graph, root: ModuleCall, classes: Classes, title: str, defaults: Mapping[Value, Value]
) -> Class:
    items = classes.joined(root.items, graph.outputs)
    init = classes.constructor((), root.items)
    made = () if init is None else without_defaults((init,), classes.defaults)
    context = classes.context(())
    names = Names(LOCAL_RESERVED)
    env = _input_names(graph, names)
    start: list[Stmt] = []
    required, optional = [], []
    block = Block(context, {})
    family = (
        next((each for each in classes.families if each.values[-1] is graph.inputs[-1]), None)
        if graph.inputs
        else None
    )
    members = () if family is None else family.values
    for value in graph.inputs:
        if value in members:
            continue
        if value in defaults:
            held = self_path(context, classes.places.constants[defaults[value]])
            given = name(env[value])
            chosen = ast.IfExp(compare("is", given, constant(None)), held, given)
            start.append(Assign(given, chosen))
            optional.append(f"{env[value]}: Tensor | None = None")
        else:
            required.append(f"{env[value]}: Tensor")
    block.env = {value: label for value, label in env.items() if value not in members}
    if family is not None:
        label = names.fresh(family.label)
        block.pack(label, members)
        required.append(f"*{label}: Tensor")
    params = ("self", *required, *optional)
    statements = block.fill(items, graph.outputs)
    returns = returned(len(graph.outputs))
    whole = (*start, *statements)
    forward = Function("forward", params, whole, returns, decorators(statements))
    declared = _declared(graph, env, defaults, classes)
    return Class(title, (*declared, *made, forward))


def _input_names(graph: Graph, names: Names) -> dict[Value, str]:
    """The parameters of ``forward``, by the names of the inputs."""
    labels = parameter_names([value.name for value in graph.inputs], names)
    return dict(zip(graph.inputs, labels, strict=True))


def _declared(
    graph: Graph, env: Mapping[Value, str], defaults: Mapping[Value, Value], classes: Classes
) -> list[Stmt]:
    """``inputs`` and ``outputs`` as class attributes."""
    ordered = sorted(graph.inputs, key=lambda value: value in defaults)
    members = _members(classes.families)
    inputs = []
    for value in ordered:
        options: dict[str, ast.expr] = {}
        if value in members:
            inputs += _all_of(members[value], "Input") if value is members[value].values[0] else []
            continue
        if env[value] != value.name:
            options["parameter"] = constant(env[value])
        if value in defaults:
            path = ".".join(classes.places.legal(classes.places.constants[defaults[value]]))
            options |= {"optional": constant(True), "default": constant(path)}
        inputs.append(_declaration("Input", constant(value.name), value.type, options))
    given = set(graph.inputs)
    members = {value: each for value, each in members.items() if value not in given}
    outputs = []
    for label, value in zip(graph.output_names, graph.outputs, strict=True):
        if value not in members:
            outputs.append(_declaration("Output", constant(label), value.type, {}))
        elif value is members[value].values[0]:
            outputs += _all_of(members[value], "Output")
    statements: list[Stmt] = []
    if inputs:
        statements.append(Assign(name("inputs"), group(inputs)))
    return [*statements, Assign(name("outputs"), group(outputs))]


def _members(families: Sequence[Family]) -> dict[Value, Family]:
    return {value: family for family in families for value in family.values}


def _all_of(family: Family, kind: str) -> list[ast.expr]:
    """The declarations of a family: one for all, where they differ in their names only."""
    types = {value.type for value in family.values}
    if len(types) == 1:
        described = types.pop()
        return [every_member(family, lambda label: _declaration(kind, label, described, {}))]
    return [
        _declaration(kind, constant(label), value.type, {})
        for label, value in zip(family.labels(), family.values, strict=True)
    ]


def _declaration(
    kind: str, label: ast.expr, described: Type, options: Mapping[str, ast.expr]
) -> ast.expr:
    entry = entry_of("", described)
    args = (label, constant(entry.dtype), constant(entry.dims))
    extra = {"kind": constant(entry.kind)} if entry.kind != "tensor" else {}
    return call(kind, *args, **options, **extra)


# ------------------------------------------------------------------------------- the head of the file
def _describe(
    graph: Graph, origin: str, title: str, weights: Sequence[tuple[str, str, Any]]
) -> str:
    # an array under several names is one
    count = sum({id(array): array.size for _, _, array in weights}.values())
    subject = origin.removesuffix(".onnx") if origin.endswith(".onnx") else graph.name or title
    opset = graph.opsets.get("", 0)
    written = f", written by {graph.producer}" if graph.producer else ""
    lines = [f"{subject}: {_amount(count)} parameters, from {origin} (opset {opset}{written})."]
    if graph.doc.strip():
        lines += ["", graph.doc.strip()[:400]]
    labels = [value.name for value in graph.inputs]
    lines += ["", f"Inputs:  {_all_described(graph.inputs, labels)}"]
    lines += [f"Outputs: {_all_described(graph.outputs, graph.output_names)}"]
    return "\n".join(lines)


def _all_described(values: Sequence[Value], labels: Sequence[str]) -> str:
    """Names and types; of a family the first and the last, where all are of one type."""
    members = _members(find_families(values, labels))
    found = []
    for value, label in zip(values, labels, strict=True):
        family = members.get(value)
        if family is None or len({each.type for each in family.values}) > 1:
            found.append(f"{label} {type_text(value.type, LONGEST_DIM)}")
        elif value is family.values[-1]:
            found.append(f"{family.labels()[0]} to {label} {type_text(value.type, LONGEST_DIM)}")
    return "; ".join(found)


def _amount(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)
