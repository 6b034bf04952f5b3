"""Operators that a lift makes of many nodes, in the words of opsets that have no such operator."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import numpy as np

from burnx.dtype import code_of_dtype, dtype_of_code
from burnx.exporter.spell_attention import spell_attention
from burnx.exporter.spell_rotary import spell_rotary
from burnx.exporter.spelling import Emitter, Spelling
from burnx.graph import Node, Value
from burnx.types import TensorType


def _spelled_before(opset: int, spelling: Spelling) -> Spelling:
    """A spelling of an operator of one float tensor, for opsets before the one that brought it."""

    def spell(node: Node, emitter: Emitter) -> list[Value] | None:
        x = node.inputs[0]
        if emitter.opset >= opset or x is None or not isinstance(x.type, TensorType):
            return None
        return spelling(node, emitter)

    return spell


def _binary(emitter: Emitter, operator: str, left: Value, right: Value | float) -> Value:
    """A node of two operands of the left one's type."""
    assert isinstance(left.type, TensorType)
    if not isinstance(right, Value):
        right = emitter.constant(right, left.type.dtype)
    return emitter.emit(operator, [left, right], left.type)


def _gelu(node: Node, emitter: Emitter) -> list[Value] | None:
    """x / 2 * (1 + erf(x / sqrt 2)), or the tanh that comes close to it."""
    x = node.inputs[0]
    assert x is not None
    if node.attributes.get("approximate", "none") == "tanh":
        cube = _binary(emitter, "Mul", _binary(emitter, "Mul", x, x), x)
        inner = _binary(emitter, "Add", x, _binary(emitter, "Mul", cube, 0.044715))
        inner = _binary(emitter, "Mul", inner, math.sqrt(2 / math.pi))
        bend = emitter.emit("Tanh", [inner], x.type)
    else:
        bend = emitter.emit("Erf", [_binary(emitter, "Mul", x, math.sqrt(0.5))], x.type)
    gate = _binary(emitter, "Add", bend, 1.0)
    return [_binary(emitter, "Mul", _binary(emitter, "Mul", x, gate), 0.5)]


def _hard_swish(node: Node, emitter: Emitter) -> list[Value] | None:
    """x * hard sigmoid(x)"""
    x = node.inputs[0]
    assert x is not None
    gate = emitter.emit("HardSigmoid", [x], x.type, alpha=1 / 6, beta=0.5)
    return [_binary(emitter, "Mul", x, gate)]


def _mish(node: Node, emitter: Emitter) -> list[Value] | None:
    """x * tanh(softplus(x))"""
    x = node.inputs[0]
    assert x is not None
    soft = emitter.emit("Softplus", [x], x.type)
    return [_binary(emitter, "Mul", x, emitter.emit("Tanh", [soft], x.type))]


def _layer_norm(node: Node, emitter: Emitter) -> list[Value] | None:
    """(x - mean) / sqrt(variance + epsilon) * scale + b"""
    wide = _wide(node, emitter)
    axes = _axes(node)
    if wide is None or axes is None:
        return None
    centred = _binary(emitter, "Sub", wide, _mean(emitter, wide, axes))
    return _scaled(node, emitter, centred, axes)


def _rms_norm(node: Node, emitter: Emitter) -> list[Value] | None:
    """x / sqrt(mean(x * x) + epsilon) * scale"""
    wide = _wide(node, emitter)
    axes = _axes(node)
    return None if wide is None or axes is None else _scaled(node, emitter, wide, axes)


def _axes(node: Node) -> list[int] | None:
    """The axes from ``axis`` on, counted from the end."""
    x, axis = node.inputs[0], int(node.attributes.get("axis", -1))
    assert x is not None and isinstance(x.type, TensorType)
    if axis >= 0:
        if x.type.shape is None:
            return None
        axis -= len(x.type.shape)
    return list(range(axis, 0))


def _wide(node: Node, emitter: Emitter) -> Value | None:
    """x in the dtype its statistics are computed in; None if those are asked for."""
    x = node.inputs[0]
    assert x is not None and isinstance(x.type, TensorType)
    if len(node.outputs) > 1:
        return None
    code = int(node.attributes.get("stash_type", 1))
    if x.type.dtype == dtype_of_code(code) or x.type.dtype == np.float64:
        return x
    return emitter.emit("Cast", [x], TensorType(dtype_of_code(code), x.type.shape), to=code)


def _mean(emitter: Emitter, x: Value, axes: Sequence[int]) -> Value:
    assert isinstance(x.type, TensorType)
    shape = None if x.type.shape is None else (*x.type.shape[: axes[0]], *(1 for _ in axes))
    kind = TensorType(x.type.dtype, shape)
    if emitter.opset >= 18:
        return emitter.emit("ReduceMean", [x, emitter.constant(list(axes))], kind)
    return emitter.emit("ReduceMean", [x], kind, axes=list(axes))


def _scaled(node: Node, emitter: Emitter, x: Value, axes: Sequence[int]) -> list[Value]:
    """x over its root mean square, in the dtype of the result, times the scale and plus the bias."""
    mean = _mean(emitter, _binary(emitter, "Mul", x, x), axes)
    mean = _binary(emitter, "Add", mean, float(node.attributes.get("epsilon", 1e-5)))
    result = _binary(emitter, "Div", x, emitter.emit("Sqrt", [mean], mean.type))
    kind = node.outputs[0].type
    assert isinstance(kind, TensorType) and isinstance(result.type, TensorType)
    if result.type.dtype != kind.dtype:
        narrow = TensorType(kind.dtype, result.type.shape)
        result = emitter.emit("Cast", [result], narrow, to=code_of_dtype(kind.dtype))
    for operator, factor in zip(("Mul", "Add"), node.inputs[1:], strict=False):
        if factor is not None:
            result = emitter.emit(operator, [result, factor], kind)
    return [result]


LIFTED: dict[tuple[str, str], Spelling] = {
    ("", "Attention"): spell_attention,
    ("", "RotaryEmbedding"): spell_rotary,
    ("", "Gelu"): _spelled_before(20, _gelu),
    ("", "HardSwish"): _spelled_before(14, _hard_swish),
    ("", "Mish"): _spelled_before(18, _mish),
    ("", "LayerNormalization"): _spelled_before(17, _layer_norm),
    ("", "RMSNormalization"): _spelled_before(23, _rms_norm),
    ("", "SimplifiedLayerNormalization"): _spelled_before(sys.maxsize, _rms_norm),
}
