"""The examples in docstrings say what really happens."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import burnx

ROOT = Path(burnx.__file__).parent


def modules_with_examples() -> list[str]:
    """Modules whose text has a prompt, so that no other has to be imported."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text()]
    parts = [path.relative_to(ROOT.parent).with_suffix("").parts for path in paths]
    return [".".join(names).removesuffix(".__init__") for names in parts]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
