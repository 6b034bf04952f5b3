"""Convolutions by Winograd's transforms agree with plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import burnx
from burnx.dtype import float32
from burnx.fusion import winograd
from burnx.kernels.ir import Constant
from burnx.kernels.winograd import FOUR, TWO, choose_scheme, transform_weights


def evaluate(value):
    """The number that constants come to."""
    if isinstance(value, Constant):
        return value.value
    left, right = map(evaluate, value.arguments)
    return {"add": left + right, "sub": left - right, "mul": left * right}[value.function]


def in_both_axes(transform, grid):
    def along(lines):
        found = [transform([Constant(float(each), float32) for each in line]) for line in lines]
        return np.array([[evaluate(each) for each in line] for line in found])

    return along(along(grid).T).T


@pytest.mark.parametrize("scheme", [FOUR, TWO], ids=["four", "two"])
def test_transforms_are_a_convolution(scheme):
    random = np.random.default_rng(0)
    tile, weights = random.normal(size=(scheme.tile,) * 2), random.normal(size=(1, 1, 3, 3))
    factors = transform_weights(scheme, weights).reshape(scheme.tile, scheme.tile)
    found = in_both_axes(scheme.backward, in_both_axes(scheme.forward, tile) * factors)
    windows = np.lib.stride_tricks.sliding_window_view(tile, (3, 3))
    np.testing.assert_allclose(found, (windows * weights[0, 0]).sum((2, 3)), atol=1e-12)


def test_the_scheme_goes_by_size():
    assert choose_scheme(56, 56, 64, 64) is FOUR
    assert choose_scheme(14, 14, 256, 256) is FOUR
    assert choose_scheme(224, 224, 3, 64) is None
    assert choose_scheme(7, 7, 512, 512) is None
    assert choose_scheme(3, 3, 64, 64) is None


def convolution(batch, channels, outputs, size, pads):
    """relu(conv(relu(x)) + residual), as a model and its inputs."""
    random = np.random.default_rng(1)
    height, width = size
    out = [batch, outputs, height + pads[0] + pads[2] - 2, width + pads[1] + pads[3] - 2]
    weights = random.normal(size=(outputs, channels, 3, 3)) / np.sqrt(channels * 9)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], pads=pads),
        helper.make_node("Add", ["c", "r"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    inputs = {"x": [batch, channels, height, width], "r": out}
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (*inputs.items(), ("y", out))
    ]
    kept = [
        numpy_helper.from_array(weights.astype(np.float32), "w"),
        numpy_helper.from_array(random.normal(size=outputs).astype(np.float32), "b"),
    ]
    graph = helper.make_graph(nodes, "g", infos[:2], infos[2:], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in inputs.items()}
    return model, feeds


@pytest.mark.parametrize("scheme", [FOUR, TWO], ids=["four", "two"])
@pytest.mark.parametrize("size", [(8, 8), (4, 4), (9, 14), (13, 7)])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 2, 3)])
def test_convolutions_agree_with_plain_ones(scheme, size, pads, monkeypatch):
    model, feeds = convolution(2, 20, 19, size, list(pads))
    expected = burnx.load(model, device="reference").run(feeds)["y"]
    asked = []

    def choose(*numbers):
        asked.append(numbers)
        fits = min(numbers[:2]) >= scheme.step
        return scheme if fits else None

    monkeypatch.setattr(winograd, "choose_scheme", choose)
    found = burnx.load(model, device="cpu").run(feeds)["y"]
    assert asked == [(*expected.shape[2:], 20, 19)]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
