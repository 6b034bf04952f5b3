"""The golden files are source that a person could have written: their tools find nothing in it."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest
from source_checks import passes_tools, unread_parameters

FILES = sorted((Path(__file__).parent.parent / "golden").glob("*.py"))


def test_the_tools_find_nothing() -> None:
    assert len(FILES) >= 14
    passes_tools(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_variable_hides_a_builtin(path: Path) -> None:
    tree = ast.parse(path.read_text())
    given = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    stored = {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    # a session or a doctest keeps its last result under "_", which hides nothing
    assert not (given | stored) & (vars(builtins).keys() - {"_"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_parameter_is_read(path: Path) -> None:
    assert unread_parameters(path.read_text()) == set()
