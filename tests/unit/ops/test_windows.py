"""Convolutions and pools: against onnxruntime on random attributes, and with sizes that are not known."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from one_node import run_node, run_onnxruntime

from burnx.errors import BurnxError, ModelError

Case = tuple[dict[str, np.ndarray], dict[str, Any]]


def numbers(draw: random.Random, *shape: int) -> np.ndarray:
    return np.random.default_rng(draw.randrange(2**32)).normal(size=shape).astype(np.float32)


def moves(draw: random.Random, rank: int, size: list[int]) -> dict[str, Any]:
    """Random padding, strides and dilations, where onnxruntime keeps to the standard.

    It forgets the dilations of SAME pools, and crops for a SAME kernel that is smaller than its stride.
    """
    chosen: dict[str, Any] = {"strides": [draw.randint(1, 3) for _ in range(rank)]}
    auto_pad = draw.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto_pad.startswith("SAME"):
        chosen["strides"] = [draw.randint(1, each) for each in size]
    else:
        chosen["dilations"] = [draw.randint(1, 2) for _ in range(rank)]
    if auto_pad == "NOTSET":
        chosen["pads"] = [draw.randint(0, size[place % rank] - 1) for place in range(2 * rank)]
    return {**chosen, "auto_pad": auto_pad}


def conv_case(draw: random.Random, transposed: bool) -> Case:
    rank, group = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2])
    size = [draw.randint(1, 3) for _ in range(rank)]
    inner, outer = 2 * group, group * draw.randint(1, 2)
    kernel = (inner, outer // group, *size) if transposed else (outer, inner // group, *size)
    spatial = [draw.randint(5, 8) for _ in range(rank)]
    feeds = {"x": numbers(draw, 2, inner, *spatial), "w": numbers(draw, *kernel)}
    if draw.random() < 0.5:
        feeds["b"] = numbers(draw, outer)
    chosen = moves(draw, rank, size)
    strides = chosen["strides"]
    if transposed and draw.random() < 0.4:
        chosen["output_padding"] = [draw.randint(0, each - 1) for each in strides]
    if transposed and draw.random() < 0.3:
        chosen.pop("pads", None)
        sides = zip(spatial, strides, size, strict=True)
        chosen["output_shape"] = [
            (n - 1) * step + draw.randint(1, k + step - 1) for n, step, k in sides
        ]
        chosen.pop("dilations", None)
        chosen.pop("output_padding", None)
    return feeds, {**chosen, "group": group, "opset": draw.choice([11, 13, 22])}


def pool_case(draw: random.Random, op_type: str) -> Case:
    rank = draw.choice([1, 2, 2, 3])
    size = [draw.randint(1, 3) for _ in range(rank)]
    x = numbers(draw, 2, 3, *(draw.randint(5, 9) for _ in range(rank)))
    chosen = {**moves(draw, rank, size), "kernel_shape": size, "ceil_mode": draw.randint(0, 1)}
    chosen["opset"] = draw.choice([19, 22])
    if op_type == "AveragePool":
        chosen["count_include_pad"] = draw.randint(0, 1)
    elif op_type == "LpPool":
        chosen["p"] = draw.choice([1, 2, 3])
    else:
        x = draw.choice([x, (x * 20).astype(np.int8), np.clip(x * 20, 0, 255).astype(np.uint8)])
        chosen |= {"outputs": 2, "storage_order": draw.randint(0, 1)}
    return {"x": x}, chosen


def check(op_type: str, case: Case) -> None:
    feeds, options = case
    expected = run_onnxruntime(op_type, feeds, **options)
    found = run_node(op_type, feeds, **options)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, err_msg=str(options))


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_convolutions_agree_with_onnxruntime(op_type: str, seed: int) -> None:
    pytest.importorskip("onnxruntime")
    draw = random.Random(seed)
    feeds, options = conv_case(draw, op_type == "ConvTranspose")
    if options["auto_pad"] != "NOTSET":
        options.pop("dilations", None)
    check(op_type, (feeds, options))


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pools_agree_with_onnxruntime(op_type: str, seed: int) -> None:
    pytest.importorskip("onnxruntime")
    check(op_type, pool_case(random.Random(seed), op_type))


SYMBOLIC = {"x": ["batch", 2, "h", "w"]}


@pytest.mark.parametrize(
    ("op_type", "options"),
    [
        ("Conv", {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ("Conv", {"auto_pad": "SAME_UPPER", "strides": [2, 3], "dilations": [2, 1]}),
        ("ConvTranspose", {"strides": [2, 2], "output_padding": [1, 0]}),
        ("ConvTranspose", {"strides": [2, 2], "output_shape": [15, 12]}),
        ("MaxPool", {"auto_pad": "SAME_LOWER", "strides": [2, 2], "outputs": 2}),
        ("MaxPool", {"ceil_mode": 1, "strides": [2, 2], "pads": [1, 1, 0, 0], "outputs": 2}),
        ("AveragePool", {"ceil_mode": 1, "strides": [3, 2], "pads": [1, 0, 1, 0]}),
        ("AveragePool", {"auto_pad": "SAME_UPPER", "strides": [2, 2], "count_include_pad": 1}),
        ("LpPool", {"strides": [2, 1]}),
        ("GlobalAveragePool", {}),
    ],
)
def test_sizes_known_only_while_running_give_the_same(
    op_type: str, options: dict[str, Any]
) -> None:
    draw = random.Random(7)
    feeds = {"x": numbers(draw, 2, 2, 7, 6)}
    if "Conv" in op_type:
        feeds["w"] = numbers(draw, 2, 2, 2, 3)
    elif not op_type.startswith("Global"):
        options = {**options, "kernel_shape": [2, 3]}
    fixed = run_node(op_type, feeds, **options)
    open_ = run_node(op_type, feeds, dims=SYMBOLIC, **options)
    for left, right in zip(fixed, open_, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_low_precision_convolution_rounds_once(dtype: Any) -> None:
    draw = random.Random(3)
    wide = {"x": numbers(draw, 1, 8, 5), "w": numbers(draw, 2, 8, 3), "b": numbers(draw, 2)}
    feeds = {name: array.astype(dtype) for name, array in wide.items()}
    exact = {name: array.astype(np.float32) for name, array in feeds.items()}
    (y,), (expected,) = run_node("Conv", feeds, opset=22), run_node("Conv", exact, opset=22)
    np.testing.assert_array_equal(y, expected.astype(dtype))


def test_the_position_of_a_least_element_is_never_in_the_padding() -> None:
    x = np.zeros((1, 1, 3), np.uint8)
    y, at = run_node("MaxPool", {"x": x}, kernel_shape=[3], pads=[1, 1], outputs=2)
    assert y.tolist() == [[[0, 0, 0]]]
    assert at.tolist() == [[[0, 0, 1]]]


def test_positions_lead_back_through_max_unpool() -> None:
    x = numbers(random.Random(5), 2, 3, 4, 6)
    y, at = run_node("MaxPool", {"x": x}, kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    (back,) = run_node("MaxUnpool", {"y": y, "at": at}, kernel_shape=[2, 2], strides=[2, 2])
    assert back.shape == x.shape
    np.testing.assert_array_equal(back[back != 0], x[back != 0])
    assert np.count_nonzero(back) == y.size


def test_columns_of_an_image_add_up_where_blocks_overlap() -> None:
    columns = np.ones((1, 4, 4), np.int64)
    feeds = {"c": columns, "i": np.array([3, 3]), "b": np.array([2, 2])}
    (y,) = run_node("Col2Im", feeds)
    assert y.dtype == np.int64
    assert y[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


@pytest.mark.parametrize(
    ("op_type", "options", "says"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "auto_pad": "SAME"}, "auto_pad"),
        ("MaxPool", {"kernel_shape": [2]}, "kernel_shape"),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [0, 1]}, "strides"),
        ("LpPool", {"kernel_shape": [2, 2], "pads": [1, 1]}, "pads"),
    ],
)
def test_impossible_windows_are_refused(op_type: str, options: dict[str, Any], says: str) -> None:
    feeds = {"x": np.zeros((1, 1, 4, 4), np.float32)}
    with pytest.raises(ModelError, match=says):
        run_node(op_type, feeds, **options)


def test_a_kernel_of_another_size_than_kernel_shape_is_refused() -> None:
    feeds = {"x": np.zeros((1, 1, 4), np.float32), "w": np.zeros((1, 1, 3), np.float32)}
    with pytest.raises(BurnxError, match="kernel_shape"):
        run_node("Conv", feeds, kernel_shape=[2])


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool", "Conv"])
@pytest.mark.parametrize(
    ("length", "options", "count"),
    [
        (3, {}, 0),  # it lacks one stride: there are no whole windows, as onnxruntime says
        (2, {}, None),
        (1, {"strides": [2]}, None),
        (0, {}, None),
        (2, {"pads": [1, 1]}, 1),
        (3, {"strides": [2]}, None),  # onnxruntime's division makes a window of what is not there
    ],
)
def test_a_window_fits_into_its_axis(
    op_type: str, length: int, options: dict[str, Any], count: int | None
) -> None:
    feeds = {"x": np.ones((1, 1, length), np.float32)}
    if op_type == "Conv":
        feeds["w"] = np.ones((1, 1, 4), np.float32)
    attributes = {"kernel_shape": [4], "opset": 22, **options}
    if count is None:
        with pytest.raises(BurnxError, match="a window fits into its axis and padding.*" + op_type):
            run_node(op_type, feeds, **attributes)
    else:
        assert run_node(op_type, feeds, **attributes)[0].shape == (1, 1, count)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_a_part_of_a_window_is_one_of_less_than_a_stride(op_type: str) -> None:
    attributes = {"kernel_shape": [4], "ceil_mode": 1, "strides": [2], "opset": 22}
    for length, count in ((1, None), (2, 0), (3, 1)):
        feeds = {"x": np.ones((1, 1, length), np.float32)}
        if count is None:
            with pytest.raises(BurnxError, match="fits into its axis"):
                run_node(op_type, feeds, **attributes)
        else:
            found = run_node(op_type, feeds, **attributes)[0]
            assert found.tolist() == [[[1.0] * count]]
            np.testing.assert_array_equal(found, run_onnxruntime(op_type, feeds, **attributes)[0])


def test_a_window_has_a_size() -> None:
    with pytest.raises(ModelError, match="at least 1 for each of 1 axes"):
        run_node("MaxPool", {"x": np.ones((1, 1, 3), np.float32)}, kernel_shape=[0])
