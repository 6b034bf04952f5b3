"""Nodes that do not fit their definition: a result, or an error in burnx's own words that names node and operator.

``python tests/unit/damaged_nodes.py`` takes them all, and compares with onnxruntime.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from burnx.conformance.cases.collect import Case
from burnx.ops.domain import unfit
from tests.unit.damaged_nodes import chosen_cases, damages, fault_of, run_burnx

SHARE = 12
PARTS = 8
CASES = chosen_cases()


@pytest.mark.parametrize("part", range(PARTS))
def test_damage_is_refused_in_words_of_burnx(part: int) -> None:
    faults, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, case in list(enumerate(CASES))[part::PARTS]:
            for place, damage in enumerate(damages(case)):
                if (place + number) % SHARE:
                    continue
                count += 1
                outputs, message = run_burnx(damage)
                fault = "" if outputs is not None else fault_of(message, case.schema.op_type)
                faults += [f"{case.name}, {damage.name}: {fault}: {message}"] if fault else []
    assert not faults
    assert count > 60


def test_the_words_of_python_are_found() -> None:
    assert fault_of("(ValueError: not enough values to unpack), node (Add)", "Add")
    assert fault_of("operands could not be broadcast, node (Add)", "Add")
    assert fault_of("x has 3 axes, not (2, 3)", "Add") == "does not name the operator"
    assert not fault_of("x has 3 axes, not (2, 3), node (Add)", "Add")


def _case(pattern: str) -> Case:
    return next(case for case in CASES if re.search(pattern, case.name))


@pytest.mark.parametrize(
    ("case", "damage", "says"),
    [
        ("gen_LSTM_v22_T_", "W flatter", r"w has 3 axes, not \(\d+, \d+\), node .*LSTM"),
        ("gen_ms_MultiHead", "query flatter", r"query has 3 or 5 axes, not \(\d+, \d+\)"),
        ("gen_ms_CropAndResize", "crop_size deeper", r"crop_size has 1 axis, not \(1, 2\)"),
        ("gen_ms_QAttention", "input flatter", r"input has 3 axes, not"),
        ("gen_ReduceSum_v13_two", "keepdims 99", "keepdims is 0 or 1, not 99"),
        ("gen_DepthToSpace", "blocksize 0", "blocksize is at least 1, not 0"),
        ("gen_RegexFullMatch", "X of another dtype", "x is string, not float32"),
        ("gen_Scan", "num_scan_inputs 99", "num_scan_inputs is from 1 to 2, not 99"),
        ("gen_ml_SVMRegressor", "X shorter", "as many features as support vectors, 2, not 1"),
    ],
)
def test_the_rule_and_what_was_found_are_said(case: str, damage: str, says: str) -> None:
    chosen = next(each for each in damages(_case(case)) if each.name == damage)
    _, message = run_burnx(chosen)
    assert re.search(says, message), message


def test_what_no_rule_names_is_told_with_its_inputs() -> None:
    error = unfit(
        "Add", {"a": np.zeros((2, 3), np.float32), "b": None}, {"axis": 1, "to": "x" * 99}
    )
    assert "of Add fit together" in str(error)
    assert "these do not: a float32(2, 3), axis = 1, to = 'xxx" in str(error)
    assert len(str(error)) < 250
