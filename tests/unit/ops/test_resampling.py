"""Resize, Upsample, GridSample and the region pools where the standard's own tests do not look."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from one_node import run_node, run_onnxruntime

from burnx.errors import BurnxError

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


OPEN = {"x": ["n", 2, "h", "w"]}


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("transform", ["half_pixel", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("scales", [[2.0, 3.0], [1.5, 0.5], [0.7, 2.3]])
def test_resize_of_open_sizes_agrees_with_onnxruntime(
    mode: str, transform: str, scales: list[float]
) -> None:
    pytest.importorskip("onnxruntime")
    feeds = {"x": numbers(1, 2, 10, 10), "s": np.array([1, 1, *scales], np.float32)}
    options: dict[str, Any] = {
        "inputs": ["x", "", "s"],
        "mode": mode,
        "coordinate_transformation_mode": transform,
    }
    (expected,) = run_onnxruntime("Resize", feeds, **options)
    for dims in (OPEN, {**OPEN, "s": None}):
        (y,) = run_node("Resize", feeds, dims=dims, **options)
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("antialias", [0, 1])
def test_resize_to_sizes_known_only_while_running(policy: str, antialias: int) -> None:
    feeds = {"x": numbers(1, 2, 8, 6), "z": np.array([3, 9])}
    options: dict[str, Any] = {
        "inputs": ["x", "", "", "z"],
        "axes": [-2, -1],
        "mode": "linear",
        "keep_aspect_ratio_policy": policy,
        "antialias": antialias,
    }
    (fixed,) = run_node("Resize", feeds, dims={"z": None}, **options)
    (open_,) = run_node("Resize", feeds, dims=OPEN, **options)
    sides = {"stretch": (3, 9), "not_larger": (3, 2), "not_smaller": (12, 9)}
    assert fixed.shape == (1, 2, *sides[policy])
    np.testing.assert_allclose(fixed, open_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[2.0, 3.0], [0.6, 1.5], [0.5, 0.6]])
def test_resize_and_upsample_of_old_agree_with_onnxruntime(mode: str, scales: list[float]) -> None:
    pytest.importorskip("onnxruntime")
    x, factors = numbers(1, 2, 5, 7), np.array([1, 1, *scales], np.float32)
    calls: list[tuple[str, dict[str, np.ndarray], dict[str, Any]]] = [
        ("Resize", {"x": x, "s": factors}, {"opset": 10}),
    ]
    if min(scales) >= 1:
        calls += [
            ("Upsample", {"x": x, "s": factors}, {"opset": 9}),
            ("Upsample", {"x": x}, {"opset": 7, "scales": factors.tolist()}),
        ]
    for op_type, feeds, options in calls:
        (expected,) = run_onnxruntime(op_type, feeds, mode=mode, **options)
        (y,) = run_node(op_type, feeds, mode=mode, **options)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_integers_are_weighed_exactly_and_cut_off() -> None:
    x = np.array([[0, 100, 255, 100]], np.uint8)
    (y,) = run_node("Resize", {"x": x, "s": np.array([1, 2], np.float32)}, inputs=["x", "", "s"],
                    mode="linear")  # fmt: skip
    assert y.dtype == np.uint8
    assert y.tolist() == [[0, 25, 75, 138, 216, 216, 138, 100]]


def test_resize_without_scales_and_sizes_is_refused() -> None:
    with pytest.raises(BurnxError, match="scales or sizes"):
        run_node("Resize", {"x": numbers(1, 1, 2, 2)})


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("rank", [2, 3])
def test_grid_sample_agrees_with_onnxruntime(
    padding: str, mode: str, corners: int, rank: int
) -> None:
    pytest.importorskip("onnxruntime")
    grid = (RNG.normal(size=(2, *[3] * rank, rank)) * 1.5).astype(np.float32)
    feeds = {"x": numbers(2, 3, *range(4, 4 + rank)), "g": grid}
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners, "opset": 20}
    (expected,) = run_onnxruntime("GridSample", feeds, **options)
    open_ = {"x": [f"x{axis}" for axis in range(rank + 2)], "g": [*"nabc"[: rank + 1], rank]}
    (y,) = run_node("GridSample", feeds, dims=open_, **options)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align_agrees_with_onnxruntime(mode: str, ratio: int, opset: int) -> None:
    pytest.importorskip("onnxruntime")
    start = RNG.uniform(-1, 4, (4, 2))
    rois = np.concatenate([start, start + RNG.uniform(0, 6, (4, 2))], 1).astype(np.float32)
    feeds = {"x": numbers(2, 3, 6, 7), "r": rois, "b": np.array([0, 1, 1, 0])}
    options = {"mode": mode, "sampling_ratio": ratio, "output_height": 2, "output_width": 3}
    (expected,) = run_onnxruntime("RoiAlign", feeds, opset=opset, **options)
    open_ = {"x": ["n", 3, "h", "w"], "r": ["k", 4], "b": ["k"]}
    (y,) = run_node("RoiAlign", feeds, opset=opset, dims=open_, **options)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-5)


def test_max_roi_pool_agrees_with_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    rois = np.array([[0, 0, 0, 5, 4], [1, 2.5, 1, 4, 5], [1, 8, 8, 9, 9]], np.float32)
    feeds = {"x": numbers(2, 3, 6, 7), "r": rois}
    options = {"pooled_shape": [2, 3], "spatial_scale": 0.5}
    (expected,) = run_onnxruntime("MaxRoiPool", feeds, **options)
    np.testing.assert_allclose(run_node("MaxRoiPool", feeds, **options)[0], expected, rtol=1e-6)


def test_center_crop_pad_of_open_sizes() -> None:
    x = numbers(5, 4)
    feeds = {"x": x, "s": np.array([2, 7])}
    (y,) = run_node("CenterCropPad", feeds, dims={"x": ["h", "w"]})
    expected = np.pad(x[1:3], ((0, 0), (1, 2)))
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_to_depth_undoes_depth_to_space(mode: str) -> None:
    x = numbers(2, 12, 3, 5)
    open_ = {"x": ["n", 12, "h", "w"]}
    (y,) = run_node("DepthToSpace", {"x": x}, blocksize=2, mode=mode, dims=open_)
    (back,) = run_node("SpaceToDepth", {"x": y}, blocksize=2, mode=mode, opset=28)
    np.testing.assert_array_equal(back, x)


def test_bytes_that_are_no_picture_are_refused() -> None:
    with pytest.raises(BurnxError, match="no picture"):
        run_node("ImageDecoder", {"x": np.frombuffer(b"not a picture", np.uint8)})


def test_a_grey_png_becomes_three_equal_channels() -> None:
    pillow = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    pillow.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3)).save(file, "png")
    (y,) = run_node("ImageDecoder", {"x": np.frombuffer(file.getvalue(), np.uint8)})
    assert y.shape == (2, 3, 3)
    np.testing.assert_array_equal(y[..., 0], y[..., 2])
