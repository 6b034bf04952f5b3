"""Empty axes and bounds outside of them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import burnx
from burnx.errors import BurnxError


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


def test_equal_parts_of_an_open_axis_are_equal_or_refused(device: str) -> None:
    model = parser.parse_model(
        """<ir_version: 7, opset_import: ["": 13]> g (float[n] x) => (float[a] y, float[b] z)
        { y, z = Split(x) }"""
    )
    loaded = burnx.load(model, device=device)
    y, z = loaded(np.arange(4, dtype=np.float32))
    assert (y.tolist(), z.tolist()) == ([0, 1], [2, 3])
    with pytest.raises(BurnxError, match=r'\(Split\), node "y"|node "y" \(Split\)'):
        loaded(np.arange(5, dtype=np.float32))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("int64", [2**63 - 1, 2**53 + 1, 5, 0, -5, -(2**53) - 1, -(2**63)]),
        ("uint64", [2**64 - 1, 2**53 + 1, 1]),
    ],
)
def test_large_integers_shrink_exactly(device: str, dtype: str, values: list[int]) -> None:
    model = parser.parse_model(
        f"""<ir_version: 7, opset_import: ["": 18]> g ({dtype}[n] x) => ({dtype}[n] y)
        {{ y = Shrink<bias = 3.0, lambd = 1.0>(x) }}"""
    )
    expected = [x - 3 if x > 1 else x + 3 if x < -1 else 0 for x in values]
    assert burnx.load(model, device=device)(np.array(values, dtype)).tolist() == expected
