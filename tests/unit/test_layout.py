"""Rendered source is what ruff format would print, and says what its tree says."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from difflib import unified_diff
from random import Random

import pytest
import source_trees
from hypothesis import given, settings
from hypothesis import strategies as st

from burnx.codegen.breaking import INSIDE, expr_doc
from burnx.codegen.doc import print_doc
from burnx.codegen.flat import flat_text
from burnx.codegen.layout import render
from burnx.codegen.nodes import (
    Assign,
    Binary,
    Blank,
    ClassDef,
    Comment,
    Docstring,
    Expr,
    For,
    FunctionDef,
    Import,
    Index,
    Module,
    Param,
    Return,
    Slice,
    Starred,
    Stmt,
    Text,
    Tuple,
    call,
    constant,
    name,
)

HOSTILE = (
    'ends "quote"',
    "ends back\\",
    'a """ b',
    '"""\nimport os\n"""',
    '""""',
    "two\n  lines\n    more\n",
    "tab\tx\n\ty",
    "\u202eevil\u2066",
    "x" * 94,
    "x" * 200,
    "words " * 40,
    "\\N{DASH} \0 \x0c",
    "fmt: off",
    "type: ignore",
    "a # noqa: E501",
    "-*- coding: latin-1 -*-",
    "#!/bin/sh",
    "日本語 é 😀 e\u0301 \u2028b",
    "   ",
    "\ud800",
)


def ruff(*arguments: str, source: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--stdin-filename", "x.py"]
    done = subprocess.run(
        [*command, "-"],
        check=False,
        input=source,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_formatted(source: str) -> None:
    wanted = ruff("format", "--line-length", "100", source=source)
    diff = unified_diff(source.splitlines(), wanted.splitlines(), "rendered", "ruff", lineterm="")
    assert source == wanted, "\n".join(list(diff)[:60])


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32))
def test_random_modules_are_a_fixed_point_of_ruff_format(seed: int) -> None:
    assert_formatted(render(source_trees.module(Random(seed), functions=100)))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 4))
def test_an_expression_means_what_its_tree_says(seed: int, depth: int) -> None:
    tree = source_trees.expression(Random(seed), depth)
    wanted = ast.dump(source_trees.as_ast(tree))
    assert ast.dump(ast.parse(flat_text(tree), mode="eval").body) == wanted
    broken = f"(\n{print_doc(expr_doc(tree, INSIDE), 4, 30)}\n)"
    assert ast.dump(ast.parse(broken, mode="eval").body) == wanted


def hostile_module(text: str) -> Module:
    body: tuple[Stmt, ...] = (
        Docstring(text),
        Comment(text),
        Assign(Text("x"), constant(text), text),
        Return(call("f", constant(text), key=constant([text] * 9)), text),
    )
    return Module(
        (
            Docstring(text),
            Import("burnx", ("nn", "ops")),
            Comment(text),
            Assign(Text("WEIGHTS"), constant(text), text),
            FunctionDef("f", (), body),
            ClassDef("C", (name("nn.Module"),), (Docstring(text), FunctionDef("g", (), body))),
        )
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    assert_same_shape(text)
    assert_formatted(render(hostile_module(text)))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=120))
def test_any_text_stays_text(text: str) -> None:
    assert_same_shape(text)


def assert_same_shape(text: str) -> None:
    """No text changes what the module does: its statements, names and calls."""
    source = render(hostile_module(text))
    assert not set(source) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\x00\x0c\r\u2028")
    found, wanted = (_shape(ast.parse(code)) for code in (source, render(hostile_module("plain"))))
    assert found == wanted


def _shape(tree: ast.AST) -> list[str]:
    is_text = ast.Expr, ast.Constant
    return [type(node).__name__ for node in ast.walk(tree) if not isinstance(node, is_text)]


@settings(max_examples=3, deadline=None)
@given(st.lists(st.text(max_size=110), min_size=60, max_size=60))
def test_any_text_is_a_fixed_point_of_ruff_format(texts: list[str]) -> None:
    functions = [
        FunctionDef(
            f"f{i}",
            (),
            (Docstring(t), Comment(t), Assign(Text("x"), constant(t), t), Return(Text("x"), t)),
        )
        for i, t in enumerate(texts)
    ]
    assert_formatted(render(Module(tuple(functions))))


