"""Recipes of com.microsoft."""

from __future__ import annotations

from burnx.conformance.cases.recipe import Recipe

_MS = "com.microsoft."


def _ms(operators: str, inputs: str, **settings: object) -> list[Recipe]:
    return [Recipe(_MS + name, inputs, **settings) for name in operators.split()]  # type: ignore[arg-type]


_EIGHT_BITS = dict.fromkeys(("T", "T1", "T2", "T8", "TA", "TB", "TV", "TY", "TYZ"), "tensor(uint8)")
_ONE = "2x3 below 9 | =0.5 | =1"

RECIPES = [
    *_ms("Gelu QuickGelu FastGelu", "2x3"),
    *_ms("BiasGelu FastGelu", "2x3 | 3", name="bias"),
    *_ms("FusedMatMul TransposeMatMul", "2x3 | 4x3", attributes={"transB": 1, "alpha": 0.5}),
    *_ms("FusedConv", "1x2x4x4 | 3x2x3x3 | 3", attributes={"activation": "Relu"}),
    *_ms(
        "FusedGemm",
        "2x3 | 3x4 | 4",
        attributes={"activation": "LeakyRelu", "activation_alpha": 0.5},
    ),
    *_ms("SkipLayerNormalization", "1x2x4 distinct | 1x2x4 | 4 | 4 | 4"),
    *_ms("SkipSimplifiedLayerNormalization", "1x2x4 distinct | 1x2x4 | 4 | 4"),
    *_ms(
        "EmbedLayerNormalization",
        "1x3 below 4 | 1x3 below 2 | 4x4 | 5x4 | 2x4 | 4 | 4",
        types={"T1": "tensor(int32)"},
    ),
    *_ms(
        "MatMulNBits",
        "2x32 | 3x2x8 below 256 | 6 positive",
        attributes={"N": 3, "K": 32, "block_size": 16, "bits": 4},
    ),
    *_ms(
        "MatMulNBits",
        "2x32 | 3x2x8 below 256 | 6 positive | 3x1 below 256",
        types={"T3": "tensor(uint8)"},
        only={"T3": ("uint8",)},
        attributes={"N": 3, "K": 32, "block_size": 16, "bits": 4},
        name="zero",
    ),
    *_ms(
        "MatMulNBits",
        "2x32 | 3x2x8 below 256 | 6 positive | 6 positive",
        tied={"T3": "T1", "T1": "T3"},
        only={"T3": ("float", "float16", "bfloat16")},
        attributes={"N": 3, "K": 32, "block_size": 16, "bits": 4},
        name="floats",
    ),
    *_ms(
        "MatMulNBits",
        "2x32 | 3x2x8 below 256 | 6 positive | - | =" + str([0] * 16 + [1] * 16),
        attributes={"N": 3, "K": 32, "block_size": 16, "bits": 4},
        name="groups",
    ),
    *_ms(
        "QLinearAdd QLinearMul", f"{_ONE} | 3 below 9 | =0.25 | =2 | =0.7 | =3", types=_EIGHT_BITS
    ),
    *_ms("QLinearLeakyRelu", f"{_ONE} | =0.3 | =3", attributes={"alpha": 0.1}, types=_EIGHT_BITS),
    *_ms("QLinearSigmoid", f"{_ONE} | =0.0078125 | =3", types=_EIGHT_BITS),
    *_ms(
        "QLinearSoftmax", f"{_ONE} | =0.0078125 | =3", attributes={"opset": 13}, types=_EIGHT_BITS
    ),
    *_ms(
        "QLinearConcat",
        "=0.5 | =1 | 2x2 below 9 | =0.5 @float | =1 | 2x1 below 9 | =0.25 @float | =0",
        attributes={"axis": 1},
        types=_EIGHT_BITS,
        tied={"T8": "TV"},
        only={"TV": ("uint8", "int8"), "T8": ()},
    ),
    *_ms(
        "QLinearAveragePool",
        "1x1x4x4 below 9 | =0.5 | =1 | =0.3 | =3",
        attributes={"kernel_shape": [2, 2]},
        types=_EIGHT_BITS,
    ),
    *_ms("QLinearGlobalAveragePool", "1x2x3x3 below 9 | =0.5 | =1 | =0.3 | =3", types=_EIGHT_BITS),
    *_ms(
        "QGemm",
        "2x3 below 9 | =0.5 | =1 | 3x4 below 9 | =0.25 | =2 | =[0, 1, 2, 3] | =0.7 | =3",
        types=_EIGHT_BITS,
        attributes={"alpha": 1.0},
        tied={"TY": "TYZ"},
    ),
    *_ms(
        "QGemm",
        "2x3 below 9 | =0.5 | =1 | 3x4 below 9 | =0.25 | =2 | =[0, 1, 2, 3]",
        types=_EIGHT_BITS | {"TY": "tensor(float)"},
        name="float",
    ),
    *_ms(
        "DynamicQuantizeMatMul",
        "2x3 | 3x4 below 9 | =0.25 | =2",
        types=_EIGHT_BITS | {"T1": "tensor(float)"},
    ),
    *_ms(
        "MatMulIntegerToFloat",
        "2x3 below 9 | 3x4 below 9 | =0.5 | =0.25 | =1 | =2",
        types=_EIGHT_BITS,
    ),
]
