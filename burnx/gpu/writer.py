"""The writer of ``burnx.kernels.clike`` with words that OpenCL C and CUDA C++ read.  ``values.py`` has more of them.

Names are numbered where they are declared, so kernels that differ in names alone have the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from burnx.dtype import DType
from burnx.gpu import functions, numbers
from burnx.gpu.code import Form
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import NAMED, literal, type_name
from burnx.gpu.indices import dim_text, factor_text, is_natural
from burnx.gpu.ranges import values_in
from burnx.kernels.clike import Tables, bare
from burnx.kernels.clike import Writer as CWriter
from burnx.kernels.ir import (
    WORKER,
    WORKERS,
    Apply,
    Buffer,
    Cast,
    Constant,
    Inside,
    Kernel,
    Load,
    Local,
    Statement,
    Store,
    Value,
    operands,
    walk,
)
from burnx.kernels.spelling import every_node
from burnx.shape import Dim

Scope = dict[int, tuple[str, Value]]  # what values are called, by identity


@dataclass(slots=True, kw_only=True)
class Writer(CWriter):
    """Writes a kernel in a dialect and form.

    ``names`` says what names of the IR are called, ``natural`` which of them are never negative; ``scopes`` say what
    values that have names are called, the innermost one last.  ``needs`` are pieces of the prelude.
    ``owns``: this thread only stores elements of which the index leaves ``own`` if divided by ``owners``.
    """

    dialect: Dialect
    form: Form
    kernel: Kernel
    names: dict[str, str] = field(default_factory=lambda: {WORKER: WORKER, WORKERS: WORKERS})
    natural: set[str] = field(default_factory=lambda: {WORKER, WORKERS})
    buffers: dict[int, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)
    owns: bool = False
    scopes: list[Scope] = field(default_factory=lambda: [{}])
    shared: list[set[int]] = field(default_factory=list)  # parts of several statements, by body
    captures: int = 0  # branches around what is written, inside of one statement
    given: dict[int, str] = field(
        default_factory=dict
    )  # where loads and stores find their elements
    always: dict[Value, tuple[Value, ...]] = field(default_factory=dict)  # what both ways need
    value_words: ClassVar[Tables]
    statement_words: ClassVar[Tables]

    # --- names ------------------------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A name that is not taken."""
        self.count += 1
        name = f"{stem}{self.count}"
        return self.fresh(stem) if name in NAMED else name  # i8 is a type

    def declare(self, name: str, stem: str) -> str:
        """Number a name: of a loop's variable (i) or a lookup (k), which are never negative, or of a value (v)."""
        self.names[name] = self.fresh(stem)
        if stem in "ik":
            self.natural.add(name)
        return self.names[name]

    def called(self, name: str) -> str:
        return self.names[name]

    # --- indices ----------------------------------------------------------------------------------------------------

    @property
    def index_type(self) -> str:
        return "i64" if self.form.wide else "i32"

    def dim(self, dim: Dim) -> str:
        return dim_text(self, dim)

    def factor(self, dim: Dim) -> str:
        """An index that may stand beside ``*`` and ``/``."""
        return factor_text(self, dim)

    def is_natural(self, dim: Dim) -> bool:
        """Whether an index is surely not negative."""
        return is_natural(dim, self.natural)

    def place(self, buffer: Buffer, index: Dim) -> str:
        return f"{self.buffers[id(buffer)]}[{self.dim(index)}]"

    # --- values -----------------------------------------------------------------------------------------------------

    def parts(self, value: Value) -> tuple[Value, ...]:
        if self.known(value):
            return ()
        return self.always_needed(value) if isinstance(value, Inside) else operands(value)

    def always_needed(self, value: Inside) -> tuple[Value, ...]:
        """What both ways need without further checks: worked out before them, it is written once."""
        if value not in self.always:
            self.always[value] = _always_needed(value)
        return self.always[value]

    def known(self, value: Value) -> str:
        """What a value was named in a scope around here, or ""."""
        for scope in reversed(self.scopes):
            if id(value) in scope:
                return scope[id(value)][0]
        return ""

    def values(self, values: Sequence[Value]) -> list[str]:
        self.scopes.append({})
        try:
            return CWriter.values(self, values)
        finally:
            self.scopes.pop()

    def write_value(self, value: Value, parts: list[str]) -> str:
        text = self.known(value) or CWriter.write_value(self, value, parts)
        if self.captures or not self.shared or id(value) not in self.shared[-1]:
            return text
        if not text.isidentifier():
            text = self.name_value(value, text)
        self.scopes[-2][id(value)] = text, value  # that of the body
        return text

    @contextmanager
    def sharing(self, body: Sequence[Statement], values: Sequence[Value] = ()) -> Iterator[None]:
        """What several of these have in common is worked out once, and known until memory that it is of is written."""
        self.scopes.append({})
        self.shared.append(shared_parts([*(values_in(each) for each in body), values]))
        try:
            yield
        finally:
            self.scopes.pop()
            self.shared.pop()

    def statement(self, statement: Statement) -> None:
        stored = {id(each.buffer) for each in walk((statement,)) if isinstance(each, Store)}
        if not isinstance(statement, Store):  # a loop's turns come after others that store
            self.forget(stored)
        CWriter.statement(self, statement)
        self.forget(stored)

    def forget(self, buffers: set[int]) -> None:
        """The names of values that were loaded from these buffers are not those of what is there now."""
        for scope in self.scopes if buffers else ():
            for key, (_, value) in list(scope.items()):
                if not buffers.isdisjoint(loaded_buffers([value])):
                    del scope[key]

    def name_value(self, value: Value, text: str) -> str:
        if text.isidentifier():
            return text
        name = self.fresh("t")
        self.line(f"const {self.type_of(value.dtype)} {name} = {bare(text)};")
        self.remember(value, name)
        return name

    def remember(self, value: Value, name: str) -> None:
        """A value has a name until the scope is left."""
        self.scopes[-1][id(value)] = name, value

    def captured(self, value: Value) -> tuple[list[str], str]:
        """(lines that have to stand before a value's text, one block further in; that text)."""
        before, self.lines = self.lines, []
        self.depth += 1
        try:
            with self.on_a_branch():
                text = self.value(value)
            return self.lines, text
        finally:
            self.lines = before
            self.depth -= 1

    @contextmanager
    def on_a_branch(self) -> Iterator[None]:
        """What is named inside is not known behind it."""
        self.captures += 1
        yield
        self.captures -= 1

    # --- words ------------------------------------------------------------------------------------------------------

    def type_of(self, dtype: DType) -> str:
        return type_name(dtype)

    def apply(self, function: str, arguments: Sequence[str], dtype: DType) -> str:
        return functions.apply(self.needs, self.dialect, function, arguments, dtype)

    def cast(self, text: str, source: DType, target: DType, saturate: bool = True) -> str:
        return numbers.cast(self.needs, text, source, target, saturate)

    def constant(self, number: float | int | bool, dtype: DType) -> str:
        return literal(number, dtype, self.dialect)

    def neutral(self, function: str, dtype: DType) -> str:
        return functions.neutral(function, dtype, self.dialect)


