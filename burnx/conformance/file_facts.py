"""What can be said of an ONNX file that burnx cannot load."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import onnx

from burnx.dtype import dtype_name, dtype_of_code
from burnx.errors import ModelError


def read_facts(path: str) -> dict[str, Any]:
    """Inputs, outputs, operators by count and parameters of a file, straight from its bytes.

    Raises: ModelError if it is no ONNX file.
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's errors are not public
        raise ModelError(f"{path} is not an ONNX file: {error}") from error
    graphs = list(_graphs(model.graph))
    nodes = [node for graph in graphs for node in graph.node]
    stored = {item.name for item in model.graph.initializer}
    return {
        "inputs": [_describe(v) for v in model.graph.input if v.name not in stored],
        "outputs": [_describe(v) for v in model.graph.output],
        "nodes": len(nodes),
        "operators": dict(Counter(map(_operator, nodes)).most_common()),
        "parameters": sum(prod(item.dims) for graph in graphs for item in graph.initializer),
    }


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _operator(node: onnx.NodeProto) -> str:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return f"{domain}.{node.op_type}" if domain else node.op_type


def _describe(value: onnx.ValueInfoProto) -> dict[str, Any]:
    tensor = value.type.tensor_type
    kind = value.type.WhichOneof("value") or "unknown"
    dtype = dtype_name(dtype_of_code(tensor.elem_type)) if tensor.elem_type else kind
    dims = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    known = value.type.HasField("tensor_type") and tensor.HasField("shape")
    return {"name": value.name, "dtype": dtype, "dims": dims if known else None}
