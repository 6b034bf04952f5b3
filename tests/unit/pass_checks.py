"""Graphs before and after the passes: made from text, run and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import helper, parser

from burnx.graph import Graph, Node, Value
from burnx.importer.onnx_file import read_model
from burnx.importer.onnx_graph import import_graph
from burnx.lowering import lower
from burnx.passes import run_passes
from burnx.runtime.device import find_device, prepare

Arrays = Mapping[str, Any]
RNG = np.random.default_rng(0)


def graph_of(text: str, opset: int = 20, weights: Arrays | None = None) -> Graph:
    """The graph of a model in ONNX's text form; ``weights`` are initializers."""
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')
    for name, array in (weights or {}).items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        raw = np.ascontiguousarray(array).tobytes()
        model.graph.initializer.append(helper.make_tensor(name, kind, array.shape, raw, raw=True))
    return import_graph(read_model(model.SerializeToString()))


def run(graph: Graph, inputs: Arrays) -> list[Any]:
    program = lower(graph, [value.type for value in graph.inputs])
    return prepare(program, find_device("reference"))(
        [inputs[value.name] for value in graph.inputs]
    )


def check(
    text: str,
    inputs: Arrays,
    opset: int = 20,
    weights: Arrays | None = None,
    tolerance: float = 2e-6,
) -> Graph:
    """The graph after all passes, which gives what it gave before and is whole."""
    before, after = graph_of(text, opset, weights), graph_of(text, opset, weights)
    run_passes(after)
    assert after.output_names == before.output_names
    assert_whole(after, set())
    for old, new in zip(run(before, inputs), run(after, inputs), strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance)
    return after


def assert_whole(graph: Graph, around: set[Value]) -> None:
    """Every value is given before it is read."""
    known = around | set(graph.inputs)
    for node in graph.nodes:
        assert all(value is None or value.is_constant or value in known for value in node.inputs)
        for inner in node.subgraphs():
            assert_whole(inner, known)
        assert all(value.producer is node for value in node.outputs)
        known |= set(node.outputs)
    assert all(value.is_constant or value in known for value in graph.outputs)


def counts(graph: Graph) -> Counter[str]:
    return Counter(node.operator for node in graph.all_nodes())


def only(graph: Graph, operator: str) -> Node:
    (node,) = [node for node in graph.all_nodes() if node.operator == operator]
    return node


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)
