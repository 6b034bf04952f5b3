"""The right side of a contraction that was packed beforehand, and what both kinds of right sides offer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from burnx.kernels.packing import HEAD_BYTES
from burnx.llvm.context import Context
from burnx.llvm.contractions import amx
from burnx.llvm.contractions.int8 import STEP_BYTES
from burnx.llvm.contractions.plan import Plan, Sizes
from burnx.llvm.contractions.rows import stride
from burnx.llvm.contractions.tile import Inner
from burnx.llvm.whole import divide_up
from burnx.llvm.writer import Ssa, Writer, integer


@dataclass(frozen=True, slots=True)
class Panel:
    """Where a panel's columns are, and the loops over k there.

    ``scattered``: whether its columns do not lie side by side, so that ``right`` and ``inner`` are those of one column
    and the next is ``column_bytes`` further.  ``ahead`` are the bytes to the next panel, where it is already packed.
    """

    right: Ssa
    inner: tuple[Inner, ...]
    scattered: Ssa | None = None
    column_bytes: Ssa | None = None
    ahead: Ssa | None = None


class Right(Protocol):
    def at_once(self, panel: Ssa, panels: Ssa) -> Ssa:
        """Whether so many panels from this one on can be gone through side by side."""

    def enter(self, panel: Ssa, count: Ssa) -> Panel:
        """What is needed to take ``count`` rows times a panel."""

    def start(self, panel: Ssa) -> Ssa:
        """Where a panel begins."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Panels that lie one after the other."""

    writer: Writer
    base: Ssa
    panel_bytes: Ssa
    inner: tuple[Inner, ...]
    sums: Ssa | None = None  # bytes from where a panel begins to 128 times the sums of its columns

    def at_once(self, panel: Ssa, panels: Ssa) -> Ssa:
        return self.writer.compare("icmp sgt", panels, integer(1))

    def start(self, panel: Ssa) -> Ssa:
        offset = self.writer.binary("mul nsw", panel, self.panel_bytes)
        return self.writer.pointer(self.base, offset, "i8")

    def enter(self, panel: Ssa, count: Ssa) -> Panel:
        return Panel(self.start(panel), self.inner, ahead=self.panel_bytes)


def find_packed(context: Context, plan: Plan, sizes: Sizes) -> Packed:
    writer, statement = context.writer, plan.statement
    row_bytes = plan.width * plan.numbers.right_bytes
    steps = divide_up(writer, sizes.inner, integer(plan.numbers.together))
    panel_bytes = writer.binary("mul nsw", steps, integer(row_bytes))
    base = context.pointer(statement.right.buffer, statement.right.index)
    if plan.numbers.together == 1:
        return Packed(writer, base, panel_bytes, packed_loops(context, plan, row_bytes))
    if plan.numbers.squares:
        steps = divide_up(writer, steps, integer(amx.STEP))
        turn = integer(amx.STEP * row_bytes)
        squares = Inner(steps, integer(amx.ROW_BYTES), turn)
        return Packed(writer, base, writer.binary("mul nsw", steps, turn), (squares,))
    # left rows are copied: there is one loop over k
    loop = Inner(steps, integer(STEP_BYTES), integer(row_bytes))
    if not plan.numbers.spills:
        return Packed(writer, base, panel_bytes, (loop,))
    spilled = writer.convert("sext", writer.load("i32", base, 4), "i64")
    sums = writer.binary("add nsw", panel_bytes, writer.binary("mul nsw", spilled, loop.right))
    offsets = writer.binary("and", writer.binary("add nsw", spilled, integer(15)), integer(-16))
    both = writer.binary("add nsw", offsets, integer(plan.width))  # int32, as the sums are
    panel_bytes = writer.binary("add nsw", sums, writer.binary("mul nsw", both, integer(4)))
    base = writer.pointer(base, integer(HEAD_BYTES), "i8")
    return Packed(writer, base, panel_bytes, (replace(loop, spilled=spilled),), sums)


def packed_loops(context: Context, plan: Plan, row_bytes: int) -> tuple[Inner, ...]:
    """The loops over k where the right side moves on by ``row_bytes`` in every innermost turn."""
    writer, loops = context.writer, []
    right = integer(row_bytes)
    for variable, extent in reversed(plan.statement.inner):
        turns = context.index(extent)
        left = scale(
            writer,
            context.index(stride(plan.statement.left.index, variable)),
            plan.numbers.left.itemsize,
        )
        loops.append(Inner(turns, left, right))
        right = writer.binary("mul nsw", right, turns)
    return tuple(reversed(loops))


def scale(writer: Writer, elements: Ssa, size: int) -> Ssa:
    """Elements in bytes; a number stays one."""
    if elements.name.lstrip("-").isdigit():
        return integer(int(elements.name) * size)
    return writer.binary("mul nsw", elements, integer(size))
