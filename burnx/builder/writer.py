"""Writer: adds primitives to a program, keeping types, symbols and what is known of every value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from burnx.builder.joining import closed
from burnx.builder.known import fold, measured, native, number_of
from burnx.errors import ModelError
from burnx.primitives import PRIMITIVES
from burnx.program import Binding, Instruction, Program, Region, Var
from burnx.shape import Dim, Expr, Shape, symbol, symbols
from burnx.tensor import AMBIENT, Array, Tensor, Undetermined
from burnx.types import TensorType, Type

FOLD_ELEMENTS = 1024
# primitives that take values of unknown rank, and sequences
_TAKES_ANYTHING = frozenset({"cond", "loop", "defer", "host"})


@dataclass(frozen=True, slots=True)
class Operators:
    """What a builder needs to know of operators: how to find one, and the methods of tensors."""

    find: Callable[[str, str], Any]
    methods: Mapping[str, Callable[..., Any]]


@dataclass(slots=True, eq=False)
class Writer:
    """A program under construction, inside that of ``parent`` if it is the body of a loop or branch.

    ``fold`` is how many elements a value may have that is worked out while building.
    """

    operators: Operators
    parent: Writer | None = None
    fold: int = FOLD_ELEMENTS
    depth: int = 1
    place: str = ""
    program: Program = field(default_factory=Program)
    counter: Any = field(default_factory=lambda: count(1))
    _own: dict[int, Var] = field(default_factory=dict)
    _captures: dict[Var, Var] = field(default_factory=dict)
    _constants: dict[int, Var] = field(default_factory=dict)
    _symbols: set[str] = field(default_factory=set)

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
        known = number_of(tensor.ref)  # type: ignore[arg-type]
        if known is None:
            raise Undetermined(tensor.ref, "value")
        return known

    def constant(self, array: Array) -> Tensor:
        var = self._constants.get(id(array))
        if var is None:
            var = Var(TensorType(native(array), array.shape), array, array)
            self._constants[id(array)] = var
        return Tensor(self, var)

    @contextmanager
    def ambient(self) -> Iterator[None]:
        """Operators called without tensors go to this writer."""
        token = AMBIENT.set(self)
        try:
            yield
        finally:
            AMBIENT.reset(token)

    def call(self, operator: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Run an operator's body and note what it expanded to as a region."""
        start = len(self.program.instructions)
        with self.ambient():
            result = operator.run_body(inputs, attributes)
        stop = len(self.program.instructions)
        if stop - start > 1:
            outputs = tuple(self.adopt(item) for item in flat_tensors(result))
            given = tuple(self.adopt(item) for item in flat_tensors(inputs))
            self.program.regions.append(
                Region(operator.qualified, attributes, given, outputs, start, stop)
            )
        return result

    # ---------------------------------------------------------------- values
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
        if entry.pure and len(types) == 1:
            types = (measured(entry, operands, types[0], attributes, self.fold),)
        binds: list[Binding] = []
        outputs = tuple(
            self._new(self._close(kind, index, binds)) for index, kind in enumerate(types)
        )
        if entry.pure and len(outputs) == 1:
            outputs[0].known = fold(entry, operands, outputs[0].type, attributes, self.fold)
        instruction = Instruction(name, operands, outputs, attributes, self.place, tuple(binds))
        self.program.instructions.append(instruction)
        return [Tensor(self, var) for var in outputs]

    def adopt(self, tensor: Tensor) -> Var:
        """The variable of a tensor in this program; one of an outer program becomes a capture."""
        var: Any = tensor.ref
        if var.array is not None or id(var) in self._own:
            return var
        if self.parent is None:
            raise ModelError("a tensor of another program is used here")
        if var not in self._captures:
            inner = Var(var.type, None, var.known)
            self._own[id(inner)] = inner
            self._captures[var] = inner
        return self._captures[var]

    def finish(self, results: Sequence[Tensor]) -> Program:
        self.program.outputs = tuple(self.adopt(item) for item in results)
        self.program.captures = tuple(self._captures.values())
        self.program.captured = tuple(self._captures)
        return self.program

    def _new(self, kind: Type) -> Var:
        var = Var(kind)
        self._own[id(var)] = var
        return var

    # ---------------------------------------------------------------- sizes
    def fresh_size(self, size: Tensor) -> Dim:
        """A symbol that is bound to the value of ``size`` (int64, one element) while running."""
        kind = self.emit("size_of", (size,))[0].type
        assert isinstance(kind, TensorType) and kind.shape is not None
        return kind.shape[0]

    def fresh(self) -> Expr:
        """A symbol that this program sees."""
        name = f"_{next(self.counter)}"
        self._symbols.add(name)
        return symbol(name)

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

    def renamed(self, kind: Type) -> Type:
        """``kind`` with a symbol of a body's own for each size that may change from turn to turn."""
        return closed(kind, lambda: symbol(f"_{next(self.counter)}"))

    def visible(self, kind: Type) -> Type:
        """``kind`` with None for each size that uses a symbol from inside a body."""
        if not isinstance(kind, TensorType) or kind.shape is None:
            return kind
        return TensorType(kind.dtype, tuple(dim if self._sees(dim) else None for dim in kind.shape))  # type: ignore[misc]

    def _sees(self, dim: Dim | None) -> bool:
        return dim is not None and all(self._has_symbol(name) for name in symbols(dim))

    def _has_symbol(self, name: str) -> bool:
        return name in self._symbols or (self.parent is not None and self.parent._has_symbol(name))


def flat_tensors(values: Any) -> list[Tensor]:
    """Every tensor in nested lists and tuples."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, (list, tuple)):
        return [tensor for value in values for tensor in flat_tensors(value)]
    return []
