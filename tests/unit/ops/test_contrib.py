"""The operators of com.microsoft against onnxruntime, with every size known only while running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ValueInfoProto, helper

import burnx
from burnx.errors import ModelError

RNG = np.random.default_rng(11)
IDS = RNG.integers(0, 4, (2, 3)).astype(np.int32)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def whole(dtype: Any, *shape: int) -> np.ndarray:
    return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def small(*shape: int) -> np.ndarray:
    """Seven bits, which no processor saturates on the way in a sum of two products."""
    return RNG.integers(-64, 64, shape, np.int8)


def one(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


QUANTIZED = {
    "a": whole(np.uint8, 2, 3),
    "as": one(0.1),
    "az": one(120, np.uint8),
    "b": whole(np.uint8, 3),
    "bs": one(0.07),
    "bz": one(9, np.uint8),
    "cs": one(0.3),
    "cz": one(100, np.uint8),
}
# op, inputs ("" prefix: a placeholder for one that is left out), outputs, attributes
CASES: list[tuple[str, Mapping[str, np.ndarray | None], int, dict[str, Any]]] = [
    ("Gelu", {"x": numbers(2, 5)}, 1, {}),
    ("BiasGelu", {"x": numbers(2, 5), "b": numbers(5)}, 1, {}),
    ("FastGelu", {"x": numbers(2, 5)}, 1, {}),
    ("FastGelu", {"x": numbers(2, 5), "b": numbers(5)}, 1, {}),
    ("QuickGelu", {"x": numbers(2, 5)}, 1, {"alpha": 1.3}),
    ("FusedMatMul", {"a": numbers(2, 4, 3), "b": numbers(2, 4, 5)}, 1, {"transA": 1, "alpha": 0.5}),
    ("FusedMatMul", {"a": numbers(2, 3, 4), "b": numbers(5, 4)}, 1, {"transB": 1}),
    (
        "FusedMatMul",
        {"a": numbers(4, 2, 3, 5), "b": numbers(6, 2, 3, 5)},
        1,
        {"transBatchA": 1, "transBatchB": 1, "transB": 1, "alpha": 0.5},
    ),
    (
        "FusedMatMul",
        {"a": numbers(5, 2, 4), "b": numbers(5, 2, 6)},
        1,
        {"transBatchA": 1, "transBatchB": 1, "transA": 1},
    ),
    *(
        (
            "FusedConv",
            {"x": numbers(1, 4, 5, 5), "w": numbers(4, 2, 3, 3), "b": numbers(4)},
            1,
            each,
        )
        for each in (
            {"activation": "Relu", "group": 2, "pads": [1, 0, 1, 0]},
            {"activation": "Clip", "activation_params": [0.0, 6.0], "group": 2},
            {"activation": "LeakyRelu", "activation_params": [0.3], "group": 2},
            {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "group": 2},
        )
    ),
    *(
        ("FusedGemm", {"a": numbers(2, 4), "b": numbers(4, 3), "c": numbers(3)}, 1, each)
        for each in (
            {"activation": "Softplus", "beta": 0.5},
            {"activation": "Elu", "activation_alpha": 0.7},
            {"activation": "Tanh", "alpha": 0.5},
        )
    ),
    *(
        (
            "QGemm",
            {
                "a": whole(np.uint8, 2, 4),
                "as": one(0.1),
                "az": one(120, np.uint8),
                "b": small(4, 3),
                "bs": one(0.07),
                "bz": one(3, np.int8),
                "c": np.array([10, -400, 7], np.int32),
                **output,
            },
            1,
            {"alpha": 1.0},
        )
        for output in ({}, {"cs": one(2.0), "cz": one(100, np.uint8)})
    ),
    (
        "QLinearAveragePool",
        {
            "a": whole(np.uint8, 1, 2, 5, 5),
            **{k: QUANTIZED[k] for k in ("as", "az")},
            "cs": one(0.371),
            "cz": one(100, np.uint8),
        },
        1,
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    (
        "QLinearGlobalAveragePool",
        {
            "a": whole(np.uint8, 1, 2, 5, 5),
            **{k: QUANTIZED[k] for k in ("as", "az")},
            "cs": one(0.371),
            "cz": one(100, np.uint8),
        },
        1,
        {},
    ),
    *(
        (
            "QLinearSoftmax",
            {
                "a": whole(np.uint8, 2, 3, 4),
                "as": one(0.02),
                "az": one(120, np.uint8),
                "cs": one(1 / 256),
                "cz": one(0, np.uint8),
            },
            1,
            {"axis": axis, "opset": opset},
        )
        for axis, opset in ((-1, 17), (1, 11))
    ),
    (
        "SkipLayerNormalization",
        {"x": numbers(2, 3, 8), "s": numbers(2, 3, 8), "g": numbers(8), "b": numbers(8)},
        1,
        {"epsilon": 1e-5},
    ),
    (
        "SkipLayerNormalization",
        {"x": numbers(2, 3, 8), "s": numbers(3, 8), "g": numbers(8), "b": None, "e": numbers(8)},
        4,
        {},
    ),
    (
        "SkipSimplifiedLayerNormalization",
        {"x": numbers(2, 3, 8), "s": numbers(2, 3, 8), "g": numbers(8)},
        4,
        {},
    ),
    (
        "EmbedLayerNormalization",
        {
            "ids": IDS,
            "segments": IDS % 2,
            "words": numbers(4, 8),
            "places": numbers(6, 8),
            "parts": numbers(2, 8),
            "g": numbers(8),
            "b": numbers(8),
            "mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
        },
        2,
        {},
    ),
    (
        "EmbedLayerNormalization",
        {
            "ids": IDS,
            "segments": None,
            "words": numbers(4, 8),
            "places": numbers(6, 8),
            "parts": None,
            "g": numbers(8),
            "b": numbers(8),
        },
        2,
        {},
    ),
    (
        "MatMulNBits",
        {"a": numbers(2, 40), "b": whole(np.uint8, 5, 3, 8), "s": numbers(5, 3)},
        1,
        {"K": 40, "N": 5, "bits": 4, "block_size": 16},
    ),
    (
        "MatMulNBits",
        {
            "a": numbers(2, 3, 48),
            "b": whole(np.uint8, 5, 3, 8),
            "s": numbers(5, 3),
            "z": whole(np.uint8, 5, 2),
        },
        1,
        {"K": 48, "N": 5, "bits": 4, "block_size": 16},
    ),
    (
        "MatMulNBits",
        {"a": numbers(2, 32), "b": whole(np.uint8, 5, 2, 16), "s": numbers(5, 2)},
        1,
        {"K": 32, "N": 5, "bits": 8, "block_size": 16},
    ),
    (
        "MatMulIntegerToFloat",
        {
            "a": whole(np.uint8, 2, 3, 4),
            "b": small(4, 5),
            "as": one(0.1),
            "bs": numbers(5),
            "az": one(120, np.uint8),
            "bz": small(5),
            "bias": numbers(5),
        },
        1,
        {},
    ),
    (
        "DynamicQuantizeMatMul",
        {
            "a": numbers(2, 3, 4),
            "b": small(4, 5),
            "s": one(0.1),
            "z": one(3, np.int8),
            "bias": numbers(5),
        },
        1,
        {},
    ),
    ("QLinearAdd", QUANTIZED, 1, {}),
    ("QLinearMul", QUANTIZED, 1, {}),
    ("QLinearConcat", {k: QUANTIZED[k] for k in ("cs", "cz", "a", "as", "az")}, 1, {"axis": 0}),
    ("QLinearSigmoid", {k: QUANTIZED[k] for k in ("a", "as", "az", "cs", "cz")}, 1, {}),
    ("QLinearLeakyRelu", {k: QUANTIZED[k] for k in ("a", "as", "az", "cs", "cz")}, 1, {}),
]
# inputs whose sizes onnxruntime wants to know
SIZED = {
    "MatMulNBits": ("b", "s", "z"),
    "EmbedLayerNormalization": ("words", "places", "parts", "g", "b"),
}


def model_of(
    op: str, inputs: Mapping[str, np.ndarray | None], outputs: int, attributes: dict[str, Any]
) -> tuple[Any, dict[str, np.ndarray]]:
    feeds = {name: array for name, array in inputs.items() if array is not None}
    infos = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            array.shape
            if name in SIZED.get(op, ())
            else [f"{name}_{n}" for n in range(array.ndim)],
        )
        for name, array in feeds.items()
    ]
    names = [f"y{place}" for place in range(outputs)]
    given = [name if inputs[name] is not None else "" for name in inputs]
    node = helper.make_node(op, given, names, domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", infos, [ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), feeds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_is_onnxruntimes(case: Any) -> None:
    model, feeds = model_of(*case)
    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    ours = list(burnx.load(model, device="reference").run(feeds).values())
    for place, (got, want) in enumerate(zip(ours, session.run(None, feeds), strict=True)):
        if want.size == 0 or (place in (1, 2) and "Skip" in case[0]):
            continue  # onnxruntime leaves the mean and deviation of Skip* undefined on the CPU
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("FusedGemm", {"activation": "Sine"}, 'not "Sine"'),
        ("MatMulNBits", {"K": 4, "N": 5, "bits": 3, "block_size": 16}, "not 3"),
    ],
)
def test_what_is_not_done_is_refused(op: str, attributes: dict[str, Any], message: str) -> None:
    inputs = {"a": numbers(2, 4), "b": whole(np.uint8, 5, 1, 6), "s": numbers(5, 1)}
    if op == "FusedGemm":
        inputs = {"a": numbers(2, 4), "b": numbers(4, 3)}
    model, feeds = model_of(op, inputs, 1, attributes)
    with pytest.raises(ModelError, match=message):
        burnx.load(model, device="reference").run(feeds)