def shown(*body: Stmt) -> str:
    return render(Module(body))


def test_a_module_reads_as_in_the_house_style() -> None:
    heads = Assign(name("self.heads"), Text("heads"))
    x = call("self.query", Text("x"))
    attention = call(
        "ops.attention",
        *map(Text, ("query", "key", "value", "mask")),
        q_num_heads=name("self.heads"),
        kv_num_heads=name("self.heads"),
    )
    tensor = Text("Tensor")
    init = FunctionDef(
        "__init__", (Param("self"), Param("heads", Text("int"), constant(12))), (heads,)
    )
    forward = FunctionDef(
        "forward",
        (Param("self"), Param("x", tensor), Param("mask", tensor)),
        (
            Assign(Tuple((Text("query"), Text("key"))), Tuple((x, x)), "(batch, seq, 768)"),
            Return(attention, "(batch, seq, 768)"),
        ),
        tensor,
    )
    source = shown(
        Docstring("A test."),
        Import("burnx", ("Tensor", "nn", "ops")),
        Assign(Text("WEIGHTS"), constant("bert.safetensors")),
        ClassDef("Attention", (name("nn.Module"),), (init, forward)),
    )
    assert (
        source
        == '''"""A test."""

from burnx import Tensor, nn, ops

WEIGHTS = "bert.safetensors"


class Attention(nn.Module):
    def __init__(self, heads: int = 12):
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key = self.query(x), self.query(x)  # (batch, seq, 768)
        return ops.attention(
            query, key, value, mask, q_num_heads=self.heads, kv_num_heads=self.heads
        )  # (batch, seq, 768)
'''
    )
    assert_formatted(source)
    assert ruff("check", "--ignore", "F821", source=source) == "All checks passed!\n"


def test_a_comment_that_does_not_fit_is_dropped() -> None:
    value = call("f", Text("x" * 60))
    assert shown(Assign(Text("y"), value, "(1, 2)")).endswith(")  # (1, 2)\n")
    assert shown(Assign(Text("y"), value, "(1, 2)" * 6)).endswith("xx)\n")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Binary("*", Binary("+", Text("a"), Text("b")), Text("c")), "(a + b) * c"),
        (Binary("-", Text("a"), Binary("-", Text("b"), Text("c"))), "a - (b - c)"),
        (Binary("**", constant(-1), constant(2)), "(-1) ** 2"),
        (Index(Text("x"), (Slice(), constant(None), Slice(None, constant(-1)))), "x[:, None, :-1]"),
        (Index(Text("x"), (Slice(call("f"), None),)), "x[f() :]"),
        (Tuple((Text("x"),)), "(x,)"),
        (call("f", Starred(Text("xs"))), "f(*xs)"),
        (call(Binary("+", Text("a"), Text("b"))), "(a + b)()"),
        (constant([0.5, (1,), {"a": None}]), '[0.5, (1,), {"a": None}]'),
        (constant([float("nan"), -float("inf")]), '[float("nan"), float("-inf")]'),
    ],
)
def test_an_expression_prints_as(expr: Expr, text: str) -> None:
    assert flat_text(expr) == text


def test_blank_lines_are_the_styles() -> None:
    inner = FunctionDef("g", (), (Return(),))
    body = (Assign(Text("a"), constant(1)), Comment("c"), inner, Blank(), Return(Text("a")))
    outer = FunctionDef("f", (), (Import("math"), *body, Blank()))
    loop = For(Text("i"), Text("y"), (Comment("only"),))
    source = shown(Import("sys"), Blank(), Blank(), Comment("c"), outer, Comment("d"), loop)
    assert_formatted(source)


def test_six_thousand_statements_take_under_two_seconds() -> None:
    rng = Random(1)
    body = tuple(source_trees.statement(rng, 1) for _ in range(6000))
    module = Module((FunctionDef("f", (), body),))
    start = time.process_time()
    render(module)
    assert time.process_time() - start < 2
