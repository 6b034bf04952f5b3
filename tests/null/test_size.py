"""tools/size.py counts what it says it counts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import size


def parse(text: str) -> ast.AST:
    return ast.parse(text).body[0]


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("def f(): pass", 0),
        ("def f():\n for x in y:\n  if x: pass", 2),
        ("def f():\n if a: pass\n elif b: pass\n elif c: pass", 1),
        ("def f():\n if a: pass\n else:\n  if b: pass\n  c()", 2),
        ("def f():\n with a:\n  def g():\n   if b: pass", 1),
    ],
)
def test_nesting_depth(text: str, depth: int) -> None:
    assert size.nesting_depth(parse(text)) == depth


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(): pass", 0),
        ("def f(self, a, *, b): pass", 2),
        ("def f(a, /, b, *c, d=1, **e): pass", 5),
    ],
)
def test_parameter_count(text: str, count: int) -> None:
    assert size.parameter_count(parse(text)) == count


def test_body_lines_leave_out_the_docstring() -> None:
    assert size.body_lines(parse('def f():\n """One\n two."""\n a()\n\n b()')) == 3
    assert size.body_lines(parse('def f():\n """One."""')) == 0


def test_rooms() -> None:
    rooms = {
        "burnx/tensor.py": "burnx/tensor.py",
        "burnx/ops/math.py": "burnx/ops",
        "burnx/runtime/fuse.py": "burnx/runtime",
        "burnx/runtime/devices/cpu/emit.py": "burnx/runtime/devices/cpu",
    }
    assert {path: size.room_of(Path(path)) for path in rooms} == rooms
