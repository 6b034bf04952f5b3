"""The tools that generated source has to pass, as people run them on their own."""

from __future__ import annotations

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
