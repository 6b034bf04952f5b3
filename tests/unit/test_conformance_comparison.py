"""What a backend test adds to the comparison of values: its own tolerance."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from burnx.conformance.backend_tests import BackendTest
from burnx.conformance.comparison import find_mismatch

STRICT = BackendTest("test_x", "node", "X", 1e-3, 1e-7, onnx.ModelProto, lambda model: ())


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (np.float32([1, np.nan, np.inf]), np.float32([1.0005, np.nan, np.inf])),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.0078125], ml_dtypes.bfloat16)),
        ([np.array([1.0], ml_dtypes.bfloat16)], [np.array([1.0078125], ml_dtypes.bfloat16)]),
        (np.array([2.0], ml_dtypes.float8_e4m3fn), np.array([2.0], ml_dtypes.float8_e4m3fn)),
        (np.array(["a", "b"], object), np.array(["a", "b"])),
        (None, None),
        (np.zeros((0, 3)), np.zeros((0, 3))),
    ],
)
def test_values_within_the_tolerance_of_the_test_agree(expected: Any, found: Any) -> None:
    assert find_mismatch(STRICT, [expected], [found]) is None


@pytest.mark.parametrize(
    ("expected", "found", "message"),
    [
        (np.float32([1]), np.float32([1.002]), "1 of 1 elements differ"),
        (np.float32([0]), np.float32([1e-5]), "1 of 1 elements differ"),
        (np.float16([1]), np.float16([1.005]), "1 of 1 elements differ"),
        (np.array([1.0], ml_dtypes.bfloat16), np.array([1.03], ml_dtypes.bfloat16), "differ"),
        (np.int64([100000]), np.int64([100001]), "1 of 1 elements differ"),
        (np.float32([1]), np.float64([1]), "dtype is float64"),
        (np.zeros(1), np.zeros(()), "shape is ()"),
        (np.zeros(1), None, "expected a float64 array"),
    ],
)
def test_values_beyond_it_do_not(expected: Any, found: Any, message: str) -> None:
    mismatch = find_mismatch(STRICT, [np.ones(1), expected], [np.ones(1), found])
    assert mismatch is not None
    assert mismatch.startswith("output 1: ")
    assert message in mismatch


def test_a_missing_output_is_a_mismatch() -> None:
    assert find_mismatch(STRICT, [np.zeros(1)], []) == "1 outputs expected, 0 found"
