"""A spelled graph as ONNX's messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import GraphProto, NodeProto

from burnx.errors import located
from burnx.exporter.graph_outputs import may_be_left_out, used_values
from burnx.exporter.onnx_attributes import attribute_proto
from burnx.exporter.onnx_tensors import DataFile, tensor_proto
from burnx.exporter.onnx_types import value_info
from burnx.exporter.opset_choice import is_default
from burnx.exporter.schemas import schema
from burnx.exporter.value_names import name_nodes, name_values
from burnx.graph import Graph, Node, Value
from burnx.ops import table
from burnx.ops.operator import REQUIRED
from burnx.types import OptionalType, SequenceType, TensorType, Type


@dataclass(frozen=True, slots=True, eq=False)
class GraphWriter:
    """Writes the graphs of one model.

    ``shared`` are the constants that more than one graph uses: they stand in the main one.
    """

    opsets: Mapping[str, int]
    names: Mapping[Value, str]
    node_names: Mapping[Node, str]
    used: set[Value]
    shared: set[Value]
    data: DataFile | None

    def subgraph(self, graph: Graph, name: str) -> Any:
        """The message of a subgraph; ``name`` is for one that has none."""
        proto = GraphProto(name=graph.name or name, doc_string=graph.doc)
        self.write(graph, proto, [])
        return proto

    def write(self, graph: Graph, proto: Any, shared: list[Value]) -> None:
        """Fill the message of a graph, its subgraphs included; ``shared`` constants stand here too."""
        for value in graph.inputs:
            proto.input.append(value_info(self.names[value], value.type))
        for value, array in graph.defaults.items():
            proto.initializer.append(tensor_proto(self.names[value], array, self.data))
        local = [value for value in graph.constants() if value not in self.shared]
        for value in (*shared, *local):
            proto.initializer.append(tensor_proto(self.names[value], value.array, self.data))  # type: ignore[arg-type]
        for node in graph.nodes:
            with located(node.place):
                proto.node.append(self._node(node))
        results = set(graph.outputs)
        for value in graph.outputs:
            proto.output.append(value_info(self.names[value], written_type(value)))
        for value in (value for node in graph.nodes for value in node.outputs):
            if value not in results and value in self.used and is_known(written_type(value)):
                proto.value_info.append(value_info(self.names[value], written_type(value)))

    def _node(self, node: Node) -> Any:
        proto = NodeProto(op_type=node.operator, domain=node.domain, doc_string=node.doc)
        proto.name = self.node_names.get(node, "")
        proto.input.extend("" if value is None else self.names[value] for value in node.inputs)
        opset = self.opsets[node.domain]
        proto.output.extend(
            "" if may_be_left_out(node, place, opset, self.used) else self.names[value]
            for place, value in enumerate(node.outputs)
        )
        for key, text in node.metadata.items():
            proto.metadata_props.add(key=key, value=text)
        self._attributes(node, proto)
        return proto

    def _attributes(self, node: Node, proto: Any) -> None:
        rules = schema(node.domain, node.operator, self.opsets[node.domain])
        kinds = rules.kinds if rules is not None else {}
        given = _with_own_defaults(node, {} if rules is None else rules.defaults)
        for name, value in given.items():
            is_implied = rules is not None and name not in kinds and is_default(node, name, value)
            if value is None or is_implied:
                continue
            kind = kinds.get(name)
            if kind is None and _is_float_attribute(node, name) and isinstance(value, int):
                value = float(value)
            proto.attribute.append(attribute_proto(name, value, kind, self.subgraph))


def _with_own_defaults(node: Node, defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes, with those left out whose default was another number at this opset."""
    entry = table().get((node.domain, node.operator))
    if entry is None:
        return node.attributes
    added = {
        name: entry.attributes[name]
        for name, default in defaults.items()
        if name not in node.attributes
        and isinstance(entry.attributes.get(name), (int, float))
        and isinstance(default, (int, float))
        and abs(entry.attributes[name] - default) > 1e-6 * abs(default)
    }
    return {**node.attributes, **added}


def _is_float_attribute(node: Node, name: str) -> bool:
    entry = table().get((node.domain, node.operator))
    default = REQUIRED if entry is None else entry.attributes.get(name)
    return isinstance(default, float)


def written_type(value: Value) -> Type:
    """The type that a value has in a file: to ONNX, a Loop gives what its body gives, though it may never run."""
    node = value.producer
    if not isinstance(value.type, OptionalType) or node is None or node.operator != "Loop":
        return value.type
    result: Type = node.attributes["body"].outputs[node.outputs.index(value) + 1].type
    return result


def is_known(kind: Type) -> bool:
    """Whether a type says all that a reader wants to know: a tensor's rank included."""
    if isinstance(kind, (SequenceType, OptionalType)):
        return is_known(kind.element)
    return isinstance(kind, TensorType) and kind.shape is not None


def write_graph(graph: Graph, proto: Any, opsets: Mapping[str, int], data: DataFile | None) -> None:
    """Fill the message of a model's main graph."""
    homes = Counter(value for each in _graphs(graph) for value in each.constants())
    shared = [value for value, count in homes.items() if count > 1]
    writer = GraphWriter(
        opsets, name_values(graph), name_nodes(graph), used_values(graph), {*shared}, data
    )
    proto.name = graph.name or "main_graph"
    writer.write(graph, proto, shared)


def _graphs(graph: Graph) -> list[Graph]:
    found = [graph]
    for node in graph.nodes:
        for inner in node.subgraphs():
            found += _graphs(inner)
    return found
