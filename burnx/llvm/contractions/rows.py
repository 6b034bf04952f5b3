"""The rows of a contraction: a table on the stack of where each begins in the left buffer, and of their variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burnx.kernels.ir import Contract
from burnx.llvm.writer import Ssa, Writer, integer
from burnx.shape import Dim, substitute

if TYPE_CHECKING:
    from burnx.llvm.context import Context

TABLE_ROWS = 240  # a multiple of every tile's rows


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring k of a left row that is copied: how many, and how many elements lie between two."""

    writer: Writer
    extent: Ssa
    step: Ssa

    @property
    def is_dense(self) -> bool:
        return self.step.name == "1"


def stride(index: Dim, variable: str) -> Dim:
    """How far an index moves when a variable, which it contains linearly, grows by one."""
    return substitute(index, {variable: 1}) - substitute(index, {variable: 0})


def reserve(writer: Writer, type_: str, align: int = 64) -> Ssa:
    """Stack memory, taken once on entry to the function wherever we are in it."""
    name = "%" + writer.fresh("stack")
    text = f"  {name} = alloca {type_}, align {align}"
    if not writer.lines:
        writer.lines.append(text)
    elif writer.lines[0].split("\n")[0].endswith(":"):
        writer.lines[0] += "\n" + text
    else:  # in the same line: places in the list stay what they were
        writer.lines[0] = text + "\n" + writer.lines[0]
    return Ssa(name, "ptr")


def count_loop(
    writer: Writer,
    stop: Ssa,
    body: Callable[[Ssa, list[Ssa]], Sequence[Ssa]],
    carried: Sequence[Ssa] = (),
    steps: tuple[Ssa, Ssa] = (integer(0), integer(1)),
) -> list[Ssa]:
    """``writer.loop`` that LLVM neither unrolls nor vectorises: it is written as it should run."""
    start, step = steps
    after = writer.loop(start, stop, step, body, carried)
    number = 7000 + len(writer.declarations)
    writer.declarations["as it is"] = '!6999 = !{!"llvm.loop.disable_nonforced"}'
    writer.declarations[f"loop {number}"] = f"!{number} = distinct !{{!{number}, !6999}}"
    writer.lines[-2] += f", !llvm.loop !{number}"  # the jump back, before the label of what follows
    return after


@dataclass(frozen=True, slots=True)
class Cut:
    """Rows cut into tiles: ``full`` whole ones, one of ``half`` rows, and perhaps one of the ``rest``."""

    writer: Writer
    height: int
    tiles: Ssa
    full: Ssa
    half: Ssa
    rest: Ssa

    def find(self, tile: Ssa) -> tuple[Ssa, Ssa]:
        """(the first row of a tile, how many it has)."""
        writer, height = self.writer, integer(self.height)
        last = writer.compare("icmp sgt", tile, self.full)
        whole = writer.compare("icmp slt", tile, self.full)
        before = writer.call("i64", "llvm.smin.i64", tile, self.full)
        before = writer.binary("mul nsw", before, height)
        row = writer.binary("add nsw", before, writer.select(last, self.half, integer(0)))
        rows = writer.select(last, self.rest, self.half)
        return row, writer.select(whole, height, rows)


def cut_tiles(writer: Writer, height: int, count: Ssa) -> Cut:
    """As many tiles of ``height`` as can be, the last two as even as can be."""
    raised = writer.binary("add nsw", count, integer(height - 1))
    tiles = writer.binary("udiv", raised, integer(height))
    full = writer.binary("sub nsw", tiles, integer(2))
    full = writer.call("i64", "llvm.smax.i64", full, integer(0))
    left = writer.binary("sub nsw", count, writer.binary("mul nsw", full, integer(height)))
    half = writer.binary("udiv", writer.binary("add nsw", left, integer(1)), integer(2))
    half = writer.select(writer.compare("icmp eq", tiles, integer(1)), left, half)
    return Cut(writer, height, tiles, full, half, writer.binary("sub nsw", left, half))


def table_slot(writer: Writer, table: Ssa, column: int, row: Ssa) -> Ssa:
    place = writer.pointer(table, integer(column * TABLE_ROWS), "i64") if column else table
    return writer.pointer(place, row, "i64")


def fill_rows(context: Context, statement: Contract, table: Ssa, first: Ssa, count: Ssa) -> None:
    """Write the table for ``count`` rows from ``first``, and the last row again up to a whole tile."""
    writer = context.writer
    variables = [variable for variable, _ in statement.rows]
    extents = [context.index(extent) for _, extent in statement.rows]
    start = substitute(statement.left.index, {variable: 0 for variable, _ in statement.inner})
    base = context.base(statement.left.buffer)
    size = integer(statement.left.dtype.itemsize)

    def turn(row: Ssa, values: list[Ssa]) -> list[Ssa]:
        for column, (variable, value) in enumerate(zip(variables, values, strict=True), 1):
            context.bind(variable, value)
            writer.store(value, table_slot(writer, table, column, row), 8)
        offset = writer.binary("mul nsw", context.index(start), size)
        writer.store(writer.pointer(base, offset, "i8"), table_slot(writer, table, 0, row), 8)
        following = writer.binary("add nsw", row, integer(1))
        more = writer.convert("zext", writer.compare("icmp slt", following, count), "i64")
        return _following(writer, values, extents, more)

    padded = padded_rows(writer, count)
    count_loop(writer, padded, turn, split_row(writer, first, extents))


def padded_rows(writer: Writer, count: Ssa) -> Ssa:
    """So many rows the table has for ``count``: a multiple of the highest tile and more than a tile that is not full."""
    padded = writer.binary("add nsw", count, integer(11))
    return writer.binary("sub nsw", padded, writer.binary("urem", padded, integer(12)))


def split_row(writer: Writer, row: Ssa, extents: Sequence[Ssa]) -> list[Ssa]:
    """The values of the row variables in a row of the flat row space."""
    values: list[Ssa] = []
    for extent in reversed(extents[1:]):
        values.insert(0, writer.binary("urem", row, extent))
        row = writer.binary("udiv", row, extent)
    return [row, *values]


def _following(
    writer: Writer, values: Sequence[Ssa], extents: Sequence[Ssa], more: Ssa
) -> list[Ssa]:
    """The row variables ``more`` (0 or 1) rows further."""
    result: list[Ssa] = []
    for value, extent in zip(reversed(values[1:]), reversed(extents[1:]), strict=True):
        grown = writer.binary("add nsw", value, more)
        wraps = writer.compare("icmp eq", grown, extent)
        result.insert(0, writer.select(wraps, integer(0), grown))
        more = writer.convert("zext", wraps, "i64")
    return [writer.binary("add nsw", values[0], more), *result]


def bind_row(context: Context, statement: Contract, table: Ssa, row: Ssa) -> None:
    """Bind the row variables to what the table says of a row."""
    writer = context.writer
    for column, (variable, _) in enumerate(statement.rows, 1):
        slot = table_slot(writer, table, column, row)
        context.bind(variable, writer.load("i64", slot, 8))
