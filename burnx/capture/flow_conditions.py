"""Expressions that decide: ``a if t else b``, ``and``, ``or``, ``not`` and chains of comparisons as calls."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy

from burnx.capture.flow_syntax import SCOPES, has, placed

RUNTIME = "_burnx_flow"
_NOT_MOVED = {
    ast.NamedExpr: "it assigns a name",
    ast.Yield: "it holds a yield",
    ast.YieldFrom: "it holds a yield",
    ast.Await: "it holds an await",
}
_CANNOT_FAIL = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Compare,
    ast.UnaryOp,
    ast.BoolOp,
    ast.BinOp,
    ast.expr_context,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
)
_MAY_FAIL = (ast.FloorDiv, ast.Mod, ast.Div, ast.MatMult)
_SIMPLE = (ast.Name, ast.Constant)
_HELD = ("_burnx_left", "_burnx_middle")


def called(function: str, *args: ast.expr) -> ast.Call:
    """A call of one of the functions that a rewritten function is given."""
    target = ast.Attribute(ast.Name(RUNTIME, ast.Load()), function, ast.Load())
    return ast.Call(target, list(args), [])


def guarded(file: str, node: ast.AST, test: ast.expr, word: str, reason: str) -> ast.expr:
    """A condition that stays Python's: a tensor there is refused, and ``reason`` says why."""
    place = ast.Constant(f"{file}:{getattr(node, 'lineno', test.lineno)}")
    return placed(test, called("plain", place, ast.Constant(word), ast.Constant(reason), test))


class Conditions(ast.NodeTransformer):
    """Rewrites the deciding expressions in one expression."""

    def __init__(self, file: str) -> None:
        self.file = file

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        stays = _reason(node)
        self.generic_visit(node)
        if stays:
            node.test = guarded(self.file, node, node.test, "if else", stays)
            return node
        sides = (_later(node.body), _later(node.orelse))
        return placed(node, called("choose", self._place(node), node.test, *sides))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        stays, certain = _reason(node), all(_cannot_fail(each) for each in node.values[1:])
        self.generic_visit(node)
        word, function = ("and", "both") if isinstance(node.op, ast.And) else ("or", "either")
        if stays:
            # the last one is not asked, but given
            asked = (guarded(self.file, node, each, word, stays) for each in node.values[:-1])
            node.values = [*asked, node.values[-1]]
            return node
        values = [_later(each) for each in node.values]
        return placed(node, called(function, self._place(node), ast.Constant(certain), *values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return placed(node, called("negation", self._place(node), node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``a < b < c`` is ``a < b and b < c``; what is no name is worked out once, before."""
        middle = node.comparators[:-1]
        if not middle or _reason(node):
            self.generic_visit(node)
            return node
        if all(isinstance(each, _SIMPLE) for each in middle):
            return self._chain(node, [node.left, *middle], node.comparators)
        if len(middle) > 1:
            self.generic_visit(node)
            return node
        names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in _HELD]
        decided = self._chain(node, names, [names[1], node.comparators[1]])
        held = ast.Lambda(arguments(_HELD), decided)
        given = [self.visit(each) for each in (node.left, *middle)]
        return placed(node, ast.Call(held, given, []))

    def _chain(
        self, node: ast.Compare, lefts: Sequence[ast.expr], rights: Sequence[ast.expr]
    ) -> ast.expr:
        parts: list[ast.expr] = [
            placed(node, ast.Compare(deepcopy(left), [op], [deepcopy(right)]))
            for left, op, right in zip(lefts, node.ops, rights, strict=True)
        ]
        return self.visit_BoolOp(placed(node, ast.BoolOp(ast.And(), parts)))

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        why = "what it leaves out changes how many items there are"
        node.ifs = [
            guarded(self.file, each, each, "if of a comprehension", why) for each in node.ifs
        ]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, SCOPES) and not isinstance(node, ast.Lambda):
            return node
        return super().generic_visit(node)

    def _place(self, node: ast.expr) -> ast.expr:
        return ast.Constant(f"{self.file}:{node.lineno}")


def _reason(node: ast.expr) -> str:
    """Why an expression has to stay Python's; "" if its parts may become functions."""
    return next((why for kind, why in _NOT_MOVED.items() if has(node, kind)), "")


def _later(value: ast.expr) -> ast.expr:
    return placed(value, ast.Lambda(arguments(()), value))


def arguments(names: Iterable[str]) -> ast.arguments:
    """The parameters of a function that takes these."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _cannot_fail(node: ast.expr) -> bool:
    """Whether to work an expression out can do no harm where Python would not have done it."""
    return all(
        isinstance(each, _CANNOT_FAIL) and not isinstance(each, _MAY_FAIL)
        for each in ast.walk(node)
    )
