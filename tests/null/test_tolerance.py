"""What counts as agreement on a real model."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tolerance import Mismatch, compare


def array(*values: Any, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=dtype)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (array(1.0, -2.0), array(1.0009, -2.0)),
        (array(0.0, 1000.0), array(0.09, 1000.0)),
        (array(np.nan, np.inf), array(np.nan, np.inf)),
        (array(1.0, dtype=np.float16), array(1.01, dtype=np.float16)),
        (array(1.0, dtype=ml_dtypes.bfloat16), array(1.01, dtype=ml_dtypes.bfloat16)),
        (array(3, dtype=np.int64), array(3, dtype=np.int64)),
        (array("a", dtype=object), array("a", dtype=object)),
        ([array(1.0), None], [array(1.0), None]),
        ([{1: 0.5}], [{1: 0.5}]),
        (array(dtype=np.float32), array(dtype=np.float32)),
    ],
)
def test_agrees(expected: Any, actual: Any) -> None:
    assert compare({"y": expected}, {"y": actual}) < 0.02


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (array(1.0), array(1.01)),
        (array(0.0), array(0.001)),
        (array(np.nan), array(0.0)),
        (array(0.0), array(np.nan)),
        (array(np.inf), array(-np.inf)),
        (array(1.0, dtype=np.float16), array(1.05, dtype=np.float16)),
        (array(3, dtype=np.int64), array(4, dtype=np.int64)),
        (array(3, dtype=np.int64), array(3, dtype=np.int32)),
        (array("a", dtype=object), array("b", dtype=object)),
        (array(1.0), array(1.0, 1.0)),
        ([array(1.0)], []),
        (None, array(1.0)),
        ([{1: 0.5}], [{1: 0.6}]),
    ],
)
def test_disagrees(expected: Any, actual: Any) -> None:
    with pytest.raises(Mismatch, match="y"):
        compare({"y": expected}, {"y": actual})


def test_a_missing_output_disagrees() -> None:
    with pytest.raises(Mismatch, match="names"):
        compare({"y": array(1.0)}, {"z": array(1.0)})


def test_error_is_relative_to_the_largest_magnitude() -> None:
    assert compare(array(1.0, -100.0), array(1.001, -100.0)) == pytest.approx(1e-5, rel=1e-2)
