"""Sizes in generated source: the model's own names for dimensions are variables and stand in the comments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, parser
from test_generated_source import agrees

from burnx.codegen.dim_names import is_name


def parsed(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


def feeds(*shapes: tuple[int, ...]) -> list[dict[str, np.ndarray]]:
    return [{"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)} for shape in shapes]


def test_sizes_of_one_tensor_are_read_in_one_statement(tmp_path: Path) -> None:
    model = parsed(
        """g (float[batch, seq, 6] x) => (float[batch, seq, 2, 3] y, float[seq, batch, 6] z)
        <int64[2] tail = {2, 3}, int64[1] six = {6}, int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> {
          shape = Shape(x) b = Gather(shape, zero) s = Gather(shape, one)
          b1 = Unsqueeze(b, axis) s1 = Unsqueeze(s, axis)
          first = Concat<axis = 0>(b1, s1, tail) second = Concat<axis = 0>(s1, b1, six)
          y = Reshape(x, first) z = Reshape(x, second)
        }"""
    )
    text = agrees(model, tmp_path, *feeds((2, 4, 6), (3, 1, 6)))
    assert "        batch, seq = x.shape[:2]\n" in text
    assert "return x.reshape(batch, seq, 2, 3), x.reshape(seq, batch, 6)" in text


def test_axes_that_are_not_beside_each_other_are_read_one_by_one(tmp_path: Path) -> None:
    model = parsed(
        """g (float[batch, 3, width] x) => (float y) <int64 zero = {0}, int64 two = {2}, int64[1] axis = {0}, int64[1] three = {3}> {
          shape = Shape(x) b = Gather(shape, zero) w = Gather(shape, two)
          b1 = Unsqueeze(b, axis) w1 = Unsqueeze(w, axis)
          turned = Concat<axis = 0>(w1, b1, three) y = Reshape(x, turned)
        }"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    text = agrees(model, tmp_path, *feeds((2, 3, 5)))
    assert "        batch = x.shape[0]\n        width = x.shape[2]\n" in text


def test_a_size_that_is_read_once_stays_where_it_is(tmp_path: Path) -> None:
    model = parsed(
        """g (float[batch, 2, 3] x) => (float[batch, 6] y) <int64 zero = {0}, int64[1] axis = {0}, int64[1] rest = {6}> {
          shape = Shape(x) b = Gather(shape, zero) b1 = Unsqueeze(b, axis)
          all = Concat<axis = 0>(b1, rest) y = Reshape(x, all)
        }"""
    )
    text = agrees(model, tmp_path, *feeds((2, 2, 3), (5, 2, 3)))
    assert "x.reshape(x.shape[0], 6)  # (batch, 6)" in text


def test_a_dimension_called_like_a_variable_has_another_name(tmp_path: Path) -> None:
    model = parsed(
        """g (float[x, len] x) => (float y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> {
          shape = Shape(x) b = Gather(shape, zero) w = Gather(shape, one)
          b1 = Unsqueeze(b, axis) w1 = Unsqueeze(w, axis)
          turned = Concat<axis = 0>(w1, b1) y = Reshape(x, turned)
        }"""
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    text = agrees(model, tmp_path, *feeds((2, 5)))
    assert "        x_size, len_size = x.shape\n" in text


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [("batch", True), ("num_atoms", True), ("N", True), ("unk__214", False), ("#near0", False)]
    + [("_x_0", False), ("DynamicDimension.0", False), ("s77", False), ("séq", False)],
)
def test_a_name_is_one_that_a_person_gave(symbol: str, expected: bool) -> None:
    assert is_name(symbol) is expected
