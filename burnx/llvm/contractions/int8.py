"""Contractions of bytes: 2 or 4 neighbouring k multiplied at once, summed exactly in int32.

Four unsigned bytes are multiplied with four signed ones, their products summed in 32 bits ("vnni") or two and two in 16
bits, which the packing sees to it that they hold ("8p4"); or pairs of numbers of 16 bits are multiplied ("8x2").
Left rows are copied to the stack first, one byte each or widened to 16 bits, unless four of their bytes can be read
where they lie; a copied row's k past the last are 0.  Where unsigned bytes are needed signed ones are copied plus 128,
and 128 times the sum of a column is taken off in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burnx.dtype import DType, int8, int32
from burnx.kernels.ir import Contract
from burnx.llvm.context import Context
from burnx.llvm.contractions.amx import HEIGHTS
from burnx.llvm.contractions.numbers import Numbers, vector
from burnx.llvm.contractions.rows import (
    count_loop,
    padded_rows,
    stride,
    table_slot,
)
from burnx.llvm.target import Target
from burnx.llvm.writer import Ssa, Writer, integer

PAIRS, QUADS = 2, 4
SOME = 8  # bytes that are copied at once where no vector is left
STEP_BYTES = 4  # of a left row in one turn: two 16-bit numbers or four bytes
_PAIR_SUMS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
_BYTE_PAIRS = {8: "avx2.pmadd.ub.sw", 16: "avx512.pmaddubs.w.512"}
WIDE = 32  # bytes of vectors that have such an instruction on every processor
_QUAD_SUMS = {4: "vpdpbusd.128", 8: "vpdpbusd.256", 16: "vpdpbusd.512"}


def byte_packings(target: Target, left: DType, right: DType, total: DType) -> tuple[str, ...]:
    """The kinds of elements that this target multiplies several k of at once, the quickest first."""
    if left.itemsize != 1 or right.itemsize != 1 or {left.kind, right.kind} - {"i", "u"}:
        return ()
    if total != int32 or not target.multiplies_bytes:
        return ()
    if target.int8 == "amx":
        return ("8t4", *_quads(target, right))
    return _quads(target, right)


def _quads(target: Target, right: DType) -> tuple[str, ...]:
    if right != int8 or target.int8 == "madd" and target.vector_bytes < WIDE:
        return ("8x2",)
    return ("8p4" if target.int8 == "madd" else "8x4", "8x2")


def is_shifted(numbers: Numbers) -> bool:
    """Whether left rows are copied plus 128."""
    return numbers.together == QUADS and numbers.left == int8 and not numbers.squares


def left_factor(writer: Writer, pointer: Ssa, lanes: int) -> Ssa:
    """What stands at once in a copied row, in every lane."""
    return writer.splat(writer.load("i32", pointer, 1), lanes)


def right_factor(writer: Writer, numbers: Numbers, pointer: Ssa, lanes: int) -> Ssa:
    packed = writer.load(f"<{lanes * numbers.together} x i8>", pointer, 1)
    if numbers.together == QUADS:
        return packed
    widen = "sext" if numbers.right == int8 else "zext"
    return writer.convert(widen, packed, f"<{lanes * 2} x i16>")


def multiply_add(
    writer: Writer, numbers: Numbers, factors: tuple[Ssa, Ssa], total: Ssa, lanes: int
) -> Ssa:
    left, right = factors
    left = writer.convert("bitcast", left, right.type)
    if numbers.spills:
        pairs = f"<{lanes * 2} x i16>"
        left = writer.call(pairs, f"llvm.x86.{_BYTE_PAIRS[lanes]}", left, right)
        right = writer.splat(integer(1, "i16"), lanes * 2)
    elif numbers.together == QUADS:
        name = f"llvm.x86.avx512.{_QUAD_SUMS[lanes]}"
        return writer.call(total.type, name, total, left, right)
    products = writer.call(total.type, f"llvm.x86.{_PAIR_SUMS[lanes]}", left, right)
    return writer.binary("add", total, products)


# --- copying rows ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies left rows: to where, how far apart, and the loops over k with what source and copy move on by."""

    context: Context
    numbers: Numbers
    space: Ssa
    row_bytes: Ssa
    loops: tuple[tuple[Ssa, Ssa, Ssa], ...]

    @property
    def is_dense(self) -> bool:
        return self.loops[-1][1].name == "1"


