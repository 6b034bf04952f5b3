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
    constant: Sequence[str] = (),
    dims: Mapping[str, Sequence[int | str]] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node.

    ``inputs`` lists the node's inputs if some are left out (""); ``constant`` ones are initializers; ``dims`` gives
    declared shapes other than those of the feeds.
    """
    names = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, list(inputs or feeds), names, **attributes)
    values = []
    for name, array in feeds.items():
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        shape = (dims or {}).get(name, array.shape)
        if name not in constant:
            values.append(helper.make_tensor_value_info(name, code, list(shape)))
    graph = helper.make_graph(
        [node],
        "one_node",
        values,
        [onnx.ValueInfoProto(name=name) for name in names],
        [onnx.numpy_helper.from_array(feeds[name], name) for name in constant],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run_node(op_type: str, feeds: Feeds, **options: Any) -> list[Array]:
    """The outputs of one node on the reference device."""
    model = burnx.load(node_model(op_type, feeds, **options), device="reference")
    live = {name: feeds[name] for name in feeds if name not in options.get("constant", ())}
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
