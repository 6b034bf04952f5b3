"""Values survive the way through source, and no text leaves its quotes."""

from __future__ import annotations

import ast
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnx.codegen.expressions import text as source_text
from burnx.codegen.literal import comment, constant, docstring_text
from burnx.errors import UnsupportedError

FORBIDDEN = set(
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\ufeff\x00\x07\x1b\x7f"
)

any_text = st.text(st.characters(exclude_categories=()))
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | any_text
    | st.binary()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(any_text, inner),
    max_leaves=10,
)


def literal_text(value: Any, *, float32: bool = False) -> str:
    return source_text(constant(value, float32=float32))


@given(plain_values)
def test_a_value_comes_back(value: Any) -> None:
    back = ast.literal_eval(literal_text(value))
    assert back == value and repr(back) == repr(value)


@given(any_text)
def test_text_is_one_printable_token(text: str) -> None:
    code = literal_text(text)
    assert code.isprintable() and not set(code) & FORBIDDEN
    assert ast.literal_eval(code) == text


@given(st.floats() | st.complex_numbers())
def test_numbers_that_have_no_literal_are_calls(value: complex) -> None:
    back = eval(literal_text(value), {"float": float, "complex": complex})
    assert repr(back) == repr(value)


@given(st.floats(width=32))
def test_a_float32_comes_back_in_few_digits(value: float) -> None:
    code = literal_text(value, float32=True)
    back = eval(code, {"float": float})
    assert np.float32(back).tobytes() == np.float32(value).tobytes() or math.isnan(value)
    assert sum(char.isdigit() for char in code.rstrip("0").lstrip("-0.")) <= 18


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0.10000000149011612, "0.1"),
        (9.999999974752427e-07, "1e-06"),
        (-3.4028234663852886e38, "-3.4028235e+38"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (0.1, "0.1"),
    ],
)
def test_a_float_for_float32_prints_as(value: float, code: str) -> None:
    assert literal_text(value, float32=True) == code


def test_arrays_are_nested_lists_in_their_own_precision() -> None:
    assert literal_text(np.array([[0.1, 2], [3, 4]], np.float32)) == "[[0.1, 2.0], [3.0, 4.0]]"
    assert literal_text(np.array([1, 2], np.int8)) == "[1, 2]"
    assert literal_text(np.float32(0.2)) == "0.2"
    assert literal_text(np.array([0.5], ml_dtypes.bfloat16)) == "[0.5]"
    assert literal_text(np.array([True])) == "[True]"


def test_other_types_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="found set"):
        literal_text({1})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("plain", "'plain'"),
        ('say "hi"', "'say \"hi\"'"),
        ("it's", '"it\'s"'),
        ("a\nb\\", "'a\\nb\\\\'"),
        ("\u202e", "'\\u202e'"),
        ("שלום", "'\\u05e9\\u05dc\\u05d5\\u05dd'"),
        ("naïve 日本", "'naïve 日本'"),
        ("\ud800", "'\\ud800'"),
        ("😀", "'\\U0001f600'"),
    ],
)
def test_text_prints_as(text: str, code: str) -> None:
    assert literal_text(text) == code


@given(any_text, st.integers(0, 60))
def test_a_comment_is_one_short_line(text: str, width: int) -> None:
    words = comment(text, width)
    assert len(words) <= width and words == words.strip()
    assert words == "" or words.isprintable()
    assert not words.startswith(("#", "!", ":")) and not set(words) & FORBIDDEN


@pytest.mark.parametrize(
    "text",
    ["fmt: off", "fmt:skip", "noqa", "x # noqa: F401", "type: ignore", "ruff: noqa", "isort:skip"],
)
def test_a_comment_gives_no_orders_to_tools(text: str) -> None:
    words = comment(text, 80)
    assert words.startswith('"') and "#" not in words and ":" not in words


@given(any_text)
def test_a_docstring_stays_one(text: str) -> None:
    inside = docstring_text(text)
    tree = ast.parse(f'"""{inside}"""\nend')
    assert [type(node).__name__ for node in tree.body] == ["Expr", "Expr"]
    assert isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant)
    assert not set(inside) & FORBIDDEN and all(line == line.rstrip() for line in inside.split("\n"))
