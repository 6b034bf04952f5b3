"""The source tree: what a generated module is made of before it is text.

Expressions and statements are frozen data; ``layout.render`` makes text of them and adds every
parenthesis that precedence asks for. ``Text`` is an atom: a name, a number or a string literal, as
code. ``constant`` makes an expression of a Python value through ``literal_text``; text from a model
comes in no other way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from burnx.codegen.literal import literal_text


@dataclass(frozen=True, slots=True)
class Text:
    """An atom: a name, a number (a sign is allowed) or a string literal."""

    code: str


@dataclass(frozen=True, slots=True)
class Call:
    """``func(*args, **kwargs)``; ``kwargs`` are (name, value) pairs in order."""

    func: Expr
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class Attr:
    """``value.name``"""

    value: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """``lower:upper:step``, only as an item of ``Index``."""

    lower: Expr | None = None
    upper: Expr | None = None
    step: Expr | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """``value[items]``; a one-element tuple index is ``items=(Tuple((x,)),)``."""

    value: Expr
    items: tuple[Expr | Slice, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """``left op right``, arithmetic, bitwise, ``and`` or ``or``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right`` for one comparison; op is ``==``, ``<``, ``in``, ``is not``…"""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    """``-operand``, ``~operand``, ``+operand`` or ``not operand``."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class IfExp:
    """``body if test else orelse``"""

    body: Expr
    test: Expr
    orelse: Expr


@dataclass(frozen=True, slots=True)
class Tuple:
    """Stands without parentheses where a reader expects that: targets, returned values, values of
    tuple targets.
    """

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class List:
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Dict:
    items: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Starred:
    """``*value`` as an argument or an item."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Generator:
    """``element for target in iterable``, only as the single argument of a call."""

    element: Expr
    target: str
    iterable: Expr


Expr = (
    Text
    | Call
    | Attr
    | Index
    | Binary
    | Compare
    | Unary
    | IfExp
    | Tuple
    | List
    | Dict
    | Starred
    | Generator
)


@dataclass(frozen=True, slots=True)
class Assign:
    """``target = value  # comment``"""

    target: Expr
    value: Expr
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    value: Expr | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """An expression as a statement."""

    value: Expr
    comment: str = ""


@dataclass(frozen=True, slots=True)
class For:
    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class While:
    test: Expr
    body: tuple[Stmt, ...]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class If:
    """An ``orelse`` that is one ``If`` prints as ``elif``."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter; ``name`` may be ``*``, ``/``, ``*args`` or ``**kwargs``."""

    name: str
    annotation: Expr | None = None
    default: Expr | None = None


@dataclass(frozen=True, slots=True)
class FunctionDef:
    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    returns: Expr | None = None
    decorators: tuple[Expr, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ClassDef:
    name: str
    bases: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Docstring:
    """Any text, made safe when printed. The first statement of a module, class or function."""

    text: str


@dataclass(frozen=True, slots=True)
class Comment:
    """Any text, as a comment line of its own; made safe when it is printed."""

    text: str


@dataclass(frozen=True, slots=True)
class Blank:
    """One empty line between two statements; there is never more than one that was not asked for by
    the style.
    """


@dataclass(frozen=True, slots=True)
class Import:
    """``import module`` or, with names, ``from module import names`` (``a as b`` is one)."""

    module: str
    names: tuple[str, ...] = ()


Stmt = (
    Assign
    | Return
    | Do
    | For
    | While
    | If
    | FunctionDef
    | ClassDef
    | Docstring
    | Comment
    | Blank
    | Import
)


@dataclass(frozen=True, slots=True)
class Module:
    body: tuple[Stmt, ...]


def name(*parts: str) -> Expr:
    """``name("self", "conv1")`` is ``self.conv1``; one dotted string does as well."""
    first, *rest = ".".join(parts).split(".")
    expr: Expr = Text(first)
    for part in rest:
        expr = Attr(expr, part)
    return expr


def texts(node: Any) -> Iterator[Text]:
    """Every atom of a tree."""
    if isinstance(node, Text):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from texts(item)
    elif is_dataclass(node):
        for each in fields(node):
            yield from texts(getattr(node, each.name))


def call(func: str | Expr, *args: Expr, **kwargs: Expr) -> Call:
    """A call by dotted name or expression."""
    return Call(name(func) if isinstance(func, str) else func, args, tuple(kwargs.items()))


def constant(value: Any, *, float32: bool = False) -> Expr:
    """An expression whose value is ``value`` (see ``literal``), with containers that can break over
    lines.
    """
    if isinstance(value, np.ndarray | np.generic):
        single = value.dtype.kind in "fV" and value.dtype.itemsize <= 4
        plain = value.astype(np.float32) if value.dtype.kind == "V" else value
        return constant(plain.tolist(), float32=float32 or single)
    if isinstance(value, list):
        return List(tuple(constant(item, float32=float32) for item in value))
    if isinstance(value, tuple):
        return Tuple(tuple(constant(item, float32=float32) for item in value))
    if isinstance(value, dict):
        pairs = ((constant(key), constant(item, float32=float32)) for key, item in value.items())
        return Dict(tuple(pairs))
    if isinstance(value, complex):
        return call("complex", constant(value.real), constant(value.imag))
    code = literal_text(value, float32=float32)
    if code.startswith("float("):
        return call("float", Text(code[len("float(") : -1]))
    return Text(code)
