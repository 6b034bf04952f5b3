"""Models that quantize, convolve or multiply, and quantize again; every scale is a power of two, so that all is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT = TensorProto.FLOAT


@dataclass
class Layer:
    """One quantized layer; ``weight`` are the numbers that are stored, ``zeros`` of data, weights and result."""

    data: Array
    weight: Array
    zeros: tuple[int, int, int] = (0, 0, 0)
    scales: tuple[float, float, float] = (1.0, 1.0, 1.0)
    bias: Array | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    per_channel: bool = False
    requantize: bool = True


def _dequantize(name: str, scale: Array, zero: Array, axis: int) -> list[onnx.NodeProto]:
    names = [name, f"{name}_scale", f"{name}_zero"]
    return [helper.make_node("DequantizeLinear", names, [f"{name}_real"], axis=axis)]


def make_model(layer: Layer, operator: str) -> onnx.ModelProto:
    """QuantizeLinear, DequantizeLinear, the operator with constant weights, and QuantizeLinear."""
    count = layer.weight.shape[0 if operator == "Conv" else 1]
    steps = 2.0 ** (np.arange(count) % 3) if layer.per_channel else np.ones(())
    weight_scale = (layer.scales[1] * steps).astype(np.float32)
    constants = {
        "q_scale": np.float32(layer.scales[0]),
        "q_zero": layer.data.dtype.type(layer.zeros[0]),
        "w": layer.weight,
        "w_scale": weight_scale,
        "w_zero": np.full(weight_scale.shape, layer.zeros[1], layer.weight.dtype),
        "y_scale": np.float32(layer.scales[2]),
        "y_zero": layer.data.dtype.type(layer.zeros[2]),
    }
    axis = 0 if operator == "Conv" else 1
    nodes = [helper.make_node("QuantizeLinear", ["x", "q_scale", "q_zero"], ["q"])]
    nodes += _dequantize("q", constants["q_scale"], constants["q_zero"], 1)
    nodes += _dequantize("w", constants["w_scale"], constants["w_zero"], axis)
    operands = ["q_real", "w_real"]
    if layer.bias is not None and operator != "MatMul":
        constants |= {"b": layer.bias.astype(np.int32)}
        constants |= {"b_scale": (weight_scale * layer.scales[0]).astype(np.float32)}
        constants |= {"b_zero": np.zeros(weight_scale.shape, np.int32)}
        nodes += _dequantize("b", constants["b_scale"], constants["b_zero"], 0)
        operands.append("b_real")
    nodes.append(helper.make_node(operator, operands, ["y"], **layer.attributes))
    if layer.requantize:
        nodes.append(helper.make_node("QuantizeLinear", ["y", "y_scale", "y_zero"], ["z"]))
    result = "z" if layer.requantize else "y"
    kind = helper.np_dtype_to_tensor_dtype(layer.data.dtype) if layer.requantize else FLOAT
    graph = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", FLOAT, layer.data.shape)],
        [helper.make_tensor_value_info(result, kind, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def real_data(layer: Layer) -> Array:
    """Floats that are quantized to the layer's data."""
    return ((layer.data.astype(np.int64) - layer.zeros[0]) * layer.scales[0]).astype(np.float32)
