"""The HTML report in a real browser: its script runs, filters, finds and opens cells."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from burnx.conformance.report import render_html
from burnx.conformance.statuses import STATUSES

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
HOSTILE = "</script><script>document.title='taken'</script><b>&amp;"

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser is installed: none of {', '.join(BROWSERS)}"
)


def count(statuses: list[str]) -> dict[str, int]:
    return {status: statuses.count(status) for status in STATUSES}


def device_results(device: str, tests: dict[str, tuple[str, int, str, str]]) -> dict[str, Any]:
    """Results of the run route, from test name to (operator, version, dtype, status)."""
    statuses = [status for *_, status in tests.values()]
    total = {"tests": len(tests), "run": count(statuses)}
    return {
        "tests": {name: {"run": row[3]} for name, row in tests.items()},
        "operators": {row[0]: total for row in tests.values()},
        "summary": {
            "device": device,
            "routes": ["run"],
            "all": total,
            "groups": {"generated": total},
        },
        "details": {
            name: {
                "group": "generated",
                "operator": operator,
                "version": version,
                "dtype": dtype,
                "cells": {
                    "run": {"seconds": 0.1, **({} if status == "pass" else {"message": HOSTILE})}
                },
                "asked": {"reference": "", "onnxruntime": "", "verdict": "reference"},
            }
            for name, (operator, version, dtype, status) in tests.items()
        },
    }


TESTS = {
    "gen_Add_v14_T_float32": ("Add", 14, "float32", "pass"),
    "gen_Add_v13_T_float32": ("Add", 13, "float32", "wrong"),
    "gen_Resize_v19_linear_T1_uint8": ("Resize", 19, "uint8", "skip"),
    "gen_Resize_v19_T1_uint8": ("Resize", 19, "uint8", "pass"),
}


def make_page(tests: dict[str, tuple[str, int, str, str]] | None = None) -> str:
    """A report of two devices; on the second everything passes."""
    found = TESTS if tests is None else tests
    better = {name: (*row[:3], "pass") for name, row in found.items()}
    return render_html(
        {
            "versions": {"burnx": "0.1.0", "onnx": "1.23.2"},
            **device_results("reference", found),
            "devices": {"cpu": device_results("cpu", better)},
            "limitations": [{"operator": "Resize", "reason": HOSTILE, "tests": ""}],
            "models": {"gen_Add_v13_T_float32": HOSTILE},
        }
    )


def in_browser(page: str, script: str, folder: Path) -> Any:
    """The value of a script that runs in the page once it is there."""
    path = folder / "page.html"
    ending = f"<script>document.body.append(Object.assign(document.createElement('pre'), {{id: 'found', textContent: JSON.stringify((() => {{ {script} }})())}}));</script></body>"
    path.write_text(page.replace("</body>", ending), encoding="utf-8")
    assert BROWSER is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command = [BROWSER, *options, "--dump-dom", path.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    match = re.search(r'<pre id="found">(.*?)</pre>', result.stdout, re.DOTALL)
    assert match is not None, result.stderr[-2000:]
    return json.loads(html.unescape(match[1]))


CELLS = "[...document.querySelectorAll('#rows button')].map((b) => b.getAttribute('aria-label'))"


def choose(control: str, value: str, event: str = "change") -> str:
    return (
        f"document.getElementById('{control}').value = '{value}';"
        f"document.getElementById('{control}').dispatchEvent(new Event('{event}'));"
    )


def test_every_cell_is_drawn_with_its_worst_status(tmp_path: Path) -> None:
    found = in_browser(make_page(), f"return {CELLS}", tmp_path)
    assert found == [
        "Add 14 float32: 2 pass",
        "Add 13 float32: 1 pass, 1 wrong value",
        "Resize 19 uint8: 3 pass, 1 not compared",
    ]


def test_filters_and_search_leave_what_matches(tmp_path: Path) -> None:
    script = "const found = {};"
    steps = {
        "wrong": choose("status", "1"),
        "on the other device": choose("device", "cpu"),
        "everything there": choose("status", ""),
        "searched": choose("text", "resize LINEAR", "input"),
        "nothing": choose("text", "no such", "input"),
    }
    for name, step in steps.items():
        script += f"{step} found['{name}'] = {CELLS};"
    script += "found.text = document.getElementById('shown').textContent; return found;"
    found = in_browser(make_page(), script, tmp_path)
    assert found["wrong"] == ["Add 13 float32: 1 pass, 1 wrong value"]
    assert found["on the other device"] == []
    assert len(found["everything there"]) == 3
    assert found["searched"] == ["Resize 19 uint8: 1 pass"]
    assert found["nothing"] == []
    assert found["text"] == "Nothing matches."


def test_a_cell_opens_its_failing_test(tmp_path: Path) -> None:
    script = """
        document.querySelectorAll('#rows button')[1].click();
        const panel = document.getElementById('panel');
        const texts = [...panel.querySelectorAll('pre')].map((item) => item.textContent);
        return {open: panel.open, title: document.getElementById('panel-title').textContent, texts,
                hash: decodeURIComponent(location.hash), shown: panel.querySelector('details').open};
    """
    found = in_browser(make_page(), script, tmp_path)
    assert found["open"]
    assert found["shown"]
    assert found["title"].startswith("Add 13, float32")
    assert found["hash"] == "#Add/13/float32"
    message, verdict, model, command = found["texts"]
    assert message == model == HOSTILE
    assert verdict == "reference"
    assert command == (
        "burnx conformance --cases generated --filter '^gen_Add_v13_T_float32$' --route run --device reference"
    )


def test_arrow_keys_go_from_cell_to_cell(tmp_path: Path) -> None:
    script = """
        const first = document.querySelector('#rows button[tabindex="0"]');
        first.focus();
        for (const key of ['ArrowDown', 'ArrowRight', 'ArrowDown']) {
            document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
        }
        return document.activeElement.getAttribute('aria-label');
    """
    assert in_browser(make_page(), script, tmp_path) == "Add 13 float32: 1 pass, 1 wrong value"


def test_hostile_text_stays_text_and_nothing_is_fetched(tmp_path: Path) -> None:
    page = make_page()
    assert not re.search(r"""(src|href)\s*=|https?://|url\(""", page)
    script = "return {title: document.title, scripts: document.querySelectorAll('script').length};"
    assert in_browser(page, script, tmp_path) == {"title": "burnx conformance", "scripts": 3}


def test_many_cells_are_drawn_as_they_come_into_view(tmp_path: Path) -> None:
    dtypes = ("float32", "float64", "int64", "int8", "bool")
    tests = {
        f"gen_Op{number}_v1_{dtype}": (f"Op{number}", 1, dtype, "pass")
        for number in range(2_000)
        for dtype in dtypes
    }
    script = """
        const rows = () => document.querySelectorAll('#rows tr').length;
        const before = rows();
        const frame = document.getElementById('frame');
        frame.scrollTop = frame.scrollHeight;
        frame.dispatchEvent(new Event('scroll'));
        return [before, rows(), document.getElementById('shown').textContent];
    """
    before, after, text = in_browser(make_page(tests), script, tmp_path)
    assert before < 200
    assert after > before
    assert text == "2000 operators, 10,000 cells: 20,000 pass results."
