"""Dimensions, types, attributes and instructions as JSON, and back.

Nothing is made of an entry but what is on this page: plain numbers and texts, dtypes, small arrays, dimensions, types
and instructions of primitives.  An attribute of another kind cannot be written, and what holds it is not kept.

A value that JSON does not know is a list whose first item says what it is: ``["tuple", ...]``, ``["dtype", "int8"]``.
A dimension that is no number stands in a table, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, dtype_name, string
from burnx.errors import DTypeError
from burnx.program import Binding, Instruction, Program, Var
from burnx.shape import Atom, Call, Dim, Expr, Symbol
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

Array = np.ndarray[Any, Any]


class Unkeepable(Exception):
    """Something that has no text: a function, a value of a class that is not known here."""


@dataclass(slots=True)
class Writer:
    """Tables of the dimensions and values that have been written so far, in order of first use.

    ``constant`` gives what is to be written of a constant's array; without it a value is its type alone.
    """

    constant: Callable[[Array], Any] | None = None
    dims: list[Any] = field(default_factory=list)
    vars: list[Any] = field(default_factory=list)
    _dims: dict[Expr, int] = field(default_factory=dict)
    _vars: dict[Var, int] = field(default_factory=dict)

    def dim(self, dim: Dim | None) -> Any:
        """A number as it is, so is None; another dimension as ``[place in the table]``."""
        if dim is None or not isinstance(dim, Expr):
            return dim if dim is None else int(dim)
        place = self._dims.get(dim)
        if place is None:
            terms = [[factor, *map(self._atom, atoms)] for atoms, factor in dim.terms.items()]
            place = self._dims[dim] = len(self.dims)
            self.dims.append(terms)
        return [place]

    def _atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return atom.name
        return [atom.kind, self.dim(atom.left), self.dim(atom.right)]

    def shape(self, dims: Sequence[Dim | None]) -> list[Any]:
        return [self.dim(dim) for dim in dims]

    def type(self, kind: Type) -> Any:
        if isinstance(kind, TensorType):
            shape = None if kind.shape is None else self.shape(kind.shape)
            return ["tensor", dtype_name(kind.dtype), shape]
        if isinstance(kind, MapType):
            return ["map", dtype_name(kind.key), self.type(kind.value)]
        name = "sequence" if isinstance(kind, SequenceType) else "optional"
        return [name, self.type(kind.element)]

    def var(self, var: Var | None) -> int:
        """The place of a value in the table; -1 for one that is left out."""
        if var is None:
            return -1
        place = self._vars.get(var)
        if place is None:
            place = self._vars[var] = len(self.vars)
            self.vars.append(None)
            entry = [self.type(var.type)]
            if self.constant is not None and var.array is not None:
                entry.append(self.constant(var.array))
            self.vars[place] = entry
        return place

    def value(self, value: Any) -> Any:
        """An attribute.

        Raises: Unkeepable.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        for kind, write in _WRITERS.items():
            if isinstance(value, kind):
                return write(self, value)
        raise Unkeepable(type(value).__name__)

    def instruction(self, each: Instruction) -> list[Any]:
        """Raises: Unkeepable."""
        return [
            each.primitive,
            [self.var(var) for var in each.inputs],
            [self.var(var) for var in each.outputs],
            {name: self.value(value) for name, value in each.attributes.items()},
            each.place,
            [[bind.name, bind.output, bind.axis] for bind in each.binds],
        ]

    def program(self, program: Program) -> list[Any]:
        """A body; programs are written to be compared, not to be read again."""
        ends = (program.inputs, program.outputs, program.captures, program.captured)
        return [
            "program",
            *([self.var(var) for var in part] for part in ends),
            [self.instruction(each) for each in program.instructions],
        ]


MOST_BYTES = 1 << 16  # of an array in an attribute


def _write_array(to: Writer, array: Array) -> list[Any]:
    if array.dtype == object:
        return ["objects", list(array.shape), [to.value(item) for item in array.flat]]
    if array.nbytes > MOST_BYTES:
        raise Unkeepable("a large array in an attribute")
    return ["array", _dtype(array.dtype), list(array.shape), array.tobytes().hex()]


