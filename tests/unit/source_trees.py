"""Random source trees, and the same trees as Python's own AST."""

from __future__ import annotations

import ast
from collections.abc import Callable
from random import Random
from typing import Any, Final

from burnx.codegen.nodes import (
    Assign,
    Attr,
    Binary,
    Blank,
    Call,
    ClassDef,
    Comment,
    Compare,
    Dict,
    Do,
    Docstring,
    Expr,
    For,
    FunctionDef,
    Generator,
    If,
    IfExp,
    Index,
    List,
    Module,
    Param,
    Return,
    Slice,
    Starred,
    Stmt,
    Text,
    Tuple,
    Unary,
    While,
    constant,
    name,
)

OPERATORS: Final = ("+", "-", "*", "/", "@", "//", "%", "**", "|", "&", "^", "<<", "and", "or")
COMPARISONS: Final = ("==", "!=", "<", ">=", "in", "not in", "is", "is not")


def word(rng: Random) -> str:
    return rng.choice("xyzabc") + "long_name_here_it_is"[: rng.randint(0, 20)]


def atom(rng: Random) -> Expr:
    text = "s" * rng.randint(0, 12) + rng.choice(["", '"', "'", "\n"])
    return rng.choice(
        [
            Text(word(rng)),
            name("self", word(rng)),
            constant(rng.randint(-5, 99999)),
            constant(rng.random()),
            constant(text),
            constant(None),
        ]
    )


def expression(rng: Random, depth: int) -> Expr:
    if depth <= 0:
        return atom(rng)
    return rng.choice(_MAKERS)(rng, depth - 1)


def _several(rng: Random, depth: int, most: int = 4) -> tuple[Expr, ...]:
    return tuple(expression(rng, depth) for _ in range(rng.randint(0, most)))


def _call(rng: Random, depth: int) -> Expr:
    func = rng.choice([name("ops", word(rng)), name("self", word(rng), word(rng))])
    args = _several(rng, depth)
    if rng.random() < 0.1:
        args = (*args, Starred(expression(rng, depth)))
    count = rng.choice([0, 0, 1, 2, 4])
    kwargs = tuple((f"{word(rng)}{i}", expression(rng, depth)) for i in range(count))
    return Call(func, args, kwargs)


def _method(rng: Random, depth: int) -> Expr:
    return Call(Attr(expression(rng, depth), word(rng)), _several(rng, 0))


def _bound(rng: Random, depth: int) -> Expr | None:
    return rng.choice([None, expression(rng, depth)])


def _item(rng: Random, depth: int) -> Expr | Slice:
    if rng.random() < 0.5:
        return expression(rng, depth)
    return Slice(_bound(rng, 0), _bound(rng, depth), _bound(rng, 0))


def _index(rng: Random, depth: int) -> Expr:
    items = tuple(_item(rng, depth) for _ in range(rng.randint(1, 4)))
    return Index(expression(rng, depth), items)


def _dict(rng: Random, depth: int) -> Expr:
    return Dict(tuple((atom(rng), expression(rng, depth)) for _ in range(rng.randint(0, 3))))


def _modules(rng: Random, depth: int) -> Expr:
    return Call(
        name("nn.ModuleList"),
        (Generator(expression(rng, depth), "_", expression(rng, depth)),),
    )


def _binary(rng: Random, depth: int) -> Expr:
    return Binary(rng.choice(OPERATORS), expression(rng, depth), expression(rng, depth))


def _compare(rng: Random, depth: int) -> Expr:
    return Compare(rng.choice(COMPARISONS), expression(rng, depth), expression(rng, depth))


def _condition(rng: Random, depth: int) -> Expr:
    return IfExp(expression(rng, depth), expression(rng, depth), expression(rng, depth))


_MAKERS: Final[list[Callable[[Random, int], Expr]]] = [
    *[_call] * 5,
    *[_method] * 2,
    *[_binary] * 3,
    *[_index] * 2,
    _compare,
    _condition,
    _dict,
    _modules,
    lambda rng, depth: Attr(expression(rng, depth), word(rng)),
    lambda rng, depth: Unary(rng.choice(["-", "~", "not"]), expression(rng, depth)),
    lambda rng, depth: Tuple(_several(rng, depth)),
    lambda rng, depth: List(_several(rng, depth)),
    lambda rng, depth: atom(rng),
]


