"""Builder: runs the bodies of operators on abstract values and writes the primitives they call into a Program.

The same run is what infers shapes and dtypes (the program is thrown away) and what lowers a graph.  Where a body
needs a number that is only known while running, the rest of the graph becomes one ``defer`` instruction: it is
lowered when the number is there, and kept for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnx.builder.continuation import Continuation, Settled
from burnx.builder.joining import join_types, opened
from burnx.builder.known import number_of, trip_count
from burnx.builder.writer import Writer
from burnx.dtype import bool_, int64
from burnx.errors import ModelError, UnsupportedError, located
from burnx.graph import Graph, Node, Value, captured_by
from burnx.program import Program
from burnx.shape import Dim
from burnx.tensor import Tensor, Undetermined
from burnx.types import SequenceType, TensorType, Type

Body = Graph | Callable[..., Sequence[Tensor]]


@dataclass(slots=True, eq=False)
class Builder(Writer):
    """A writer that runs operators, bodies and graphs.

    An ``open`` builder takes values of a graph that it has not seen by their types.
    """

    open: bool = False
    env: dict[Value, Tensor] = field(default_factory=dict)

    # ---------------------------------------------------------------- control flow
    def body(self, body: Body, params: Sequence[Type]) -> Program:
        """The program of a loop body or branch."""
        child = Builder(
            self.operators,
            self,
            self.fold,
            self.depth + 1,
            self.place,
            counter=self.counter,
            _constants=self._constants,
        )
        inputs = [child.input(kind) for kind in params]
        with child.ambient():
            if isinstance(body, Graph):
                results = child.run_graph(body, inputs)
            else:
                results = list(body(*inputs))
        return child.finish(results)

    def _captured(self, *programs: Program) -> list[Tensor]:
        return [Tensor(self, var) for program in programs for var in program.captured]

    def branch(self, condition: Tensor, then: Body, otherwise: Body) -> list[Tensor]:
        """Run one of two bodies; only that one is built if the condition is known."""
        known = number_of(condition.ref)  # type: ignore[arg-type]
        if known is not None:
            chosen = then if bool(known.reshape(())) else otherwise
            if isinstance(chosen, Graph):
                return self.run_graph(chosen, [])
            return list(chosen())
        programs = tuple(self.body(each, ()) for each in (then, otherwise))
        counts = [len(each.outputs) for each in programs]
        if counts[0] != counts[1]:
            raise ModelError(f"both branches give as many values, not {counts[0]} and {counts[1]}")
        pairs = zip(*(each.outputs for each in programs), strict=True)
        types = tuple(self.visible(join_types(a.type, b.type)) for a, b in pairs)
        return self.emit(
            "cond", [condition, *self._captured(*programs)], programs=programs, types=types
        )

    def repeat(
        self, trips: Tensor | None, condition: Tensor | None, carried: Sequence[Tensor], body: Body
    ) -> list[Tensor]:
        """Run a body again and again; the types of what it carries are widened until they hold."""
        types = [item.type for item in carried]
        count = len(types)
        scalars = TensorType(int64, ()), TensorType(bool_, ())
        while True:
            program = self.body(body, [*scalars, *(self.renamed(kind) for kind in types)])
            results = [var.type for var in program.outputs[1 : 1 + count]]
            if len(results) != count:
                raise ModelError(f"a loop that carries {count} values gives only {len(results)}")
            wider = [join_types(a, b) for a, b in zip(types, results, strict=True)]
            if wider == types:
                break
            types = wider
        times = trip_count(trips, condition, (program.inputs[1], program.outputs[0]))
        finals = [self.visible(kind) for kind in types]
        items = [self._stacked(var.type, times) for var in program.outputs[1 + count :]]
        return self.emit(
            "loop",
            [trips, condition, *carried, *self._captured(program)],
            program=program,
            types=(*finals, *items),
        )

    def _stacked(self, kind: Type, times: Dim | None) -> Type:
        if not isinstance(kind, TensorType):
            return SequenceType(kind)
        if kind.shape is None:
            return kind
        inner = self.visible(kind)
        assert isinstance(inner, TensorType) and inner.shape is not None
        return TensorType(kind.dtype, (times, *inner.shape))  # type: ignore[arg-type]

    # ---------------------------------------------------------------- graphs
    def run_graph(self, graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Lower the nodes of a graph; a subgraph sees the values of the graphs around it."""
        self._enter(graph, inputs)
        return self.run_nodes(graph.nodes, graph.outputs)

    def run_whole(self, graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Lower the nodes of a graph, all of them.

        Raises: Undetermined if one needs to know more.
        """
        self._enter(graph, inputs)
        outer = self.place
        try:
            for node in graph.nodes:
                self.place = node.place
                self._run_node(node)
        except Undetermined as need:
            need.args = (f"{need}, {self.place}",)  # it is another node that will wait
            raise
        finally:
            self.place = outer
        return [self.lookup(value) for value in graph.outputs]

    def _enter(self, graph: Graph, inputs: Sequence[Tensor]) -> None:
        if len(inputs) != len(graph.inputs):
            raise ModelError(
                f'graph "{graph.name}" takes {len(graph.inputs)} inputs, not {len(inputs)}'
            )
        self.env.update(zip(graph.inputs, inputs, strict=True))

    def run_nodes(self, nodes: list[Node], results: Sequence[Value]) -> list[Tensor]:
        """Lower nodes until one needs to know more; that one and all after it are deferred."""
        outer = self.place
        try:
            for index, node in enumerate(nodes):
                self.place = node.place
                done = len(self.program.instructions), len(self.program.regions)
                try:
                    self._run_node(node)
                except Undetermined as need:
                    del self.program.instructions[done[0] :], self.program.regions[done[1] :]
                    return self._defer(nodes[index:], results, need)
        finally:
            self.place = outer
        return [self.lookup(value) for value in results]

    def _run_node(self, node: Node) -> None:
        with located(node.place):
            operator = self.operators.find(node.domain, node.operator)
            inputs = [None if value is None else self.lookup(value) for value in node.inputs]
            outputs = operator.lower(self, inputs, node.attributes, len(node.outputs))
        self.env.update(zip(node.outputs, outputs, strict=False))

    def lookup(self, value: Value) -> Tensor:
        """The tensor that a value of the graph has become; an input is one though its value is known."""
        if value in self.env:
            return self.env[value]
        if value.array is not None:
            if isinstance(value.type, TensorType):
                return self.constant(value.array)
            return self._held(value)
        scope: Any = self
        while scope is not None:
            if value in scope.env:
                return scope.env[value]
            if scope.parent is None and scope.open:
                return scope._assume(value)
            scope = scope.parent
        raise ModelError(f'value "{value.name}" is used before anything gives it')

    def _held(self, value: Value) -> Tensor:
        """A sequence or map that is there already."""
        types = (value.type,)
        return self.emit("host", [], function=lambda: [value.array], types=types, name="Held")[0]

    def _assume(self, value: Value) -> Tensor:
        """A value from outside of what is inferred, by its type and what is known of it."""
        tensor = self.input(value.type)
        tensor.ref.known = value.known
        self.env[value] = tensor
        return tensor

    # ---------------------------------------------------------------- deferral
    def _defer(
        self, nodes: list[Node], results: Sequence[Value], need: Undetermined
    ) -> list[Tensor]:
        """One instruction that lowers and runs the rest when what it needs is there."""
        found = {value: self.lookup(value) for value in captured_by(nodes, list(results), set())}
        constants = {
            value: known
            for value, tensor in found.items()
            if (known := number_of(tensor.ref)) is not None  # type: ignore[arg-type]
        }
        values = [value for value in found if value not in constants]
        fixed = {value: what for value in values if (what := _settled(found[value]))}
        wanted = self._wanted(nodes[0], found, values, fixed, need)
        if not wanted:
            raise UnsupportedError(f"{need} but everything is given, {nodes[0].place}")
        rest = Continuation(
            Builder,
            self.operators,
            nodes,
            list(results),
            {value: found[value].type for value in values},
            constants,
            {**fixed, **wanted},
        )
        types = tuple(opened(value.type) for value in results)
        return self.emit(
            "defer", [found[value] for value in values], continuation=rest, types=types
        )

    def _wanted(
        self,
        node: Node,
        found: Mapping[Value, Tensor],
        values: Sequence[Value],
        fixed: Mapping[Value, Settled],
        need: Undetermined,
    ) -> dict[Value, Settled]:
        """What has to be known of which values before ``node`` is tried again; nothing if that is known already."""
        exact = [value for value in values if found[value].ref is need.reference]
        own = [value for value in node.inputs if value is not None and value in values]
        steps: list[tuple[list[Value], Settled]] = [
            (exact, "shape" if need.what == "shape" else "value"),
            (own or list(values), "shape"),
            ([value for value in own if not _is_float(value.type)], "value"),
            (own or list(values), "value"),
        ]
        for chosen, what in steps:
            missing = [value for value in chosen if fixed.get(value) not in ("value", what)]
            if missing:
                return dict.fromkeys(missing, what)
        return {}


def _settled(tensor: Tensor) -> Settled | None:
    """Whether the shape of a value is known already."""
    shape = tensor.type.shape if isinstance(tensor.type, TensorType) else None
    return "shape" if shape is not None and all(isinstance(dim, int) for dim in shape) else None


def _is_float(kind: Type) -> bool:
    return isinstance(kind, TensorType) and kind.dtype.kind not in "iubO"
