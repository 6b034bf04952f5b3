"""Expressions on one line, and where precedence asks for parentheses.

``flat`` is the text of an expression that fits its line; ``breaking.py`` lays out the ones that do
not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

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

# How tightly an operator binds; an operand that binds less tightly gets parentheses.
CONDITION, OR, AND, NOT, COMPARE, BIT_OR, UNARY, POWER, PRIMARY, ATOM = (
    1,
    2,
    3,
    4,
    5,
    6,
    12,
    13,
    15,
    16,
)
BINDING: Final = {
    "or": OR,
    "and": AND,
    "|": BIT_OR,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "//": 11,
    "%": 11,
    "@": 11,
    "**": POWER,
}
_FIXED: Final = {Call: PRIMARY, Attr: PRIMARY, Index: PRIMARY, IfExp: CONDITION, Compare: COMPARE}


def binding(expr: Expr) -> int:
    """How tightly the outermost operator of ``expr`` binds."""
    if isinstance(expr, Binary):
        return BINDING[expr.op]
    if isinstance(expr, Unary):
        return NOT if expr.op == "not" else UNARY
    if isinstance(expr, Text):
        return UNARY if expr.code[0] in "+-~" else ATOM
    return _FIXED.get(type(expr), ATOM)


def operands(expr: Binary | Compare) -> tuple[int, int]:
    """The binding that the left and the right operand need to stand without parentheses."""
    if isinstance(expr, Compare):
        return BIT_OR, BIT_OR
    own = BINDING[expr.op]
    if expr.op == "**":
        return POWER + 1, UNARY
    return own, own + 1


def operand_of(expr: Unary) -> int:
    """The binding that the operand needs; a power is set apart though Python would not need it."""
    if isinstance(expr.operand, Binary) and expr.operand.op == "**":
        return PRIMARY
    return NOT if expr.op == "not" else UNARY


def value_needs_parens(value: Expr) -> bool:
    """True for what needs parentheses before ``.name``, ``(...)`` or ``[...]``: operators and plain
    numbers.
    """
    return binding(value) < PRIMARY or isinstance(value, Text) and value.code[0].isdigit()


def is_simple_power(left: Expr, right: Expr) -> bool:
    """True where ``**`` takes no spaces."""
    return binding(left) > POWER and _is_simple_operand(left) and _is_simple_operand(right)


def _is_simple_operand(expr: Expr) -> bool:
    if isinstance(expr, Unary):
        return (
            expr.op != "not" and binding(expr.operand) >= UNARY and _is_simple_operand(expr.operand)
        )
    if isinstance(expr, Attr):
        return _is_simple_operand(expr.value)
    return isinstance(expr, Text) and expr.code[-1] not in "\"'"


def slice_parts(item: Slice) -> Iterator[Expr | str]:
    """The bounds of a slice and the colons between them, spaced as the formatter does."""
    spaced = not all(_is_simple_bound(part) for part in (item.lower, item.upper, item.step))
    gap = " " if spaced else ""
    if item.lower is not None:
        yield item.lower
    before = gap if item.lower is not None else ""
    yield before + ":" + (gap if item.upper is not None else "")
    if item.upper is not None:
        yield item.upper
    if item.step is not None:
        yield (gap if item.upper is not None else "") + ":" + gap
        yield item.step


def _is_simple_bound(expr: Expr | None) -> bool:
    if isinstance(expr, Unary):
        return expr.op != "not" and _is_simple_bound(expr.operand)
    return expr is None or isinstance(expr, Text)


def flat_text(expr: Expr | Slice, least: int = 0) -> str:
    """``expr`` on one line, in parentheses if it binds less tightly than ``least``."""
    text = _FLAT[type(expr)](expr)
    if least and not isinstance(expr, Slice) and binding(expr) < least:
        return f"({text})"
    return text


def bare(expr: Expr) -> str:
    """``expr`` on one line, a tuple of two or more without parentheses."""
    if isinstance(expr, Tuple) and len(expr.items) > 1:
        return ", ".join(map(flat_text, expr.items))
    return flat_text(expr)


def _flat_value(value: Expr) -> str:
    return f"({flat_text(value)})" if value_needs_parens(value) else flat_text(value)


def _flat_call(expr: Call) -> str:
    args = [flat_text(arg) for arg in expr.args]
    args += [f"{key}={flat_text(value)}" for key, value in expr.kwargs]
    return f"{_flat_value(expr.func)}({', '.join(args)})"


def _flat_index(expr: Index) -> str:
    return f"{_flat_value(expr.value)}[{', '.join(map(flat_text, expr.items))}]"


def _flat_slice(expr: Slice) -> str:
    return "".join(part if isinstance(part, str) else flat_text(part) for part in slice_parts(expr))


def _flat_binary(expr: Binary) -> str:
    left, right = operands(expr)
    space = "" if expr.op == "**" and is_simple_power(expr.left, expr.right) else " "
    return f"{flat_text(expr.left, left)}{space}{expr.op}{space}{flat_text(expr.right, right)}"


def _flat_compare(expr: Compare) -> str:
    return f"{flat_text(expr.left, BIT_OR)} {expr.op} {flat_text(expr.right, BIT_OR)}"


def unary_sign(expr: Unary) -> str:
    return "not " if expr.op == "not" else expr.op


def _flat_tuple(expr: Tuple) -> str:
    inner = ", ".join(map(flat_text, expr.items))
    return f"({inner},)" if len(expr.items) == 1 else f"({inner})"


def _flat_dict(expr: Dict) -> str:
    return f"{{{', '.join(f'{flat_text(key)}: {flat_text(value)}' for key, value in expr.items)}}}"


def _flat_if(expr: IfExp) -> str:
    return f"{flat_text(expr.body, OR)} if {flat_text(expr.test, OR)} else {flat_text(expr.orelse)}"


def _flat_generator(expr: Generator) -> str:
    return f"{flat_text(expr.element)} for {expr.target} in {flat_text(expr.iterable, OR)}"


_FLAT: Final[dict[type, Callable[[Any], str]]] = {
    Text: lambda expr: expr.code,
    Call: _flat_call,
    Attr: lambda expr: f"{_flat_value(expr.value)}.{expr.name}",
    Index: _flat_index,
    Slice: _flat_slice,
    Binary: _flat_binary,
    Compare: _flat_compare,
    Unary: lambda expr: unary_sign(expr) + flat_text(expr.operand, operand_of(expr)),
    IfExp: _flat_if,
    Tuple: _flat_tuple,
    List: lambda expr: f"[{', '.join(map(flat_text, expr.items))}]",
    Dict: _flat_dict,
    Starred: lambda expr: "*" + flat_text(expr.value, BIT_OR),
    Generator: _flat_generator,
}
