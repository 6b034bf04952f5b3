"""Convolutions that a library may do: what it is asked for means the kernel, NaN included.

The library is NumPy here (numpy_library.py); cuDNN's own tests are in tests/device/test_cuda.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import burnx
from burnx import ops
from burnx.runtime.devices.gpu.library import as_row, from_row, library_of
from burnx.runtime.devices.gpu.library_convolution import Convolution
from tests.unit.gpu.numpy_library import DEVICE, NumpyLibrary, results

pytest.importorskip("pyopencl")
Array = np.ndarray[Any, Any]
random = np.random.default_rng(7)


def make(*shape: int) -> Array:
    return (random.standard_normal(shape) / 4).astype(np.float32)


X, W, B = make(2, 16, 9, 11), make(24, 16, 3, 3), make(24)
V, C = make(16, 24, 3, 3), make(16)
AROUND = {"pads": [1, 1, 1, 1]}
ZERO, SIX = np.array(0, np.float32), np.array(6, np.float32)


def like(number: Array, x: Any) -> Any:
    return ops.cast_like(number, x)


def block(x: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
    """Two convolutions and what went in, as networks have them: the images between have margins."""
    y = ops.relu(ops.conv(x, w, b, **AROUND))
    y = ops.relu(ops.conv(y, v, c, **AROUND) + x)
    return ops.relu(ops.conv(y, w, b, **AROUND))


# what is computed, its inputs, and how many convolutions the library is asked for
MODELS: dict[str, tuple[Callable[..., Any], tuple[Array, ...], int]] = {
    "plain": (lambda x, w: ops.conv(x, w), (X, W), 1),
    "bias": (lambda x, w, b: ops.conv(x, w, b, **AROUND), (X, W, B), 1),
    "relu": (lambda x, w, b: ops.relu(ops.conv(x, w, b, **AROUND)), (X, W, B), 1),
    "block": (block, (X, W, B, V, C), 3),
    "strides": (lambda x, w: ops.conv(x, w, strides=[2, 3], pads=[2, 0, 1, 3]), (X, W), 1),
    "dilations": (lambda x, w: ops.conv(x, w, dilations=[3, 2], pads=[3, 2, 3, 2]), (X, W), 1),
    "both": (
        lambda x, w: ops.conv(x, w, strides=[2, 2], dilations=[2, 1], pads=[2, 1, 2, 1]),
        (X, W),
        1,
    ),
    "points apart": (lambda x, w: ops.conv(x, w, strides=[2, 2]), (X, make(24, 16, 1, 1)), 1),
    "a row": (lambda x, w: ops.conv(x, w, pads=[0, 2, 0, 2]), (X, make(24, 16, 1, 5)), 1),
    "a column": (lambda x, w: ops.conv(x, w, pads=[2, 0, 2, 0]), (X, make(24, 16, 5, 1)), 1),
    "one axis": (lambda x, w: ops.conv(x, w, pads=[1, 1]), (X[:, :, 0], make(24, 16, 3)), 1),
    "one picture": (lambda x, w, b: ops.conv(x, w, b, **AROUND), (X[:1], W, B), 1),
    "groups": (lambda x, w: ops.conv(x, w, group=4, **AROUND), (X, make(24, 4, 3, 3)), 1),
    "groups and bias": (
        lambda x, w, b: ops.relu(ops.conv(x, w, b, group=2, **AROUND)),
        (X, make(24, 8, 3, 3), B),
        1,
    ),
    "clip": (
        lambda x, w, b: ops.clip(ops.conv(x, w, b, **AROUND), like(-ZERO, x), like(SIX / 8, x)),
        (X, W, B),
        1,
    ),
    "sigmoid": (lambda x, w, b: ops.sigmoid(ops.conv(x, w, b, **AROUND)), (X, W, B), 1),
}


LEFT = {("sigmoid", "float16"), ("groups and bias", "float32")}
"""What the library is not asked for: sums of halves alone, and sums of groups, are not in burnx's order."""


