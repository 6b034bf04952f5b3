"""tools/size.py counts what it says it counts."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).parents[2] / "tools" / "size.py"


@pytest.fixture(scope="module")
def size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("burnx_size", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_nesting_depth(size: ModuleType, text: str, depth: int) -> None:
    assert size.nesting_depth(parse(text)) == depth


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f(): pass", 0),
        ("def f(self, a, *, b): pass", 2),
        ("def f(a, /, b, *c, d=1, **e): pass", 5),
    ],
)
def test_parameter_count(size: ModuleType, text: str, count: int) -> None:
    assert size.parameter_count(parse(text)) == count


def test_body_lines_leave_out_the_docstring(size: ModuleType) -> None:
    assert size.body_lines(parse('def f():\n """One\n two."""\n a()\n\n b()')) == 3
    assert size.body_lines(parse('def f():\n """One."""')) == 0


def test_rooms(size: ModuleType) -> None:
    rooms = {
        "burnx/tensor.py": "burnx/tensor.py",
        "burnx/ops/math.py": "burnx/ops",
        "burnx/runtime/fuse.py": "burnx/runtime",
        "burnx/runtime/devices/cpu/emit.py": "burnx/runtime/devices/cpu",
    }
    assert {path: size.room_of(Path(path)) for path in rooms} == rooms
