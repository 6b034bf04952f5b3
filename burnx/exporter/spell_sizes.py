"""Sizes in standard operators: Shape, integer arithmetic and Concat; and Reshape by sizes.

All of it is on vectors of int64.  ONNX's Div truncates and its Mod has the sign of the divisor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.dtype import bool_, int64
from burnx.exporter.spelling import Emitter
from burnx.graph import Node, Value
from burnx.shape import Call, Dim, Expr, Shape, Symbol, Undecided, at_least, symbol_name, symbols
from burnx.types import TensorType, Type

ONE = TensorType(int64, (1,))


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic:
    """Writes dimensions; ``sources`` says which value and axis each symbol is."""

    emitter: Emitter
    sources: dict[str, tuple[Value, int]]

    def vector(self, dims: Sequence[Dim]) -> Value:
        """The dimensions as one vector."""
        parts = [self._run(run) for run in _runs(dims, self.sources)]
        if len(parts) == 1:
            return parts[0]
        return self.emitter.emit("Concat", parts, TensorType(int64, (len(dims),)), axis=0)

    def _run(self, dims: list[Dim]) -> Value:
        if not any(isinstance(dim, Expr) for dim in dims):
            return self.emitter.constant([int(dim) for dim in dims])
        name = symbol_name(dims[0])
        if name is not None:
            value, axis = self.sources[name]
            return self._shape(value, axis, len(dims))
        return self._polynomial(dims[0])

    def _shape(self, value: Value, axis: int, count: int) -> Value:
        emitter, kind = self.emitter, TensorType(int64, (count,))

        def make() -> Value:
            if emitter.opset >= 15:
                return emitter.emit("Shape", [value], kind, start=axis, end=axis + count)
            whole = emitter.emit("Shape", [value], TensorType(int64, None))
            places = emitter.constant(range(axis, axis + count))
            return emitter.emit("Gather", [whole, places], kind, axis=0)

        return emitter.once(("shape", value, axis, count), make)

    def _one(self, dim: Dim) -> Value:
        return self.vector([dim])

    def _apply(self, operator: str, left: Value, right: Value) -> Value:
        key = ("size", operator, left, right)
        return self.emitter.once(key, lambda: self.emitter.emit(operator, [left, right], ONE))

    def _polynomial(self, dim: Dim) -> Value:
        """Sum of products: what is added first, then what is taken away."""
        assert isinstance(dim, Expr)
        terms = sorted(dim.terms.items(), key=lambda item: (item[1] < 0, not item[0]))
        total: Value | None = None
        for monomial, factor in terms:
            size = abs(factor) if total is not None else factor
            operator = "Sub" if factor < 0 else "Add"
            term = self._product(monomial, size)
            total = term if total is None else self._apply(operator, total, term)
        assert total is not None
        return total

    def _product(self, monomial: Sequence[Symbol | Call], factor: int) -> Value:
        values = [self._atom(atom) for atom in monomial]
        if factor != 1 or not values:
            values.append(self.emitter.constant([factor]))
        total = values[0]
        for value in values[1:]:
            total = self._apply("Mul", total, value)
        return total

    def _atom(self, atom: Symbol | Call) -> Value:
        if isinstance(atom, Symbol):
            value, axis = self.sources[atom.name]
            return self._shape(value, axis, 1)
        return _CALLS[atom.kind](self, atom)

    def call(self, operator: str, call: Call) -> Value:
        return self._apply(operator, self._one(call.left), self._one(call.right))

    def floordiv(self, call: Call) -> Value:
        """Div truncates, so what may be negative is first made a multiple of the divisor."""
        left, right = self._one(call.left), self._one(call.right)
        if not (_is_size(call.left) and _is_size(call.right)):
            left = self._apply("Sub", left, self._apply("Mod", left, right))
        return self._apply("Div", left, right)

    def broadcast(self, call: Call) -> Value:
        left, right = self._one(call.left), self._one(call.right)
        emitter, kind = self.emitter, TensorType(int64, (1,))

        def make() -> Value:
            is_one = emitter.emit("Equal", [left, emitter.constant([1])], _BOOL)
            return emitter.emit("Where", [is_one, right, left], kind)

        return emitter.once(("size", "broadcast", left, right), make)


_BOOL = TensorType(bool_, (1,))
_CALLS: dict[str, Callable[[Arithmetic, Call], Value]] = {
    "floordiv": Arithmetic.floordiv,
    "broadcast": Arithmetic.broadcast,
    "mod": lambda arithmetic, call: arithmetic.call("Mod", call),
    "min": lambda arithmetic, call: arithmetic.call("Min", call),
    "max": lambda arithmetic, call: arithmetic.call("Max", call),
}


def _is_size(dim: Dim) -> bool:
    try:
        return at_least(dim, 0)
    except Undecided:
        return False


def _runs(dims: Sequence[Dim], sources: dict[str, tuple[Value, int]]) -> list[list[Dim]]:
    """Dimensions in runs that one node gives: integers, or neighbouring axes of one value."""
    runs: list[list[Dim]] = []
    for dim in dims:
        if runs and _follows(runs[-1], dim, sources):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs or [[]]


def _follows(run: list[Dim], dim: Dim, sources: dict[str, tuple[Value, int]]) -> bool:
    if not isinstance(run[-1], Expr) and not isinstance(dim, Expr):
        return True
    before, name = symbol_name(run[-1]), symbol_name(dim)
    if before is None or name is None:
        return False
    (left, axis), (right, next_axis) = sources[before], sources[name]
    return left is right and next_axis == axis + 1


# ------------------------------------------------------------------------------- spellings
def _arithmetic(node: Node, emitter: Emitter) -> Arithmetic:
    sources: dict[str, tuple[Value, int]] = {}
    for name, place in node.attributes["sources"].items():
        index, axis = place.split(".")
        value = node.inputs[int(index)]
        assert value is not None
        sources[name] = (emitter.resolve(value), int(axis))
    return Arithmetic(emitter, sources)


def spell_sizes(node: Node, emitter: Emitter) -> list[Value]:
    """Sizes as Shape, arithmetic and Concat."""
    return [_arithmetic(node, emitter).vector(node.attributes["dims"])]


def spell_reshape(node: Node, emitter: Emitter) -> list[Value] | None:
    """Reshape by sizes: a constant of 0 (the same axis), numbers and one -1 where that is exact, else computed."""
    data, shape = node.inputs[0], node.inputs[1]
    sizes = emitter.sizes.get(shape) if shape is not None else None
    if data is None or sizes is None:
        return None
    dims = tuple(sizes.attributes["dims"])
    allowzero = bool(node.attributes.get("allowzero"))
    kind = node.outputs[0].type
    constant = constant_shape(data.type, dims, allowzero)
    if constant is not None:
        return [emitter.emit("Reshape", [data, emitter.constant(constant)], kind)]
    full = _settled(dims, data.type, kind, set(sizes.attributes["sources"]), allowzero)
    is_exact = all(isinstance(dim, Expr) or (dim >= 0 and (dim or allowzero)) for dim in full)
    vector = emitter.resolve(shape) if full == dims else _arithmetic(sizes, emitter).vector(full)  # type: ignore[arg-type]
    keeps_zero = 1 if emitter.opset >= 14 and is_exact else None
    return [emitter.emit("Reshape", [data, vector], kind, allowzero=keeps_zero)]


def constant_shape(data: Type, dims: Shape, allowzero: bool) -> list[int] | None:
    """A constant shape for Reshape that means ``dims``, None where there is none.

    At most one axis is -1, and none where a number 0 is wanted.
    """
    have: Shape = (data.shape or ()) if isinstance(data, TensorType) else ()
    found: list[int] = []
    for axis, dim in enumerate(dims):
        is_kept = axis < len(have) and dim == have[axis]
        if isinstance(dim, int) and dim > 0:
            found.append(int(dim))
        elif is_kept or (dim == 0 and not allowzero):
            found.append(0)
        elif dim == 0:
            return None
        else:
            found.append(-1)
    return found if found.count(-1) <= 1 else None


def _settled(
    dims: Shape, data: Type, result: Type, known: set[str], allowzero: bool
) -> tuple[Any, ...]:
    """The dimensions with -1 and the 0 that keeps an axis replaced by sizes, where those can be computed here."""
    have = data.shape if isinstance(data, TensorType) else None
    gives = result.shape if isinstance(result, TensorType) else None
    full: list[Dim] = []
    for axis, dim in enumerate(dims):
        source = gives if dim == -1 else have if dim == 0 and not allowzero else None
        better = source[axis] if source is not None and axis < len(source) else dim
        full.append(better if symbols(better) <= known else dim)
    return tuple(full)
