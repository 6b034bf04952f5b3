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
        attributes={"activation": "Relu"},
    ),
    *_ms("SkipLayerNormalization", "1x2x4 distinct | 1x2x4 | 4 | 4 | 4"),
    *_ms("SkipSimplifiedLayerNormalization", "1x2x4 distinct | 1x2x4 | 4 | 4"),
    *_ms(
        "EmbedLayerNormalization",
        "1x3 below 4 | 1x3 below 2 | 4x4 | 5x4 | 2x4 | 4 | 4",
        types={"T1": "tensor(int32)"},
        outputs=2,
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
        "QLinearAdd QLinearMul", f"{_ONE} | 3 below 9 | =0.25 | =2 | =0.71 | =3", types=_EIGHT_BITS
    ),
    *_ms("QLinearLeakyRelu", f"{_ONE} | =0.31 | =3", attributes={"alpha": 0.1}, types=_EIGHT_BITS),
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
        "1x1x4x4 below 9 | =0.5 | =1 | =0.31 | =3",
        attributes={"kernel_shape": [2, 2]},
        types=_EIGHT_BITS,
    ),
    *_ms(
        "QLinearAveragePool",
        "1x1x5x5 below 9 | =0.5 | =1 | =0.31 | =3",
        attributes={
            "kernel_shape": [3, 3],
            "strides": [2, 2],
            "pads": [1, 1, 0, 0],
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
        types=_EIGHT_BITS,
        name="ceil",
    ),
    *_ms("QLinearGlobalAveragePool", "1x2x3x3 below 9 | =0.5 | =1 | =0.31 | =3", types=_EIGHT_BITS),
    *_ms(
        "QGemm",
        "2x3 below 9 | =0.5 | =1 | 3x4 below 9 | =0.25 | =2 | =[0, 1, 2, 3] | =0.71 | =3",
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
    # attention and what stands around it
    *_ms("Attention", "1x3x4 unit | 4x12 unit | 12 unit", attributes={"num_heads": 2}, outputs=1),
    *_ms(
        "Attention",
        "2x3x4 unit | 4x12 unit | 12 unit | =[3, 2]",
        attributes={"num_heads": 2, "unidirectional": 1},
        outputs=1,
        name="mask",
    ),
    *_ms(
        "MultiHeadAttention",
        "1x3x4 unit | 1x5x4 unit | 1x5x4 unit | 12 unit",
        attributes={"num_heads": 2},
        outputs=1,
    ),
    *_ms(
        "MultiHeadAttention",
        "1x3x4 unit | 1x5x4 unit | 1x5x4 unit | - | =[[1, 1, 1, 0, 0]] | 1x2x3x5 unit",
        attributes={"num_heads": 2},
        outputs=1,
        name="mask",
    ),
    *_ms(
        "DecoderMaskedMultiHeadAttention",
        "1x1x4 unit | 1x2x5x2 unit | 1x2x5x2 unit",
        attributes={"num_heads": 2},
        outputs=1,
    ),
    *_ms(
        "GroupQueryAttention",
        "1x3x16 unit | 1x3x8 unit | 1x3x8 unit | - | - | =[2] | =3",
        attributes={"num_heads": 2, "kv_num_heads": 1},
        outputs=3,
        types={"T": "tensor(float)", "T_CACHE": "tensor(float)"},
        tied={"T_CACHE": "T"},
    ),
    *_ms(
        "GroupQueryAttention",
        "1x1x16 unit | 1x1x8 unit | 1x1x8 unit | 1x1x4x8 unit | 1x1x4x8 unit | =[4] | =5 | 8x4 unit | 8x4 unit",
        attributes={"num_heads": 2, "kv_num_heads": 1, "do_rotary": 1},
        outputs=3,
        types={"T_CACHE": "tensor(float)"},
        tied={"T_CACHE": "T", "T": "T_CACHE"},
        only={"T_CACHE": ("float", "float16", "bfloat16")},
        name="cache",
    ),
    *_ms("RotaryEmbedding", "1x2x3x4 unit | =[[0, 1, 3]] | 5x2 unit | 5x2 unit"),
    *_ms(
        "GemmaRotaryEmbedding",
        "1x3x4 unit | 1x2x3x4 unit | 1x2x3x4 unit | 1x2x3x4 unit | 1x2x3x4 unit",
        outputs=2,
    ),
    *_ms("RelativePositionBias", "8x2 unit | =3 | =5", attributes={"max_distance": 16}),
    *_ms(
        "GatedRelativePositionBias",
        "1x3x4 unit | 4 unit | 1x2x3x3 unit | 2x8 unit | 8 unit | 1x2x1x1 unit",
        attributes={"num_heads": 2},
    ),
    *_ms("CausalConvWithState", "1x2x4 | 2x1x3 | 2 | 1x2x2", outputs=2),
    *_ms(
        "CausalConvWithState",
        "1x4x4 | 2x1x3 | 2 | 1x2x2",
        attributes={"input_channels": 2, "input_channel_offset": 1},
        outputs=2,
        name="slices",
    ),
    *_ms(
        "LinearAttention",
        "1x3x4 unit | 1x3x4 unit | 1x3x4 unit",
        attributes={"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"},
        outputs=2,
        tied={"S": "T", "T": "S"},
    ),
    # layers
    *_ms(
        "DynamicQuantizeLSTM",
        "2x1x4 unit | 1x4x12 below 9 | 1x3x12 below 9 | 1x24 unit | - | - | - | - | =[0.1] | =[2] | =[0.1] | =[2]",
        attributes={"hidden_size": 3},
        outputs=3,
        types=_EIGHT_BITS | {"T": "tensor(float)"},
    ),
    *_ms(
        "QAttention",
        "1x3x4 below 9 | 4x12 below 9 | 12 unit | =0.1 | =0.1 | - | =2 | =1",
        attributes={"num_heads": 2},
        outputs=1,
        types=_EIGHT_BITS,
    ),
    *_ms("NhwcMaxPool", "1x4x4x2 below 9", attributes={"kernel_shape": [2, 2]}, types=_EIGHT_BITS),
    *_ms(
        "NhwcMaxPool",
        "1x7x4x2 below 9",
        attributes={
            "kernel_shape": [2, 1],
            "dilations": [2, 1],
            "strides": [2, 1],
            "auto_pad": "SAME_UPPER",
        },
        types=_EIGHT_BITS,
        name="same",
    ),
    *_ms("NhwcConv NhwcFusedConv", "1x4x4x2 | 3x2x3x3 | 3", attributes={"activation": "Relu"}),
    *_ms(
        "MaxpoolWithMask", "1x1x4x4 distinct | 1x1x4x4 below 2", attributes={"kernel_shape": [2, 2]}
    ),
    *_ms(
        "GroupNorm",
        "1x2x2x4 distinct | 4 | 4",
        attributes={"groups": 2, "activation": 1},
        types={"M": "tensor(float)"},
    ),
    *_ms(
        "SkipGroupNorm",
        "1x2x2x4 distinct | 4 | 4 | 1x2x2x4 | 4",
        attributes={"groups": 2, "activation": 1},
        outputs=2,
    ),
    *_ms("BiasAdd", "1x4x4 | 4 | 1x4x4"),
    *_ms("BiasSplitGelu", "1x2x8 | 8"),
    *_ms("BiasSoftmax", "2x3x4 distinct | 1x3x4", attributes={"axis": 2, "is_inner_broadcast": 0}),
    *_ms("GemmFastGelu", "2x3 | 3x4 | 4"),
    *_ms("ScaledSiLU", "2x3", attributes={"alpha": 0.5}),
    *_ms("SwiGLU", "2x3 | 2x3"),
    *_ms("SimplifiedLayerNormalization", "2x3x4 distinct | 4", tied={"V": "T"}),
    *_ms("TorchEmbedding", "4x3 | 2x2 below 4"),
    # the rest, by what it does
    *_ms("QuantizeLinear", "2x3 | =0.5 | =0", types={"T2": "tensor(uint8)"}),
    *_ms("DequantizeLinear", "2x3 below 8 | =0.5 | =1", types={"T1": "tensor(uint8)"}),
    *_ms(
        "QLinearConv",
        "1x1x3x3 below 8 | =0.5 | =1 | 1x1x2x2 below 8 | =0.25 | =2 | =0.71 | =3 | =[1]",
        types={"T1": "tensor(uint8)", "T2": "tensor(uint8)", "T3": "tensor(uint8)"},
    ),
    *_ms(
        "QLinearWhere",
        "2x3 | 2x3 below 9 | =0.5 | =1 | 2x3 below 9 | =0.25 | =2 | =0.71 | =3",
        types=_EIGHT_BITS,
    ),
    *_ms(
        "GatherBlockQuantized",
        "4x16 below 8 | =[0, 2] | 4x1 positive",
        attributes={"block_size": 16, "quantize_axis": 1},
        types={"T1": "tensor(uint4)", "Tind": "tensor(int64)"},
        only={"T1": ("int4", "uint4")},
    ),
    *_ms(
        "GatherBlockQuantized",
        "4x8 below 256 | =[0, 2] | 4x1 positive",
        attributes={"block_size": 16, "quantize_axis": 1},
        types={"T1": "tensor(uint8)", "Tind": "tensor(int64)"},
        only={"T1": ("uint8",)},
        name="bytes",
    ),
    *_ms(
        "MatMulInteger16",
        "2x3 below 8 | 3x4 below 8",
        types={"T3": "tensor(int32)"},
        only={"T1": ("int16",)},
    ),
    *_ms("MulInteger", "2x3 below 8 | =1 | 2x3 below 8 | =2", types=_EIGHT_BITS),
    *_ms(
        "ReduceSumInteger",
        "2x3 below 8",
        attributes={"axes": [1], "keepdims": 0},
        types={"T2": "tensor(int32)"},
        only={"T1": ("int8",)},
    ),
    *_ms(
        "ReduceSumInteger",
        "2x3 below 8",
        attributes={"axes": [1], "keepdims": 0},
        types={"T2": "tensor(uint32)"},
        only={"T1": ("uint8",)},
        name="unsigned",
    ),
    *_ms("Inverse", "=[[2.0, 1.0], [0.5, 1.5]]"),
    *_ms("CDist", "2x3 | 4x3", attributes={"metric": "sqeuclidean"}),
    *_ms("ComplexMul ComplexMulConj", "2x3x2 | 2x3x2"),
    *_ms("Rfft", "1x8", attributes={"signal_ndim": 1, "normalized": 0, "onesided": 1}),
    *_ms("Irfft", "1x5x2", attributes={"signal_ndim": 1, "normalized": 0, "onesided": 1}),
    *_ms("IsAllFinite", "2x3 | 2x3"),
    *_ms("SampleOp", "2x3"),
    *_ms(
        "MurmurHash3",
        "2x3",
        attributes={"positive": 0},
        types={"T1": "tensor(int32)", "T2": "tensor(int32)"},
    ),
    *_ms("Trilu", "2x3x3 | =1", attributes={"upper": 0}),
    *_ms("Pad", "2x3 | =[0, 1, 1, 0] | =1"),
    *_ms("Range", "=1 | =7 | =2"),
    *_ms("Unique", "=[2, 1, 1, 3, 2]", outputs=3),
    *_ms("ExpandDims", "2x3 | =1"),
    *_ms("CropAndResize", "1x1x4x4 | =[[0.0, 0.0, 1.0, 1.0]] | =[0] | =[2, 2]"),
    *_ms(
        "GridSample",
        "1x1x3x4 | 1x2x3x2 unit",
        attributes={"align_corners": 1},
        only={"T1": ("float", "float16", "double")},
        tied={"T2": "T1"},
    ),
    *_ms("GatherND", "3x4 | =[[0, 1], [2, 3]]", types={"Tind": "tensor(int64)"}),
    *_ms("UnfoldTensor", "2x6", attributes={"size": 3, "step": 2, "dim": 1}),
]
