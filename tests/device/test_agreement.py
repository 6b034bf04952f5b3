"""Fused equals unfused equals the reference, over the suite's tests and the real models.

Plain ``pytest`` takes every tenth test of the suite, ``-m suite`` all of them; ``-m models`` takes the models.
"""

from __future__ import annotations

from typing import Any

import models
import pytest
from agreement import compare_output, disagreements, disagreements_of_test
from run_models import stage_one
from spread import distance, spread_when_moved

import burnx
from burnx.conformance.backend_tests import BackendTest
from burnx.conformance.random_streams import random_stream_reason
from burnx.conformance.suite import select_tests

EXPLAINED: dict[str, str] = {}
"""Tests whose results may differ between devices, and why."""


def compared_tests() -> list[BackendTest]:
    return [
        test
        for test in select_tests(None)
        if test.name not in EXPLAINED and random_stream_reason(test) is None
    ]


def test_a_tenth_of_the_suite_agrees() -> None:
    tests = compared_tests()[::10]
    assert len(tests) > 190
    assert [line for test in tests for line in disagreements_of_test(test)] == []


@pytest.mark.suite
@pytest.mark.parametrize("part", range(10))
def test_the_suite_agrees(part: int) -> None:
    tests = compared_tests()[part::10]
    assert [line for test in tests for line in disagreements_of_test(test)] == []


@pytest.mark.models
@pytest.mark.parametrize("entry", stage_one(), ids=lambda entry: str(entry["name"]))
def test_a_model_agrees(entry: dict[str, object]) -> None:
    try:
        path = models.path(entry)
    except models.Unavailable as error:
        pytest.skip(str(error))
    inputs = models.inputs(entry)
    compare = compare_output
    if (
        "spread" in entry
    ):  # where a last bit of a weight moves the reference's own results: spread.py
        spread = spread_when_moved(
            path, lambda data: burnx.load(data, device="reference").run(inputs)
        )

        def compare(output: str, expected: Any, found: Any) -> str:
            apart = distance(expected, found)
            return "" if apart <= spread[output] else f"{apart:.3g} apart"

    assert list(disagreements(str(path), inputs, str(entry["name"]), compare)) == []
