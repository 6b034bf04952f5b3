"""Recorders: they make a node of a graph from every operator call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

import burnx.ops
from burnx.builder import Operators
from burnx.errors import ShapeError, TraceError, located
from burnx.graph import Graph, Node, Value, constant_value
from burnx.ops import find
from burnx.ops import operators as all_operators
from burnx.ops.infer import infer_outputs
from burnx.ops.operator import Operator
from burnx.ops.other_names import spelling
from burnx.shape import Dim, Expr, Shape, symbol, symbol_name, symbols
from burnx.tensor import AMBIENT, Array, Tensor, called_name, caller, is_caller_scripted
from burnx.types import TensorType, Type

_PLAIN = "put @burnx.script on the function, or use burnx.cond, burnx.loop, burnx.scan or ops.where"
_SCRIPTED = (
    "@burnx.script captures if, while, for, and, or, not and if else, nothing else that decides; "
    "use these, burnx.cond, burnx.loop, burnx.scan or ops.where"
)
_ONE = (
    "keep it a tensor of one element, which arithmetic, indices, operators and, under @burnx.script, range() take; "
    "sizes are known: x.shape[0]"
)
_INSTEAD = {
    "numpy()": "compute with the tensor itself, by its methods and burnx.ops; numpy() is for what a model has given",
    "item()": _ONE,
    "int()": _ONE,
    "float()": _ONE,
    "conversion to an array": "it is a tensor already, which operators take",
    "an index": "indices of tensors, ops.gather and, under @burnx.script, range() take a tensor; burnx.stack makes one of a list",
}
# what functions of NumPy's and math's begin with
_CONVERSIONS = ("conversion to an array", "int()", "float()")


@dataclass(slots=True, eq=False)
class GraphRecorder:
    """Records nodes into a graph; a subgraph's recorder has the one around it as ``parent``.

    ``prefix`` is put before the names of nodes, ``metadata`` is what the next nodes carry, ``place`` where they
    come from; without one it is the line that calls the operator; ``origin`` is the node that they are parts of.  ``shared`` is what was recorded for composite
    operators, by what it computes.
    """

    graph: Graph = field(default_factory=Graph)
    parent: GraphRecorder | None = None
    operators: Operators = field(default_factory=all_operators)
    counter: Any = field(default_factory=lambda: count(1))
    homes: dict[str, tuple[Value, int]] = field(default_factory=dict)
    name: str = ""
    doc: str = ""
    place: str = ""
    origin: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    parameter_names: dict[Any, str] = field(default_factory=dict)
    parameters: dict[Any, Value] = field(default_factory=dict)
    shares: bool = False
    shared: dict[Any, list[Tensor]] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]:
        return self.operators.methods

    # ---------------------------------------------------------------- Recorder
    def call(self, operator: Operator, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        given = dict(attributes)
        wanted = given.pop("outputs", None)
        if operator.composite:
            return _expanded(self, operator, inputs, given)
        values = [None if item is None else self.own(item) for item in inputs]
        if operator.body_rule is not None:
            types = [None if item is None else item.type for item in values]
            kinds = operator.body_rule(types, given)
            given = {
                name: self.body(each, kinds) if inspect.isfunction(each) else each
                for name, each in given.items()
            }
        while values and values[-1] is None:
            values.pop()
        plain = operator.outputs_given if not operator.is_variadic else None
        record = _recorded_once if self.shares else GraphRecorder.record
        tensors = record(self, operator, values, given, wanted or plain)
        single = len(tensors) == 1 and not operator.is_variadic
        return tensors[0] if single else tuple(tensors)

    def record(
        self,
        operator: Operator,
        values: Sequence[Value | None],
        attributes: dict[str, Any],
        wanted: int | None,
    ) -> list[Tensor]:
        """Add one node and give its outputs."""
        node = Node(
            operator.op_type, operator.domain, list(values), [], attributes, self.name, self.doc
        )
        node.metadata, node.origin = dict(self.metadata), self.origin
        if not (self.place or self.name):
            node.line = caller()
        with located(self.place or node.place):
            infer_outputs(self.operators, operator, node, wanted, self.counter)
        for value in node.outputs:
            self.settle(value)
        self.add(node)
        return [Tensor(self, value) for value in node.outputs]

    def add(self, node: Node) -> None:
        self.graph.nodes.append(node)

    def settle(self, value: Value) -> None:
        """Remember where the sizes of a new value can be read."""
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            for axis, dim in enumerate(value.type.shape):
                name = symbol_name(dim)
                if name is not None:
                    self.homes.setdefault(name, (value, axis))

    def own(self, tensor: Tensor) -> Value:
        """The value of a tensor that is used here: what a plain call gave is a constant.

        Raises: TraceError if it was made while something else was captured.
        """
        scope: GraphRecorder | None = self
        while scope is not None and scope is not tensor.recorder:
            scope = scope.parent
        if scope is None and tensor.recorder.depth >= 0:
            raise TraceError(
                f"{caller()}: a tensor is of use only while what made it is captured; "
                "this one was kept from another call or taken out of a branch or loop"
            )
        value: Value = tensor.ref  # type: ignore[assignment]
        if scope is None:
            value.array = tensor.recorder.value_of(tensor, "a capture")
        return value

    def constant(self, array: Array) -> Tensor:
        return Tensor(self, constant_value(array))

    def parameter(self, parameter: Any) -> Value:
        """The constant that a module's parameter is, one for all that share their memory."""
        if self.parent is not None:
            return self.parent.parameter(parameter)
        data = parameter.data
        memory = data.__array_interface__["data"][0]
        key = (memory, data.shape, data.strides, data.dtype) if data.size else id(parameter)
        value = self.parameters.get(key)
        if value is None:
            value = constant_value(data, self.parameter_names.get(parameter, ""))
            self.parameters[key] = value
        return value

    def input(self, name: str, kind: Type) -> Tensor:
        """A new input of the graph."""
        value = Value(kind, name)
        self.graph.inputs.append(value)
        self.settle(value)
        return Tensor(self, value)

    def shape_of(self, tensor: Tensor) -> Shape:
        kind = tensor.ref.type
        if not isinstance(kind, TensorType):
            raise TraceError(f"{caller()}: a {kind} has no shape")
        if kind.shape is None:
            raise TraceError(
                f"{caller()}: the rank of this tensor depends on data that is not known here"
            )
        return kind.shape

    def value_of(self, tensor: Tensor, reason: str) -> Array:
        value = tensor.ref
        if value.array is not None:
            return value.array
        if value.known is not None and not _has_dims(value.known):
            return value.known
        if reason in _CONVERSIONS:
            reason = called_name() or reason
        raise TraceError(
            f"{caller()}: {reason} needs the value of a tensor, which is not known while a model is captured; "
            + _instead_of(reason)
        )

    # ---------------------------------------------------------------- sizes as tensors
    def constant_of(self, value: Any) -> Tensor | None:
        """A vector of sizes, some symbolic or tensors, as a tensor; None if it is a plain constant."""
        items = value if isinstance(value, (list, tuple)) else [value]
        if not any(isinstance(item, (Expr, Tensor)) for item in items):
            return None
        if any(isinstance(item, Tensor) for item in items):
            parts = [
                item if isinstance(item, Tensor) else self.constant_of([item]) for item in items
            ]
            return self._joined(
                [
                    np.asarray([i], np.int64) if p is None else p
                    for i, p in zip(items, parts, strict=True)
                ]
            )
        vector = self.sizes(tuple(items))
        return vector if isinstance(value, (list, tuple)) else find("", "Squeeze")(vector, [0])

    def _joined(self, parts: Sequence[Any]) -> Tensor:
        wide = [
            find("", "Cast")(find("", "Reshape")(part, [1]), to="int64")
            if isinstance(part, Tensor)
            else part
            for part in parts
        ]
        return find("", "Concat")(*wide, axis=0)

    def sizes(self, dims: Shape) -> Tensor:
        """The node that gives dimensions as an int64 vector, reading each symbol where it was first seen."""
        names = sorted({name for dim in dims for name in symbols(dim)})
        sources: dict[Value, int] = {}
        replaced: dict[str, Dim] = {}
        for name in names:
            value, axis = self.home(name)
            place = sources.setdefault(value, len(sources))
            replaced[name] = symbol(f"{place}.{axis}")
        attributes = {"dims": dims, "sources": {name: str(dim) for name, dim in replaced.items()}}
        return self.record(find("burnx", "Sizes"), list(sources), attributes, 1)[0]

    def home(self, name: str) -> tuple[Value, int]:
        """The value and axis whose size a symbol is."""
        scope: GraphRecorder | None = self
        while scope is not None:
            if name in scope.homes:
                return scope.homes[name]
            scope = scope.parent
        raise ShapeError(f"no tensor here has the size {name!r}")

    def fresh(self) -> Expr:
        """A symbol for a size that has no name."""
        return symbol(f"_{next(self.counter)}")

    # ---------------------------------------------------------------- subgraphs
    def child(self, name: str = "") -> GraphRecorder:
        """A recorder for a subgraph."""
        inner = GraphRecorder(Graph(name), self, self.operators, self.counter)
        inner.metadata, inner.origin = self.metadata, self.origin
        return inner

    def body(self, function: Callable[..., Any], kinds: Sequence[Type]) -> Graph:
        """The graph of a function called with new inputs of these types."""
        inner = self.child(function.__name__.strip("_"))
        with inner.ambient():
            results = function(*(inner.input("", kind) for kind in kinds))
            listed = list(results) if isinstance(results, (list, tuple)) else [results]
            if any(item is None for item in listed):
                raise TraceError(
                    f"{function.__qualname__} gives a tensor for each result, not None"
                )
            tensors = inner.as_tensors(listed)
            inner.graph.outputs = [inner.own(item) for item in tensors]
        inner.graph.output_names = [""] * len(tensors)
        return inner.graph

    def as_tensors(self, values: Sequence[Any]) -> list[Any]:
        """Numbers and arrays as constants; tensors and None as they are."""
        return [
            value
            if value is None or isinstance(value, Tensor)
            else self.constant(np.asarray(value))
            for value in values
        ]

    @contextmanager
    def ambient(self) -> Iterator[None]:
        token = AMBIENT.set(self)
        try:
            yield
        finally:
            AMBIENT.reset(token)


