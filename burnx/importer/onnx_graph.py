"""ONNX model to Graph: names resolved, functions inlined, older operators brought up to date.

Each node is recorded by calling its operator, so types are inferred on the way.  A node of an older opset is
recorded by calling the operator as it was, which is written in the operators of today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx

from burnx.capture.recorder import GraphRecorder
from burnx.dtype import string
from burnx.errors import ModelError, located
from burnx.graph import Graph, Value, constant_value
from burnx.importer.onnx_attributes import attribute_value
from burnx.importer.onnx_bodies import parameter_types, widened
from burnx.importer.onnx_checks import check_attribute_kinds, check_calls
from burnx.importer.onnx_file import OnnxFile, sparse_array, tensor_array
from burnx.importer.onnx_gradient import is_gradient, with_function
from burnx.importer.onnx_order import in_order
from burnx.importer.onnx_types import declared_type, refine, settled_output
from burnx.importer.onnx_version import Version, call, resolve
from burnx.importer.unsupported import check_supported
from burnx.tensor import Tensor
from burnx.types import TensorType, Type

NodeProto = Any
FunctionKey = tuple[str, str, str]


def import_graph(file: OnnxFile, most_defaults: int | None = None) -> Graph:
    """The graph of a model.

    Old exporters listed every initializer as an input; with more than ``most_defaults`` of them, none is one.
    Raises: UnsupportedError listing everything that burnx does not know; ModelError if the model contradicts itself.
    """
    model = file.proto
    check_supported(file)
    check_calls(model, file.place)
    opsets = {
        entry.domain if entry.domain != "ai.onnx" else "": entry.version
        for entry in model.opset_import
    }
    reader = Reader(
        file, opsets, {function_key(each): each for each in model.functions}, most_defaults
    )
    recorder = GraphRecorder(Graph(model.graph.name))
    with located(file.place), recorder.ambient():
        reader.read_main(model, recorder)
    graph = recorder.graph
    graph.doc = model.doc_string or model.graph.doc_string
    graph.metadata = {entry.key: entry.value for entry in model.metadata_props}
    graph.producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    graph.opsets = opsets
    return graph


def function_key(function: Any) -> FunctionKey:
    overload = getattr(function, "overload", "")
    return (function.domain if function.domain != "ai.onnx" else "", function.name, overload)


@dataclass(slots=True, eq=False)
class Scope:
    """The names that are visible at one place, inner before outer.

    ``attributes`` are those of the call of the function whose body this is.
    """

    names: dict[str, Tensor] = field(default_factory=dict)
    outer: Scope | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def find(self, name: str) -> Tensor:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise ModelError(f'value "{name}" is used but nothing gives it')


@dataclass(frozen=True, slots=True)
class Body:
    """A graph in an attribute, with the names around the node that it was written for."""

    proto: Any
    scope: Scope


@dataclass(slots=True, eq=False)
class Reader:
    """Reads the graphs of one file."""

    file: OnnxFile
    opsets: dict[str, int]
    functions: dict[FunctionKey, Any]
    most_defaults: int | None = None
    stack: list[FunctionKey] = field(default_factory=list)

    def read_main(self, model: Any, recorder: GraphRecorder) -> None:
        """The main graph: its inputs become inputs, its initializers constants or defaults of inputs."""
        proto, graph = model.graph, recorder.graph
        constants = self._initializers(proto)
        listed = sum(1 for info in proto.input if info.name in constants)
        is_fixed = 0 < model.ir_version < 4
        is_fixed = is_fixed or (self.most_defaults is not None and listed > self.most_defaults)
        scope = Scope()
        for info in proto.input:
            array = constants.get(info.name)
            if array is not None and is_fixed:
                continue
            if info.name in scope.names:
                raise ModelError(f'two inputs are called "{info.name}"')
            kind = declared_type(info.type, info.name)
            scope.names[info.name] = recorder.input(info.name, kind)
            if array is not None:
                graph.defaults[value_of(scope.names[info.name])] = array
        for name, array in constants.items():
            if name not in scope.names:
                scope.names[name] = Tensor(recorder, constant_value(array, name))
        self.read_nodes(proto, recorder, scope)
        for info in proto.output:
            graph.outputs.append(self._output(scope.find(info.name), info, recorder))
            graph.output_names.append(info.name)

    def _output(self, tensor: Tensor, info: Any, recorder: GraphRecorder) -> Value:
        value = value_of(tensor)
        if info.HasField("type") and value.producer is not None:
            value.type = settled_output(value.type, info, value.producer.place)
        return value

    def _initializers(self, proto: Any) -> dict[str, Any]:
        arrays = {tensor.name: tensor_array(tensor, self.file) for tensor in proto.initializer}
        for sparse in proto.sparse_initializer:
            arrays[sparse.values.name] = sparse_array(sparse, self.file)
        if len(arrays) < len(proto.initializer) + len(proto.sparse_initializer):
            raise ModelError("two initializers have the same name")
        return arrays

    def read_nodes(self, proto: Any, recorder: GraphRecorder, scope: Scope) -> None:
        declared = {info.name: info for info in proto.value_info}
        for node in in_order(proto, scope.find):
            with located(place_of(node)):
                results = self.read_node(node, recorder, scope)
                self._name_outputs(node, results, declared, recorder, scope)

    def _name_outputs(
        self,
        node: NodeProto,
        results: Sequence[Tensor],
        declared: Mapping[str, Any],
        recorder: GraphRecorder,
        scope: Scope,
    ) -> None:
        for name, tensor in zip(node.output, results, strict=False):
            if not name:
                continue
            value = value_of(tensor)
            if not value.name and value.producer is not None:
                value.name = name
            if name in declared and isinstance(value.type, TensorType) and value.type.shape is None:
                value.type = refine(value.type, declared_type(declared[name].type, name), name)
                recorder.settle(value)
            scope.names[name] = tensor

    # ---------------------------------------------------------------- nodes
    def read_node(self, node: NodeProto, recorder: GraphRecorder, scope: Scope) -> list[Tensor]:
        """Record what a node does and give its outputs."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        inputs = [scope.find(name) if name else None for name in node.input]
        key = (domain, node.op_type, getattr(node, "overload", ""))
        recorder.name, recorder.doc = node.name, node.doc_string
        recorder.place = place_of(node)
        recorder.metadata = {entry.key: entry.value for entry in node.metadata_props}
        if key in self.functions:
            return self._inline(key, node, inputs, recorder, scope)
        if domain == "" and node.op_type == "Constant":
            return [self._constant(node, recorder, scope)]
        opset = self.opsets.get(domain, 1)
        version = resolve(domain, node.op_type, opset)
        check_attribute_kinds(node.attribute, domain, node.op_type, opset)
        attributes = self._attributes(node, recorder, scope, inputs, version)
        if is_gradient(node):
            attributes = with_function(attributes, inputs, recorder, scope.find)
            return call(version, inputs, attributes, len(attributes["xs"]), recorder)
        return call(version, inputs, attributes, len(node.output), recorder)

    def _constant(self, node: NodeProto, recorder: GraphRecorder, scope: Scope) -> Tensor:
        values = [attribute_value(each, self.file, scope.attributes) for each in node.attribute]
        if len(values) != 1:
            raise ModelError("a Constant has exactly one value")
        (value,), (attribute,) = values, node.attribute
        array = _constant_array(attribute.name, value)
        return Tensor(recorder, constant_value(array, node.output[0]))

    def _attributes(
        self,
        node: NodeProto,
        recorder: GraphRecorder,
        scope: Scope,
        inputs: Sequence[Any],
        version: Version,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        graphs: list[tuple[str, Body]] = []
        for attribute in node.attribute:
            value = self._attribute(attribute, scope)
            if isinstance(value, Body):
                graphs.append((attribute.name, value))
            elif value is not None:
                found[attribute.name] = value
        for name in list(found):
            if name not in version.attributes:
                if name in version.ignored:
                    del found[name]
                    continue
                raise ModelError(f'{version.name} has no attribute "{name}"')
        for name, body in graphs:
            found[name] = self._subgraph(node.op_type, body, inputs, found, recorder)
        return found

    def _attribute(self, attribute: Any, scope: Scope) -> Any:
        """The value of an attribute; a graph stays a body until the inputs of its node are known."""
        if attribute.type == onnx.AttributeProto.GRAPH and not attribute.ref_attr_name:
            return Body(attribute.g, scope)
        return attribute_value(attribute, self.file, scope.attributes)

    # ---------------------------------------------------------------- functions and subgraphs
    def _inline(
        self,
        key: FunctionKey,
        node: NodeProto,
        inputs: Sequence[Any],
        recorder: GraphRecorder,
        scope: Scope,
    ) -> list[Tensor]:
        """The nodes of a function's body, in place of the call."""
        if key in self.stack:
            raise ModelError(f'function "{key[1]}" calls itself')
        function = self.functions[key]
        attributes: dict[str, Any] = {
            each.name: attribute_value(each, self.file, {}) for each in function.attribute_proto
        }
        attributes |= {
            each.name: value
            for each in node.attribute
            if (value := self._attribute(each, scope)) is not None
        }
        if len(inputs) > len(function.input):
            raise ModelError(
                f'function "{key[1]}" takes {len(function.input)} inputs, not {len(inputs)}'
            )
        names = dict(zip(function.input, [*inputs, *[None] * len(function.input)], strict=False))
        inner = Scope(
            {name: item for name, item in names.items() if item is not None}, None, attributes
        )
        outer = self.opsets
        self.opsets = {
            entry.domain if entry.domain != "ai.onnx" else "": entry.version
            for entry in function.opset_import
        }
        self.stack.append(key)
        try:
            absent = {name for name, item in names.items() if item is None}
            self.read_nodes(_without(function, absent), recorder, inner)
        finally:
            self.opsets = outer
            self.stack.pop()
        return [inner.find(name) for name in function.output]

    def _subgraph(
        self,
        op_type: str,
        body: Body,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        recorder: GraphRecorder,
    ) -> Graph:
        """The graph of a body, the types of what a loop carries widened until they hold."""
        types = [
            declared_type(info.type, info.name) if info.HasField("type") else None
            for info in body.proto.input
        ]
        if op_type == "Scan" and self.opsets.get("", 1) < 9:
            op_type = "Scan-8"
        kinds = parameter_types(op_type, types, inputs, attributes)
        while True:
            graph = self._read_body(body, kinds, recorder)
            wider = widened(op_type, kinds, graph, attributes)
            if wider == kinds:
                return graph
            kinds = wider

    def _read_body(self, body: Body, kinds: Sequence[Type], recorder: GraphRecorder) -> Graph:
        proto, scope = body.proto, body.scope
        if len(proto.input) != len(kinds):
            raise ModelError(f"the body takes {len(proto.input)} inputs, not {len(kinds)}")
        inner = recorder.child(proto.name)
        inside = Scope(outer=scope, attributes=scope.attributes)
        with inner.ambient():
            for info, kind in zip(proto.input, kinds, strict=True):
                inside.names[info.name] = inner.input(info.name, _fresh_sizes(kind, inner))
            for name, array in self._initializers(proto).items():
                if name not in inside.names:
                    inside.names[name] = Tensor(inner, constant_value(array, name))
            self.read_nodes(proto, inner, inside)
            graph = inner.graph
            for info in proto.output:
                graph.outputs.append(_ranked(value_of(inside.find(info.name)), info, inner))
                graph.output_names.append(info.name)
        graph.doc = proto.doc_string
        return graph


def value_of(tensor: Tensor) -> Value:
    """The value of the graph that a tensor stands for."""
    return cast(Value, tensor.ref)


def _ranked(value: Value, info: Any, recorder: GraphRecorder) -> Value:
    """An output of a body, with the rank that it is declared to have where none was inferred.

    The sizes of that declaration are not used: what files say of bodies is often of one turn only.
    """
    kind = value.type
    if value.producer is None or not isinstance(kind, TensorType) or kind.shape is not None:
        return value
    if info.type.WhichOneof("value"):
        declared = refine(kind, declared_type(info.type, info.name), info.name)
        if isinstance(declared, TensorType) and declared.shape is not None:
            value.type = TensorType(kind.dtype, tuple(recorder.fresh() for _ in declared.shape))
            recorder.settle(value)
    return value


def place_of(node: NodeProto) -> str:
    """A node of a file as an error message names it."""
    label = node.name or next((name for name in node.output if name), "")
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return f'node "{label}" ({kind})' if label else f"node ({kind})"


class _without:
    """A function's body, its absent inputs blanked where nodes use them."""

    def __init__(self, function: Any, absent: set[str]) -> None:
        self.value_info = getattr(function, "value_info", [])
        self.node = [_blanked(node, absent) for node in function.node] if absent else function.node


def _blanked(node: NodeProto, absent: set[str]) -> NodeProto:
    if not absent & set(node.input):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    return copy


_PLAIN = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def _constant_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    if name in ("value", "sparse_value"):
        return np.asarray(value)
    if name in ("value_string", "value_strings"):
        return np.array(value, dtype=string)
    if name not in _PLAIN:
        raise ModelError(f'attribute "{name}" is not known')
    return np.asarray(value, _PLAIN[name])


def _fresh_sizes(kind: Type, recorder: GraphRecorder) -> Type:
    """``kind`` with a symbol of its own for each size that changes from turn to turn."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    return TensorType(
        kind.dtype, tuple(recorder.fresh() if dim is None else dim for dim in kind.shape)
    )
