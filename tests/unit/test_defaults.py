"""Inputs with a default: constants as long as nobody gives them, inputs as soon as somebody does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import burnx

TEXT = """
<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 4] x, float[4, 6] w, int64[3] shape) => (float[a, b, c] y, float[4, 6] kept)
{ p = MatMul(x, w)  y = Reshape(p, shape)  kept = Identity(w) }
"""
WEIGHT = np.arange(24, dtype=np.float32).reshape(4, 6)
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def old_model() -> Any:
    """A model as old exporters write it: initializers are listed among the inputs."""
    model = parser.parse_model(TEXT)
    for name, array in (("w", WEIGHT), ("shape", np.array([2, 3, 2]))):
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def test_defaults_are_constants_until_they_are_given(device: str) -> None:
    model = burnx.load(old_model(), device=device)
    for _ in range(5):
        assert np.array_equal(model.run({"x": X})["y"], (X @ WEIGHT).reshape(2, 3, 2))
        shape = np.array([3, 1, 4])
        assert np.array_equal(model.run({"x": X, "shape": shape})["y"], (X @ WEIGHT).reshape(shape))
        given = model.run({"x": X, "w": -WEIGHT, "shape": np.array([1, -1, 1])})
        assert np.array_equal(given["y"].reshape(2, 6), X @ -WEIGHT)
        assert np.array_equal(given["kept"], -WEIGHT)


def test_nothing_is_left_to_python_for_the_sake_of_a_default() -> None:
    assert burnx.load(old_model(), device="cpu").placement() == {}


def test_outputs_are_never_the_default_itself(device: str) -> None:
    model = burnx.load(old_model(), device=device)
    model.run({"x": X})["kept"][:] = 7
    assert np.array_equal(model.run({"x": X})["kept"], WEIGHT)


@pytest.mark.parametrize("fuse", [True, False])
def test_a_default_that_is_left_out_is_no_missing_optional(fuse: bool) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[n] x, float[n] b) => (float[n] y) <float[2] b = {1, 2}> { y = Add(x, b) }
    """
    model = burnx.load(parser.parse_model(text), device="cpu", fuse=fuse)
    assert model.run({"x": X[0, :2]})["y"].tolist() == [1, 3]
    assert model.run({"x": X[0, :2], "b": X[0, 2:]})["y"].tolist() == [2, 4]
