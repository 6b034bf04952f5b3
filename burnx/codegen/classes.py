"""The classes of a module: one for each distinct body, with the constructor calls of what it holds."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from typing import Any

from burnx.codegen.block import Block, Context
from burnx.codegen.expressions import call, name, repeated, text
from burnx.codegen.families import Family
from burnx.codegen.flow_statements import decorators
from burnx.codegen.inlining import count_uses
from burnx.codegen.layout import Assign, Class, Function, plain_text
from burnx.codegen.listed import counted
from burnx.codegen.literal import constant
from burnx.codegen.names import LOCAL_RESERVED, Names, class_name
from burnx.codegen.parameters import (
    Body,
    Number,
    is_size,
    merge,
    outline,
    with_defaults,
    without_defaults,
)
from burnx.codegen.placing import Places, constants_of
from burnx.codegen.roles import in_order, parameter_word
from burnx.dtype import dtype_name, float32
from burnx.graph import Value
from burnx.structure.layer_reading import Layer
from burnx.structure.paths import is_place
from burnx.structure.scopes import Path
from burnx.structure.sequences import find_sequences
from burnx.structure.tree import Call as ModuleCall
from burnx.structure.tree import Item, LayerCall, nodes_of, only_joins, with_inside
from burnx.types import TensorType

_COUNTED = re.compile(r"\d+([a-z](?=[A-Z]|$))?")  # the number in a name: Stage3, Block4a
SEVERAL = 3  # equal modules in a row that are written once


@dataclass(slots=True)
class Classes:
    """The classes made so far: their names by path and by body, and their definitions in order."""

    places: Places
    kept: set[Value]
    hints: Mapping[Path, str]
    results: Mapping[Value, str] = field(default_factory=dict)
    families: Sequence[Family] = ()
    lists: dict[Path, int] = field(default_factory=dict)
    by_path: dict[Path, str] = field(default_factory=dict)
    arguments: dict[Path, dict[str, ast.expr]] = field(default_factory=dict)
    parameters: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, dict[str, Number]] = field(default_factory=dict)
    definitions: dict[str, Class] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names(LOCAL_RESERVED))
    sequences: set[Path] = field(default_factory=set)
    flow: set[str] = field(default_factory=set)
    read: set[Value] = field(default_factory=set)

    def define(self, items: Iterable[Item]) -> None:
        """Make the classes of all module calls among and below ``items``, those inside of others first."""
        levels: dict[int, list[ModuleCall]] = {}
        for item in items:
            _collect_levels(item, levels)
        for level in sorted(levels):
            groups: dict[str, list[tuple[ModuleCall, Body]]] = {}
            for item in levels[level]:
                self._pass_constants(item)
                item.gathers = only_joins(item)
                body = self._body(item)
                groups.setdefault(outline(body, _key), []).append((item, body))
            for members in groups.values():
                self._define_group(members)

    def _define_group(self, members: Sequence[tuple[ModuleCall, Body]]) -> None:
        """The class of module calls whose bodies differ in numbers only; or one each where they differ in too many."""
        alike: dict[str, list[tuple[ModuleCall, Body]]] = {}
        for item, body in members:
            alike.setdefault(_key(body), []).append((item, body))
        bodies = [each[0][1] for each in alike.values()]
        bodies[0] = reduce(_common_notes, [body for _, body in members])
        path = members[0][0].path
        taken = {label for place, label in self.places.attributes.items() if place[:-1] == path}
        merged = merge(bodies, self.parameters, taken)
        if merged is None:
            for each in alike.values():
                self._define_group(each)
            return
        chosen = self._class_name([item.path for item, _ in members])
        self.definitions[chosen] = Class(chosen, without_defaults(merged.body, self.defaults))
        self.parameters[chosen] = [each.name for each in merged.parameters]
        self.defaults[chosen] = {
            each.name: each.default for each in merged.parameters if each.default is not None
        }
        for number, each in enumerate(alike.values()):
            values = {given.name: constant(given.values[number]) for given in merged.parameters}
            for item, _ in each:
                self.by_path[item.path] = chosen
                self.arguments[item.path] = values

    def _pass_constants(self, item: ModuleCall) -> None:
        """Constants that live outside of a class come in as arguments."""
        inside = set(item.inputs)
        for inner in item.items:
            needed = inner.inputs if isinstance(inner, ModuleCall) else _own_constants(inner)
            for value in needed:
                if value in self.places.constants and value in self.kept and value not in inside:
                    path = self.places.constants[value]
                    if path[: len(item.path)] != item.path:
                        inside.add(value)
                        item.inputs.append(value)

    def _body(self, item: ModuleCall) -> Body:
        items = self.joined(item.items, item.outputs)
        init = self.constructor(item.path, item.items)
        context = self.context(item.path)
        block = Block(context, {})
        params = ("self", *self._parameters(item, block))
        statements = block.fill(items, item.outputs)
        returns = returned(len(item.outputs))
        forward = Function("forward", params, tuple(statements), returns, decorators(statements))
        return (init, forward) if init is not None else (forward,)

    def context(self, owner: Path) -> Context:
        """What the statements of the class at a path need to know."""
        known = (self.places, self.kept, self.results, self.families, self.lists)
        return Context(*known, owner, self.flow, self.read)

    def _parameters(self, item: ModuleCall, block: Block) -> list[str]:
        """The parameters of ``forward``, which become variables of ``block``."""
        if item.gathers:
            block.pack("features", item.inputs)
            return ["*features: Tensor"]
        names, inside = Names(LOCAL_RESERVED), nodes_of(item)
        family = next(
            (each for each in self.families if set(each.values) <= set(item.inputs)), None
        )
        members = [] if family is None else list(family.values)
        own = [value for value in item.inputs if value not in members]
        own = in_order(own, inside)
        item.inputs = [*own, *members]
        for place, value in enumerate(own):
            block.env[value] = names.fresh(parameter_word(value, place, inside))
        parameters = [f"{block.env[value]}: Tensor" for value in own]
        if family is None:
            return parameters
        label = names.fresh(family.label)
        block.pack(label, members)
        return [*parameters, f"*{label}: Tensor"]

    def _class_name(self, paths: Sequence[Path]) -> str:
        wanted = _shared([self._wanted_name(path) for path in paths])
        if wanted in self.names.originals():
            return self.names.fresh(class_name(wanted))
        return self.names.take(class_name(wanted) or "Block", "Block")

    def _wanted_name(self, path: Path) -> str:
        wanted = self.hints.get(path, "")
        if wanted:
            return wanted
        words = [part for part in path if not is_place(part)]
        wanted = class_name(words[-1]) if words else "Block"
        if is_place(path[-1]):
            wanted = wanted.rstrip("s")
            wanted += "" if wanted.endswith(("Block", "Layer")) else "Block"
        return wanted

    def joined(self, items: Sequence[Item], results: Sequence[Value]) -> list[Item]:
        """The items with one call for all modules of a list that is called as a whole."""
        joined, found = find_sequences(
            items, count_uses(items, results), self.places.lists, self.places.attributes
        )
        self.sequences |= found
        return joined

    # ---------------------------------------------------------------- constructors
    def constructor(self, owner: Path, items: Sequence[Item]) -> Function | None:
        """``__init__``: every attribute below ``owner`` that belongs to no class inside it."""
        tree: dict[str, Any] = {}
        made: dict[Path, ast.expr] = {}
        self._collect(owner, items, made)
        for path, expr in made.items():
            level = tree
            for part in path[len(owner) : -1]:
                level = level.setdefault(part, {})
            level[path[-1]] = expr
        body = [
            Assign(
                name("self", self.places.attributes[*owner, key]), self._value((*owner, key), inner)
            )
            for key, inner in tree.items()
        ]
        return Function("__init__", ("self",), tuple(body)) if body else None

    def _collect(self, owner: Path, items: Sequence[Item], made: dict[Path, ast.expr]) -> None:
        inner_classes = [item.path for item in items if isinstance(item, ModuleCall)]
        items = list(with_inside(items))
        for item in items:
            if isinstance(item, LayerCall):
                made.setdefault(item.path, _layer(item.layer))
            elif isinstance(item, ModuleCall):
                made.setdefault(item.path, self._made(item.path))
        held = {
            value
            for item in items
            if isinstance(item, LayerCall)
            for value in item.layer.fields.values()
        }
        for value, path in self.places.constants.items():
            below = path[: len(owner)] == owner and len(path) > len(owner)
            elsewhere = any(path[: len(inner)] == inner for inner in inner_classes)
            in_layer = path[:-1] in made or value in held
            if below and not elsewhere and not in_layer:
                made.setdefault(path, parameter(value))

    def _made(self, path: Path) -> ast.expr:
        """The constructor call of a module: sizes by place, all else by name."""
        given = self.arguments[path]
        args = list(
            itertools.takewhile(lambda item: is_size(item[0].rstrip("_0123456789")), given.items())
        )
        rest = dict(list(given.items())[len(args) :])
        return call(self.by_path[path], *(value for _, value in args), **rest)

    def _value(self, path: Path, inner: Any) -> ast.expr:
        """The expression of an attribute: a constructor call, a list or a container of some."""
        if not isinstance(inner, dict):
            expr: ast.expr = inner
            return expr
        values = {key: self._value((*path, key), each) for key, each in inner.items()}
        if path in self.places.lists:
            return self._list(path, {int(key): each for key, each in values.items()})
        named = {self.places.attributes[*path, key]: each for key, each in values.items()}
        return call("nn.Container", **named)

    def _list(self, path: Path, values: dict[int, ast.expr]) -> ast.expr:
        places = sorted(values)
        items = [values[place] for place in places]
        if places != list(range(len(places))):
            return call("nn.ModuleList", ast.Dict(list(map(constant, places)), items))
        self.lists[path] = len(items)
        if path in self.sequences:
            return call("nn.Sequential", *_shortened(items))
        if len(items) > 1 and len(set(map(text, items))) == 1:
            return call("nn.ModuleList", repeated(items[0], len(items)))
        each = counted(items, self.parameters)
        if each is not None:
            return call("nn.ModuleList", each)
        return call("nn.ModuleList", ast.List(list(_shortened(items)), ast.Load()))


def _shortened(items: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The elements of a list, several equal ones in a row as ``*(element for _ in range(count))``."""
    for _, group in itertools.groupby(items, text):
        equal = list(group)
        if len(equal) < SEVERAL:
            yield from equal
        else:
            yield ast.Starred(repeated(equal[0], len(equal)), ast.Load())


