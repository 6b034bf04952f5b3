"""The backend tests of onnx on burnx: each passes on every route, or is a declared limitation.

Plain ``pytest`` takes the tests whose names begin with n to r, on every route; ``pytest -m suite`` takes all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from burnx.conformance.suite import run_conformance

PART = r"^test_[n-r]"
FLOORS = {"run": 2020, "source": 2020, "roundtrip": 2020}
"""Tests of the whole suite that pass at least, of 2,033: ten expect NumPy's random stream, three are limitations."""

PART_OF_CASES = r"^gen_[P-S].*_(float32|uint8|string)$"
SMALL_PART_OF_CASES = r"^gen_(Optional|Scan|Scatter|Se|Slice|Split|Squeeze).*_(float32|string)$"
SHARES = {
    "reference": (r"^gen_([D-HL]|ms_)", 1_970),
    "cpu": (r"^gen_([BEGM]|ms_[A-F])", 1_040),
}
"""By device: a part of the generated cases, those of com.microsoft among them, and how many pass at least.

All are run by ``burnx conformance --cases generated --device reference,cpu``, which takes an empty cache many minutes.
"""


def failed_tests(results: dict[str, Any]) -> list[str]:
    """Every wrong value, error, crash and timeout."""
    return [
        f"{name} {route}: {results['details'][name]['cells'][route]['message']}"
        for name, row in results["tests"].items()
        for route, status in row.items()
        if status in ("error", "wrong")
    ]


def check_floors(results: dict[str, Any]) -> None:
    for route in results["summary"]["routes"]:
        assert results["summary"]["all"][route]["pass"] >= FLOORS[route], route


def test_part_runs_from_files(device: str) -> None:
    results = run_conformance(routes=("run",), device=device, pattern=PART)
    assert failed_tests(results) == []
    assert results["summary"]["all"]["run"]["pass"] >= 400


def test_part_gives_the_same_from_source_and_its_export() -> None:
    results = run_conformance(routes=("source", "roundtrip"), device="reference", pattern=PART)
    assert failed_tests(results) == []


def test_part_of_the_generated_cases_runs(device: str) -> None:
    results = run_conformance(("run",), device, PART_OF_CASES, cases="generated")
    assert failed_tests(results) == []
    assert results["summary"]["all"]["run"]["pass"] >= 600


def test_part_of_the_generated_cases_from_source_and_its_export() -> None:
    results = run_conformance(
        ("source", "roundtrip"), "reference", SMALL_PART_OF_CASES, cases="generated"
    )
    assert failed_tests(results) == []
    assert results["summary"]["all"]["roundtrip"]["pass"] >= 100


@pytest.mark.suite
def test_generated_cases_run_on_every_device(device: str) -> None:
    pattern, least = SHARES[device]
    results = run_conformance(("run",), device, pattern, cases="generated")
    assert failed_tests(results) == []
    assert results["summary"]["all"]["run"]["pass"] >= least


@pytest.mark.suite
def test_files_run_on_every_device(device: str) -> None:
    results = run_conformance(routes=("run",), device=device)
    assert failed_tests(results) == []
    check_floors(results)


@pytest.mark.suite
def test_source_and_its_export_give_the_same() -> None:
    results = run_conformance(routes=("source", "roundtrip"), device="reference")
    assert failed_tests(results) == []
    check_floors(results)
