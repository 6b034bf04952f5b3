"""Operators with weights of few bits against onnxruntime."""

from __future__ import annotations

import pytest

from tests.unit.ops.contrib_quantized_node import Case, assert_alike, run_burnx, run_onnxruntime
from tests.unit.ops.contrib_quantized_weights_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_onnxruntimes(case: Case) -> None:
    assert_alike(case, run_burnx(case), run_onnxruntime(case))