def make_copier(context: Context, statement: Contract, numbers: Numbers, rows: Ssa) -> Copier:
    """A copier of so many rows, to stack memory that is taken here."""
    writer, loops = context.writer, []
    size = integer(STEP_BYTES // numbers.together)
    for variable, extent in reversed(statement.inner):
        turns = context.index(extent)
        loops.append((turns, context.index(stride(statement.left.index, variable)), size))
        size = writer.binary("mul nsw", size, turns)
    # ``size`` is now that of a whole row
    apart = writer.binary("and", writer.binary("add nsw", size, integer(127)), integer(-64))
    if numbers.squares:  # rows of a tile that is not full are read as well
        rows = writer.binary("add nsw", rows, integer(HEIGHTS[0]))
    taken = writer.binary("mul nsw", apart, rows)
    space = writer.value("ptr", f"alloca i8, {taken}, align 64")
    return Copier(context, numbers, space, apart, tuple(reversed(loops)))


def needs_copies(copier: Copier, inner: Ssa) -> Ssa:
    """Whether rows cannot be read where they lie, all of their bytes four at a time."""
    writer, numbers = copier.context.writer, copier.numbers
    plain = numbers.together == QUADS and not is_shifted(numbers) and not numbers.squares
    if not (plain and copier.is_dense and len(copier.loops) == 1):
        return Ssa("true", "i1")
    rest = writer.binary("and", inner, integer(QUADS - 1))
    return writer.compare("icmp ne", rest, integer(0))


def copy_rows(copier: Copier, table: Ssa, count: Ssa) -> None:
    """Copy the rows of the table, and let it say where the copies are."""
    writer = copier.context.writer
    last = writer.binary("sub nsw", count, integer(1))

    def turn(row: Ssa, _: list[Ssa]) -> list[Ssa]:
        slot = table_slot(writer, table, 0, row)
        place = writer.call("i64", "llvm.smin.i64", row, last)
        offset = writer.binary("mul nsw", place, copier.row_bytes)
        target = writer.pointer(copier.space, offset, "i8")
        with writer.when(writer.compare("icmp sle", row, last)):
            _copy_loops(copier, 0, writer.load("ptr", slot, 8), target)
        writer.store(target, slot, 8)
        return []

    count_loop(writer, padded_rows(writer, count), turn)


def _copy_loops(copier: Copier, level: int, source: Ssa, target: Ssa) -> None:
    writer = copier.context.writer
    extent, source_step, target_step = copier.loops[level]
    if level == len(copier.loops) - 1:
        _copy_run(copier, source, target)
        return

    def turn(_: Ssa, offsets: list[Ssa]) -> list[Ssa]:
        there = writer.pointer(source, offsets[0], "i8")
        _copy_loops(copier, level + 1, there, writer.pointer(target, offsets[1], "i8"))
        return [
            writer.binary("add nsw", offsets[0], source_step),
            writer.binary("add nsw", offsets[1], target_step),
        ]

    count_loop(writer, extent, turn, [integer(0), integer(0)])


def _copy_run(copier: Copier, source: Ssa, target: Ssa) -> None:
    """The innermost loop: vectors and parts of them where the source is dense, then single bytes, then zeros."""
    writer = copier.context.writer
    extent, step, _ = copier.loops[-1]
    size = STEP_BYTES // copier.numbers.together

    def copy(lanes: int) -> Callable[[Ssa, list[Ssa]], list[Ssa]]:
        def turn(place: Ssa, _: list[Ssa]) -> list[Ssa]:
            there = writer.pointer(source, writer.binary("mul nsw", place, step), "i8")
            raw = writer.load(vector(lanes, "i8"), there, 1)
            offset = writer.binary("mul nsw", place, integer(size))
            here = writer.pointer(target, offset, "i8")
            writer.store(_widened(writer, copier.numbers, raw, lanes), here, size)
            return []

        return turn

    start = integer(0)
    for lanes in (copier.context.target.vector_bytes // size, SOME) if copier.is_dense else ():
        stop = writer.binary("and", extent, integer(-lanes))
        count_loop(writer, stop, copy(lanes), steps=(start, integer(lanes)))
        start = stop
    count_loop(writer, extent, copy(1), steps=(start, integer(1)))
    end = writer.pointer(target, writer.binary("mul nsw", extent, integer(size)), "i8")
    writer.store(integer(0, "i32"), end, 1)


def _widened(writer: Writer, numbers: Numbers, raw: Ssa, lanes: int) -> Ssa:
    if is_shifted(numbers):
        return writer.binary("xor", raw, writer.splat(integer(-128, "i8"), lanes))
    if numbers.together == QUADS:
        return raw
    return writer.convert("sext" if numbers.left == int8 else "zext", raw, vector(lanes, "i16"))
