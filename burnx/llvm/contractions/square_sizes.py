"""Whether float32 is multiplied by the matrix unit of x86, and how much at a time: known when the kernel runs.

The choice depends on the sizes of the product alone, so that results are the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx.dtype import float32
from burnx.llvm.contractions.amx import HEIGHTS, STEP
from burnx.llvm.contractions.cut import PARTS
from burnx.llvm.contractions.numbers import Numbers
from burnx.llvm.target import Target
from burnx.llvm.whole import divide_up, greatest, least, multiply_all
from burnx.llvm.writer import Ssa, Writer, integer

HEIGHT = HEIGHTS[0]
MOST_VECTORS = 2  # of a panel: two columns of squares
SQUARE_K = STEP * 2
DEPTH = 1024  # k that are taken at a time, more or less
DEEPEST = 1536  # k that have to be taken at once; more is not cut
ROWS_BYTES = 768 * 1024  # of cut rows, in the second cache, on the stack
MOST_ROWS = 224
SUMS_BYTES = 256 * 1024
MOST_PANELS = 512  # of a chunk: there is a note of each on the stack

# Picoseconds of one core of an Emerald Rapids, fitted by hand to single products of 16 to 12,544 rows.
_WHOLE = 11  # a multiplication of numbers as they are
_WHOLE_SUM = 112  # what follows each sum
_CUT = 5  # a multiplication of cut numbers
_CUT_RIGHT = 179  # to cut a number of the right side
_CUT_LEFT = 277  # of the left side
_CUT_SUM = 191  # what follows each sum, over the stack
_LEAST_ROWS = 12  # the right side comes from memory for fewer


@dataclass(frozen=True, slots=True)
class SquareSizes:
    """``wanted``: whether numbers are cut; ``at_once``: for all k; else ``turns`` of the outermost loop over k are taken at
    a time, which are ``depth`` k, ``rest`` each; ``rows`` of a block at most.
    """

    writer: Writer
    width: int
    wanted: Ssa
    at_once: Ssa
    turns: Ssa
    rest: Ssa
    depth: Ssa
    rows: Ssa

    def cut_panels(self, block: Ssa, blocks: Ssa, panels: Ssa, workers: Ssa) -> Ssa:
        """Panels of a chunk: as many as can be, since rows are cut anew for each chunk where k are taken several times, and
        its first panel is cut while nothing is multiplied.
        """
        writer = self.writer
        chunks = writer.select(self.at_once, writer.binary("shl", workers, integer(1)), workers)
        chunks = writer.select(writer.compare("icmp sge", blocks, workers), integer(1), chunks)
        group = divide_up(writer, panels, divide_up(writer, chunks, blocks))
        size = writer.binary("mul nsw", block, integer(self.width * float32.itemsize))
        room = greatest(writer, writer.binary("udiv", integer(SUMS_BYTES), size), integer(1))
        room = writer.select(self.at_once, integer(MOST_PANELS), room)
        return least(writer, group, room)

    def sums_panels(self, group: Ssa) -> Ssa:
        """Of how many panels sums are on the stack at a time."""
        return self.writer.select(self.at_once, integer(1), group)


def multiplies_cut(target: Target, numbers: Numbers) -> bool:
    """Whether such numbers may be cut."""
    return target.bfloat16 == "amx" and {numbers.left, numbers.right, numbers.total} == {float32}


def plan_squares(
    writer: Writer, width: int, extents: Sequence[Ssa], rows: Ssa, columns: Ssa
) -> SquareSizes:
    """``extents`` are those of the loops over k, the outermost first."""
    rest = multiply_all(writer, [integer(1), *extents[1:]])
    fitting = writer.binary("udiv", integer(DEPTH), greatest(writer, rest, integer(1)))
    turns = greatest(writer, least(writer, fitting, extents[0]), integer(1))
    depth = writer.binary("mul nsw", turns, rest)
    row_bytes = writer.binary("mul nsw", _up(writer, depth, SQUARE_K), integer(2 * PARTS))
    room = writer.binary("udiv", integer(ROWS_BYTES), greatest(writer, row_bytes, integer(1)))
    room = writer.binary("and", room, integer(-HEIGHT))
    most = greatest(writer, least(writer, room, integer(MOST_ROWS)), integer(HEIGHT))
    inner = writer.binary("mul nsw", extents[0], rest)
    wanted = _is_faster(writer, width, (rows, columns, inner), depth, most)
    at_once = writer.compare("icmp sge", turns, extents[0])
    return SquareSizes(writer, width, wanted, at_once, turns, rest, depth, most)


def _up(writer: Writer, value: Ssa, unit: int) -> Ssa:
    raised = writer.binary("add nsw", value, integer(unit - 1))
    return writer.binary("and", raised, integer(-unit))


def _is_faster(
    writer: Writer, width: int, sizes: tuple[Ssa, Ssa, Ssa], depth: Ssa, most: Ssa
) -> Ssa:
    """Whether cutting and multiplying takes less time than multiplying as it is."""
    rows, columns, inner = sizes
    deep, across = _up(writer, inner, SQUARE_K), _up(writer, columns, width)

    def add_up(*costs: tuple[int, Ssa, Ssa, Ssa]) -> Ssa:
        total = integer(0)
        for cost, *factors in costs:
            each = multiply_all(writer, [integer(cost), *factors])
            total = writer.binary("add nsw", total, each)
        return total

    one, blocks = integer(1), divide_up(writer, rows, most)
    whole = add_up((_WHOLE, rows, inner, across), (_WHOLE_SUM, rows, across, one))
    cut = add_up(
        (_CUT, _up(writer, rows, HEIGHTS[1]), deep, across),
        (_CUT_RIGHT, blocks, deep, across),
        (_CUT_LEFT, rows, deep, one),
        (_CUT_SUM, rows, across, one),
    )
    faster = writer.compare("icmp slt", cut, whole)
    enough = writer.compare("icmp sge", rows, integer(_LEAST_ROWS))
    fits = writer.compare("icmp sle", depth, integer(DEEPEST))
    return writer.binary("and", writer.binary("and", faster, enough), fits)
