"""What the tests of the exporter share: small graphs, and their comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from burnx.api import LoadedModel, load
from burnx.capture.recorder import GraphRecorder
from burnx.dtype import float32
from burnx.exporter.onnx_model import export_model
from burnx.graph import Graph, Node, Value
from burnx.runtime.device import find_device
from burnx.shape import symbol
from burnx.types import TensorType

ort = pytest.importorskip("onnxruntime")

Arrays = dict[str, Any]
batch, seq = symbol("batch"), symbol("seq")


def imported(text: str) -> Graph:
    return load(onnx.parser.parse_model(text)).graph


def run_ort(model: Any, inputs: Arrays) -> Arrays:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    data = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def agree(graph: Graph, inputs: Arrays, opset: int | None = None) -> Any:
    """Export, and compare onnxruntime, the graph itself and the file read back; gives the model."""
    model = export_model(graph, opset)
    expected = LoadedModel(graph, find_device("cpu")).run(inputs)
    for found in (run_ort(model, inputs), load(model).run(inputs)):
        assert list(found) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
            assert np.shape(found[name]) == np.shape(value)
    return model


def recorded(
    function: Callable[..., Any], *kinds: TensorType, names: tuple[str, ...] = ("x", "z")
) -> Graph:
    recorder = GraphRecorder()
    with recorder.ambient():
        results = function(*map(recorder.input, names, kinds))
    results = results if isinstance(results, tuple) else (results,)
    recorder.graph.outputs += [result.ref for result in results]
    recorder.graph.output_names += [f"out_{place}" for place in range(len(results))]
    return recorder.graph


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


def initializer(model: Any, name: str) -> Any:
    (tensor,) = [each for each in model.graph.initializer if each.name == name]
    return onnx.numpy_helper.to_array(tensor)


def ones(*shape: int) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def node_graph(operator: str, *kinds: TensorType, domain: str = "", **attributes: Any) -> Graph:
    """A graph of one node whose output is like its first input."""
    inputs = [Value(kind, f"x{place}") for place, kind in enumerate(kinds)]
    node = Node(operator, domain, list(inputs), [], attributes, "the_node")
    node.outputs = [Value(kinds[0], producer=node)]
    return Graph("g", inputs, list(node.outputs), ["y"], [node])


def outputs_of(graph: Graph, **values: Value) -> Graph:
    graph.outputs, graph.output_names = list(values.values()), list(values)
    return graph


def opset_of(model: Any, domain: str = "") -> int:
    return next(each.version for each in model.opset_import if each.domain == domain)


MATRIX = TensorType(float32, (2, 3))


TWO = """
<ir_version: 8, opset_import: ["" : 17], producer_name: "somebody", metadata_props: ["license": "none"]>
g (float[batch, 3] x) => (float[batch, 3] y)
<float[3] weight = {1, 2, 3}>
{ [first] hidden = Add(x, weight)  [second] y = Mul(hidden, hidden) }
"""
