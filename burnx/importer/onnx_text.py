"""The text of a model: names must be UTF-8, since everything after the importer takes them for strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from burnx.errors import ModelError


def check_text(model: Any, place: str) -> None:
    """Protobuf hands out bytes where a string field is not UTF-8: refuse such a model.

    Raises: ModelError that shows the first such text.
    """
    for text in _texts(model):
        if not isinstance(text, str):
            raise ModelError(f"the text of a model is UTF-8: found {text[:60]!r}, {place}")


def _texts(model: Any) -> Iterator[Any]:
    yield from (model.producer_name, model.producer_version, model.doc_string)
    yield from _entries(model.metadata_props)
    yield from (entry.domain for entry in model.opset_import)
    yield from _graph_texts([model.graph])
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from function.attribute
        yield from (entry.domain for entry in function.opset_import)
        yield from _node_texts([*function.node])
        yield from _attribute_texts(function.attribute_proto)


def _graph_texts(waiting: list[Any]) -> Iterator[Any]:
    for graph in waiting:
        yield from (graph.name, graph.doc_string)
        for tensor in graph.initializer:
            yield from _tensor_texts(tensor)
        for sparse in graph.sparse_initializer:
            yield from _tensor_texts(sparse.values)
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from _type_texts(value.type)
        yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[Any]) -> Iterator[Any]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.doc_string)
        yield from node.input
        yield from node.output
        yield from _entries(node.metadata_props)
        yield from _attribute_texts(node.attribute)


def _attribute_texts(attributes: Iterable[Any]) -> Iterator[Any]:
    for attribute in attributes:
        yield from (attribute.name, attribute.ref_attr_name)
        if attribute.HasField("t"):
            yield from _tensor_texts(attribute.t)
        graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())]
        yield from _graph_texts(graphs)


def _tensor_texts(tensor: Any) -> Iterator[Any]:
    yield tensor.name
    yield from _entries(tensor.external_data)


def _type_texts(kind: Any) -> Iterator[Any]:
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, kind.WhichOneof("value")).elem_type
    if kind.WhichOneof("value") == "tensor_type":
        yield from (dim.dim_param for dim in kind.tensor_type.shape.dim)


def _entries(entries: Iterable[Any]) -> Iterator[Any]:
    for entry in entries:
        yield from (entry.key, entry.value)
