"""The right side of a contraction that is a matrix in memory, as it comes.

Where columns lie side by side and few rows use them they are read where they are.  Else a panel is copied to the stack
first: the rows that follow find it in cache, its last columns are filled up with zeros, and columns may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from burnx.llvm.context import Context
from burnx.llvm.contractions.numbers import stored_type, vector
from burnx.llvm.contractions.panels import Panel, packed_loops, scale
from burnx.llvm.contractions.plan import Plan, Sizes
from burnx.llvm.contractions.rows import count_loop, reserve, stride
from burnx.llvm.contractions.tile import Inner, move
from burnx.llvm.contractions.transpose import Run, transpose_run
from burnx.llvm.writer import Ssa, Writer, integer
from burnx.shape import substitute

COPY_BYTES = 256 * 1024  # of the stack


@dataclass(frozen=True, slots=True)
class Matrix:
    """``there`` are the loops over k in the matrix, ``copied`` those in a copied panel."""

    context: Context
    plan: Plan
    columns: Ssa
    base: Ssa
    copy: Ssa
    fits: Ssa
    column_bytes: Ssa
    there: tuple[Inner, ...]
    copied: tuple[Inner, ...]

    @property
    def writer(self) -> Writer:
        return self.context.writer

    @property
    def is_dense(self) -> bool:
        """Whether neighbouring columns are neighbours in memory."""
        return self.column_bytes.name == str(self.plan.numbers.right.itemsize)

    def at_once(self, panel: Ssa, panels: Ssa) -> Ssa:
        """Where the columns of all the panels are there and dense."""
        if not self.is_dense:
            return Ssa("false", "i1")
        writer = self.writer
        end = writer.binary("add nsw", panel, panels)
        end = writer.binary("mul nsw", end, integer(self.plan.width))
        full = writer.compare("icmp sle", end, self.columns)
        several = writer.compare("icmp sgt", panels, integer(1))
        return writer.binary("and", several, full)

    def start(self, panel: Ssa) -> Ssa:
        first = self.writer.binary("mul nsw", panel, integer(self.plan.width))
        offset = self.writer.binary("mul nsw", first, self.column_bytes)
        return self.writer.pointer(self.base, offset, "i8")

    def enter(self, panel: Ssa, count: Ssa) -> Panel:
        writer, start = self.writer, self.start(panel)
        first = writer.binary("mul nsw", panel, integer(self.plan.width))
        columns = writer.binary("sub nsw", self.columns, first)
        full = writer.compare("icmp sge", columns, integer(self.plan.width))
        direct = Ssa("false", "i1")
        if self.is_dense:
            few = writer.compare("icmp sle", count, integer(2 * self.plan.rows))
            apart = writer.binary("xor", self.fits, Ssa("true", "i1"))
            direct = writer.binary("and", full, writer.binary("or", few, apart))
        else:
            full = direct
        indirect = writer.binary("xor", direct, Ssa("true", "i1"))
        copies = writer.binary("and", indirect, self.fits)
        with writer.when(copies), self.context.scope():
            columns = writer.call("i64", "llvm.smin.i64", columns, integer(self.plan.width))
            _copy_panel(self, start, full, columns)
        inner = tuple(
            Inner(each.extent, each.left, writer.select(copies, other.right, each.right))
            for each, other in zip(self.there, self.copied, strict=True)
        )
        right = writer.select(copies, self.copy, start)
        scattered = writer.binary("xor", writer.binary("or", direct, copies), Ssa("true", "i1"))
        return Panel(right, inner, scattered, self.column_bytes)


def find_matrix(context: Context, plan: Plan, sizes: Sizes) -> Matrix:
    writer, statement, size = context.writer, plan.statement, plan.numbers.right.itemsize
    index, column = statement.right.index, statement.column[0]
    zeros = {variable: 0 for variable, _ in (*statement.inner, statement.column)}
    base = context.pointer(statement.right.buffer, substitute(index, zeros))
    row_bytes = plan.width * size
    needed = writer.binary("mul nsw", sizes.inner, integer(row_bytes))
    fits = writer.compare("icmp sle", needed, integer(COPY_BYTES))
    copied = packed_loops(context, plan, row_bytes)
    there = tuple(
        Inner(loop.extent, loop.left, scale(writer, context.index(stride(index, variable)), size))
        for loop, (variable, _) in zip(copied, statement.inner, strict=True)
    )
    return Matrix(
        context,
        plan,
        sizes.columns,
        base,
        reserve(writer, f"[{COPY_BYTES} x i8]"),
        fits,
        scale(writer, context.index(stride(index, column)), size),
        there,
        copied,
    )


def _copy_panel(matrix: Matrix, start: Ssa, full: Ssa, columns: Ssa) -> None:
    """Copy a panel to the stack: by vectors where k or columns are dense, else element by element."""
    writer, size = matrix.writer, matrix.plan.numbers.right.itemsize
    depth = len(matrix.there)
    if not matrix.is_dense and matrix.there[-1].right.name == str(size) and size in (4, 8):
        run = Run(matrix.there[-1].extent, columns, matrix.column_bytes)
        transposed = partial(transpose_run, writer, matrix.plan, run)
        _walk(matrix, (start, matrix.copy), depth - 1, transposed)
        return
    if matrix.is_dense:
        with writer.when(full):
            _walk(matrix, (start, matrix.copy), depth, partial(_copy_vectors, matrix))
    with writer.when(writer.binary("xor", full, Ssa("true", "i1"))):
        _walk(matrix, (start, matrix.copy), depth, partial(_copy_elements, matrix, columns))


def _walk(
    matrix: Matrix, places: tuple[Ssa, Ssa], depth: int, copy: Callable[[Ssa, Ssa], None]
) -> None:
    """Go through the first ``depth`` loops over k, in the matrix and on the stack."""
    writer = matrix.writer

    def nest(level: int, source: Ssa, target: Ssa) -> None:
        if level == depth:
            copy(source, target)
            return
        there, copied = matrix.there[level], matrix.copied[level]

        def turn(_: Ssa, offsets: list[Ssa]) -> Sequence[Ssa]:
            nest(level + 1, move(writer, source, offsets[0]), move(writer, target, offsets[1]))
            return (
                writer.binary("add nsw", offsets[0], there.right),
                writer.binary("add nsw", offsets[1], copied.right),
            )

        count_loop(writer, there.extent, turn, [integer(0), integer(0)])

    nest(0, *places)


def _copy_vectors(matrix: Matrix, source: Ssa, target: Ssa) -> None:
    writer, plan = matrix.writer, matrix.plan
    size = plan.numbers.right.itemsize
    type_ = vector(plan.lanes, stored_type(plan.numbers.right))
    for place in range(plan.vectors):
        offset = integer(place * plan.lanes * size)
        value = writer.load(type_, move(writer, source, offset), size)
        writer.store(value, move(writer, target, offset), size)


def _copy_elements(matrix: Matrix, columns: Ssa, source: Ssa, target: Ssa) -> None:
    writer, plan = matrix.writer, matrix.plan
    size = plan.numbers.right.itemsize
    element = stored_type(plan.numbers.right)
    zero = Ssa("zeroinitializer", vector(plan.width, element))
    writer.store(zero, target, size)

    def turn(column: Ssa, offset: list[Ssa]) -> Sequence[Ssa]:
        value = writer.load(element, move(writer, source, offset[0]), size)
        writer.store(value, writer.pointer(target, column, element), size)
        return [writer.binary("add nsw", offset[0], matrix.column_bytes)]

    count_loop(writer, columns, turn, [integer(0)])
