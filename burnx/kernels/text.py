"""A kernel as text, one statement a line: to be read, and as the key under which its object code is kept.

Names are numbered where they are declared, so kernels that differ in names alone have the same text; everything that
the code depends on is in it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burnx.dtype import dtype_name
from burnx.kernels.ir import (
    WORKER,
    WORKERS,
    Apply,
    Buffer,
    Carry,
    Cast,
    Constant,
    Contract,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Position,
    Statement,
    Store,
    Value,
)
from burnx.kernels.spelling import spell
from burnx.shape import Atom, Dim, Expr, Symbol


def kernel_text(kernel: Kernel) -> str:
    """The text of a kernel; equal kernels, but for their names, have equal texts."""
    writer = _Writer()
    buffers = [writer.declare_buffer(buffer) for buffer in kernel.buffers]
    sizes = [writer.declare(name, "n") for name in kernel.sizes]
    writer.line(f"kernel({', '.join(buffers)}; {', '.join(sizes)})")
    writer.body(kernel.body)
    return "\n".join(writer.lines) + "\n"


@dataclass(slots=True)
class _Writer:
    """The lines so far, and what names and buffers are called in them."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=lambda: {WORKER: WORKER, WORKERS: WORKERS})
    buffers: dict[int, str] = field(default_factory=dict)
    depth: int = 0
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def declare(self, name: str, stem: str) -> str:
        self.count += 1
        self.names[name] = f"{stem}{self.count}"
        return self.names[name]

    def declare_buffer(self, buffer: Buffer) -> str:
        self.buffers[id(buffer)] = f"b{len(self.buffers)}"
        return f"{self.buffers[id(buffer)]}: {dtype_name(buffer.dtype)}"

    @contextmanager
    def inside(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    def body(self, body: Sequence[Statement]) -> None:
        with self.inside():
            for statement in body:
                _STATEMENTS[type(statement)](self, statement)

    def dim(self, dim: Dim) -> str:
        """A dimension in terms of the names given here; what is added or multiplied is in the order of its text."""
        if not isinstance(dim, Expr):
            return str(dim)
        terms = []
        for monomial, factor in dim.terms.items():
            atoms = sorted(self.atom(atom) for atom in monomial)
            terms.append("*".join(atoms if factor == 1 and atoms else [*atoms, str(factor)]))
        return " + ".join(sorted(terms))

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.names[atom.name]
        return f"{atom.kind}({self.dim(atom.left)}, {self.dim(atom.right)})"

    def element(self, buffer: Buffer, index: Dim) -> str:
        return f"{self.buffers[id(buffer)]}[{self.dim(index)}]"

    def values(self, values: Sequence[Value]) -> list[str]:
        def name(value: Value, text: str) -> str:
            self.count += 1
            self.line(f"%{self.count} = {text}")
            return f"%{self.count}"

        return spell(values, lambda value, parts: _VALUES[type(value)](self, value, parts), name)

    def value(self, value: Value) -> str:
        return self.values([value])[0]

    def loops(self, loops: Sequence[tuple[str, Dim]]) -> str:
        """Nested loops in one line; the extents are in terms of what was declared before."""
        parts = []
        for variable, extent in loops:
            size = self.dim(extent)
            parts.append(f"{self.declare(variable, 'i')} < {size}")
        return ", ".join(parts)


# --- values ---------------------------------------------------------------------------------------------------------


def _load(writer: _Writer, value: Load, parts: list[str]) -> str:
    return writer.element(value.buffer, value.index)


def _constant(writer: _Writer, value: Constant, parts: list[str]) -> str:
    number = value.value
    text = str(number)
    if isinstance(number, float) and number != number:
        text = f"nan({struct.pack('>d', number).hex()})"
    return f"{text}:{dtype_name(value.dtype)}"


def _apply(writer: _Writer, value: Apply, parts: list[str]) -> str:
    return f"{value.function}({', '.join(parts)})"


def _cast(writer: _Writer, value: Cast, parts: list[str]) -> str:
    kind = "bits" if value.bits else "cast" if value.saturate else "cast_unsaturated"
    return f"{kind}({parts[0]}, {dtype_name(value.dtype)})"


def _position(writer: _Writer, value: Position, parts: list[str]) -> str:
    return f"position({writer.dim(value.index)}, {dtype_name(value.dtype)})"


def _inside(writer: _Writer, value: Inside, parts: list[str]) -> str:
    checks = " and ".join(
        f"{writer.dim(low)} <= {writer.dim(index)} < {writer.dim(high)}"
        for low, index, high in value.checks
    )
    return f"({parts[0]} where {checks} else {parts[1]})"


def _local(writer: _Writer, value: Local, parts: list[str]) -> str:
    return f"{writer.names[value.name]}:{dtype_name(value.dtype)}"


_VALUES: dict[type, Callable[..., str]] = {
    Load: _load,
    Constant: _constant,
    Apply: _apply,
    Cast: _cast,
    Position: _position,
    Inside: _inside,
    Local: _local,
}

# --- statements -----------------------------------------------------------------------------------------------------


def _store(writer: _Writer, statement: Store) -> None:
    value = writer.value(statement.value)
    combine = f"{statement.combine}= " if statement.combine else "= "
    writer.line(f"{writer.element(statement.buffer, statement.index)} {combine}{value}")


def _let(writer: _Writer, statement: Let) -> None:
    value = writer.value(statement.value)
    writer.line(f"let {writer.declare(statement.name, 'v')} = {value}")


def _lookup(writer: _Writer, statement: Lookup) -> None:
    value, limit = writer.value(statement.value), writer.dim(statement.limit)
    writer.line(
        f"lookup {writer.declare(statement.name, 'k')} = {value} of {limit}{' sure' if statement.sure else ''}"
    )


def _loop(writer: _Writer, loop: Loop) -> None:
    notes = [" parallel"] if loop.parallel else []
    notes += [" lanes"] if loop.lanes else []
    notes += [f" unroll {loop.unroll}"] if loop.unroll != 1 else []
    notes += [f" around {loop.around}"] if loop.around else []
    writer.line(f"for {writer.loops([(loop.variable, loop.extent)])}{''.join(notes)}")
    writer.body(loop.body)


def _fold(writer: _Writer, fold: Fold) -> None:
    writer.line(f"fold {writer.loops(fold.loops)}{' lanes' if fold.lanes else ''}")
    writer.body(fold.body)
    with writer.inside():
        texts = writer.values([each.value for each in fold.accumulators])
        for each, text in zip(fold.accumulators, texts, strict=True):
            writer.line(f"{writer.declare(each.name, 'v')} {each.function}= {text}")


def _carry(writer: _Writer, carry: Carry) -> None:
    firsts = writer.values([first for _, first, _ in carry.carried])
    extent = writer.dim(carry.extent)
    names = [writer.declare(name, "v") for name, _, _ in carry.carried]
    started = ", ".join(f"{name} = {first}" for name, first in zip(names, firsts, strict=True))
    writer.line(f"carry {writer.declare(carry.variable, 'i')} < {extent} from {started}")
    writer.body(carry.body)
    with writer.inside():
        texts = writer.values([following for _, _, following in carry.carried])
        for name, text in zip(names, texts, strict=True):
            writer.line(f"{name} next {text}")


def _contract(writer: _Writer, contract: Contract) -> None:
    rows = writer.loops(contract.rows)
    column = writer.loops([contract.column])
    inner = writer.loops(contract.inner)
    name = writer.declare(contract.name, "v")
    notes = f" packing {contract.packing}" if contract.packing else ""
    notes += " parallel" if contract.parallel else ""
    writer.line(f"contract {name}: {dtype_name(contract.dtype)}{notes}")
    with writer.inside():
        writer.line(f"rows {rows}; column {column}; inner {inner}")
        left, right = writer.values([contract.left, contract.right])
        writer.line(f"left {left}; right {right}")
    writer.body(contract.body)


_STATEMENTS: dict[type, Callable[..., None]] = {
    Store: _store,
    Let: _let,
    Lookup: _lookup,
    Loop: _loop,
    Fold: _fold,
    Carry: _carry,
    Contract: _contract,
}