def _collect_levels(item: Item, levels: dict[int, list[ModuleCall]]) -> int:
    """Note each module call under its height: 0 for one that has none inside."""
    if not isinstance(item, ModuleCall):
        return -1
    height = 1 + max((_collect_levels(inner, levels) for inner in item.items), default=-1)
    levels.setdefault(height, []).append(item)
    return height


def _key(body: Body) -> str:
    return plain_text(body, notes=False)


def _shared(names: Sequence[str]) -> str:
    """One name for classes that are one: the most frequent, or what names with numbers have in common."""
    counts = Counter(names)
    if len(counts) == 1:
        return names[0]
    plain = {_COUNTED.sub("", each) for each in counts}
    if len(plain) == 1:
        word = plain.pop()
        return "Block" if word in ("LayerBlock", "StageBlock", "BlockBlock") else word
    return counts.most_common(1)[0][0]


def _own_constants(item: Item) -> list[Value]:
    if isinstance(item, LayerCall):
        return [value for value in item.layer.inputs if value is not None and value.is_constant]
    assert not isinstance(item, ModuleCall)
    return list(constants_of(item.node))


def _layer(layer: Layer) -> ast.expr:
    """The constructor call of a layer with all its numbers; those that are the default are left out at the end."""
    given = with_defaults(layer.kind, layer.options)
    options = {key: constant(value, float32=True) for key, value in given.items()}
    return call(f"nn.{layer.kind}", *map(constant, layer.args), **options)


def parameter(value: Value) -> ast.expr:
    """``nn.Parameter(…)`` for a constant."""
    kind = value.type
    assert isinstance(kind, TensorType) and value.array is not None
    options = {} if kind.dtype == float32 else {"dtype": constant(dtype_name(kind.dtype))}
    return call("nn.Parameter", *(constant(int(n)) for n in value.array.shape), **options)


def returned(count: int) -> str:
    """The annotation of a function that gives ``count`` tensors."""
    if count == 1:
        return "Tensor"
    return "tuple[Tensor, ...]" if count > 3 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _common_notes(left: Any, right: Any) -> Any:
    """The first of two trees that differ in notes only, without those in which they do."""
    if isinstance(left, tuple):
        return tuple(_common_notes(a, b) for a, b in zip(left, right, strict=True))
    if left == right or not is_dataclass(left) or isinstance(left, type):
        return left
    changes: dict[str, Any] = {}
    for each in fields(left):
        a, b = getattr(left, each.name), getattr(right, each.name)
        changes[each.name] = (a if a == b else "") if each.name == "note" else _common_notes(a, b)
    return replace(left, **changes)
