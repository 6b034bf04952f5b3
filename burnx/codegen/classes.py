"""The classes of a module: one for each distinct body, with the constructor calls of what it holds."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from burnx.codegen.block import Block, Context
from burnx.codegen.expressions import call, name, repeated, text
from burnx.codegen.layers import Layer
from burnx.codegen.layout import Assign, Class, Function, Stmt, plain_text
from burnx.codegen.literal import constant
from burnx.codegen.names import LOCAL_RESERVED, Names, class_name, identifier
from burnx.codegen.placing import Places, constants_of
from burnx.codegen.scopes import Path
from burnx.codegen.tree import Call as ModuleCall
from burnx.codegen.tree import Item, LayerCall
from burnx.dtype import dtype_name, float32
from burnx.graph import Value
from burnx.types import TensorType


@dataclass(slots=True)
class Classes:
    """The classes made so far: their names by path and by body, and their definitions in order."""

    places: Places
    kept: set[Value]
    hints: Mapping[Path, str]
    lists: dict[Path, int] = field(default_factory=dict)
    by_path: dict[Path, str] = field(default_factory=dict)
    by_body: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Class] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: Names(LOCAL_RESERVED))
    flow: set[str] = field(default_factory=set)

    def define(self, item: ModuleCall) -> None:
        """Make the class of a module call, and first those of the calls inside it."""
        for inner in item.items:
            if isinstance(inner, ModuleCall):
                self.define(inner)
        self._pass_constants(item)
        body = self._body(item)
        key = plain_text(body, notes=False)
        known = self.by_body.get(key)
        if known is None:
            known = self.by_body[key] = self._class_name(item.path)
            self.definitions[known] = Class(known, body)
        else:
            merged = _common_notes(self.definitions[known].body, body)
            self.definitions[known] = replace(self.definitions[known], body=merged)
        self.by_path[item.path] = known

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

    def _body(self, item: ModuleCall) -> tuple[Stmt, ...]:
        init = self.constructor(item.path, item.items)
        context = Context(self.places, self.kept, self.by_path, self.lists, item.path, self.flow)
        names = Names(LOCAL_RESERVED)
        env = {
            value: names.take(_parameter_word(value, place))
            for place, value in enumerate(item.inputs)
        }
        params = ("self", *(f"{env[value]}: Tensor" for value in item.inputs))
        statements = Block(context, dict(env)).fill(item.items, item.outputs)
        returns = returned(len(item.outputs))
        forward = Function("forward", params, tuple(statements), returns)
        return (init, forward) if init is not None else (forward,)

    def _class_name(self, path: Path) -> str:
        words = [part for part in path if not part.isdigit()]
        wanted = self.hints.get(path, "")
        if not wanted:
            wanted = class_name(words[-1]) if words else "Block"
            if path[-1].isdigit():
                wanted = wanted.rstrip("s")
                wanted += "" if wanted.endswith(("Block", "Layer")) else "Block"
        return (
            self.names.take(class_name(wanted) or "Block", "Block")
            if wanted not in self.names.originals()
            else self.names.fresh(class_name(wanted))
        )

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
        for item in items:
            if isinstance(item, LayerCall):
                made.setdefault(item.path, _layer(item.layer))
            elif isinstance(item, ModuleCall):
                made.setdefault(item.path, call(self.by_path[item.path]))
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
        if len(items) > 1 and len(set(map(text, items))) == 1:
            return call("nn.ModuleList", repeated(items[0], len(items)))
        return call("nn.ModuleList", ast.List(items, ast.Load()))


def _own_constants(item: Item) -> list[Value]:
    if isinstance(item, LayerCall):
        return [value for value in item.layer.inputs if value is not None and value.is_constant]
    assert not isinstance(item, ModuleCall)
    return list(constants_of(item.node))


def _parameter_word(value: Value, place: int) -> str:
    """What a parameter of ``forward`` is called: the input's own name, or x for the main one."""
    if value.producer is None and value.name and not value.is_constant:
        return value.name
    if value.is_constant and value.name:
        return identifier(value.name.rpartition(".")[2])
    word = identifier(value.producer.operator.lower()) if value.producer is not None else ""
    return "x" if place == 0 or not word else f"{word}#{place}" if word == "x" else f"x#{place}"


def _layer(layer: Layer) -> ast.expr:
    options = {key: constant(value, float32=True) for key, value in layer.options.items()}
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
