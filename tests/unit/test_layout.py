"""Source is laid out as ruff does it, notes and all, and means what its tree says."""

from __future__ import annotations

import ast
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from random import Random

import pytest
import ruff
import source_trees
from hypothesis import given, settings
from hypothesis import strategies as st

from burnx.codegen import layout
from burnx.codegen.expressions import binary, call, group, index, name, repeated, text
from burnx.codegen.layout import (
    Assign,
    Class,
    For,
    Function,
    Return,
    Stmt,
    docstring,
    formatted,
    plain_text,
)
from burnx.codegen.literal import constant
from burnx.errors import BurnxError

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
    "a  # noqa:\ue000b",
    "-*- coding: latin-1 -*-",
    "#!/bin/sh",
    "日本語 é 😀 e\u0301 \u2028b",
    "日本語" * 15,
    "   ",
    "\ud800",
)


def run_ruff(*arguments: str, source: str) -> str:
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
    wanted = run_ruff("format", "--line-length", "100", source=source)
    diff = unified_diff(source.splitlines(), wanted.splitlines(), "found", "ruff", lineterm="")
    assert source == wanted, "\n".join(list(diff)[:60])


def shown(*body: Stmt) -> str:
    return formatted(plain_text(body))


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32))
def test_notes_leave_modules_a_fixed_point_of_ruff_format(seed: int) -> None:
    assert_formatted(shown(*source_trees.module(Random(seed), classes=50)))


def hostile_module(words: str) -> str:
    body: tuple[Stmt, ...] = (
        Assign(name("x"), constant(words), words),
        Return(call("f", constant(words), key=constant([words] * 9)), words),
    )
    statements = (
        Assign(name("WEIGHTS"), constant(words), words),
        Function("f", (), body),
        Class("C", (Function("g", (), body),)),
    )
    return formatted(docstring(words) + plain_text(statements))


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_text_stays_text(words: str) -> None:
    assert_same_shape(words)
    assert_formatted(hostile_module(words))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=120))
def test_any_text_stays_text(words: str) -> None:
    assert_same_shape(words)


def assert_same_shape(words: str) -> None:
    """No text changes what the module does: its statements, names and calls."""
    source = hostile_module(words)
    unseen = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\x00\x0c\r\u2028\ue000"
    assert not set(source) & set(unseen)
    found, wanted = (_shape(ast.parse(code)) for code in (source, hostile_module("plain")))
    assert found == wanted


def _shape(tree: ast.AST) -> list[str]:
    is_text = ast.Expr, ast.Constant
    return [type(node).__name__ for node in ast.walk(tree) if not isinstance(node, is_text)]


def test_a_module_reads_as_in_the_house_style() -> None:
    x = call("self.query", name("x"))
    attention = call(
        "ops.attention",
        *map(name, ("query", "key", "value", "mask")),
        q_num_heads=name("self.heads"),
        kv_num_heads=name("self.heads"),
    )
    body = (
        Assign(group([name("query"), name("key")]), group([x, x]), "(batch, seq, 768)"),
        For("layer", name("self.layers"), (Assign(name("x"), call("layer", name("x"))),)),
        Return(attention, "(batch, seq, 768)"),
    )
    init = Function("__init__", ("self",), (Assign(name("self.heads"), constant(12)),))
    forward = Function("forward", ("self", "x: Tensor", "mask: Tensor"), body, "Tensor")
    definitions = (
        Assign(name("WEIGHTS"), constant("bert.safetensors")),
        Class("Attention", (init, forward)),
    )
    head = docstring("A test.") + "from burnx import Tensor, nn, ops\n"
    source = formatted(head + plain_text(definitions))
    assert (
        source
        == '''"""A test."""

from burnx import Tensor, nn, ops

WEIGHTS = "bert.safetensors"


class Attention(nn.Module):
    def __init__(self):
        self.heads = 12

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key = (self.query(x), self.query(x))  # (batch, seq, 768)
        for layer in self.layers:
            x = layer(x)
        return ops.attention(
            query, key, value, mask, q_num_heads=self.heads, kv_num_heads=self.heads
        )  # (batch, seq, 768)
'''
    )
    assert_formatted(source)
    assert run_ruff("check", "--ignore", "F821", source=source) == "All checks passed!\n"


def test_a_note_that_does_not_fit_is_dropped() -> None:
    value = call("f", name("x" * 60))
    assert shown(Assign(name("y"), value, "(1, 2)")).endswith(")  # (1, 2)\n")
    assert shown(Assign(name("y"), value, "(1, 2)" * 6)).endswith("xx)\n")
    long = call("f", *[name("x" * 30)] * 4)
    assert shown(Assign(name("y"), long, "(1, 2)")).endswith("\n)  # (1, 2)\n")


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (binary("*", binary("+", name("a"), name("b")), name("c")), "(a + b) * c"),
        (binary("-", name("a"), binary("-", name("b"), name("c"))), "a - (b - c)"),
        (binary("**", constant(-1), constant(-2)), "(-1) ** -2"),
        (binary("-", name("a"), constant(-0.0)), "a - -0.0"),
        (
            index(name("x"), ast.Slice(), constant(None), ast.Slice(None, constant(-1))),
            "x[:, None, :-1]",
        ),
        (group([name("x")]), "(x,)"),
        (call("f", repeated(call("G"), 3), to=name("x.y")), "f((G() for _ in range(3)), to=x.y)"),
        (call(binary("+", name("a"), name("b"))), "(a + b)()"),
        (constant([0.5, (1,), {"a": None}]), "[0.5, (1,), {'a': None}]"),
        (constant([float("nan"), -float("inf")]), "[float('nan'), float('-inf')]"),
    ],
)
def test_an_expression_prints_as(expr: ast.expr, wanted: str) -> None:
    assert text(expr) == wanted


def test_a_missing_ruff_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ruff, "find_ruff_bin", lambda: str(tmp_path / "ruff"))
    with pytest.raises(BurnxError, match="cannot be run .*pip install ruff"):
        formatted("x = 1\n")
    monkeypatch.setitem(sys.modules, "ruff", None)
    with pytest.raises(BurnxError, match="cannot be run .*pip install ruff"):
        formatted("x = 1\n")


def test_what_ruff_cannot_read_is_one_error() -> None:
    with pytest.raises(BurnxError, match="it failed with .*parse"):
        formatted("x = = 1\n")


def test_settings_of_the_user_change_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ruff.toml").write_text('line-length = 20\nformat.quote-style = "single"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUFF_PREVIEW", "1")
    assert formatted("x = f('a', 'b', 'c', 'd', 'e')\n") == 'x = f("a", "b", "c", "d", "e")\n'
    assert layout.WIDTH == 100
