"""Loops that turn a matrix: what they read is dense along one loop and what they write along another.

    loop x (parallel) { loop c (lanes) { out[x * a + c] = f(in[c * b + x]) } }
is done in squares: for some c vectors along x are loaded and f worked out; turned, they are stored along c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burnx.kernels.ir import Inside, Load, Loop, Position, Store
from burnx.llvm.context import Context
from burnx.llvm.contractions.rows import count_loop
from burnx.llvm.contractions.transpose import transpose
from burnx.llvm.dtypes import size_bytes
from burnx.llvm.literals import widen
from burnx.llvm.memory import store, to_memory
from burnx.llvm.uses import nodes
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Dim, Expr, Symbol, floordiv, symbol, symbols

SIDE = 16  # of the largest square


@dataclass(frozen=True, slots=True)
class Turned:
    """``across`` is the loop along which is read, ``along`` the one inside it along which is stored."""

    across: Loop
    along: Loop
    store: Store
    side: int
    block: str  # the variable that counts squares across

    @property
    def blocks(self) -> Dim:
        return floordiv(self.across.extent + (self.side - 1), self.side)


def find_turned(context: Context, chain: Sequence[Loop], tail: object, count: int) -> Turned | None:
    """The two innermost loops as such, if they are; ``count`` is how many lanes they would have."""
    if not chain or not isinstance(tail, Loop) or not tail.lanes or len(tail.body) != 1:
        return None
    across, (statement,) = chain[-1], tail.body
    if (
        not isinstance(statement, Store)
        or statement.combine
        or id(statement.buffer) in context.rewritten
    ):
        return None
    found = nodes([statement.value])
    if any(isinstance(each, (Inside, Position)) for each in found):
        return None
    if step(statement.index, tail.variable) != 1 or step(statement.index, across.variable) in (
        0,
        1,
        None,
    ):
        return None
    far = False
    for load in found:
        if not isinstance(load, Load):
            continue
        x, c = step(load.index, across.variable), step(load.index, tail.variable)
        if x not in (0, 1) or c is None or (x == 1 and c == 1):
            return None
        far = far or (x == 1 and c != 0)
    side = min(count, SIDE)
    if not far or isinstance(across.extent, int) and across.extent < side:
        return None
    return Turned(across, tail, statement, side, context.writer.fresh("squares "))


def step(index: Dim, variable: str) -> Dim | None:
    """How far an index moves with a variable; None if that is not the same everywhere."""
    total: Dim = 0
    if not isinstance(index, Expr):
        return total
    for monomial, factor in index.terms.items():
        rest = tuple(atom for atom in monomial if atom != Symbol(variable))
        if len(rest) < len(monomial) - 1 or variable in symbols(Expr({rest: 1})):
            return None
        if len(rest) < len(monomial):
            total = total + (Expr({rest: factor}) if rest else factor)
    return total


def emit_squares(context: Context, turned: Turned, rows: Callable[[], None]) -> None:
    """The squares of one block of turns across; ``rows`` is the code of the loop inside where there is no whole block."""
    writer, side = context.writer, integer(turned.side)
    extent, along = context.index(turned.across.extent), context.index(turned.along.extent)
    first = context.index(symbol(turned.block) * turned.side)
    left = writer.binary("sub nsw", extent, first)
    whole = writer.compare("icmp sge", left, side)
    even = writer.binary("and", along, integer(-turned.side))

    def turn(body: Callable[[Ssa], None]) -> Callable[[Ssa, list[Ssa]], list[Ssa]]:
        def run(index: Ssa, _: list[Ssa]) -> list[Ssa]:
            with context.scope():
                body(index)
            return []

        return run

    def row(index: Ssa) -> None:
        context.bind(turned.across.variable, index)
        context.prepare(turned.along.body)
        rows()

    with writer.when(whole), context.scope():
        square = turn(lambda index: _square(context, turned, first, index))
        single = turn(lambda index: _scattered(context, turned, first, index))
        count_loop(writer, even, square, steps=(integer(0), side))
        count_loop(writer, along, single, steps=(even, integer(1)))
    few = writer.select(whole, extent, first)
    count_loop(writer, extent, turn(row), steps=(few, integer(1)))


def _square(context: Context, turned: Turned, first: Ssa, start: Ssa) -> None:
    """Vectors across for some turns along, turned and stored."""
    target, lines = turned.store.buffer, []
    for place in range(turned.side):
        with context.lanes(turned.across.variable, first, turned.side):
            context.bind(turned.along.variable, context.add(start, integer(place)))
            value = widen(context.writer, context.value(turned.store.value, 1), turned.side)
            lines.append(to_memory(context, value, target.dtype))
    for place, line in enumerate(transpose(context.writer, lines, turned.side)):
        with context.scope():
            context.bind(turned.across.variable, context.add(first, integer(place)))
            context.bind(turned.along.variable, start)
            where = context.pointer(target, turned.store.index)
            context.writer.store(line, where, size_bytes(target.dtype))


def _scattered(context: Context, turned: Turned, first: Ssa, place: Ssa) -> None:
    """One vector across, its elements stored one by one."""
    with context.lanes(turned.across.variable, first, turned.side):
        context.bind(turned.along.variable, place)
        value = context.value(turned.store.value, 1)
        store(context, turned.store.buffer, turned.store.index, value, "")
