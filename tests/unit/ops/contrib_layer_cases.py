"""Cases of the other operators of com.microsoft that onnxruntime computes on the cpu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.unit.ops.contrib_models import Array, Case, ints, numbers

RNG = np.random.default_rng(2)
Inputs = Mapping[str, Array | None]


def case(op: str, *inputs: Array | None, outputs: int = 1, given: Any = None, **more: Any) -> Case:
    return Case(op, {f"x{n}": x for n, x in enumerate(inputs)}, given or {}, outputs, **more)


def longs(*values: Any) -> Array:
    return np.array(values, np.int64)


def bits(*shape: int) -> Array:
    return (RNG.integers(0, 3, shape) > 0).astype(np.int32)


X, BYTES = numbers(2, 3, 4), RNG.integers(-100, 100, (2, 6, 7, 3)).astype(np.int8)
OLDER = [
    case("TransposeMatMul", X, numbers(2, 5, 3), given={"transA": 1, "transB": 1, "alpha": 0.5}),
    case("FusedMatMul", X.astype(np.float64), numbers(2, 4, 5, dtype=np.float64)),
    *(case("Trilu", X, given={"upper": upper}) for upper in (0, 1)),
    *(case("Trilu", X, np.array(1), given={"upper": upper}, name="k") for upper in (0, 1)),
    case("Unique", np.array([2, 1, 1, 3, 4, 3], np.float32), outputs=3),
    *(case("ExpandDims", X, np.array(axis, np.int32)) for axis in (0, 1, -1, -4, 3)),
    *(
        case("GridSample", numbers(1, 2, 4, 5), numbers(1, 3, 3, 2), given=given)
        for given in (
            {"mode": "bilinear", "padding_mode": "zeros"},
            {"mode": "nearest", "padding_mode": "border", "align_corners": 1},
            {"mode": "bicubic", "padding_mode": "reflection"},
        )
    ),
    *(
        case("Pad", X[0], longs(1, 0, 1, 2), given={"mode": mode})
        for mode in ("constant", "reflect", "edge")
    ),
    case("Pad", X[0], longs(1, 0, -1, 2), np.array(2.5, np.float32), name="cut"),
    case("Pad", X[0], longs([1, 0, 1, 2]), np.array([2.5], np.float32), name="row"),
    *(
        case("Range", *(np.array(each, dtype) for each in (1, 9, 3)), name=np.dtype(dtype).name)
        for dtype in (np.int16, np.int32, np.int64, np.float32, np.float64)
    ),
    case("Range", ints(1), ints(5), name="without-step"),
    case("GatherND", X, ints([0, 1], [1, 2])),
    case("GatherND", X, longs([[0]], [[1]])),
    case("SampleOp", X),
    case("UnfoldTensor", numbers(3, 7, 2), given={"dim": 1, "size": 3, "step": 2}),
]
ROIS = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.3, 0.2, 1.2, 0.4]], np.float32)
IMAGES = [
    *(
        case(
            "CropAndResize",
            numbers(2, 3, 5, 6),
            ROIS,
            ints(0, 1, 1),
            ints(*size),
            given={"mode": mode, "extrapolation_value": -1.5},
            name=f"{mode}-{size}",
        )
        for mode in ("bilinear", "nearest")
        for size in ((3, 4), (1, 1), (2, 1))
    ),
    *(
        case("NhwcMaxPool", data, given={"kernel_shape": [3, 2], **given})
        for data, given in (
            (BYTES, {}),
            (BYTES.view(np.uint8), {"strides": [2, 1], "pads": [1, 0, 0, 1]}),
            (BYTES, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            (BYTES, {"dilations": [2, 1]}),
            (BYTES, {"strides": [2, 2], "ceil_mode": 1}),
        )
    ),
    case(
        "MaxpoolWithMask",
        numbers(2, 3, 9),
        bits(1, 1, 9),
        given={"kernel_shape": [3], "strides": [2], "pads": [1, 1]},
    ),
    case(
        "MaxpoolWithMask",
        numbers(2, 3, 6, 5),
        bits(1, 1, 6, 5),
        given={"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]},
    ),
]
WORDS = np.array(["", "a", "abc", "abcd", "hello world", "日本"], object)
NUMBERS = [
    case("Inverse", numbers(2, 4, 4), rtol=1e-3, atol=1e-4),
    case("Inverse", numbers(3, 3, dtype=np.float64)),
    *(
        case(
            "CDist", numbers(4, 3, dtype=kind), numbers(5, 3, dtype=kind), given={"metric": metric}
        )
        for kind in (np.float32, np.float64)
        for metric in ("sqeuclidean", "euclidean")
    ),
    *(
        case(
            "MurmurHash3",
            (np.array([0, 1, 70, 12345]) * (1 if kind == np.uint32 else 1.0)).astype(kind),
            given={"positive": positive, "seed": 7},
            name=f"{np.dtype(kind).name}-{positive}",
        )
        for kind in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64)
        for positive in (0, 1)
    ),
    *(case("MurmurHash3", WORDS, given={"positive": 1 - n, "seed": n}) for n in (0, 1)),
    case("MatMulInteger16", *((numbers(*s) * 500).astype(np.int16) for s in ((2, 3), (3, 4)))),
    case("ScaledSiLU", X, given={"alpha": 0.5}),
    case("ScaledSiLU", X.astype(np.float16), np.array(2, np.float32), rtol=2e-3),
]


def norms(dtype: Any, tolerance: float) -> list[Case]:
    def given(*shape: int) -> Array:
        return numbers(*shape, dtype=dtype)

    near: dict[str, Any] = {"rtol": tolerance, "atol": tolerance, "name": np.dtype(dtype).name}
    both: dict[str, Any] = {"outputs": 4, "compared": (0, 3), **near}
    simple = "SimplifiedLayerNormalization"
    return [
        case("SkipLayerNormalization", *(given(2, 3, 8),) * 2, *(given(8) for _ in "gbe"), **both),
        case(
            "SkipLayerNormalization",
            given(2, 3, 8),
            given(1, 3, 8),
            given(8),
            given(8),
            given={"epsilon": 0.1},
            **near,
        ),
        case("SkipLayerNormalization", given(2, 8), given(2, 8), given(8), None, given(8), **near),
        case(f"Skip{simple}", given(2, 3, 8), given(3, 8), given(8), given(8), **both),
        case(f"Skip{simple}", given(2, 8), given(2, 8), given(8), **both),
        case(simple, given(2, 3, 8), given(8), given={"epsilon": 1e-3}, domain="", **near),
        case(simple, given(2, 3, 8), given(3, 8), outputs=2, given={"axis": 1}, domain="", **near),
    ]


WORDS_OF = ints([1, 0, 3], [2, 2, 1])


def embed(outputs: int, *rest: Array | None, given: Any = None, parts: bool = True) -> Case:
    tables = (
        numbers(4, 8),
        numbers(6, 8),
        numbers(2, 8) if parts else None,
        numbers(8),
        numbers(8),
    )
    inputs = (WORDS_OF, WORDS_OF % 2 if parts else None, *tables, *rest)
    return case("EmbedLayerNormalization", *inputs, outputs=outputs, given=given)


NORMS = [
    *norms(np.float32, 1e-4),
    *norms(np.float16, 5e-3),
    embed(3, ints([1, 1, 0], [1, 1, 1])),
    embed(3, None, ints([2, 1, 0], [5, 4, 3])),
    embed(2, None, ints([2, 1, 0]), given={"epsilon": 0.1}),
    embed(2, ints([0, 1, 1], [1, 0, 1]), given={"mask_index_type": 1}, parts=False),
]
ACTIVATED = [
    *(
        case(
            "FusedConv",
            numbers(1, 4, 5, 5),
            numbers(4, 4, 3, 3),
            numbers(4),
            numbers(1, 4, 3, 3),
            given={"activation": name, **({"activation_params": list(rest)} if rest else {})},
        )
        for name, *rest in (("Tanh",), ("LeakyRelu", 0.2), ("Clip", -0.5, 0.5))
    ),
    *(
        case(
            "FusedGemm",
            numbers(3, 2),
            numbers(3, 4),
            numbers(4),
            given={
                "activation": name,
                "activation_alpha": 0.3,
                "activation_beta": 0.6,
                "activation_gamma": 1.1,
                "transA": 1,
            },
        )
        for name in [
            "Elu",
            "HardSigmoid",
            "Selu",
            "ScaledTanh",
            "ParametricSoftplus",
            "ThresholdedRelu",
        ]
    ),
]


def linear(rule: str, given: Any = None, **inputs: Array | None) -> Case:
    base: dict[str, Array | None] = {
        "q": numbers(2, 5, 8),
        "k": numbers(2, 5, 8) * 0.4,
        "v": numbers(2, 5, 6),
        "state": None,
        "decay": -np.abs(numbers(2, 5, 2)) if "gated" in rule else None,
        "rate": np.abs(numbers(2, 5, 2)) * 0.3 if "delta" in rule else None,
    }
    attributes = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule, **(given or {})}
    return Case("LinearAttention", {**base, **inputs}, attributes, 2)


def causal(given: Any = None, **inputs: Array | None) -> Case:
    base = {"x": numbers(2, 3, 6), "w": numbers(3, 1, 4), "b": numbers(3), "state": None}
    return Case("CausalConvWithState", {**base, **inputs}, given or {}, 2)


RECURRENT = [
    *(linear(rule) for rule in ("linear", "gated", "delta", "gated_delta")),
    linear("gated_delta", state=numbers(2, 2, 4, 3)),
    linear("gated", decay=-np.abs(numbers(2, 5, 8))),
    linear("linear", {"scale": 0.3, "q_num_heads": 4}, q=numbers(2, 5, 16)),
    linear("linear", {"q_num_heads": 1}, q=numbers(2, 5, 4)),
    causal(),
    causal({"activation": "silu"}, state=numbers(2, 3, 3)),
    causal({"dilation": 2}, state=numbers(2, 3, 6)),
    causal({"channels_last": 1}, x=numbers(2, 6, 3), state=numbers(2, 3, 3)),
    causal(
        {"channels_last": 1},
        x=numbers(2, 6, 3, 2),
        w=numbers(6, 1, 4),
        b=numbers(6),
        state=numbers(2, 3, 3, 2),
    ),
]
CASES = [*OLDER, *IMAGES, *NUMBERS, *NORMS, *ACTIVATED, *RECURRENT]
