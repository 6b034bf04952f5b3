"""Classes that differ in numbers only are one: the numbers become parameters of its constructor.

Bodies are compared with every number taken out.  Where one place holds different numbers in different bodies, it becomes
a parameter; places whose numbers always agree are one parameter, and one that is always a small multiple of another is
written as such.  A parameter that ``forward`` needs is an attribute too.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from burnx.codegen.expressions import binary, name
from burnx.codegen.layout import Assign, Do, For, Function, If, Return, Stmt, While
from burnx.codegen.literal import constant
from burnx.codegen.names import LOCAL_RESERVED, Names

Number = int | float | bool
Body = tuple[Stmt, ...]

# parameters: bodies that differ in more are better read as classes of their own, unless they are many
MOST, MANY = 6, 8
MANY_BODIES = 4
MULTIPLES = (2, 3, 4)
_SIZES = ("channels", "features", "size")
DEFAULTS: dict[str, Number] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True}
# what a number is called whose places have different names; the first of which all places are
_FAMILIES = {
    "channels": ("in_channels", "out_channels", "channels", "groups", "features"),
    "features": ("in_features", "out_features", "features", "channels"),
}
# what a layer makes many of, which is its own number
_MADE = frozenset({"out_channels", "out_features"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constructor parameter, and its value for each body."""

    name: str
    values: tuple[Number, ...]

    @property
    def default(self) -> Number | None:
        """What layers take where it is left out, if some body has that."""
        usual = DEFAULTS.get(self.name)
        return usual if repr(usual) in map(repr, self.values) else None

    @property
    def declared(self) -> str:
        """The parameter in the constructor's head."""
        kinds = {type(value) for value in self.values}
        kind = "float" if float in kinds else "bool" if kinds == {bool} else "int"
        end = "" if self.default is None else f" = {self.default}"
        return f"{self.name}: {kind}{end}"


@dataclass(slots=True)
class Merged:
    """One body for several: its parameters in order."""

    body: Body
    parameters: list[Parameter] = field(default_factory=list)


def is_size(word: str) -> bool:
    """Whether a parameter of this name is the size of a layer, which is given by its place."""
    return word.endswith(_SIZES) and word not in ("kernel_size", "block_size")


def outline(body: Body, text: Callable[[Body], str]) -> str:
    """The text of a body without its numbers."""

    def hole(value: Number, _: str, __: bool) -> ast.expr:
        return name(f"_{type(value).__name__}")

    return text(_mapped(body, hole, {}))


def merge(
    bodies: Sequence[Body], known: Mapping[str, Sequence[str]], taken: Iterable[str] = ()
) -> Merged | None:
    """One body for bodies of one outline, or None where that takes too many parameters.

    ``known`` are the parameters of the classes so far, ``taken`` the attributes that the class has.
    """
    taken = {*taken, *_loop_names(bodies[0])}
    listed = [_numbers(body, known) for body in bodies]
    vectors = [
        Vector(numbers)
        for numbers in zip(*([value for value, _, _ in each] for each in listed), strict=True)
    ]
    roles = [role for _, role, _ in listed[0]]
    varying = {vector for vector in vectors if len(set(vector.written)) > 1}
    labels = _labels(bodies[0], known)
    found = _expressions(vectors, list(zip(roles, labels, strict=True)), varying, taken)
    if found is None:
        return None
    parameters, spelled = found
    attributes: set[str] = set()
    turn = iter(vectors)

    def put(_: Number, __: str, inside: bool) -> ast.expr | None:
        vector = next(turn)
        if vector not in varying:
            return None
        owner, factor = spelled[vector]
        if inside:
            attributes.add(owner)
        expr = name("self", owner) if inside else name(owner)
        return expr if factor == 1 else binary("*", constant(factor), expr)

    body = _mapped(bodies[0], put, known)
    kept = [each.name for each in parameters if each.name in attributes]
    return Merged(_with_parameters(body, parameters, kept), parameters)


def _labels(body: Body, known: Mapping[str, Sequence[str]]) -> list[str]:
    """For each number of a body the attribute that it is given to, "" if to none."""
    found: list[str] = []
    for stmt in body:
        is_init = isinstance(stmt, Function) and stmt.name == "__init__"
        for inner in stmt.body if is_init and isinstance(stmt, Function) else (stmt,):
            target = inner.target if isinstance(inner, Assign) else None
            label = target.attr if isinstance(target, ast.Attribute) else ""
            found += [label] * len(_numbers((inner,), known))
    return found


def _loop_names(body: Body) -> set[str]:
    """The variables of the comprehensions of a body, which would hide a parameter of their name."""
    found: set[str] = set()

    def note(expr: ast.expr, _: bool) -> ast.expr:
        loops = [each for each in ast.walk(expr) if isinstance(each, ast.comprehension)]
        found.update(each.target.id for each in loops if isinstance(each.target, ast.Name))
        return expr

    mapped_expressions(body, note)
    return found


