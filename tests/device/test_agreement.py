"""Fused equals unfused equals the reference, over the suite's tests and the real models.

Plain ``pytest`` takes every tenth test of the suite, ``-m suite`` all of them; ``-m models`` takes the models.
"""

from __future__ import annotations

from typing import Any

import models
import pytest
from agreement import compare_output, disagreements, disagreements_of_test
from run_models import stage_one

from burnx.agreement.spread import SpreadOf, excuse
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
    ):  # where last bits move the reference's own results: burnx/agreement/spread.py
        measured = SpreadOf(str(path), inputs)

        def compare(output: str, expected: Any, found: Any) -> str:
            difference = compare_output(output, expected, found)
            results = {output: expected}, {output: found}
            excused = difference and excuse([output], *results, measured)
            return "" if excused else difference

    assert list(disagreements(str(path), inputs, str(entry["name"]), compare)) == []