def ends_in_place(name: str) -> Any:
    """The model, with a layer behind it: what it makes lies with its channels side by side, as a library wants it."""
    function, inputs, count = MODELS[name]

    def model(x: Any, *others: Any) -> Any:
        made = function(x, *others)
        return ops.reduce_max(made, np.array([1], np.int64))

    return model, inputs, count


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_convolution_of_the_library_gives_right_numbers(
    library: NumpyLibrary,
    tmp_path: Path,
    name: str,
    dtype: str,
) -> None:
    """With the filters as constants, as models have them; what the library cannot finish in halves burnx does alone."""
    model, arrays, count = ends_in_place(name)
    x, *others = (each.astype(dtype) for each in arrays)
    near = {"float32": 2e-5, "float16": 4e-3}[dtype]
    expected = burnx.compile(lambda x: model(x, *others), "reference")(x).numpy()
    tuned = burnx.compile(lambda x: model(x, *others), DEVICE, tune=True)
    for _ in range(2):
        np.testing.assert_allclose(tuned(x).numpy(), expected, rtol=near, atol=near)
    asked = [each for each in library.asked if isinstance(each, Convolution)]
    won = [each["form"] for each in results(tmp_path) if each["form"]["kind"] == "library"]
    if (name, dtype) in LEFT:
        assert not asked and not won
        return
    assert len(won) >= min(count, 1) and asked, library.asked
    assert all(library.fixed)
    assert not any("wrong" in lap for each in results(tmp_path) for lap in each["laps"])


def test_a_filter_that_is_an_input_is_no_constant(library: NumpyLibrary) -> None:
    x, w = X, W

    def model(x: Any, w: Any) -> Any:
        return ops.reduce_max(ops.conv(x, w), np.array([1], np.int64))

    expected = burnx.compile(model, "reference")(x, w).numpy()
    tuned = burnx.compile(model, DEVICE, tune=True)
    for _ in range(2):
        np.testing.assert_allclose(tuned(x, w).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert library.fixed and not any(library.fixed)


def test_nan_and_infinity_pass_through_what_follows(library: NumpyLibrary) -> None:
    model, (x, *others), _ = ends_in_place("clip")
    x = x.copy()
    x[0, 3, 4, 5], x[1, 2, 0, 0] = np.nan, np.inf
    tuned = burnx.compile(lambda x: model(x, *others), DEVICE, tune=True)
    tuned(x)
    expected = burnx.compile(lambda x: model(x, *others), "reference")(x).numpy()
    assert np.isnan(expected).any()
    np.testing.assert_allclose(tuned(x).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert any(isinstance(each, Convolution) for each in library.asked)


def test_other_sizes_of_the_same_class_are_not_the_librarys(
    library: NumpyLibrary, tmp_path: Path
) -> None:
    """It chooses another way for them, which nobody has compared with burnx's own."""
    graph = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        sizes (float[n,16,h,w] x, float[24,16,3,3] k) => (float[n,1,h2,w2] y) {
            made = Conv(x, k)
            y = ReduceMax<axes = [1]>(made)
        }"""
    )
    file = tmp_path / "sizes.onnx"
    onnx.save(graph, file)
    model = burnx.load(file, DEVICE, tune=True)
    model.run({"x": X, "k": W})
    assert library.asked
    library.asked.clear()
    plain = burnx.load(file, DEVICE)
    plain.run({"x": make(2, 16, 10, 12), "k": W})
    assert not library.asked
    plain.run({"x": X, "k": W})
    assert library.asked


def test_images_with_gaps_are_left_to_burnx(library: NumpyLibrary) -> None:
    """What the next convolution needs margins around is written there by burnx."""
    model, (x, *others), _ = ends_in_place("block")
    burnx.compile(lambda x: model(x, *others), DEVICE, tune=True)(x)
    for each in library.asked:
        assert isinstance(each, Convolution)
        row = each.out[1] * each.groups * each.kernels
        assert each.result.steps == (each.out[0] * row, row, each.groups * each.kernels)


def test_a_convolution_as_a_row_is_the_same_again(library: NumpyLibrary) -> None:
    model, (x, *others), _ = ends_in_place("block")
    burnx.compile(lambda x: model(x, *others), DEVICE, tune=True)(x)
    for each in library.asked:
        row = json.loads(json.dumps(as_row(each)))
        assert from_row(row) == each
        assert library_of(row) == ("convolutions" if isinstance(each, Convolution) else "products")
        with pytest.raises((TypeError, LookupError)):
            from_row({**row, "more": 1})


def test_what_is_multiplied_inexactly_is_another_work() -> None:
    """Plans are found by what is asked for: one in TF32 is never taken for one in float32."""
    from burnx.runtime.devices.gpu.library_convolution import Image

    image = Image(0, 0, (1, 1, 1))
    pair = (1, 1)
    asked = Convolution(
        "float32", "float32", 1, 1, 1, 1, pair, pair, pair, pair, pair,
        image, (1, 0, (0, 1, 1, 1, 1)), image,
    )  # fmt: skip
    assert as_row(asked) != as_row(replace(asked, exact=False))


def test_without_the_library_nothing_is_asked(
    library: NumpyLibrary,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library.driver, "libraries", {"products": "numpy"})
    model, (x, *others), _ = ends_in_place("relu")
    burnx.compile(lambda x: model(x, *others), DEVICE, tune=True)(x)
    assert not library.asked
