"""Convolutions by Winograd's transforms agree with plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import burnx
from burnx.dtype import float32
from burnx.kernels.ir import Constant
from burnx.kernels.winograd import FOUR, TWO, choose_scheme, transform_weights
from burnx.runtime.devices.cpu import compiled_kernels
from burnx.runtime.devices.cpu.choices import Choices


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


def out_shape(batch, outputs, size, pads):
    height, width = size
    return [batch, outputs, height + pads[0] + pads[2] - 2, width + pads[1] + pads[3] - 2]


def arrays(shapes):
    random = np.random.default_rng(2)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def convolution(channels, outputs, pads, shapes):
    """relu(conv(relu(x)) + residual), as a model; ``shapes`` are those of x and the residual."""
    random = np.random.default_rng(1)
    weights = random.normal(size=(outputs, channels, 3, 3)) / np.sqrt(channels * 9)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"], pads=pads),
        helper.make_node("Add", ["c", "r"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (*shapes.items(), ("y", shapes["r"]))
    ]
    kept = [
        numpy_helper.from_array(weights.astype(np.float32), "w"),
        numpy_helper.from_array(random.normal(size=outputs).astype(np.float32), "b"),
    ]
    graph = helper.make_graph(nodes, "g", infos[:2], infos[2:], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("scheme", [FOUR, TWO], ids=["four", "two"])
@pytest.mark.parametrize("size", [(8, 8), (4, 4), (9, 14), (13, 7)])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 2, 3)])
def test_convolutions_agree_with_plain_ones(scheme, size, pads, monkeypatch):
    shapes = {"x": [2, 20, *size], "r": out_shape(2, 19, size, pads)}
    model, feeds = convolution(20, 19, list(pads), shapes), arrays(shapes)
    expected = burnx.load(model, device="reference").run(feeds)["y"]
    asked = []

    def choose(*numbers):
        asked.append(numbers)
        fits = min(numbers[:2]) >= scheme.step
        return scheme if fits else None

    monkeypatch.setattr(Choices, "scheme", lambda self, *given: choose(*given))
    found = burnx.load(model, device="cpu").run(feeds)["y"]
    assert asked == [(*expected.shape[2:], 20, 19)]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


OPEN = {"x": ["n", 18, "h", "w"], "r": ["n", 17, "p", "q"]}
SIZES = ((1, 1), (2, 9), (3, 3), (4, 5), (13, 2), (8, 8), (16, 7), (0, 5), (5, 0))


@pytest.mark.parametrize("scheme", [FOUR, TWO], ids=["four", "two"])
@pytest.mark.parametrize("pads", [(1, 1, 1, 1), (0, 1, 2, 3), (2, 2, 0, 1)])
@pytest.mark.parametrize("shape", [OPEN, {"x": ["n", 18, 9, "w"], "r": ["n", 17, "p", "q"]}])
def test_one_program_does_for_all_sizes(scheme, pads, shape, monkeypatch):
    asked = []
    monkeypatch.setattr(Choices, "scheme", lambda self, *given: asked.append(given) or scheme)
    model = convolution(18, 17, list(pads), shape)
    net, plain = burnx.load(model, device="cpu"), burnx.load(model, device="reference")
    kernels = None
    for batch in (1, 3, 0):
        for height, width in SIZES:
            size = (height if shape is OPEN else 9, width)
            out = out_shape(batch, 17, size, pads)
            if min(out[2:]) < 0:
                continue
            feeds = arrays({"x": [batch, 18, *size], "r": out})
            found, expected = net.run(feeds)["y"], plain.run(feeds)["y"]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
            kernels = kernels or compiled_kernels()
            assert compiled_kernels() == kernels
    assert len(asked) == 1


def test_open_sizes_are_taken_for_large_ones():
    outputs = {"x": ["n", 32, "h", "w"], "r": ["n", 32, "p", "q"]}
    net = burnx.load(convolution(32, 32, [1, 1, 1, 1], outputs), device="cpu")
    feeds = arrays({"x": [1, 32, 20, 20], "r": [1, 32, 20, 20]})
    feeds["x"][0, 0, 0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        found = np.isfinite(net.run(feeds)["y"])
    # an infinity spreads over a tile of results, no further
    assert not found[0, :, :2, :2].any() and found[0, :, 4:].all() and found[0, :, :, 4:].all()


@pytest.mark.parametrize("scheme", [FOUR, TWO], ids=["four", "two"])
def test_results_are_near_exact_ones(scheme, monkeypatch):
    monkeypatch.setattr(Choices, "scheme", lambda self, *given: scheme)
    shapes = {"x": [1, 128, 10, 11], "r": [1, 64, 10, 11]}
    model, feeds = convolution(128, 64, [1, 1, 1, 1], shapes), arrays(shapes)
    weights, bias = (numpy_helper.to_array(each) for each in model.graph.initializer)
    padded = np.pad(np.maximum(feeds["x"][0], 0).astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    sums = np.einsum("chwij,ocij->ohw", windows, weights.astype(np.float64))
    exact = np.maximum(sums + bias[:, None, None] + feeds["r"][0], 0)
    found = burnx.load(model, device="cpu").run(feeds)["y"][0]
    assert np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max()
