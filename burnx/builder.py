"""Builder: runs the bodies of operators on abstract values and writes the primitives they call into a Program.

The same run is what infers shapes and dtypes (the program is thrown away) and what lowers a graph.  Where a body
needs a number that is only known while running, the rest of the graph becomes one ``defer`` instruction: it is
lowered when the number is there, and kept for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from burnx.dtype import bool_, int64, string
from burnx.errors import BurnxError, ModelError, UnsupportedError, located
from burnx.graph import Graph, Node, Value, captured_by
from burnx.primitives import PRIMITIVES
from burnx.program import Binding, Instruction, Program, Region, Var
from burnx.shape import Dim, Expr, Shape, symbol, symbols
from burnx.tensor import AMBIENT, Array, Tensor, Undetermined
from burnx.types import SequenceType, TensorType, Type

FOLD_ELEMENTS = 1024
Body = Graph | Callable[..., Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class Operators:
    """What a builder needs to know of operators: how to find one, and the methods of tensors."""

    find: Callable[[str, str], Any]
    methods: Mapping[str, Callable[..., Any]]


@dataclass(slots=True, eq=False)
class Builder:
    """A program under construction, inside that of ``parent`` if it is the body of a loop or branch.

    ``fold`` is how many elements a value may have that is worked out while building.  An ``open`` builder takes
    values of a graph that it has not seen by their types.
    """

    operators: Operators
    parent: Builder | None = None
    fold: int = FOLD_ELEMENTS
    depth: int = 1
    place: str = ""
    open: bool = False
    program: Program = field(default_factory=Program)
    counter: Any = field(default_factory=lambda: count(1))
    env: dict[Value, Tensor] = field(default_factory=dict)
    _own: dict[int, Var] = field(default_factory=dict)
    _captures: dict[Var, Var] = field(default_factory=dict)
    _constants: dict[int, Var] = field(default_factory=dict)
    _symbols: set[str] = field(default_factory=set)

    # ---------------------------------------------------------------- Recorder
    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]:
        return self.operators.methods

    def shape_of(self, tensor: Tensor) -> Shape:
        kind = tensor.ref.type
        if not isinstance(kind, TensorType):
            raise ModelError(f"a {kind} has no shape")
        if kind.shape is None:
            raise Undetermined(tensor.ref, "shape")
        return kind.shape

    def value_of(self, tensor: Tensor, reason: str) -> Array:
        known = tensor.ref.array if tensor.ref.array is not None else tensor.ref.known
        if known is None or known.dtype == object and tensor.dtype != string:
            raise Undetermined(tensor.ref, "value")
        return known

    def constant(self, array: Array) -> Tensor:
        var = self._constants.get(id(array))
        if var is None:
            var = Var(TensorType(_native(array), array.shape), array, array)
            self._constants[id(array)] = var
        return Tensor(self, var)

    def call(self, operator: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Run an operator's body and note what it expanded to as a region."""
        start = len(self.program.instructions)
        with self.ambient():
            result = operator.function(*inputs, **attributes)
        stop = len(self.program.instructions)
        if stop - start > 1:
            outputs = tuple(item.ref for item in flat_tensors(result))
            given = tuple(self.adopt(item) for item in flat_tensors(inputs))
            self.program.regions.append(
                Region(operator.qualified, attributes, given, outputs, start, stop)  # type: ignore[arg-type]
            )
        return result

    # ---------------------------------------------------------------- primitives
    @contextmanager
    def ambient(self) -> Any:
        token = AMBIENT.set(self)
        try:
            yield
        finally:
            AMBIENT.reset(token)

    def input(self, kind: Type) -> Tensor:
        """A new input of the program; its symbols are bound by the value it gets."""
        var = self._new(kind)
        self.program.inputs = (*self.program.inputs, var)
        if isinstance(kind, TensorType) and kind.shape is not None:
            self._symbols |= {name for dim in kind.shape for name in symbols(dim)}
        return Tensor(self, var)

    def emit(
        self, name: str, inputs: Sequence[Tensor | None], /, **attributes: Any
    ) -> list[Tensor]:
        """Add one primitive."""
        entry = PRIMITIVES[name]
        if name not in _TAKES_ANYTHING:
            for item in inputs:
                if item is not None:
                    self.shape_of(item)
        operands = tuple(None if item is None else self.adopt(item) for item in inputs)
        types = entry.infer(
            *(var.type if var is not None else None for var in operands), **attributes
        )
        types = types if isinstance(types, tuple) else (types,)
        binds: list[Binding] = []
        outputs = tuple(
            self._new(self._close(kind, index, binds)) for index, kind in enumerate(types)
        )
        if entry.pure and len(outputs) == 1:
            outputs[0].known = self._fold(entry, operands, outputs[0].type, attributes)
        instruction = Instruction(name, operands, outputs, attributes, self.place, tuple(binds))
        self.program.instructions.append(instruction)
        return [Tensor(self, var) for var in outputs]

    def adopt(self, tensor: Tensor) -> Var:
        """The variable of a tensor in this program; one of an outer program becomes a capture."""
        var: Any = tensor.ref
        if var.array is not None or id(var) in self._own:
            return var  # type: ignore[no-any-return]
        if self.parent is None:
            raise ModelError("a tensor of another program is used here")
        if var not in self._captures:
            inner = Var(var.type, None, var.known)
            self._own[id(inner)] = inner
            self._captures[var] = inner
        return self._captures[var]

    def fresh_size(self, size: Tensor) -> Dim:
        """A symbol that is bound to the value of ``size`` (int64, one element) while running."""
        kind = self.emit("size_of", (size,))[0].type
        assert isinstance(kind, TensorType) and kind.shape is not None
        return kind.shape[0]

    def fresh(self) -> Expr:
        name = f"_{next(self.counter)}"
        self._symbols.add(name)
        return symbol(name)

    def _new(self, kind: Type) -> Var:
        var = Var(kind)
        self._own[id(var)] = var
        return var

    def _close(self, kind: Type, index: int, binds: list[Binding]) -> Type:
        """``kind`` with a bound symbol for each size that is only known while running."""
        if not isinstance(kind, TensorType) or kind.shape is None or None not in kind.shape:
            return kind
        dims: list[Dim] = []
        for axis, dim in enumerate(kind.shape):
            if dim is None:
                fresh = self.fresh()
                binds.append(Binding(str(fresh), index, axis))
                dims.append(fresh)
            else:
                dims.append(dim)
        return TensorType(kind.dtype, tuple(dims))

    def _fold(
        self, entry: Any, operands: Iterable[Var | None], kind: Type, attributes: Mapping[str, Any]
    ) -> Array | None:
        """What is known of a result: computed from what is known of the operands, if it is small."""
        if entry.name == "sizes":
            return _dims_array(attributes["dims"])
        if not isinstance(kind, TensorType) or _elements(kind) > self.fold or _has_dims(attributes):
            return None
        values: list[Array] = []
        symbolic = False
        for var in operands:
            known = None if var is None else var.known if var.known is not None else var.array
            if known is None or known.size > self.fold:
                return None
            assert var is not None and isinstance(var.type, TensorType)
            symbolic = symbolic or (known.dtype == object and var.type.dtype != string)
            values.append(known)
        return _evaluate(entry, values, attributes) if entry.symbolic or not symbolic else None

    # ---------------------------------------------------------------- control flow
    def _child(self) -> Builder:
        return Builder(
            self.operators,
            self,
            self.fold,
            self.depth + 1,
            self.place,
            counter=self.counter,
            _constants=self._constants,
        )

    def body(self, body: Body, params: Sequence[Type]) -> Builder:
        """Build the program of a loop body or branch."""
        child = self._child()
        inputs = [child.input(kind) for kind in params]
        with child.ambient():
            if isinstance(body, Graph):
                results = child.run_graph(body, inputs)
            else:
                results = list(body(*inputs))
        child.finish(results)
        return child

    def finish(self, results: Sequence[Tensor]) -> Program:
        self.program.outputs = tuple(self.adopt(item) for item in results)
        self.program.captures = tuple(self._captures.values())
        self.program.captured = tuple(self._captures)
        return self.program

    def _captured(self, *children: Builder) -> list[Tensor]:
        return [Tensor(self, var) for child in children for var in child.program.captured]

    def branch(self, condition: Tensor, then: Body, otherwise: Body) -> list[Tensor]:
        """Run one of two bodies; only that one is built if the condition is known."""
        known = condition.ref.array if condition.ref.array is not None else condition.ref.known
        if known is not None:
            chosen = then if bool(known.reshape(())) else otherwise
            if isinstance(chosen, Graph):
                return self.run_graph(chosen, [])
            return list(chosen())
        bodies = [self.body(each, ()) for each in (then, otherwise)]
        pairs = zip(*(each.program.outputs for each in bodies), strict=True)
        types = tuple(self._visible(join_types(a.type, b.type)) for a, b in pairs)
        programs = tuple(each.program for each in bodies)
        return self.emit(
            "cond", [condition, *self._captured(*bodies)], programs=programs, types=types
        )

    def repeat(
        self, trips: Tensor | None, condition: Tensor | None, carried: Sequence[Tensor], body: Body
    ) -> list[Tensor]:
        """Run a body again and again; the types of what it carries are widened until they hold."""
        types = [item.type for item in carried]
        scalar = TensorType(int64, ()), TensorType(bool_, ())
        for _ in range(4):
            params = [*scalar, *(self._rename(kind) for kind in types)]
            child = self.body(body, params)
            results = [var.type for var in child.program.outputs[1 : 1 + len(types)]]
            wider = [join_types(a, b) for a, b in zip(types, results, strict=True)]
            if wider == types:
                break
            types = wider
        finals = [
            self._visible(join_types(item.type, kind))
            for item, kind in zip(carried, types, strict=True)
        ]
        items = [self._stacked(var.type) for var in child.program.outputs[1 + len(types) :]]
        return self.emit(
            "loop",
            [trips, condition, *carried, *self._captured(child)],
            program=child.program,
            types=(*finals, *items),
        )

    def _rename(self, kind: Type) -> Type:
        """``kind`` with a symbol of the body's own for each size that may change from turn to turn."""
        if not isinstance(kind, TensorType) or kind.shape is None:
            return kind
        return TensorType(
            kind.dtype, tuple(self._unbound() if dim is None else dim for dim in kind.shape)
        )

    def _unbound(self) -> Expr:
        return symbol(f"_{next(self.counter)}")

    def _visible(self, kind: Type) -> Type:
        """``kind`` with None for each size that uses a symbol from inside a body."""
        if not isinstance(kind, TensorType) or kind.shape is None:
            return kind
        return TensorType(kind.dtype, tuple(dim if self._sees(dim) else None for dim in kind.shape))  # type: ignore[misc]

    def _sees(self, dim: Dim | None) -> bool:
        if dim is None:
            return False
        return all(self._has_symbol(name) for name in symbols(dim))

    def _has_symbol(self, name: str) -> bool:
        return name in self._symbols or (self.parent is not None and self.parent._has_symbol(name))

    def _stacked(self, kind: Type) -> Type:
        if not isinstance(kind, TensorType):
            return SequenceType(kind)
        if kind.shape is None:
            return kind
        inner = self._visible(kind)
        assert isinstance(inner, TensorType) and inner.shape is not None
        return TensorType(kind.dtype, (None, *inner.shape))  # type: ignore[arg-type]

    # ---------------------------------------------------------------- graphs
    def run_graph(self, graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Lower the nodes of a graph; a subgraph sees the values of the graphs around it."""
        if len(inputs) != len(graph.inputs):
            raise ModelError(
                f'graph "{graph.name}" takes {len(graph.inputs)} inputs, not {len(inputs)}'
            )
        self.env.update(zip(graph.inputs, inputs, strict=True))
        return self.run_nodes(graph.nodes, graph.outputs)

    def run_nodes(self, nodes: list[Node], results: Sequence[Value]) -> list[Tensor]:
        outer = self.place
        for index, node in enumerate(nodes):
            self.place = node.place
            checkpoint = len(self.program.instructions), len(self.program.regions)
            try:
                self._run_node(node)
            except Undetermined as need:
                del (
                    self.program.instructions[checkpoint[0] :],
                    self.program.regions[checkpoint[1] :],
                )
                return self._defer(nodes[index:], results, need)
        self.place = outer
        return [self.lookup(value) for value in results]

    def _run_node(self, node: Node) -> None:
        with located(node.place):
            operator = self.operators.find(node.domain, node.operator)
            inputs = [None if value is None else self.lookup(value) for value in node.inputs]
            outputs = operator.lower(self, inputs, node.attributes, len(node.outputs))
        self.env.update(zip(node.outputs, outputs, strict=False))

    def lookup(self, value: Value) -> Tensor:
        """The tensor that a value of the graph has become."""
        if value.array is not None:
            return self.constant(value.array)
        scope: Builder | None = self
        while scope is not None:
            if value in scope.env:
                return scope.env[value]
            if scope.parent is None and scope.open:
                return scope._assume(value)
            scope = scope.parent
        raise ModelError(f'value "{value.name}" is used before anything gives it')

    def _assume(self, value: Value) -> Tensor:
        """A value from outside of what is inferred, by its type and what is known of it."""
        tensor = self.input(value.type)
        tensor.ref.known = value.known
        self.env[value] = tensor
        return tensor

    def _defer(
        self, nodes: list[Node], results: Sequence[Value], need: Undetermined
    ) -> list[Tensor]:
        values = captured_by(nodes, list(results), set())
        fixed = {value: what for value in values if (what := self._settled(value))}
        wanted = {value: need.what for value in values if self.lookup(value).ref is need.reference}
        if not wanted:
            own = [value for value in nodes[0].inputs if value in values] or values
            wanted = dict.fromkeys((value for value in own if value is not None), "value")
        if all(fixed.get(value) in ("value", what) for value, what in wanted.items()):
            raise UnsupportedError(f"{need} but everything is given, {nodes[0].place}")
        rest = Continuation(self.operators, nodes, list(results), values, {**fixed, **wanted})
        types = tuple(_opened(value.type) for value in results)
        tensors = [self.lookup(value) for value in values]
        return self.emit("defer", tensors, continuation=rest, types=types)

    def _settled(self, value: Value) -> str:
        """What of a value is known already: its "value", its "shape", or neither."""
        ref = self.lookup(value).ref
        if ref.array is not None:
            return "value"
        shape = ref.type.shape if isinstance(ref.type, TensorType) else None
        return "shape" if shape is not None and all(isinstance(dim, int) for dim in shape) else ""


_TAKES_ANYTHING = frozenset({"cond", "loop", "defer", "host"})


@dataclass(slots=True, eq=False)
class Continuation:
    """The rest of a graph, lowered once per value of what it waits for.

    ``wanted`` says of which values it needs the "value" or the "shape".
    """

    operators: Operators
    nodes: list[Node]
    results: list[Value]
    values: list[Value]
    wanted: dict[Value, str]
    programs: dict[Any, tuple[Program, list[int]]] = field(default_factory=dict)

    def __call__(self, arrays: Sequence[Any]) -> tuple[Program, list[int]]:
        """The program for these values, and which of them are its inputs."""
        key = tuple(self._key(*pair) for pair in zip(self.values, arrays, strict=True))
        if key not in self.programs:
            if len(self.programs) >= 256:
                self.programs.clear()
            self.programs[key] = self._build(arrays)
        return self.programs[key]

    def _key(self, value: Value, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return type(array)
        what = self.wanted.get(value)
        if what is None:
            return array.dtype, array.ndim
        if what == "shape":
            return array.dtype, array.shape
        content = array.tobytes() if array.dtype != object else tuple(array.flat)
        return array.dtype, array.shape, content

    def _build(self, arrays: Sequence[Any]) -> tuple[Program, list[int]]:
        builder = Builder(self.operators, fold=2**20)
        inputs: list[int] = []
        for place, (value, array) in enumerate(zip(self.values, arrays, strict=True)):
            if self.wanted.get(value) == "value" and isinstance(array, np.ndarray):
                builder.env[value] = builder.constant(np.array(array))
                continue
            inputs.append(place)
            builder.env[value] = builder.input(self._input_type(builder, value, array))
        with builder.ambient():
            results = builder.run_nodes(self.nodes, self.results)
        return builder.finish(results), inputs

    def _input_type(self, builder: Builder, value: Value, array: Any) -> Type:
        if not isinstance(array, np.ndarray):
            return value.type
        if value in self.wanted:
            return TensorType(_native(array), array.shape)
        return TensorType(_native(array), tuple(builder.fresh() for _ in range(array.ndim)))


def _native(array: Array) -> Any:
    return string if array.dtype == object else array.dtype


def _dims_array(dims: Shape) -> Array:
    if all(isinstance(dim, int) for dim in dims):
        return np.array(dims, np.int64).reshape(len(dims))
    result = np.empty(len(dims), object)
    result[:] = dims
    return result


def _evaluate(entry: Any, values: list[Array], attributes: Mapping[str, Any]) -> Array | None:
    try:
        result = np.asarray(entry.evaluate(*values, **attributes))
    except (BurnxError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # an error belongs to the run, which may never come here
    except Exception as error:
        if type(error).__name__ != "Undecided":
            raise
        return None
    if (
        result.dtype == object
        and result.size
        and all(isinstance(item, int) for item in result.flat)
    ):
        return result.astype(np.int64)
    return result


def _elements(kind: TensorType) -> float:
    total = 1
    for dim in kind.shape or ():
        if not isinstance(dim, int):
            return float("inf")
        total *= dim
    return total


def _has_dims(attributes: Mapping[str, Any]) -> bool:
    return any(
        isinstance(value, Expr)
        or (isinstance(value, tuple) and any(isinstance(item, Expr) for item in value))
        for value in attributes.values()
    )


def join_types(left: Type, right: Type) -> Type:
    """The least type that covers both; a size of None stands for sizes that differ."""
    if left == right:
        return left
    if isinstance(left, TensorType) and isinstance(right, TensorType) and left.dtype == right.dtype:
        if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
            return TensorType(left.dtype, None)
        dims = tuple(a if a == b else None for a, b in zip(left.shape, right.shape, strict=True))
        return TensorType(left.dtype, dims)  # type: ignore[arg-type]
    if type(left) is type(right) and not isinstance(left, TensorType):
        return left
    raise ModelError(f"two branches, or two turns of a loop, give {left} and {right}")


def _opened(kind: Type) -> Type:
    """``kind`` with None for each size that is not a number."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    dims = tuple(dim if isinstance(dim, int) else None for dim in kind.shape)
    return TensorType(kind.dtype, dims)  # type: ignore[arg-type]


def flat_tensors(values: Any) -> list[Tensor]:
    """Every tensor in nested lists and tuples."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in flat_tensors(value)]
    return []
