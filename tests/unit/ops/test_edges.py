"""Empty axes and bounds outside of them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import burnx


def test_hardmax_of_an_empty_axis_is_empty() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, n] x) => (float[2, n] y) { y = Hardmax(x) }'
    )
    assert burnx.load(model)(np.zeros((2, 0), np.float32)).shape == (2, 0)


@pytest.mark.parametrize(
    ("start", "step", "expected"), [(-9, -1, [0]), (-9, -2, [0]), (9, -1, [2, 1, 0]), (9, 1, [])]
)
def test_a_start_outside_is_clamped_to_the_nearest_element(
    start: int, step: int, expected: list[float]
) -> None:
    """ONNX Slice-13: for negative steps a start is clamped into [0, n - 1], unlike in NumPy."""
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[m] y)
        <int64[1] s = {{{start}}}, int64[1] e = {{{-(2**62) if step < 0 else 2**62}}}, int64[1] a = {{0}},
        int64[1] d = {{{step}}}> {{ y = Slice(x, s, e, a, d) }}"""
    )
    assert burnx.load(model)(np.arange(3, dtype=np.float32)).tolist() == expected


@pytest.mark.parametrize("axis", [-3, 0, 1, 2, -1])
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 2, 3), (2, 3, 0)])
def test_the_first_softmax_of_nothing_has_its_shape(
    operator: str, shape: tuple[int, ...], axis: int
) -> None:
    """Before opset 13 the axes are taken together and apart again, where a 0 means no size that is kept."""
    model = parser.parse_model(
        f'<ir_version: 7, opset_import: ["": 11]> g (float[{",".join(map(str, shape))}] x) => (float[a, b, c] y) '
        f"{{ y = {operator}<axis = {axis}>(x) }}"
    )
    assert burnx.load(model)(np.zeros(shape, np.float32)).shape == shape