def _dtype(dtype: Any) -> str:
    try:
        return dtype_name(dtype)
    except DTypeError as error:
        raise Unkeepable(str(error)) from error


_WRITERS: dict[Any, Callable[[Writer, Any], Any]] = {
    Expr: lambda to, value: ["dim", to.dim(value)[0]],
    tuple: lambda to, value: ["tuple", *map(to.value, value)],
    list: lambda to, value: ["list", *map(to.value, value)],
    np.dtype: lambda to, value: ["dtype", _dtype(value)],
    np.ndarray: _write_array,
    np.generic: lambda to, value: ["scalar", *_write_array(to, np.asarray(value))[1:]],
    (TensorType, SequenceType, OptionalType, MapType): lambda to, value: ["type", to.type(value)],
    Program: lambda to, value: to.program(value),
}


# --- reading ----------------------------------------------------------------------------------------------------------


class Reader:
    """Reads what a ``Writer`` with these tables has written.

    Raises: any of LookupError, TypeError, ValueError and BurnxError where that is not so.
    """

    def __init__(self, dims: Sequence[Any], vars: Sequence[Any] = ()) -> None:
        self._dims: list[Expr] = []
        for terms in dims:
            self._dims.append(
                Expr({tuple(map(self._atom, atoms)): int(factor) for factor, *atoms in terms})
            )
        self.vars = [Var(self.type(entry[0])) for entry in vars]

    def dim(self, entry: Any) -> Dim:
        known: Any = entry if entry is None or type(entry) is int else None
        return known if entry is None or known is not None else self._dims[entry[0]]

    def _atom(self, entry: Any) -> Atom:
        if isinstance(entry, str):
            return Symbol(entry)
        kind, left, right = entry
        return Call(kind, self.dim(left), self.dim(right))

    def shape(self, entries: Sequence[Any]) -> tuple[Dim, ...]:
        return tuple([self.dim(entry) for entry in entries])

    def type(self, entry: Any) -> Type:
        kind, first, *rest = entry
        if kind == "tensor":
            return TensorType(DTYPES[first], None if rest[0] is None else self.shape(rest[0]))
        if kind == "map":
            return MapType(DTYPES[first], self.type(rest[0]))
        element = self.type(first)
        return SequenceType(element) if kind == "sequence" else OptionalType(element)

    def var(self, place: int) -> Var | None:
        return None if place < 0 else self.vars[place]

    def value(self, entry: Any) -> Any:
        if not isinstance(entry, list):
            return entry
        kind, *rest = entry
        return _READERS[kind](self, rest)

    def instruction(self, entry: Any) -> Instruction:
        primitive, inputs, outputs, attributes, place, binds = entry
        return Instruction(
            primitive,
            tuple([self.var(each) for each in inputs]),
            tuple([self.vars[each] for each in outputs]),
            {name: self.value(value) for name, value in attributes.items()},
            place,
            tuple([Binding(*bind) for bind in binds]),
        )


def _read_objects(reader: Reader, entry: Sequence[Any]) -> Array:
    shape, items = entry
    array = np.empty(len(items), string)
    array[:] = [reader.value(item) for item in items]
    return array.reshape(shape)


def _read_array(reader: Reader, entry: Sequence[Any]) -> Array:
    name, shape, content = entry
    return np.frombuffer(bytes.fromhex(content), DTYPES[name]).reshape(shape)


_READERS: Mapping[str, Callable[[Reader, Sequence[Any]], Any]] = {
    "dim": lambda reader, rest: reader.dim(rest),
    "tuple": lambda reader, rest: tuple(map(reader.value, rest)),
    "list": lambda reader, rest: list(map(reader.value, rest)),
    "dtype": lambda reader, rest: DTYPES[rest[0]],
    "array": _read_array,
    "objects": _read_objects,
    "scalar": lambda reader, rest: _read_array(reader, rest)[()],
    "type": lambda reader, rest: reader.type(rest[0]),
}
