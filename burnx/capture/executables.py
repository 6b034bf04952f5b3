"""The programs of a graph that are ready to run: one for each kind of input, and some for exact sizes.

A program holds for all sizes.  Where a graph decides by sizes (a branch, a rank), parts of it are only lowered while it
runs; if the same sizes come again and again, such a graph gets a program for just these.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

from burnx.dtype import dtype_name
from burnx.graph import Graph, Value
from burnx.program import Program, walk
from burnx.runtime.collection import collection_put_off
from burnx.runtime.device import Device, Executable, Shelf, open_kept, prepare
from burnx.runtime.device_array import is_array
from burnx.shape import symbol
from burnx.types import TensorType, Type

COMES_AGAIN = 2  # calls with the same sizes, after which they are worth a program of their own
KEPT = 8  # programs for exact sizes
SETTLED_BYTES = 32 << 20  # of constants: a larger graph would hold too much twice


Fixed = Sequence[int]


class Executables:
    """Makes the programs of a graph when they are first needed.

    ``face`` is the graph, or the graph without its nodes, whose programs are on the ``shelf``; ``read`` gives it whole.
    """

    def __init__(
        self,
        face: Graph,
        read: Callable[[], Graph],
        where: Device,
        options: Mapping[str, Any],
        shelf: Shelf | None = None,
    ) -> None:
        self._face, self._read, self._shelf = face, read, shelf
        self._device, self._options = where, options
        self._by_kind: dict[Any, Executable] = {}
        self._by_sizes: OrderedDict[Any, Executable] = OrderedDict()
        self._undecided: dict[Any, bool] = {}
        self._calls: Counter[Any] = Counter()
        self._lock = Lock()

    def find(self, values: Sequence[Any]) -> Executable:
        """The program for inputs like these."""
        fixed = self._fixed(values)
        kind = (signature(values), fixed)
        executable = self._by_kind.get(kind)
        if executable is None:
            executable = self._find_kept(values, fixed)
            if executable is not None:
                return executable
            executable = self._make(kind, values, fixed)
        if not self._undecided[kind]:
            return executable
        return self._settled(values, fixed) or executable

    def lower(self, values: Sequence[Any]) -> Program:
        """A program for inputs like these, made anew."""
        return self._lower(self._types(values), self._fixed(values))

    def _fixed(self, values: Sequence[Any]) -> Fixed:
        """The inputs that were left at their defaults: constants, as far as the program is concerned."""
        defaults = self._face.defaults
        if not defaults:
            return ()
        pairs = enumerate(zip(self._face.inputs, values, strict=True))
        return tuple(at for at, (v, given) in pairs if v in defaults and defaults[v] is given)

    def _make(self, kind: Any, values: Sequence[Any], fixed: Fixed) -> Executable:
        with self._lock, collection_put_off():
            executable = self._by_kind.get(kind)
            if executable is None:
                executable = self._open(values, fixed)
                self._undecided[kind] = _is_undecided(executable.program)
                self._by_kind[kind] = executable
        return executable

    def _settled(self, values: Sequence[Any], fixed: Fixed) -> Executable | None:
        """The program for exactly these sizes, once they came often enough."""
        sizes = _exact(values, fixed)
        executable = self._by_sizes.get(sizes)
        if executable is not None or sizes is None:
            return executable
        with self._lock:
            self._calls[sizes] += 1
            if self._calls[sizes] < COMES_AGAIN or sizes in self._by_sizes:
                if len(self._calls) > 64 * KEPT:
                    self._calls.clear()
                return self._by_sizes.get(sizes)
            types = [TensorType(v.dtype, v.shape) for v in values]
            slot = self._shelf.find_slot(_text(*sizes)) if self._shelf is not None else None
            executable = prepare(self._lower(types, fixed), self._device, self._options, slot)
            self._add_settled(sizes, executable)
        return executable

    def _add_settled(self, sizes: Any, executable: Executable) -> None:
        self._by_sizes[sizes] = executable
        if len(self._by_sizes) > KEPT:
            self._by_sizes.popitem(last=False)

    def _find_kept(self, values: Sequence[Any], fixed: Fixed) -> Executable | None:
        """The program for exactly these sizes that an earlier process has kept."""
        sizes = _exact(values, fixed) if self._shelf is not None else None
        if sizes is None or self._shelf is None or sizes in self._by_sizes:
            return self._by_sizes.get(sizes)
        with self._lock:
            executable = self._by_sizes.get(sizes)
            if executable is None:
                types: list[Type] = [TensorType(v.dtype, v.shape) for v in values]
                make = partial(self._lower, types, fixed)
                slot = self._shelf.find_slot(_text(*sizes))
                executable = open_kept(slot, self._device, self._options, make)
                if executable is not None:
                    self._add_settled(sizes, executable)
        return executable

    def _open(self, values: Sequence[Any], fixed: Fixed) -> Executable:
        """The program of a kind of input, kept or made."""
        slot, found = None, None
        make = partial(self._lower, self._types(values), fixed)
        sizes = _exact(values, fixed)
        if self._shelf is not None and sizes is not None:
            slot = self._shelf.find_slot(_text([(d, len(shape)) for d, shape in sizes[0]], fixed))
            found = open_kept(slot, self._device, self._options, make)
        return found or prepare(make(), self._device, self._options, slot)

    def _types(self, values: Sequence[Any]) -> list[Type]:
        pairs = zip(self._face.inputs, values, strict=True)
        return [_run_type(value, given) for value, given in pairs]

    def _lower(self, types: Sequence[Type], fixed: Fixed) -> Program:
        from burnx.lowering import lower

        graph = self._read()
        given = [graph.inputs[place] for place in fixed]
        return lower(graph, types, {value: graph.defaults[value] for value in given})


def _is_undecided(program: Program) -> bool:
    """Whether parts are lowered while it runs, and it is small enough to be had twice."""
    constants = {
        id(var.array): var.array.nbytes
        for each in walk(program)
        for var in each.inputs
        if var is not None and var.array is not None
    }
    if sum(constants.values()) > SETTLED_BYTES:
        return False
    return any(each.primitive == "defer" for each in program.instructions)


def signature(values: Sequence[Any]) -> tuple[Any, ...]:
    """What a program depends on: dtypes and ranks, not sizes."""
    return tuple((v.dtype, v.ndim) if is_array(v) else type(v) for v in values)


def _exact(values: Sequence[Any], fixed: Fixed) -> tuple[Any, ...] | None:
    """The dtypes and shapes of inputs, and which are defaults; None if one of them is no array."""
    if not all(map(is_array, values)):
        return None
    return tuple([(value.dtype, value.shape) for value in values]), tuple(fixed)


def _text(kinds: Sequence[tuple[Any, Any]], fixed: Fixed) -> list[Any]:
    """What a program depends on, as a shelf names it: dtypes with sizes or ranks, and which inputs are fixed."""
    return [[[dtype_name(dtype), rest] for dtype, rest in kinds], list(fixed)]


def _run_type(value: Value, given: Any) -> Type:
    kind = value.type
    if isinstance(kind, TensorType) and kind.shape is None and is_array(given):
        dims = tuple(symbol(f"_{value.name}_{axis}") for axis in range(given.ndim))
        return TensorType(kind.dtype, dims)
    return kind