def _expanded(
    recorder: GraphRecorder,
    operator: Operator,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
) -> Any:
    """What the body of a composite operator calls; what several of them need is recorded once."""
    before, recorder.shares = recorder.shares, recorder.depth >= 0
    try:
        return operator.function(*inputs, **attributes)
    finally:
        recorder.shares = before


def _recorded_once(
    recorder: GraphRecorder,
    operator: Operator,
    values: list[Value | None],
    attributes: dict[str, Any],
    wanted: int | None,
) -> list[Tensor]:
    given = tuple((name, str(value)) for name, value in sorted(attributes.items()))
    key = (operator.qualified, tuple(values), given, wanted)
    if key not in recorder.shared:
        recorder.shared[key] = recorder.record(operator, values, attributes, wanted)
    return recorder.shared[key]


def _instead_of(reason: str) -> str:
    """What to write instead of what needs the value of a tensor."""
    if reason == "a decision":
        return _SCRIPTED if is_caller_scripted() else _PLAIN
    if reason in _INSTEAD:
        also = f"; {_SCRIPTED}" if is_caller_scripted() and _INSTEAD[reason] is _ONE else ""
        return _INSTEAD[reason] + also
    name = reason.removesuffix("()").rpartition(".")[2]
    found = spelling(name, dir(burnx.ops))
    return f"write {found}" if found else _INSTEAD["numpy()"]


def _has_dims(known: Array) -> bool:
    return known.dtype == object and any(isinstance(item, Expr) for item in known.flat)
