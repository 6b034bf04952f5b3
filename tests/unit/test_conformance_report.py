"""The reports and the table of the README, from made-up results."""

from __future__ import annotations

import importlib.util
import json
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from burnx.conformance.peers import PEERS, TESTS
from burnx.conformance.report import (
    operator_rows,
    own_total,
    readme_table,
    render_html,
    render_markdown,
)
from burnx.conformance.results import merge_results, read_results
from burnx.errors import UsageError

HOSTILE = "</script><script>alert('x')</script>"


def make_results(operator: str = "Add", message: str = "1 of 2 elements differ") -> dict[str, Any]:
    """One test that passes, one that is wrong on one of two routes."""
    good = {"pass": 1, "wrong": 0, "unsupported": 0, "error": 0, "skip": 0}
    both = {"pass": 2, "wrong": 0, "unsupported": 0, "error": 0, "skip": 0}
    mixed = {**good, "wrong": 1}
    counts = {"tests": 2, "run": both, "roundtrip": mixed}
    passed: dict[str, Any] = {"seconds": 0.1}
    return {
        "versions": {"burnx": "0.1.0", "onnx": "1.23.2", "onnxruntime": "1.32.0"},
        "tests": {
            "test_good": {"run": "pass", "roundtrip": "pass"},
            "test_bad": {"run": "pass", "roundtrip": "wrong"},
        },
        "operators": {operator: counts},
        "summary": {
            "device": "cpu",
            "routes": ["run", "roundtrip"],
            "all": counts,
            "groups": {"node": counts},
        },
        "details": {
            "test_good": {
                "group": "node",
                "operator": operator,
                "cells": {"run": passed, "roundtrip": {**passed, "judge": "onnxruntime"}},
            },
            "test_bad": {
                "group": "node",
                "operator": operator,
                "cells": {"run": passed, "roundtrip": {**passed, "message": message}},
            },
        },
        "limitations": [{"operator": operator, "reason": message, "tests": ""}],
    }


class Page(HTMLParser):
    """Counts tags and collects the text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def load_tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "update_readme.py"
    spec = importlib.util.spec_from_file_location("update_readme", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_hold_the_tests_that_do_not_pass() -> None:
    (row,) = operator_rows(make_results())
    assert [failure.test for failure in row.failures] == ["test_bad"]
    assert row.failures[0].messages == (("roundtrip", "wrong", "1 of 2 elements differ"),)
    assert row.worst == "wrong"


def test_html_stands_alone() -> None:
    html = render_html(make_results())
    assert "http" not in html
    assert "1 of 2 elements differ" in html
    assert "test_good" in html, "a cell opens the tests that pass as well"


def test_html_escapes_hostile_text() -> None:
    harmless, hostile = (
        Page(render_html(make_results())),
        render_html(make_results(HOSTILE, HOSTILE)),
    )
    assert Page(hostile).tags == harmless.tags
    assert HOSTILE in Page(hostile).text


def test_the_devices_of_another_run_are_added_once() -> None:
    mine, other = make_results(), make_results()
    other["summary"]["device"] = "cuda:0"
    merged = merge_results(merge_results(mine, other), other)
    assert list(merged["devices"]) == ["cuda:0"]
    assert Page(render_html(merged)).text.count("Device cuda:0") == 1


@pytest.mark.parametrize("text", ["no json", "[]", '{"versions": {}}'])
def test_only_the_json_of_a_run_is_added(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"--add takes the JSON of a run.*other\.json"):
        read_results(str(path))


def test_burnx_stands_beside_the_peers_only_with_all_their_tests() -> None:
    results = make_results()
    assert own_total(results["summary"]) is None
    counts = {"pass": TESTS - 1, "wrong": 1, "unsupported": 0, "error": 0, "skip": 0}
    results["summary"]["groups"] = {"node": {"tests": TESTS, "run": counts}}
    assert own_total(results["summary"]) == counts


def test_peers_add_up() -> None:
    for peer in PEERS:
        if peer.wrong is not None and peer.refused is not None and peer.tests == TESTS:
            assert peer.passed + peer.wrong + peer.refused == TESTS, peer.name


def test_markdown_keeps_hostile_text_in_code_spans() -> None:
    markdown = render_markdown(make_results("a|b", "`x`\n# title\n<script>"))
    assert "\n# title" not in markdown
    assert "`'x' # title <script>`" in markdown
    assert r"| `a\|b` | 2 | 2 | 1 | wrong |" in markdown


def test_readme_table_shows_counts_and_shares() -> None:
    table = readme_table(make_results())
    assert "| **all** | 2 | 2 (100.0%) | 1 (50.0%) |" in table
    assert "| wrong | | 0 | 1 |" in table


def test_a_share_below_all_is_never_shown_as_all() -> None:
    results = make_results()
    results["summary"]["all"] = {
        "tests": 2033,
        "run": {"pass": 2032, "wrong": 1, "unsupported": 0, "error": 0, "skip": 0},
        "roundtrip": {"pass": 2033, "wrong": 0, "unsupported": 0, "error": 0, "skip": 0},
    }
    assert "| 2,032 (99.9%) | 2,033 (100.0%) |" in readme_table(results)


def test_the_readme_is_filled_kept_and_checked(tmp_path: Path) -> None:
    tool = load_tool()
    readme, kept, fresh = (tmp_path / name for name in ("README.md", "kept.json", "fresh.json"))
    readme.write_text(f"before\n{tool.BEGIN}\nold\n{tool.END}\nafter\n")
    fresh.write_text(json.dumps(make_results()))
    paths = ["--readme", str(readme), "--kept", str(kept)]
    assert tool.main([str(fresh), *paths]) == 0
    text = readme.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "2 (100.0%)" in text
    assert "details" not in json.loads(kept.read_text())
    assert tool.main(["--check", *paths]) == 0
    readme.write_text(text.replace("2 (100.0%)", "3 (100.0%)"))
    assert tool.main(["--check", *paths]) == 1
    assert "3 (100.0%)" in readme.read_text()


@pytest.mark.parametrize("order", [("END", "BEGIN"), ("BEGIN",), ("BEGIN", "END", "END")])
def test_a_readme_without_its_markers_is_left_alone(order: tuple[str, ...], tmp_path: Path) -> None:
    tool = load_tool()
    readme, fresh = tmp_path / "README.md", tmp_path / "fresh.json"
    text = "\n".join(getattr(tool, name) for name in order)
    readme.write_text(text)
    fresh.write_text(json.dumps(make_results()))
    assert tool.main([str(fresh), "--readme", str(readme), "--kept", str(tmp_path / "kept")]) == 1
    assert readme.read_text() == text
    assert not (tmp_path / "kept").exists()
