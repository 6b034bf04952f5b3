"""The backend tests of onnx on burnx: nothing is wrong, and what once passed still passes."""

from __future__ import annotations

from typing import Any

import pytest

from burnx.conformance.suite import run_conformance

FLOORS = {"run": 1319, "source": 1000, "roundtrip": 1000}
"""Node tests that pass at least; raise a floor when more do."""


def wrong_tests(results: dict[str, Any]) -> list[str]:
    return [
        f"{name} {route}: {results['details'][name]['cells'][route]['message']}"
        for name, row in results["tests"].items()
        for route, status in row.items()
        if status == "wrong"
    ]


def passed_nodes(results: dict[str, Any], route: str) -> int:
    groups = results["summary"]["groups"]
    return sum(int(groups[group][route]["pass"]) for group in ("node", "node-expanded"))


def check_results(results: dict[str, Any]) -> None:
    assert wrong_tests(results) == []
    for route in results["summary"]["routes"]:
        assert passed_nodes(results, route) >= FLOORS[route], route


def test_files_run_on_every_device(device: str) -> None:
    check_results(run_conformance(routes=("run",), device=device))


@pytest.mark.parametrize("device", ["reference"])
def test_source_and_its_export_give_the_same(device: str) -> None:
    check_results(run_conformance(routes=("source", "roundtrip"), device=device))
