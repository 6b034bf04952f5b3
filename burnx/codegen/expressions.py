"""Expressions of generated source: Python's own syntax tree, short ways to build it, and its text.

``ast.unparse`` adds the parentheses that precedence asks for; how it all is spaced and broken is left to the
formatter. A value becomes an expression through ``literal.constant``, a name through ``names``; text from a model
comes in no other way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from copy import deepcopy
from typing import Final

from burnx.codegen.literal import as_seen

_BINARY: Final[dict[str, type[ast.operator]]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "@": ast.MatMult,
    "**": ast.Pow,
    "&": ast.BitAnd,
    "|": ast.BitOr,
}
_COMPARISONS: Final[dict[str, type[ast.cmpop]]] = {
    "==": ast.Eq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "is": ast.Is,
}
_UNARY: Final[dict[str, type[ast.unaryop]]] = {"-": ast.USub, "~": ast.Invert}


def name(*parts: str) -> ast.expr:
    """``name("self", "conv1")`` is ``self.conv1``; one dotted string does as well."""
    first, *rest = ".".join(parts).split(".")
    expr: ast.expr = ast.Name(first, ast.Load())
    for part in rest:
        expr = attribute(expr, part)
    return expr


def attribute(value: ast.expr, label: str) -> ast.expr:
    """``value.label``"""
    return ast.Attribute(value, label, ast.Load())


def call(func: str | ast.expr, /, *args: ast.expr, **options: ast.expr) -> ast.Call:
    """A call by dotted name or expression."""
    called = name(func) if isinstance(func, str) else func
    return ast.Call(called, list(args), [ast.keyword(key, each) for key, each in options.items()])


def index(value: ast.expr, *items: ast.expr) -> ast.expr:
    """``value[items]``"""
    inner = items[0] if len(items) == 1 else group(items)
    return ast.Subscript(value, inner, ast.Load())


def group(items: Iterable[ast.expr]) -> ast.Tuple:
    """``(items, …)``"""
    return ast.Tuple(list(items), ast.Load())


def binary(op: str, left: ast.expr, right: ast.expr) -> ast.expr:
    """``left op right``"""
    if op == "**" and isinstance(left, ast.Constant) and text(left).startswith("-"):
        left = ast.UnaryOp(ast.USub(), ast.Constant(-left.value))  # type: ignore[operator]
    return ast.BinOp(left, _BINARY[op](), right)


def compare(op: str, left: ast.expr, right: ast.expr) -> ast.expr:
    """``left op right`` for a comparison"""
    return ast.Compare(left, [_COMPARISONS[op]()], [right])


def unary(op: str, operand: ast.expr) -> ast.expr:
    """``-operand`` or ``~operand``"""
    return ast.UnaryOp(_UNARY[op](), operand)


def negated(test: ast.expr) -> ast.expr:
    """``not test``; what is inverted as it was before."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Invert | ast.Not):
        return test.operand
    return ast.UnaryOp(ast.Not(), test)


def repeated(element: ast.expr, count: int) -> ast.expr:
    """``element for _ in range(count)``"""
    turns = call("range", ast.Constant(count))
    turn = ast.comprehension(ast.Name("_", ast.Store()), turns, [], 0)
    return ast.GeneratorExp(element, [turn])


def text(expr: ast.expr) -> str:
    """``expr`` as Python; characters that a reader would not see, or not in their place, are escaped."""
    if any(isinstance(each, ast.GeneratorExp) for each in ast.walk(expr)):
        expr = _OnlyArgument().visit(deepcopy(expr))
    return as_seen(ast.unparse(expr))


class _OnlyArgument(ast.NodeTransformer):
    """A generator that is the only argument of a call needs no parentheses, which ``ast.unparse`` would add."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.GeneratorExp):
            node.args = [ast.Name(ast.unparse(node.args[0])[1:-1], ast.Load())]
        return node


def is_tensor(arg: ast.expr | None) -> bool:
    """Whether an expression is a tensor: anything but a literal."""
    if isinstance(arg, ast.Call):
        return text(arg.func) not in ("ops.array", "float")
    return not isinstance(arg, ast.Constant)


def bare(expr: ast.expr) -> str:
    """``expr`` as Python, a tuple of two or more without parentheses."""
    if isinstance(expr, ast.Tuple) and len(expr.elts) > 1:
        return ", ".join(map(text, expr.elts))
    return text(expr)
