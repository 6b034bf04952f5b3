"""Nodes that are layers of quantized weights or of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnx.graph import Value
from burnx.structure.byte_layers import BYTES, linear_of_bytes
from burnx.structure.layer_reading import (
    Layer,
    Reader,
    Rule,
    dtype_of,
    dtype_option,
    has_shapes,
    kernel_of,
    shape_of,
    spatial,
    unless,
    weights_of,
)

# the inputs of QuantConv and QuantLinear behind the first
_HELD = {
    "weight": 1,
    "weight_scale": 2,
    "weight_zero_point": 3,
    "bias": 4,
    "bias_scale": 5,
    "bias_zero_point": 6,
    "output_scale": 7,
    "output_zero_point": 8,
}
_AXES = (1, 2, 3)  # that convolutions have


def _stored(fields: Mapping[str, Value], bias_dtype: str) -> dict[str, Any] | None:
    """How the weight, bias and output of a layer are stored; None if it has no layer."""
    weight, scale = fields["weight"], fields["weight_scale"]
    has_zero = "weight_zero_point" in fields
    found: dict[str, Any] = {} if "bias" in fields else {"bias": False}
    found |= {} if has_zero else {"zero_point": False}
    if ("bias_scale" in fields) != ("bias_zero_point" in fields) and has_zero:
        return None
    if "output_scale" not in fields:
        found["output"] = None
    elif has_zero:
        found |= unless("output", dtype_of(fields["output_zero_point"]), "uint8")
    found |= unless("weight_dtype", dtype_of(weight), "int8")
    if "bias" in fields:
        found |= unless("bias_dtype", dtype_of(fields["bias"]), bias_dtype)
    return found | dtype_option(scale)


def _quant_conv(reader: Reader) -> Layer | None:
    fields = weights_of(reader, _HELD)
    shape = shape_of(fields["weight"])
    if len(shape) - 2 not in _AXES:
        return None
    options = spatial(reader, len(shape) - 2)
    stored = _stored(fields, "int32")
    assert options is not None
    each = shape_of(fields["weight_scale"])
    if stored is None or each not in ((), shape[:1]):
        return None
    args = (shape[1] * options.get("groups", 1), shape[0], kernel_of(reader, fields["weight"]))
    options |= {"per_channel": True} if each else {}
    return Layer(
        f"QuantConv{len(shape) - 2}d", args, options | stored, fields, (reader.node.inputs[0],)
    )


def _quant_linear(reader: Reader) -> Layer | None:
    fields = weights_of(reader, _HELD)
    stored = _stored(fields, "float32")
    turned = bool(reader.take("turned", 0))
    scaled, block_size = bool(reader.take("scaled", 0)), reader.take("block_size", 0)
    if stored is None:
        return None
    size = shape_of(fields["weight"])
    args = size[::-1] if turned else size
    options: dict[str, Any] = {"turned": True} if turned else {}
    options |= {"scaled": True} if scaled else {}
    options |= {"block_size": block_size} if block_size else {}
    each = shape_of(fields["weight_scale"])
    if not scaled and not block_size and each:
        options["per_channel"] = True
    if scaled and "output_scale" not in fields:
        stored.pop("zero_point", None)
    return Layer("QuantLinear", args, options | stored, fields, (reader.node.inputs[0],))


def _dynamic_linear(reader: Reader) -> Layer | None:
    names = {"weight": 1, "weight_scale": 2, "weight_zero_point": 3, "bias": 4}
    fields = weights_of(reader, names)
    options: dict[str, Any] = {} if "bias" in fields else {"bias": False}
    options |= {"per_channel": True} if shape_of(fields["weight_scale"]) else {}
    options |= {} if "weight_zero_point" in fields else {"zero_point": False}
    options |= unless("weight_dtype", dtype_of(fields["weight"]), "int8")
    options |= dtype_option(fields["weight_scale"])
    args = shape_of(fields["weight"])
    return Layer("DynamicQuantLinear", args, options, fields, (reader.node.inputs[0],))


def _fused_linear(reader: Reader) -> Layer | None:
    names = {"weight": 1, "weight_scale": 2, "weight_zero_point": 3, "bias": 4}
    held = linear_of_bytes(reader, names)
    if held is None:
        return None
    args, options, fields = held
    return Layer(
        "DynamicQuantLinear", args, options | {"fused": True}, fields, (reader.node.inputs[0],)
    )


def _embedding(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 0, "scale": 1, "zero_point": 2})
    scaled = bool(reader.take("scaled", 0))
    options: dict[str, Any] = {"scaled": True} if scaled else {}
    options |= {} if scaled or "zero_point" in fields else {"zero_point": False}
    options |= unless("weight_dtype", dtype_of(fields["weight"]), "uint8")
    options |= dtype_option(fields["scale"])
    args = shape_of(fields["weight"])
    return Layer("QuantEmbedding", args, options, fields, (reader.node.inputs[3],))


def _fake_quantize(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"scale": 1, "zero_point": 2})
    shape, axis = shape_of(fields["scale"]), reader.take("axis", 1)
    if len(shape) > 1:
        return None
    options: dict[str, Any] = {"axis": axis} if shape and axis != 1 else {}
    if "zero_point" not in fields:
        options["zero_point"] = False
    else:
        options |= unless("quantized", dtype_of(fields["zero_point"]), "uint8")
    options |= dtype_option(fields["scale"])
    given = (reader.node.inputs[0],)
    return Layer("FakeQuantize", shape, options, fields, given, word="quant")


def _n_bits(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "scales": 2, "zero_points": 3, "bias": 5})
    width, rows = reader.take("K", 0), reader.take("N", 0)
    bits, size = reader.take("bits", 4), reader.take("block_size", 0)
    blocks = -(-width // size)
    shapes = {
        "weight": (rows, blocks, size * bits // 8),
        "scales": (rows, blocks),
        "zero_points": (rows, -(-blocks * bits // 8)),
    }
    is_packed = "zero_points" not in fields or dtype_of(fields["zero_points"]) == "uint8"
    if len(reader.node.inputs) > 4 and reader.node.inputs[4] is not None:
        return None
    if not is_packed or not has_shapes(fields, shapes):
        return None
    options: dict[str, Any] = {} if bits == 4 else {"bits": bits}
    options |= unless("block_size", size, 32)
    options |= {} if "zero_points" in fields else {"zero_points": False}
    options |= {"bias": True} if "bias" in fields else {}
    options |= unless("accuracy_level", reader.take("accuracy_level", 0), 0)
    options |= dtype_option(fields["scales"])
    return Layer("LinearNBits", (width, rows), options, fields, (reader.node.inputs[0],))


def _dynamic_lstm(reader: Reader) -> Layer | None:
    names = {"weight": 1, "recurrence": 2, "bias": 3, "weight_scale": 8, "weight_zero_point": 9}
    fields = weights_of(reader, {**names, "recurrence_scale": 10, "recurrence_zero_point": 11})
    directions, inputs, columns = shape_of(fields["weight"])
    hidden = reader.take("hidden_size", columns // 4)
    direction = reader.take("direction", "forward")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("weight_scale", "weight_zero_point", "recurrence_scale", "recurrence_zero_point"),
        (directions,),
    )
    shapes["recurrence"] = (directions, hidden, columns)
    if not has_shapes(fields, shapes) or columns != 4 * hidden:
        return None
    if directions != (2 if direction == "bidirectional" else 1):
        return None
    options: dict[str, Any] = {} if direction == "forward" else {"direction": direction}
    options |= {} if "bias" in fields else {"bias": False}
    options |= unless("weight_dtype", dtype_of(fields["weight"]), "int8")
    options |= dtype_option(fields["weight_scale"])
    states = list(reader.node.inputs[4:8])
    while states and states[-1] is None:
        states.pop()
    given = (reader.node.inputs[0], *states)
    count = len(reader.node.outputs)
    return Layer("DynamicQuantLSTM", (inputs, hidden), options, fields, given, count)


_MICROSOFT = "com.microsoft"
QUANTIZED: dict[tuple[str, str], Rule] = {
    ("burnx", "QuantConv"): _quant_conv,
    ("burnx", "QuantLinear"): _quant_linear,
    ("burnx", "DynamicQuantLinear"): _dynamic_linear,
    ("burnx", "QuantEmbedding"): _embedding,
    ("burnx", "FakeQuantize"): _fake_quantize,
    (_MICROSOFT, "MatMulNBits"): _n_bits,
    (_MICROSOFT, "DynamicQuantizeLSTM"): _dynamic_lstm,
    (_MICROSOFT, "DynamicQuantizeMatMul"): _fused_linear,
    **BYTES,
}
