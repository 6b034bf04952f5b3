"""The tools that generated source has to pass, as people run them on their own."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TOOLS = (
    ("ruff", "check", "--isolated"),
    ("ruff", "format", "--isolated", "--check", "--line-length", "100"),
    ("mypy", "--config-file=", "--follow-imports=silent", "--check-untyped-defs"),
)


def passes_tools(files: Sequence[Path]) -> None:
    """Fail with what the first tool says that finds something."""
    for tool in TOOLS:
        command = [sys.executable, "-m", *tool, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, f"{' '.join(tool)}\n{done.stdout}{done.stderr}"


def unread_parameters(text: str) -> set[str]:
    """The attributes that are parameters and that no statement reads."""
    tree = ast.parse(text)
    held: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Attribute(attr=label)], value) if _is_parameter(value):
                held.add(label)
            case ast.keyword(str(label), value) if _is_parameter(value):
                held.add(label)
            case ast.Attribute(attr=label, ctx=ast.Load()):
                read.add(label)
    return held - read


def _is_parameter(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "nn.Parameter"
