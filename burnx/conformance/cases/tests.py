"""The cases as tests of the suite."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from onnx import ModelProto

from burnx.conformance.backend_tests import BackendTest, DataSet
from burnx.conformance.cases.collect import Case, all_cases
from burnx.conformance.cases.expected import ENGINES, ask_engine, expected_outputs
from burnx.conformance.cases.models import case_inputs, case_model

KIND = "generated"
VERDICT = "verdict"
"""The step after the engines: who is believed, or why nobody is."""


def generated_tests(folder: Path) -> list[BackendTest]:
    """Every case; what the other engines answer is kept in ``folder``."""
    return [_test_of(case, folder) for case in all_cases()]


def _test_of(case: Case, folder: Path) -> BackendTest:
    return BackendTest(
        case.name,
        KIND,
        case.schema.operator,
        None,
        None,
        partial(case_model, case),
        partial(_load_data, case, folder),
        {
            **{engine: partial(_ask, case, engine, folder) for engine in ENGINES},
            VERDICT: partial(_verdict, case, folder),
        },
        case.schema.since,
        case.dtype,
    )


def _load_data(case: Case, folder: Path, _: ModelProto) -> tuple[DataSet, ...]:
    expected = expected_outputs(case, folder)
    inputs = tuple(case_inputs(case).values())
    return (DataSet(inputs, expected.outputs, expected.judge, expected.doubt),)


def _ask(case: Case, engine: str, folder: Path) -> str:
    return ask_engine(case, engine, folder).message


def _verdict(case: Case, folder: Path) -> str:
    expected = expected_outputs(case, folder)
    reason = f": {expected.because}" if expected.because else ""
    return expected.doubt or f"{expected.judge}{reason}"
