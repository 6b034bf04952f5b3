"""Values and the work of one thread as text: the words of ``burnx.kernels.clike`` that OpenCL C and CUDA C++ read.

Names are numbered where they are declared, so kernels that differ in names alone have the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from burnx.dtype import DType, bool_, int32, int64
from burnx.gpu import functions, numbers
from burnx.gpu.code import Form
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import literal, type_name
from burnx.kernels.clike import Tables, bare, write_store
from burnx.kernels.clike import Writer as CWriter
from burnx.kernels.ir import (
    WORKER,
    WORKERS,
    Buffer,
    Cast,
    Constant,
    Inside,
    Kernel,
    Load,
    Local,
    Lookup,
    Position,
    Store,
    Value,
    operands,
)
from burnx.shape import Call, Dim, Expr, Symbol

Atom = Symbol | Call


@dataclass(slots=True)
class Writer(CWriter):
    """Writes a kernel in a dialect and form.

    ``names`` says what names of the IR are called, ``natural`` which of them are never negative; ``scopes`` hold what
    values that have names are called, by identity, the innermost scope last.  ``needs`` are pieces of the prelude.
    ``owns``: this thread only stores elements of which the index leaves ``own`` if divided by ``owners``.
    """

    dialect: Dialect = None  # type: ignore[assignment]
    form: Form = None  # type: ignore[assignment]
    kernel: Kernel = None  # type: ignore[assignment]
    names: dict[str, str] = field(default_factory=lambda: {WORKER: WORKER, WORKERS: WORKERS})
    natural: set[str] = field(default_factory=lambda: {WORKER, WORKERS})
    buffers: dict[int, str] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)
    scopes: list[dict[int, str]] = field(default_factory=lambda: [{}])
    owns: bool = False
    kept: list[Value] = field(default_factory=list)  # whose identities are keys
    value_words: ClassVar[Tables]
    statement_words: ClassVar[Tables]

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    @property
    def index_type(self) -> str:
        return "i64" if self.form.wide else "i32"

    def type_of(self, dtype: DType) -> str:
        return type_name(dtype)

    # --- names ------------------------------------------------------------------------------------------------------

    def declare(self, name: str, stem: str) -> str:
        """Number a name: of a loop's variable (i) or a lookup (k), which are never negative, or of a value (v)."""
        self.names[name] = self.fresh(stem)
        if stem in "ik":
            self.natural.add(name)
        return self.names[name]

    def called(self, name: str) -> str:
        return self.names[name]

    # --- indices ----------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> str:
        """An index or extent as an expression of integers."""
        if not isinstance(dim, Expr):
            return str(int(dim))
        terms = sorted(self._term(monomial, factor) for monomial, factor in dim.terms.items())
        terms.sort(key=lambda text: text.startswith("-"))
        return " + ".join(terms).replace("+ -", "- ")

    def _term(self, monomial: tuple[Atom, ...], factor: int) -> str:
        atoms = sorted(self._atom(atom) for atom in monomial)
        if not atoms:
            return str(factor)
        sign = "-" if factor == -1 else "" if factor == 1 else f"{factor} * "
        return sign + " * ".join(atoms)

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.names[atom.name]
        return _CALLS[atom.kind](self, atom)

    def factor(self, dim: Dim) -> str:
        """An index that may stand beside ``*`` and ``/``."""
        text = self.dim(dim)
        return text if text.isalnum() else f"({text})"

    def is_natural(self, dim: Dim) -> bool:
        """Whether an index is surely not negative."""
        if not isinstance(dim, Expr):
            return dim >= 0
        return all(
            factor >= 0 and all(self._is_natural_atom(atom) for atom in monomial)
            for monomial, factor in dim.terms.items()
        )

    def _is_natural_atom(self, atom: Atom) -> bool:
        if isinstance(atom, Symbol):
            return atom.name in self.natural
        if atom.kind == "mod":
            return isinstance(atom.right, int) and atom.right > 0
        both = self.is_natural(atom.left), self.is_natural(atom.right)
        return any(both) if atom.kind == "max" else all(both)

    def place(self, buffer: Buffer, index: Dim) -> str:
        return f"{self.buffers[id(buffer)]}[{self.dim(index)}]"

    # --- values -----------------------------------------------------------------------------------------------------

    def parts(self, value: Value) -> tuple[Value, ...]:
        if self.known(value):
            return ()
        return always_needed(value) if isinstance(value, Inside) else operands(value)

    def known(self, value: Value) -> str:
        """What a value was named in a scope around here, or ""."""
        for scope in reversed(self.scopes):
            if id(value) in scope:
                return scope[id(value)]
        return ""

    def values(self, values: Sequence[Value]) -> list[str]:
        self.scopes.append({})
        try:
            return CWriter.values(self, values)
        finally:
            self.scopes.pop()

    def write_value(self, value: Value, parts: list[str]) -> str:
        return self.known(value) or CWriter.write_value(self, value, parts)

    def name_value(self, value: Value, text: str) -> str:
        if text.isidentifier():
            return text
        name = self.fresh("t")
        self.line(f"const {self.type_of(value.dtype)} {name} = {bare(text)};")
        self.scopes[-1][id(value)] = name
        self.kept.append(value)
        return name

    def captured(self, value: Value) -> tuple[list[str], str]:
        """(lines that have to stand before a value's text, that text), one block further in."""
        before, self.lines = self.lines, []
        self.depth += 1
        try:
            text = self.value(value)
            return self.lines, text
        finally:
            self.lines = before
            self.depth -= 1

    # --- words ------------------------------------------------------------------------------------------------------

    def apply(self, function: str, arguments: Sequence[str], dtype: DType) -> str:
        return functions.apply(self.needs, self.dialect, function, arguments, dtype)

    def cast(self, text: str, source: DType, target: DType, saturate: bool = True) -> str:
        return numbers.cast(self.needs, text, source, target, saturate)

    def constant(self, number: float | int | bool, dtype: DType) -> str:
        return literal(number, dtype, self.dialect)

    def neutral(self, function: str, dtype: DType) -> str:
        return functions.neutral(function, dtype, self.dialect)


