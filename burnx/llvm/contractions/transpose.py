"""Copying a panel out of a matrix whose columns are dense: k by k turned into column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx.llvm.contractions.numbers import stored_type, vector
from burnx.llvm.contractions.plan import Plan
from burnx.llvm.contractions.rows import count_loop
from burnx.llvm.contractions.tile import move
from burnx.llvm.whole import least
from burnx.llvm.writer import Ssa, Writer, integer


@dataclass(frozen=True, slots=True)
class Run:
    """The innermost loop over k, how many columns of the panel there are, and how far they are apart."""

    extent: Ssa
    columns: Ssa
    column_bytes: Ssa


def transpose_run(writer: Writer, plan: Plan, run: Run, source: Ssa, target: Ssa) -> None:
    """Copy all k of a panel; columns past the last are the last again, or left as they are."""
    lanes, size = plan.lanes, plan.numbers.right.itemsize
    element = stored_type(plan.numbers.right)
    last = writer.binary("sub nsw", run.columns, integer(1))
    even = writer.binary("and", run.extent, integer(-lanes))

    def columns(first: Ssa, _: list[Ssa]) -> Sequence[Ssa]:
        starts = []
        for place in range(lanes):
            column = least(writer, writer.binary("add nsw", first, integer(place)), last)
            offset = writer.binary("mul nsw", column, run.column_bytes)
            starts.append(move(writer, source, offset))
        here = writer.pointer(target, first, element)

        def square(k: Ssa, _: list[Ssa]) -> Sequence[Ssa]:
            type_ = vector(lanes, element)
            lines = [writer.load(type_, writer.pointer(each, k, element), size) for each in starts]
            for place, line in enumerate(transpose(writer, lines, lanes)):
                _keep(writer, plan, line, (here, writer.binary("add nsw", k, integer(place))))
            return []

        def single(k: Ssa, _: list[Ssa]) -> Sequence[Ssa]:
            line = Ssa("poison", vector(lanes, element))
            for place, each in enumerate(starts):
                value = writer.load(element, writer.pointer(each, k, element), size)
                text = f"insertelement {line}, {value}, i64 {place}"
                line = writer.value(line.type, text)
            _keep(writer, plan, line, (here, k))
            return []

        count_loop(writer, even, square, steps=(integer(0), integer(lanes)))
        count_loop(writer, run.extent, single, steps=(even, integer(1)))
        return []

    count_loop(writer, run.columns, columns, steps=(integer(0), integer(lanes)))


def _keep(writer: Writer, plan: Plan, line: Ssa, place: tuple[Ssa, Ssa]) -> None:
    here, k = place
    offset = writer.binary("mul nsw", k, integer(plan.width * plan.numbers.right.itemsize))
    writer.store(line, move(writer, here, offset), plan.numbers.right.itemsize)


def transpose(writer: Writer, lines: list[Ssa], lanes: int) -> list[Ssa]:
    """``lanes`` vectors of ``lanes``, turned: interleaving the halves log2(lanes) times."""
    half = lanes // 2
    for _ in range(lanes.bit_length() - 1):
        turned = []
        for low, high in zip(lines[:half], lines[half:], strict=True):
            for start in (0, half):
                picks = [start + place // 2 + lanes * (place % 2) for place in range(lanes)]
                mask = ", ".join(f"i32 {pick}" for pick in picks)
                text = f"shufflevector {low}, {high}, <{lanes} x i32> <{mask}>"
                turned.append(writer.value(low.type, text))
        lines = turned
    return lines
