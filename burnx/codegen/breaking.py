"""Expressions that do not fit one line, as docs with the breaks that the formatter may take.

``value_doc`` lays out the value of a statement: it may gain parentheses of its own. ``expr_doc``
lays out what is inside one. A ``Level`` says what encloses an expression: nothing, brackets, or
parentheses that a group may add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from burnx.codegen.doc import (
    LINE,
    SOFT,
    BestFit,
    Doc,
    FitsExpanded,
    Group,
    IfMode,
    Indent,
    Mode,
)
from burnx.codegen.flat import (
    BIT_OR,
    OR,
    binding,
    is_simple_power,
    operand_of,
    operands,
    slice_parts,
    unary_sign,
    value_needs_parens,
)
from burnx.codegen.nodes import (
    Attr,
    Binary,
    Call,
    Compare,
    Dict,
    Expr,
    Generator,
    IfExp,
    Index,
    List,
    Slice,
    Starred,
    Text,
    Tuple,
    Unary,
)
from burnx.codegen.omission import Need, can_omit_parentheses, is_fluent, need_of

Level = int | None
"""The id of the group that may add parentheses, ``INSIDE`` brackets, or None: nothing encloses the
expression.
"""

INSIDE: Final = -1
_ids = count(1)


def broken(text: str) -> IfMode:
    return IfMode(text, Mode.EXPANDED)


def value_doc(expr: Expr) -> Doc:
    """The value of a statement, or the condition of a clause."""
    if isinstance(expr, Tuple):
        return expr_doc(expr, None)
    need = need_of(expr)
    if need is Need.NEVER:
        return expr_doc(expr, None)
    id = next(_ids)
    if need is Need.BEST_FIT:
        return BestFit(expr_doc(expr, id), id)
    if can_omit_parentheses(expr):
        return optional_parentheses(expr_doc(expr, id), id)
    return optional_parentheses(expr_doc(expr, INSIDE), id)


def optional_parentheses(content: Doc, id: int) -> Doc:
    """Parentheses that show only if the group breaks."""
    return Group(
        (broken("("), Indent((SOFT, content), when=id), SOFT, broken(")")),
        id=id,
    )


def bare_tuple(expr: Tuple, pair_may_lean: bool = False) -> Doc:
    """A tuple that has parentheses only when it breaks; a returned pair may break inside its own
    items instead.
    """
    if len(expr.items) < 2:
        return expr_doc(expr, None)
    id = next(_ids)
    level = id if pair_may_lean and len(expr.items) == 2 else INSIDE
    return optional_parentheses(sequence([expr_doc(item, level) for item in expr.items]), id)


def sequence(items: Sequence[Doc]) -> Doc:
    """Items with commas and breaks between them; broken, two or more end in a comma."""
    parts: list[Doc] = []
    for item in items:
        parts += [item, ",", LINE]
    del parts[-2:]
    if len(items) > 1:
        parts.append(broken(","))
    return tuple(parts)


def bracketed(left: str, content: Doc, right: str, level: Level) -> Doc:
    """Brackets that stand, and may break after the left and before the right one."""
    inner = Group((left, Indent((SOFT, content)), SOFT, right))
    return inner if level is None or level == INSIDE else FitsExpanded(inner, level)


def expr_doc(expr: Expr, level: Level, least: int = 0, chain: bool | None = None) -> Doc:
    """``expr`` at ``level``, in parentheses if it binds less tightly than ``least``.

    ``chain`` says whether a call chain around it breaks before its dots; None where no chain is
    around it.
    """
    if isinstance(expr, Text):
        return f"({expr.code})" if least and binding(expr) < least else expr.code
    if least and binding(expr) < least:
        return bracketed("(", expr_doc(expr, INSIDE), ")", level)
    if isinstance(expr, Attr | Call | Index):
        return _chain_doc(expr, level, chain)
    return _DOCS[type(expr)](expr, level)


def _chain_doc(expr: Attr | Call | Index, level: Level, chain: bool | None) -> Doc:
    fluent = (level is not None and is_fluent(expr)) if chain is None else chain
    doc = _LINKS[type(expr)](expr, level, fluent)
    return Group(doc) if fluent and chain is None else doc


def _link_value(value: Expr, level: Level, fluent: bool) -> Doc:
    if value_needs_parens(value):
        return bracketed("(", expr_doc(value, INSIDE), ")", level)
    return expr_doc(value, level, chain=fluent if isinstance(value, Attr | Call | Index) else None)


def _attr_doc(expr: Attr, level: Level, fluent: bool) -> Doc:
    value = _link_value(expr.value, level, fluent)
    own_line = value_needs_parens(expr.value) or isinstance(expr.value, Call | Index)
    return (value, SOFT if fluent and own_line else "", f".{expr.name}")


def _call_doc(expr: Call, level: Level, fluent: bool) -> Doc:
    return (_link_value(expr.func, level, fluent), arguments_doc(expr, level))


def arguments_doc(expr: Call, level: Level) -> Doc:
    """The parenthesised arguments of a call."""
    if not expr.args and not expr.kwargs:
        return "()"
    items = [expr_doc(arg, INSIDE) for arg in expr.args]
    items += [(f"{key}=", expr_doc(value, INSIDE)) for key, value in expr.kwargs]
    return bracketed("(", Group(sequence(items)), ")", level)


def _index_doc(expr: Index, level: Level, fluent: bool) -> Doc:
    items = [_item_doc(item) for item in expr.items]
    content = items[0] if len(items) == 1 else Group(sequence(items))
    return (_link_value(expr.value, level, fluent), bracketed("[", content, "]", level))


def _item_doc(item: Expr | Slice) -> Doc:
    if isinstance(item, Slice):
        parts = slice_parts(item)
        return tuple(part if isinstance(part, str) else expr_doc(part, INSIDE) for part in parts)
    return expr_doc(item, INSIDE)


@dataclass(frozen=True, slots=True)
class _Operand:
    expr: Expr
    least: int


_Chain = list[_Operand | str]


def _flattened(expr: Expr, least: int, parts: _Chain) -> None:
    """Operands and operators of a binary expression from left to right, through what has no
    parentheses.
    """
    if isinstance(expr, Binary | Compare) and binding(expr) >= least:
        left, right = operands(expr)
        _flattened(expr.left, left, parts)
        parts.append(expr.op)
        _flattened(expr.right, right, parts)
    else:
        parts.append(_Operand(expr, least))


def _operator_doc(expr: Binary | Compare, level: Level) -> Doc:
    parts: _Chain = []
    _flattened(expr, 0, parts)
    return _only_in_parentheses(_split_operators(parts, level), level)


def _strength(op: str) -> int:
    """Splitting order: the weakest operator breaks first; ``and`` and ``or`` are one kind, so are
    comparisons.
    """
    kinds = {"or": 0, "and": 0, "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, "+": 6, "-": 6, "**": 8}
    arithmetic = {"*", "/", "//", "%", "@"}
    return 7 if op in arithmetic else kinds.get(op, 1)


def _split_operators(parts: _Chain, level: Level) -> Doc:
    """Breaks before the weakest operators of a chain; between them are chains of their own."""
    weakest = min(_strength(part) for part in parts if isinstance(part, str))
    docs: list[Doc] = []
    start = 0
    for index, part in enumerate(parts):
        if isinstance(part, str) and _strength(part) == weakest:
            simple = part == "**" and _is_simple_between(parts[index - 1], parts[index + 1])
            docs += [_slice_doc(parts[start:index], level), _break(level, simple), part]
            docs.append(_space_if_broken(level) if simple else " ")
            start = index + 1
    docs.append(_slice_doc(parts[start:], level))
    return tuple(docs)


def _is_simple_between(left: _Operand | str, right: _Operand | str) -> bool:
    assert isinstance(left, _Operand) and isinstance(right, _Operand)
    kept = binding(left.expr) >= left.least and binding(right.expr) >= right.least
    return kept and is_simple_power(left.expr, right.expr)


def _slice_doc(parts: _Chain, level: Level) -> Doc:
    first = parts[0]
    if len(parts) == 1 and isinstance(first, _Operand):
        return expr_doc(first.expr, level, first.least)
    return _only_in_parentheses(_split_operators(parts, level), level)


def _only_in_parentheses(content: Doc, level: Level) -> Doc:
    """A group where brackets enclose it, or once the parentheses that may be added are there."""
    if level is None:
        return content
    return Group(content) if level == INSIDE else Group(content, when=level)


def _break(level: Level, tight: bool = False) -> Doc:
    """A break where brackets allow one; elsewhere only the space."""
    space = "" if tight else " "
    if level == INSIDE:
        return SOFT if tight else LINE
    if level is None:
        return space
    line = SOFT if tight else LINE
    return (IfMode(line, Mode.EXPANDED, level), IfMode(space, Mode.FLAT, level))


def _space_if_broken(level: Level) -> Doc:
    if level is None:
        return ""
    if level == INSIDE:
        return IfMode(" ", Mode.EXPANDED)
    # The condition is on the added parentheses and on the group itself.
    return IfMode(IfMode(" ", Mode.EXPANDED), Mode.EXPANDED, level)


def _unary_doc(expr: Unary, level: Level) -> Doc:
    return (unary_sign(expr), expr_doc(expr.operand, level, operand_of(expr)))


def _if_doc(expr: IfExp, level: Level) -> Doc:
    return _only_in_parentheses(_if_parts(expr, level), level)


def _if_parts(expr: IfExp, level: Level) -> Doc:
    if isinstance(expr.orelse, IfExp):
        orelse = _if_parts(expr.orelse, level)
    else:
        orelse = _only_in_parentheses(expr_doc(expr.orelse, level), level)
    body, test = expr_doc(expr.body, level, OR), expr_doc(expr.test, level, OR)
    return (body, _break(level), "if ", test, _break(level), "else ", orelse)


def _tuple_doc(expr: Tuple, level: Level) -> Doc:
    if not expr.items:
        return "()"
    items = [expr_doc(item, INSIDE) for item in expr.items]
    content: Doc = (items[0], ",") if len(items) == 1 else sequence(items)
    return bracketed("(", content, ")", level)


def _list_doc(expr: List, level: Level) -> Doc:
    if not expr.items:
        return "[]"
    return bracketed("[", sequence([expr_doc(item, INSIDE) for item in expr.items]), "]", level)


def _dict_doc(expr: Dict, level: Level) -> Doc:
    if not expr.items:
        return "{}"
    pairs = [
        Group((expr_doc(key, INSIDE), ": ", expr_doc(value, INSIDE))) for key, value in expr.items
    ]
    return bracketed("{", sequence(pairs), "}", level)


def _starred_doc(expr: Starred, level: Level) -> Doc:
    return ("*", expr_doc(expr.value, level, BIT_OR))


def _generator_doc(expr: Generator, level: Level) -> Doc:
    iterable = expr_doc(expr.iterable, level, OR)
    return (Group(expr_doc(expr.element, level)), LINE, f"for {expr.target} in ", iterable)


_LINKS: Final[dict[type, Callable[[Any, Level, bool], Doc]]] = {
    Attr: _attr_doc,
    Call: _call_doc,
    Index: _index_doc,
}
_DOCS: Final[dict[type, Callable[[Any, Level], Doc]]] = {
    Binary: _operator_doc,
    Compare: _operator_doc,
    Unary: _unary_doc,
    IfExp: _if_doc,
    Tuple: _tuple_doc,
    List: _list_doc,
    Dict: _dict_doc,
    Starred: _starred_doc,
    Generator: _generator_doc,
}
