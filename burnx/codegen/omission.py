"""When the formatter leaves out the parentheses that a broken value could have.

A value that starts or ends in brackets of its own, and has at most one of its weakest operators,
breaks inside these brackets; any other gets parentheses around it. Call chains with two or more
called links break before their dots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from burnx.codegen.flat import (
    BINDING,
    BIT_OR,
    OR,
    binding,
    operand_of,
    operands,
    value_needs_parens,
)
from burnx.codegen.nodes import (
    Attr,
    Binary,
    Call,
    Compare,
    Dict,
    Expr,
    IfExp,
    Index,
    List,
    Starred,
    Text,
    Tuple,
    Unary,
)


class Need(Enum):
    """Whether a value that does not fit gets parentheses: if it breaks, only if they make it fit,
    or never.
    """

    IF_BROKEN = 0
    BEST_FIT = 1
    NEVER = 2


def need_of(expr: Expr) -> Need:
    """What kind of parentheses ``expr`` may get as the value of a statement."""
    match expr:
        case Text():
            return Need.BEST_FIT
        case Attr(value) | Call(value) | Index(value):
            if is_fluent(expr):
                return Need.IF_BROKEN
            return Need.NEVER if value_needs_parens(value) else need_of(value)
        case Unary(_, operand):
            return Need.NEVER if binding(operand) < operand_of(expr) else need_of(operand)
        case Binary() | Compare() | IfExp() | Starred():
            return Need.IF_BROKEN
        case _:
            return Need.NEVER


def is_fluent(expr: Expr) -> bool:
    """True for a chain of attributes, calls and subscripts in which at least two dots follow a
    bracket.
    """
    dots = 0
    while isinstance(expr, Attr | Call | Index):
        value = expr.func if isinstance(expr, Call) else expr.value
        if isinstance(expr, Attr):
            dots += value_needs_parens(value) or isinstance(value, Call | Index)
        if value_needs_parens(value):
            break
        expr = value
    return dots >= 2


# The formatter's order of operators, weakest last.
_ATTRIBUTE, _INVERT, _COMPARE, _BOOLEAN, _CONDITION = 1, 3, 20, 21, 22


def _weakness(op: str) -> int:
    if op in ("and", "or"):
        return _BOOLEAN
    return 2 if op == "**" else 4 + (11 - BINDING[op])


@dataclass(slots=True)
class _Survey:
    """What a walk over the parts outside brackets has seen; an expression comes with whether
    parentheses hold it.
    """

    weakest: int = 0
    times: int = 0
    brackets: bool = False
    first: tuple[Expr, bool] | None = None
    token_first: bool = False
    last: tuple[Expr, bool] | None = None

    def note(self, weakness: int, times: int = 1) -> None:
        if weakness > self.weakest:
            self.weakest, self.times = weakness, times
        elif weakness == self.weakest:
            self.times += times

    def start_with_token(self) -> None:
        self.token_first = self.token_first or self.first is None

    def visit(self, expr: Expr, held: bool) -> None:
        self.last = (expr, held)
        if held:
            self.brackets = True
        else:
            _look(self, expr)
        if self.first is None and not self.token_first:
            self.first = (expr, held)


def can_omit_parentheses(expr: Expr) -> bool:
    """True if ``expr`` should rather break inside its own brackets than gain parentheses."""
    survey = _Survey()
    _look(survey, expr)
    if not survey.brackets or survey.times > 1:
        return False
    if survey.weakest <= _ATTRIBUTE:
        return True
    return _is_bracketed(survey.last) or _is_bracketed(survey.first)


def _is_bracketed(seen: tuple[Expr, bool] | None) -> bool:
    return seen is not None and not isinstance(seen[0], Index) and _brackets(*seen) is True


def _brackets(expr: Expr, held: bool) -> bool | None:
    """True or False for brackets with or without content, None for none."""
    own: bool | None = None
    match expr:
        case Index():
            own = True
        case List(items) | Tuple(items):
            own = bool(items)
        case Dict(pairs):
            own = bool(pairs)
        case Call(_, args, kwargs):
            own = bool(args or kwargs)
    return True if held else own


def _look(survey: _Survey, expr: Expr) -> None:
    match expr:
        case List() | Dict() | Tuple():
            survey.brackets = True
        case Binary() | Compare():
            _look_operator(survey, expr)
        case IfExp(body, test, orelse):
            survey.note(_CONDITION, 2)
            survey.visit(body, binding(body) < OR)
            survey.visit(test, binding(test) < OR)
            survey.visit(orelse, False)
        case Call(value) | Index(value):
            survey.brackets = True
            survey.visit(value, value_needs_parens(value))
            survey.last = (expr, False)
        case Attr(value):
            held = value_needs_parens(value)
            survey.visit(value, held)
            if _brackets(value, held) is not None:
                survey.note(_ATTRIBUTE)
            survey.last = (expr, False)
        case Unary(op, operand):
            if op == "~":
                survey.note(_INVERT)
            survey.start_with_token()
            survey.visit(operand, binding(operand) < operand_of(expr))
        case Starred(value):
            survey.start_with_token()
            survey.visit(value, binding(value) < BIT_OR)
        case Text(code) if code[0] in "+-~":
            survey.start_with_token()


def _look_operator(survey: _Survey, expr: Binary | Compare) -> None:
    survey.note(_COMPARE if isinstance(expr, Compare) else _weakness(expr.op))
    left, right = operands(expr)
    survey.visit(expr.left, binding(expr.left) < left)
    survey.visit(expr.right, binding(expr.right) < right)
