"""Products of constants that are kept in the narrow dtype they came in."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burnx


def _model(first: np.ndarray, second: np.ndarray, wide: int) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Cast", ["a"], ["p"], to=wide),
        helper.make_node("Cast", ["b"], ["q"], to=wide),
        helper.make_node("MatMul", ["p", "q"], ["y"]),
        helper.make_node("Add", ["y", "x"], ["z"]),
    ]
    shape = [first.shape[0], second.shape[1]]
    graph = helper.make_graph(
        nodes,
        "widened",
        [helper.make_tensor_value_info("x", wide, [1, 1])],
        [helper.make_tensor_value_info("z", wide, shape)],
        [numpy_helper.from_array(first, "a"), numpy_helper.from_array(second, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("wide", [TensorProto.INT32, TensorProto.FLOAT])
def test_a_product_of_two_widened_constants(wide: int) -> None:
    """Neither side may be read as if its array had the wide dtype: that would be other memory."""
    draw = np.random.default_rng(0)
    first = draw.integers(-128, 128, (2000, 300)).astype(np.int8)
    second = draw.integers(-128, 128, (300, 2000)).astype(np.int8)
    x = np.ones((1, 1), helper.tensor_dtype_to_np_dtype(wide))
    model = burnx.load(_model(first, second, wide), device="cpu")
    expected = first.astype(np.int64) @ second.astype(np.int64) + 1
    found = model.run({"x": x})["z"]
    assert np.allclose(found, expected, rtol=1e-6, atol=0.5)
