"""Quantized layers, said in operators of the standard and of onnxruntime.  Not ONNX operators.

What is lifted to one of these is, run or recorded, the very operators that its body calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx.dtype import dtype_name
from burnx.ops.contrib_fused import find
from burnx.ops.kinds import T1, T2, T3, T
from burnx.ops.operator import operator
from burnx.tensor import Tensor


def _given(**attributes: Any) -> dict[str, Any]:
    """The attributes that say something."""
    return {name: value for name, value in attributes.items() if value not in (None, 0)}


def _real(
    data: Tensor, scale: Tensor | None, zero_point: Tensor | None, axis: int, block_size: int = 0
) -> Tensor:
    """What quantized numbers stand for; ``axis`` is said where they have more than one scale."""
    if scale is None:
        return data
    options = {"axis": axis} if scale.ndim and axis != 1 else {}
    real: Tensor = find("DequantizeLinear")(
        data, scale, zero_point, **options, **_given(block_size=block_size)
    )
    return real


def _scaled(data: Tensor, scale: Tensor) -> Tensor:
    real: Tensor = find("Cast")(data, to=dtype_name(scale.dtype))
    return real * scale


def _requantized(x: Tensor, scale: Tensor | None, zero_point: Tensor | None) -> Tensor:
    return x if scale is None else fake_quantize.function(x, scale, zero_point)


@operator("FakeQuantize", since=(1,), domain="burnx", composite=True)
def fake_quantize(x: T, scale: T, zero_point: T1 | None = None, *, axis: int = 1) -> T:
    """x, quantized and dequantized again: rounded to what its bytes can say."""
    options = {"axis": axis} if axis != 1 else {}
    stored = find("QuantizeLinear")(x, scale, zero_point, **options)
    real: Tensor = find("DequantizeLinear")(stored, scale, zero_point, **options)
    return real


@operator("QuantConv", since=(1,), domain="burnx", composite=True)
def quant_conv(
    x: T,
    weight: T1,
    weight_scale: T,
    weight_zero_point: T1 | None = None,
    bias: T2 | None = None,
    bias_scale: T | None = None,
    bias_zero_point: T2 | None = None,
    output_scale: T | None = None,
    output_zero_point: T3 | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """Conv with a quantized weight, its result rounded to what bytes can say if that has a scale.

    A bias without a scale is one of floats.
    Shapes: scales of the weight and bias: () or (out).
    """
    settings = _given(
        dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides
    )
    settings |= {"auto_pad": auto_pad} if auto_pad != "NOTSET" else {}
    real = _real(weight, weight_scale, weight_zero_point, 0)
    given = [] if bias is None else [_real(bias, bias_scale, bias_zero_point, 0)]
    return _requantized(find("Conv")(x, real, *given, **settings), output_scale, output_zero_point)


@operator("QuantLinear", since=(1,), domain="burnx", composite=True)
def quant_linear(
    x: T,
    weight: T1,
    weight_scale: T,
    weight_zero_point: T1 | None = None,
    bias: T2 | None = None,
    bias_scale: T | None = None,
    bias_zero_point: T2 | None = None,
    output_scale: T | None = None,
    output_zero_point: T3 | None = None,
    *,
    block_size: int = 0,
    scaled: int = 0,
    turned: int = 0,
) -> T:
    """x times a quantized weight, plus a bias, rounded to what bytes can say if there is an output scale.

    A MatMul, whose product is rounded before the bias is added; ``turned``, for a weight of (out, in), a Gemm, which
    is rounded with the bias.  ``scaled``: the weight is only cast and multiplied by its scale.
    Shapes: weight (in, out); its scale (), (out), or with blocks (in / block_size, out); ``scaled`` (1, out).
    """
    if scaled:
        real = _scaled(weight, weight_scale)
    else:
        along_blocks = bool(turned) == bool(block_size)
        real = _real(weight, weight_scale, weight_zero_point, 1 if along_blocks else 0, block_size)
    if turned:
        given = [] if bias is None else [_real(bias, bias_scale, bias_zero_point, 0)]
        product = find("Gemm")(x, real, *given, transB=1)
        return _requantized(product, output_scale, output_zero_point)
    product = _requantized(find("MatMul")(x, real), output_scale, output_zero_point)
    return product if bias is None else product + bias


@operator("DynamicQuantLinear", since=(1,), domain="burnx", composite=True)
def dynamic_quant_linear(
    x: T, weight: T1, weight_scale: T, weight_zero_point: T1 | None = None, bias: T | None = None
) -> T:
    """x, quantized by its own range, times a quantized weight, plus a bias.

    Shapes: weight (in, out); its scale and zero point () or (out).
    """
    stored, scale, zero_point = find("DynamicQuantizeLinear")(x)
    total = find("MatMulInteger")(stored, weight, zero_point, weight_zero_point)
    product: Tensor = find("Cast")(total, to=dtype_name(weight_scale.dtype)) * (
        scale * weight_scale
    )
    return product if bias is None else product + bias


@operator("QuantEmbedding", since=(1,), domain="burnx", composite=True)
def quant_embedding(
    weight: T1, scale: T, zero_point: T1 | None, indices: T2, *, scaled: int = 0
) -> T:
    """Rows of a quantized table; ``scaled``: of one that is only cast and multiplied by its scale before.

    Shapes: weight (count, *s); scale (), ``scaled`` (count, 1).
    """
    if scaled:
        rows: Tensor = find("Gather")(_scaled(weight, scale), indices)
        return rows
    return _real(find("Gather")(weight, indices), scale, zero_point, 1)
