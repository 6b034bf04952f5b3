"""Models of one node, run by burnx and by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

import burnx

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


def node_model(
    op_type: str,
    feeds: Feeds,
    *,
    opset: int = 21,
    outputs: int = 1,
    inputs: Sequence[str] | None = None,
    dims: Mapping[str, Sequence[int | str] | None] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node.

    ``inputs`` lists the node's inputs if some are left out (""); ``dims`` declares shapes other
    than those of the feeds, and None for an input that is to be an initializer.
    """
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, list(inputs or feeds), names, **attributes)
    declared, values = dims or {}, []
    for name, array in feeds.items():
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = declared.get(name, array.shape)
        if shape is not None:
            values.append(helper.make_tensor_value_info(name, code, list(shape)))
    graph = helper.make_graph(
        [node],
        "one_node",
        values,
        [onnx.ValueInfoProto(name=name) for name in names],
        [
            onnx.numpy_helper.from_array(feeds[name], name)
            for name in declared
            if declared[name] is None
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run_node(
    op_type: str, feeds: Feeds, *, where: str = "reference", **options: Any
) -> list[Array]:
    """The outputs of one node on a device."""
    model = burnx.load(node_model(op_type, feeds, **options), device=where)
    dims = options.get("dims", {})
    live = {name: array for name, array in feeds.items() if dims.get(name, ()) is not None}
    return list(model.run(live).values())


def run_onnxruntime(op_type: str, feeds: Feeds, **options: Any) -> list[Array]:
    """The outputs of one node by onnxruntime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    model = node_model(op_type, feeds, **options)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))
