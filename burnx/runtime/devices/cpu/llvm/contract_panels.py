"""The right side of a contraction: panels of columns, as they were packed or out of the matrix itself."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.runtime.devices.cpu.llvm.context import Context
from burnx.runtime.devices.cpu.llvm.contract_plan import Plan, Sizes
from burnx.runtime.devices.cpu.llvm.contract_rows import stride
from burnx.runtime.devices.cpu.llvm.contract_tile import Inner
from burnx.runtime.devices.cpu.llvm.writer import Ssa, integer


@dataclass(frozen=True, slots=True)
class Panels:
    """``packed`` are the loops over k in a packed panel."""

    context: Context
    plan: Plan
    base: Ssa
    panel_bytes: Ssa
    packed: tuple[Inner, ...]

    @property
    def side_by_side(self) -> bool:
        """Whether several panels can be read at once."""
        return bool(self.plan.statement.packing)

    def start(self, panel: Ssa) -> Ssa:
        """Where a packed panel begins."""
        writer = self.context.writer
        offset = writer.binary("mul nsw", panel, self.panel_bytes)
        return writer.pointer(self.base, offset, "i8")

    def enter(self, panel: Ssa, count: Ssa) -> tuple[Ssa, tuple[Inner, ...]]:
        """A panel's first element and its loops over k, for ``count`` rows of use."""
        return self.start(panel), self.packed


def make_panels(context: Context, plan: Plan, sizes: Sizes) -> Panels:
    writer, statement = context.writer, plan.statement
    step = plan.width * plan.numbers.right_bytes
    panel_bytes = writer.binary("mul nsw", sizes.inner, integer(step))
    offset = writer.binary(
        "mul nsw", context.index(statement.right.index), integer(plan.numbers.right.itemsize)
    )
    base = writer.pointer(context.base(statement.right.buffer), offset, "i8")
    return Panels(context, plan, base, panel_bytes, packed_loops(context, plan, step))


def packed_loops(context: Context, plan: Plan, step: int) -> tuple[Inner, ...]:
    """The loops over k where the right side moves on by ``step`` bytes in every innermost turn."""
    writer, loops = context.writer, []
    right = integer(step)
    for variable, extent in reversed(plan.statement.inner):
        turns = context.index(extent)
        loops.append(Inner(turns, left_step(context, plan, variable), right))
        right = writer.binary("mul nsw", right, turns)
    return tuple(reversed(loops))


def left_step(context: Context, plan: Plan, variable: str) -> Ssa:
    """How many bytes the left side moves on with an inner variable."""
    elements = context.index(stride(plan.statement.left.index, variable))
    size = integer(plan.numbers.left.itemsize)
    if elements.name.lstrip("-").isdigit():
        return integer(int(elements.name) * plan.numbers.left.itemsize)
    return context.writer.binary("mul nsw", elements, size)
