"""Operators on quantized tensors against onnxruntime, step for step."""

from __future__ import annotations

import pytest

from tests.unit.ops.contrib_quantized_linear_cases import CASES
from tests.unit.ops.contrib_quantized_node import Case, assert_alike, run_burnx, run_onnxruntime


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_onnxruntimes(case: Case) -> None:
    assert_alike(case, run_burnx(case), run_onnxruntime(case))
