"""Jumps out of branches as branches: what follows an ``if`` that jumps moves into the other side of it.

    if a:                          if a:
        return x                       return x
    y = f(x)            becomes    else:
    return y                           y = f(x)
                                       return y

and the ``break`` and ``continue`` that are left at the end of a loop's body become a variable: whether it goes on.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from burnx.capture.flow_syntax import has, placed

Body = list[ast.stmt]


def moved_in(body: Sequence[ast.stmt], *jumps: type[ast.stmt]) -> Body:
    """The statements with jumps at the end of branches only, as far as that can be."""
    for place, stmt in enumerate(body):
        if isinstance(stmt, jumps):
            return [*body[: place + 1]]  # nothing behind it is reached
        if not isinstance(stmt, ast.If) or not has(stmt, *jumps):
            continue
        sides, rest = [list(stmt.body), list(stmt.orelse)], list(body[place + 1 :])
        if rest and not any(_always(side, jumps) for side in sides):
            continue
        sides = [side if _always(side, jumps) else [*side, *rest] for side in sides]
        then, orelse = (moved_in(side, *jumps) for side in sides)
        return [*body[:place], ast.copy_location(ast.If(stmt.test, then, orelse), stmt)]
    return list(body)


def _always(body: Sequence[ast.stmt], jumps: tuple[type[ast.stmt], ...]) -> bool:
    """Whether the statements end in a jump on every way."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always(last.body, jumps) and _always(last.orelse, jumps)
    return isinstance(last, (*jumps, ast.Return, ast.Raise))


def only_at_ends(body: Sequence[ast.stmt]) -> bool:
    """Whether ``break`` and ``continue`` stand at ends only."""
    if any(has(stmt, ast.Break, ast.Continue) for stmt in body[:-1]):
        return False
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return only_at_ends(last.body) and only_at_ends(last.orelse)
    return isinstance(last, (ast.Break, ast.Continue)) or not (
        body and has(body[-1], ast.Break, ast.Continue)
    )


def without_jumps(body: Sequence[ast.stmt], flag: str) -> Body:
    """A loop's body whose jumps are at ends, without them; where it breaks, ``flag`` says whether to go on."""
    last = body[-1] if body else None
    if isinstance(last, ast.Continue):
        return without_jumps(body[:-1], flag)
    if isinstance(last, ast.Break):
        return [*body[:-1], _set(flag, ast.Constant(False), last)]
    if not isinstance(last, ast.If) or not has(last, ast.Break, ast.Continue):
        return list(body)
    if len(last.body) == 1 and isinstance(last.body[0], ast.Break):
        return [*body[:-1], *_broken(last, last.test, last.orelse, flag)]
    if len(last.orelse) == 1 and isinstance(last.orelse[0], ast.Break):
        turned = ast.copy_location(ast.UnaryOp(ast.Not(), last.test), last.test)
        return [*body[:-1], *_broken(last, turned, last.body, flag)]
    sides = [without_jumps(each, flag) for each in (last.body, last.orelse)]
    then = sides[0] or [ast.copy_location(ast.Pass(), last)]
    return [*body[:-1], ast.copy_location(ast.If(last.test, then, sides[1]), last)]


def _broken(last: ast.If, test: ast.expr, rest: Sequence[ast.stmt], flag: str) -> Body:
    """``if test: break`` and the rest: the flag first, then the rest if it still holds."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        going = test.operand
    else:
        going = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
    start = _set(flag, going, last)
    if not rest:
        return [start]
    inner = without_jumps(rest, flag)
    again = ast.copy_location(ast.Name(flag, ast.Load()), last)
    return [start, *([ast.copy_location(ast.If(again, inner, []), last)] if inner else [])]


def _set(flag: str, value: ast.expr, where: ast.AST) -> ast.stmt:
    made = ast.Assign([ast.Name(flag, ast.Store())], value)
    return placed(where, made)