def shared_parts(groups: Sequence[Sequence[Value]]) -> set[int]:
    """The ids of what the values of several groups are made of for certain, single elements and numbers apart."""
    seen: set[int] = set()
    shared: set[int] = set()
    for values in groups:
        found: dict[int, Value] = {}
        for value in values:
            found |= unguarded(value)
        shared |= {
            key for key, part in found.items() if key in seen and isinstance(part, (Apply, Cast))
        }
        seen |= found.keys()
    return shared


def loaded_buffers(values: Sequence[Value]) -> set[int]:
    """The ids of the buffers that values are loaded from."""
    return {id(node.buffer) for node in every_node(values) if isinstance(node, Load)}


def _always_needed(value: Inside) -> tuple[Value, ...]:
    if any(isinstance(each, (Constant, Local)) for each in (value.value, value.otherwise)):
        return ()
    yes, no = unguarded(value.value), unguarded(value.otherwise)
    return tuple(
        part for key, part in yes.items() if key in no and not isinstance(part, (Constant, Local))
    )


def unguarded(value: Value) -> dict[int, Value]:
    """The parts of a value that are worked out whatever checks there are inside of it."""
    seen: dict[int, Value] = {}
    todo = [value]
    while todo:
        current = todo.pop()
        if id(current) not in seen:
            seen[id(current)] = current
            todo.extend(() if isinstance(current, Inside) else operands(current))
    return seen