def statement(rng: Random, depth: int) -> Stmt:
    value = expression(rng, rng.randint(0, depth))
    note = rng.choice(["", f"(batch, seq, {rng.randint(1, 999)})"])
    target = rng.choice(
        [
            Text(word(rng)),
            name("self", word(rng)),
            Tuple((Text(word(rng)), Text(word(rng)), Text(word(rng)))),
            Index(Text(word(rng)), (expression(rng, 1),)),
        ]
    )
    inner: tuple[Stmt, ...] = (Assign(target, value, note), Blank(), Comment("why"), Do(Text("y")))
    kinds: list[Stmt] = [
        *[Assign(target, value, note)] * 6,
        Do(value, note),
        For(Text("i"), value, inner, note),
        While(value, (Do(Text("x")),), note),
        If(value, inner, (If(value, inner, inner),), note),
    ]
    return rng.choice(kinds)


def function(rng: Random, label: str, depth: int = 3) -> FunctionDef:
    annotated = [
        Param(f"p{i}{word(rng)}", rng.choice([None, Text("Tensor"), _index(rng, 0)]))
        for i in range(rng.randint(0, 5))
    ]
    last = Param("last", rng.choice([None, Text("int")]), atom(rng))
    params = (Param("self"), *annotated, last)[: rng.randint(0, len(annotated) + 2)]
    returns = rng.choice([None, Text("Tensor"), _tensors(rng)])
    body = (*(statement(rng, depth) for _ in range(3)), Return(expression(rng, depth), "(batch)"))
    return FunctionDef(label + word(rng), params, body, returns)


def _tensors(rng: Random) -> Expr:
    return Index(Text("tuple"), (Text("Tensor"),) * rng.randint(1, 9))


def module(rng: Random, functions: int) -> Module:
    methods = tuple(function(rng, f"m{i}") for i in range(3))
    group = ClassDef("Block", (name("nn.Module"),), (Docstring("A block."), *methods))
    return Module((*(function(rng, f"f{i}") for i in range(functions)), group))


def as_ast(node: Any) -> Any:
    """The tree of ``node`` as Python's parser would give it, built without printing it."""
    match node:
        case None:
            return None
        case Text(code):
            return ast.parse(code, mode="eval").body
        case Attr(value, attr):
            return ast.Attribute(as_ast(value), attr, ast.Load())
        case Call(func, args, kwargs):
            keywords = [ast.keyword(key, as_ast(value)) for key, value in kwargs]
            return ast.Call(as_ast(func), [as_ast(arg) for arg in args], keywords)
        case Index(value, items):
            parts = [as_ast(item) for item in items]
            index = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
            return ast.Subscript(as_ast(value), index, ast.Load())
        case Slice(lower, upper, step):
            return ast.Slice(as_ast(lower), as_ast(upper), as_ast(step))
        case Binary("and" | "or"):
            return ast.BoolOp(_operator(node.op), [as_ast(value) for value in _joined(node)])
        case Binary(op, left, right):
            return ast.BinOp(as_ast(left), _operator(op), as_ast(right))
        case Compare(op, left, right):
            return ast.Compare(as_ast(left), [_operator(op)], [as_ast(right)])
        case Unary(op, operand):
            signs = {"-": ast.USub(), "~": ast.Invert(), "not": ast.Not(), "+": ast.UAdd()}
            return ast.UnaryOp(signs[op], as_ast(operand))
        case IfExp(body, test, orelse):
            return ast.IfExp(as_ast(test), as_ast(body), as_ast(orelse))
        case Tuple(items):
            return ast.Tuple([as_ast(item) for item in items], ast.Load())
        case List(items):
            return ast.List([as_ast(item) for item in items], ast.Load())
        case Dict(pairs):
            return ast.Dict([as_ast(key) for key, _ in pairs], [as_ast(item) for _, item in pairs])
        case Starred(value):
            return ast.Starred(as_ast(value), ast.Load())
        case Generator(element, target, iterable):
            loop = ast.comprehension(ast.Name(target, ast.Store()), as_ast(iterable), [], 0)
            return ast.GeneratorExp(as_ast(element), [loop])
    raise AssertionError(node)


def _joined(node: Binary) -> list[Expr]:
    left = node.left
    same = isinstance(left, Binary) and left.op == node.op
    return [*(_joined(left) if same else [left]), node.right]  # type: ignore[arg-type]


def _operator(op: str) -> Any:
    tree: Any = ast.parse(f"a {op} b", mode="eval").body
    return tree.ops[0] if isinstance(tree, ast.Compare) else tree.op
