"""When two results agree."""

import ml_dtypes
import numpy as np
import pytest

from burnx.agreement.tolerance import close


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (f32(1, 2), f32(1.0005, 2)),
        (f32(1000, 0), f32(1000, 0.05)),
        (f32(np.nan, np.inf), f32(np.nan, np.inf)),
        (np.array([1, 2], ml_dtypes.bfloat16), np.array([1.008, 2], ml_dtypes.bfloat16)),
        (np.array(["a", "ß"], object), np.array(["a", "ß"])),
        (np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64)),
        (np.array(True), np.array(True)),
        ([f32(1), f32(2)], [f32(1), f32(2)]),
        ([{"a": 0.25}], [{"a": np.float32(0.25)}]),
        ({1: 2}, {1: np.int64(2)}),
        (None, None),
        (np.array([1, 2], ml_dtypes.int4), np.array([1, 2], ml_dtypes.int4)),
        (np.array([1 + 2j], np.complex64), np.array([1 + 2j], np.complex64)),
    ],
)
def test_agree(expected: object, actual: object) -> None:
    assert close(expected, actual) is None


@pytest.mark.parametrize(
    ("expected", "actual", "says"),
    [
        (f32(1, 2), f32(1, 2.1), "1 of 2 elements differ"),
        (f32(0), f32(np.nan), "got nan"),
        (f32(np.inf), f32(-np.inf), "got -inf"),
        (f32(np.inf), f32(1e38), "expected inf"),
        (f32(1), np.array([1.0]), "dtype is float64, expected float32"),
        (f32(1), f32(1, 1), "shape is (2,), expected (1,)"),
        (np.array([1]), np.array([2]), "at [0]"),
        (np.array([2**63 - 1]), np.array([-(2**63)]), "1 of 1"),
        (np.array([0], np.uint8), np.array([255], np.uint8), "1 of 1"),
        (np.array(["a"], object), np.array(["b"], object), "expected 'a', got 'b'"),
        ([f32(1)], [f32(1), f32(2)], "a list of 2 items, expected 1"),
        ([f32(1)], f32(1), "expected a list of 1"),
        ([f32(1), f32(2)], [f32(1), f32(3)], "[1]: 1 of 1"),
        ([{"a": 0.5}], [{"b": 0.5}], "the keys of a map differ: 'a', 'b'"),
        (None, f32(1), "expected nothing"),
        (f32(1), None, "got nothing"),
        (True, np.array(1), "dtype is int64, expected bool"),
    ],
)
def test_differ(expected: object, actual: object, says: str) -> None:
    assert says in str(close(expected, actual))


def test_given_limits_win_over_those_of_the_dtype() -> None:
    assert close(f32(1), f32(1.0005), rtol=0, atol=0) is not None
    assert close(f32(1), f32(1.4), rtol=0.5) is None


def test_the_worst_element_is_named() -> None:
    difference = close(np.zeros((2, 3), np.float32), np.eye(2, 3, dtype=np.float32) * 4)
    assert difference is not None
    assert (difference.index, difference.max_abs, difference.count) == ((0, 0), 4.0, 2)


def test_an_integer_difference_does_not_wrap() -> None:
    difference = close(np.array([2**63 - 1]), np.array([-(2**63)]))
    assert difference is not None
    assert difference.max_abs == float(2**64)