# --- indices --------------------------------------------------------------------------------------------------------


def _floordiv(writer: Writer, call: Call) -> str:
    """Divisors are positive."""
    by = call.right
    if isinstance(by, int) and by & (by - 1) == 0:
        return f"({writer.factor(call.left)} >> {by.bit_length() - 1})"
    if writer.is_natural(call.left):
        return f"({writer.factor(call.left)} / {writer.factor(by)})"
    return _helper(writer, "floor_div", call)


def _mod(writer: Writer, call: Call) -> str:
    by = call.right
    if isinstance(by, int) and by & (by - 1) == 0:
        return f"({writer.factor(call.left)} & {by - 1})"
    if writer.is_natural(call.left):
        return f"({writer.factor(call.left)} % {writer.factor(by)})"
    return _helper(writer, "floor_rest", call)


def _helper(writer: Writer, stem: str, call: Call) -> str:
    name = f"{stem}_{writer.index_type}"
    writer.needs.add(name)
    return f"{name}({writer.dim(call.left)}, {writer.dim(call.right)})"


def _extreme(writer: Writer, call: Call) -> str:
    dtype = int64 if writer.form.wide else int32
    return writer.apply(call.kind, [writer.dim(call.left), writer.dim(call.right)], dtype)


def _broadcast(writer: Writer, call: Call) -> str:
    left = writer.factor(call.left)
    return f"({left} == 1 ? {writer.factor(call.right)} : {left})"


_CALLS = {
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme,
    "max": _extreme,
    "broadcast": _broadcast,
}

# --- values ---------------------------------------------------------------------------------------------------------


def always_needed(value: Inside) -> tuple[Value, ...]:
    """What both ways need without further checks: worked out before them, it is written once."""
    if isinstance(value.value, (Constant, Local)) or isinstance(value.otherwise, (Constant, Local)):
        return ()
    yes, no = _unguarded(value.value), _unguarded(value.otherwise)
    return tuple(
        part for key, part in yes.items() if key in no and not isinstance(part, (Constant, Local))
    )


def _unguarded(value: Value) -> dict[int, Value]:
    seen: dict[int, Value] = {}
    todo = [value]
    while todo:
        current = todo.pop()
        if id(current) not in seen:
            seen[id(current)] = current
            todo.extend(() if isinstance(current, Inside) else operands(current))
    return seen


def _inside(writer: Writer, value: Inside, parts: list[str]) -> str:
    for part, text in zip(writer.parts(value), parts, strict=True):
        if not writer.known(part):
            writer.name_value(part, text)
    condition = write_checks(writer, value)
    if not condition:
        return writer.values([value.value])[0]
    yes, no = writer.captured(value.value), writer.captured(value.otherwise)
    if not yes[0] and not no[0]:
        return f"({condition} ? {_operand(yes[1])} : {_operand(no[1])})"
    name = writer.fresh("t")
    writer.line(f"{writer.type_of(value.dtype)} {name};")
    with writer.block(f"if ({condition})"):
        writer.lines += yes[0]
        writer.line(f"{name} = {yes[1]};")
    with writer.block("else"):
        writer.lines += no[0]
        writer.line(f"{name} = {no[1]};")
    writer.scopes[-1][id(value)] = name
    writer.kept.append(value)
    return name


def _operand(text: str) -> str:
    return text if text.replace("_", "a").isalnum() else f"({text})"


def write_checks(writer: Writer, value: Inside) -> str:
    """The condition of an ``Inside``; "" where it surely holds."""
    checks = []
    for low, index, high in value.checks:
        if not (low == 0 and writer.is_natural(index)):
            checks.append(f"{writer.dim(low)} <= {writer.dim(index)}")
        checks.append(f"{writer.dim(index)} < {writer.dim(high)}")
    return " && ".join(checks)


def _cast(writer: Writer, value: Cast, parts: list[str]) -> str:
    source = value.value.dtype
    if value.bits:
        return numbers.reinterpret(writer.needs, parts[0], source, value.dtype)
    return writer.cast(parts[0], source, value.dtype, value.saturate)


def _position(writer: Writer, value: Position, parts: list[str]) -> str:
    return writer.cast(
        f"({writer.dim(value.index)})", int64 if writer.form.wide else int32, value.dtype
    )


def _load(writer: Writer, value: Value, parts: list[str]) -> str:
    text = CWriter.value_words[type(value)](writer, value, parts)
    return f"({text} != 0)" if value.dtype == bool_ else text


def _store(writer: Writer, statement: Store) -> None:
    if not writer.owns:
        write_store(writer, statement)
        return
    with writer.block(f"if (({writer.dim(statement.index)}) % owners == own)"):
        write_store(writer, statement)


def write_lookup(writer: Writer, statement: Lookup) -> None:
    """An index from memory: wrapped where negative, 0 and an error where it is out of range."""
    writer.needs.add("lookup")
    value, limit = writer.value(statement.value), writer.dim(statement.limit)
    name, type_ = writer.declare(statement.name, "k"), writer.index_type
    writer.line(f"const {type_} {name} = ({type_})lookup((i64)({value}), {limit}, error);")


Writer.value_words = {
    **CWriter.value_words,
    Load: _load,
    Cast: _cast,
    Position: _position,
    Inside: _inside,
}
Writer.statement_words = {**CWriter.statement_words, Store: _store, Lookup: write_lookup}