def without_defaults(body: Body, own: Mapping[str, Mapping[str, Number]]) -> Body:
    """A body whose layers are called without the options that are the default; ``own`` are those of its classes."""
    return tuple(mapped_expressions(body, lambda expr, _: _Plain(own).visit(expr)))


def with_defaults(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All number options of a layer, the defaults included."""
    defaults = {key: each for key, each in _defaults(kind).items() if _is_number(each)}
    return {**defaults, **options}


def _numbers(body: Body, known: Mapping[str, Sequence[str]]) -> list[tuple[Number, str, bool]]:
    found: list[tuple[Number, str, bool]] = []

    def note(value: Number, role: str, inside: bool) -> None:
        found.append((value, role, inside))

    _mapped(body, note, known)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """The numbers of one place in all bodies; equal are those that are written alike: 1, 1.0 and True are not."""

    numbers: tuple[Number, ...]

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(map(repr, self.numbers))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)

    def times(self, factor: int) -> Vector:
        return Vector(tuple(factor * number for number in self.numbers))

    def is_size(self) -> bool:
        return all(type(number) is int for number in self.numbers)


Spelled = dict[Vector, tuple[str, int]]


def _expressions(
    vectors: Sequence[Vector],
    roles: Sequence[tuple[str, str]],
    varying: set[Vector],
    taken: Iterable[str],
) -> tuple[list[Parameter], Spelled] | None:
    """The parameters, and how each varying number is spelled: a parameter, or a multiple of one.

    ``roles`` are what numbers are to layers, and the attributes of these.
    """
    words: dict[Vector, str] = {}
    labels: dict[Vector, str] = {}
    for vector in dict.fromkeys(each for each in vectors if each in varying):
        own = [role for each, role in zip(vectors, roles, strict=True) if each == vector]
        words[vector] = word_of([role for role, _ in own])
        made = (label for role, label in own if role in _MADE and label.isidentifier())
        labels[vector] = next(made, "")
    owners = _owners(words)
    bases = [vector for vector in words if owners[vector] == (vector, 1)]
    if len(bases) > (MANY if vectors and len(vectors[0].numbers) >= MANY_BODIES else MOST):
        return None
    names = Names(LOCAL_RESERVED | set(taken))
    given: dict[Vector, str] = {}
    for vector in bases:
        word = words[vector]
        if word in _FAMILIES and names.is_taken(word):
            word = f"hidden_{word}"
        if labels[vector] and names.is_taken(word):
            word = f"{labels[vector]}_{'features' if 'features' in word else 'channels'}"
        given[vector] = names.fresh(word)
    spelled = {vector: (given[owner], factor) for vector, (owner, factor) in owners.items()}
    parameters = [Parameter(given[vector], vector.numbers) for vector in bases]
    return sorted(parameters, key=lambda each: each.default is not None), spelled


def _owners(words: Mapping[Vector, str]) -> dict[Vector, tuple[Vector, int]]:
    """Each vector as so many times another one, or once itself."""
    bases: list[Vector] = []
    found: dict[Vector, tuple[Vector, int]] = {}
    sizes = {vector for vector, word in words.items() if is_size(word) and vector.is_size()}
    for vector in sorted(words, key=lambda each: sum(each.numbers)):
        found[vector] = (vector, 1)
        for base in bases if vector in sizes else ():
            for factor in MULTIPLES:
                if base in sizes and vector == base.times(factor):
                    found[vector] = (base, factor)
        if found[vector] == (vector, 1):
            bases.append(vector)
    return found


def word_of(roles: Sequence[str]) -> str:
    """What a number is called that stands for these roles."""
    counts = Counter(role for role in roles if role != "size") or Counter(roles)
    if len(counts) == 1:
        return roles[0]
    for word, members in _FAMILIES.items():
        if all(role in members for role in counts):
            return word
    return counts.most_common(1)[0][0]


# ------------------------------------------------------------------------------- walking a body
Change = Callable[[Number, str, bool], ast.expr | None]


def _mapped(body: Body, change: Change, known: Mapping[str, Sequence[str]]) -> Body:
    """A body with each number replaced by what ``change`` gives for (number, role, whether in forward)."""

    def visit(expr: ast.expr, inside: bool) -> ast.expr:
        return Replace(change, known, inside).visit(expr)

    return tuple(mapped_expressions(body, visit))


def mapped_expressions(
    body: Iterable[Stmt], visit: Callable[[ast.expr, bool], ast.expr], inside: bool = False
) -> list[Stmt]:
    """The statements with ``visit(expression, inside)`` in place of each expression they hold."""
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Assign(_, value) | Return(value) | Do(value):
                result.append(replace(stmt, value=visit(value, inside)))
            case For(_, iterable, statements):
                inner = tuple(mapped_expressions(statements, visit, inside))
                result.append(replace(stmt, iterable=visit(iterable, inside), body=inner))
            case While(test, statements):
                inner = tuple(mapped_expressions(statements, visit, inside))
                result.append(replace(stmt, test=visit(test, inside), body=inner))
            case If(test, statements, others):
                inner = tuple(mapped_expressions(statements, visit, inside))
                orelse = tuple(mapped_expressions(others, visit, inside))
                result.append(replace(stmt, test=visit(test, inside), body=inner, orelse=orelse))
            case Function(label, _, statements):
                within = inside or label != "__init__"
                inner = tuple(mapped_expressions(statements, visit, within))
                result.append(replace(stmt, body=inner))
            case _:
                result.append(stmt)
    return result


class Replace(ast.NodeTransformer):
    """Puts other expressions in place of numbers; the tree it is given stays as it is."""

    def __init__(
        self, change: Change, known: Mapping[str, Sequence[str]], inside: bool = False
    ) -> None:
        self.change, self.known, self.inside = change, known, inside
        self.roles: list[str] = ["size"]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not _is_number(node.value):
            return node
        value: Any = node.value
        return self.change(value, self.roles[-1], self.inside) or node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        positional = _positional(ast.unparse(node.func), self.known)
        args = []
        for place, each in enumerate(node.args):
            args.append(self._under(positional(place), each))
        options = [
            ast.keyword(each.arg, self._under(each.arg or "size", each.value))
            for each in node.keywords
        ]
        return ast.Call(self._under("size", node.func), args, options)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        # ``self.blocks[0]`` is a place, no size
        if ast.unparse(node.value).startswith("self"):
            return node
        value, index = self.visit(node.value), self._under("index", node.slice)
        return ast.Subscript(value, index, node.ctx)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        changed = {}
        for key, value in ast.iter_fields(node):
            if isinstance(value, list):
                changed[key] = [self._node(each) for each in value]
            else:
                changed[key] = self._node(value)
        return type(node)(**changed)

    def _node(self, value: Any) -> Any:
        return self.visit(value) if isinstance(value, ast.AST) else value

    def _under(self, role: str, node: ast.expr) -> ast.expr:
        self.roles.append(role)
        changed = self.visit(node)
        self.roles.pop()
        return changed


class _Plain(ast.NodeTransformer):
    """Leaves out options of layers that are the default."""

    def __init__(self, own: Mapping[str, Mapping[str, Number]]) -> None:
        self.own = own

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        label = ast.unparse(node.func)
        is_layer = label.startswith("nn.")
        defaults = _defaults(label.removeprefix("nn.")) if is_layer else self.own.get(label)
        if defaults:
            node.keywords = [each for each in node.keywords if not _is_default(each, defaults)]
        return node


def _is_default(option: ast.keyword, defaults: Mapping[str, Any]) -> bool:
    if option.arg is None or not isinstance(option.value, ast.Constant):
        return False
    default, value = defaults.get(option.arg, inspect.Parameter.empty), option.value.value
    return type(default) is type(value) and default == value


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def _positional(label: str, known: Mapping[str, Sequence[str]]) -> Callable[[int], str]:
    """The name of each positional argument of a call."""
    if label in known:
        names = known[label]
        return lambda place: names[place] if place < len(names) else "size"
    if label.startswith("nn."):
        names = _parameters(label.removeprefix("nn."))
        return lambda place: names[min(place, len(names) - 1)] if names else "size"
    return lambda _: "depth" if label == "range" else "size"


@lru_cache(maxsize=64)
def _signature(kind: str) -> inspect.Signature | None:
    from burnx import nn

    found = getattr(nn, kind, None)
    return inspect.signature(found) if isinstance(found, type) else None


def _parameters(kind: str) -> list[str]:
    signature = _signature(kind)
    if signature is None:
        return []
    several = {"shape": "features", "size": "features"}
    return [
        several.get(each.name, "features") if each.kind is each.VAR_POSITIONAL else each.name
        for each in signature.parameters.values()
        if each.kind is not each.KEYWORD_ONLY
    ]


def _defaults(kind: str) -> dict[str, Any]:
    signature = _signature(kind)
    if signature is None:
        return {}
    return {
        each.name: each.default
        for each in signature.parameters.values()
        if each.default is not each.empty
    }


def _with_parameters(body: Body, parameters: Sequence[Parameter], kept: Sequence[str]) -> Body:
    """The body with a constructor that takes the parameters; ``kept`` ones become attributes."""
    given = ("self", *(each.declared for each in parameters))
    start = tuple(Assign(name("self", each), name(each)) for each in kept)
    first = body[0]
    if isinstance(first, Function) and first.name == "__init__":
        made = replace(first, params=given, body=(*start, *first.body))
        return (made, *body[1:])
    return (Function("__init__", given, start), *body)
