"""Random statements of generated source."""

from __future__ import annotations

import ast
from collections.abc import Callable
from random import Random
from typing import Final

from burnx.codegen.expressions import (
    attribute,
    binary,
    call,
    compare,
    group,
    index,
    name,
    repeated,
    unary,
)
from burnx.codegen.layout import Assign, Class, For, Function, Return, Stmt
from burnx.codegen.literal import constant

OPERATORS: Final = ("+", "-", "*", "/", "@", "//", "%", "**", "|", "&")


def word(rng: Random) -> str:
    return rng.choice("xyzabc") + "long_name_here_it_is"[: rng.randint(0, 20)]


def atom(rng: Random) -> ast.expr:
    text = "s" * rng.randint(0, 12) + rng.choice(["", '"', "'", "\n"])
    return rng.choice(
        [
            name(word(rng)),
            name("self", word(rng)),
            constant(rng.randint(-5, 99999)),
            constant(rng.random() - 0.5),
            constant(text),
            constant(None),
        ]
    )


def expression(rng: Random, depth: int) -> ast.expr:
    return rng.choice(_MAKERS)(rng, depth - 1) if depth > 0 else atom(rng)


def _several(rng: Random, depth: int) -> list[ast.expr]:
    return [expression(rng, depth) for _ in range(rng.randint(0, 4))]


def _call(rng: Random, depth: int) -> ast.expr:
    func = rng.choice([name("ops", word(rng)), name("self", word(rng), word(rng))])
    options = {
        f"{word(rng)}{i}": expression(rng, depth) for i in range(rng.choice([0, 0, 1, 2, 4]))
    }
    return call(func, *_several(rng, depth), **options)


def _method(rng: Random, depth: int) -> ast.expr:
    receiver = rng.choice([_call, _operation])(rng, depth)
    return call(attribute(receiver, word(rng)), *_several(rng, 0))


def _index(rng: Random, depth: int) -> ast.expr:
    bound = rng.choice([None, expression(rng, depth)])
    items = [ast.Slice(bound, None), expression(rng, 0)]
    return index(name(word(rng)), *items[: rng.randint(1, 2)])


def _operation(rng: Random, depth: int) -> ast.expr:
    return binary(rng.choice(OPERATORS), expression(rng, depth), expression(rng, depth))


_MAKERS: Final[list[Callable[[Random, int], ast.expr]]] = [
    *[_call] * 5,
    *[_method] * 2,
    *[_operation] * 3,
    *[_index] * 2,
    lambda rng, depth: compare("<=", expression(rng, depth), expression(rng, depth)),
    lambda rng, depth: call("nn.ModuleList", repeated(_call(rng, depth), 3)),
    lambda rng, depth: unary("~", _call(rng, depth)),
    lambda rng, depth: group(_several(rng, depth)),
    lambda rng, depth: ast.List(_several(rng, depth), ast.Load()),
]


def statement(rng: Random, depth: int) -> Stmt:
    value = _call(rng, rng.randint(0, depth))
    note = rng.choice(["", f"(batch, seq, {rng.randint(1, 999)})"])
    targets = [name(word(rng)), name("self", word(rng)), group([name("a"), name(word(rng))])]
    assign = Assign(rng.choice(targets), rng.choice([value, expression(rng, depth)]), note)
    return rng.choice([assign] * 5 + [For(word(rng), value, (assign,))])


def function(rng: Random, label: str, depth: int = 3) -> Function:
    params = [f"p{i}{word(rng)}: Tensor" for i in range(rng.randint(0, 5))]
    body = [statement(rng, depth) for _ in range(3)]
    inner = Function("body", ("state",), (Return(name("state")),))
    end = Return(rng.choice([_call(rng, depth), group(_several(rng, depth))]), "(batch)")
    returns = rng.choice(["", "Tensor", f"tuple[{', '.join(['Tensor'] * rng.randint(1, 9))}]"])
    return Function(label + word(rng), ("self", *params), (*body, inner, *body, end), returns)


def module(rng: Random, classes: int) -> list[Stmt]:
    return [Class(f"Block{i}", (function(rng, "f"), function(rng, "g"))) for i in range(classes)]
