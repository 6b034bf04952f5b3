"""A chunk of a float32 contraction by the matrix unit of x86, where that is likely faster: known when the kernel runs.

As many k as fit in cache are taken at a time.  All rows of the block are cut into parts for them; a panel is cut while the
tiles of the one before are multiplied, by other units of the processor.  Sums stay on the stack until all k are done:
those of one panel, or of all of the chunk where k are taken several times.  Rows or panels that have wild numbers are
multiplied once more, as all other targets do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burnx.llvm.context import Context
from burnx.llvm.contractions.amx import HEIGHTS, ROW_BYTES, STEP, Cuts, Square, call_square
from burnx.llvm.contractions.cut import (
    NONE,
    PART_BYTES,
    PARTS,
    Pairs,
    cut_run,
    is_panel_wild,
    is_wild,
    larger_peak,
    note_tiny,
)
from burnx.llvm.contractions.panels import Panel
from burnx.llvm.contractions.plan import Plan, Sizes
from burnx.llvm.contractions.rows import Run, count_loop, reserve, stride, table_slot
from burnx.llvm.contractions.square_sizes import SQUARE_K
from burnx.llvm.whole import divide_down, divide_up, least, multiply_all
from burnx.llvm.writer import Ssa, Writer, integer


@dataclass(frozen=True, slots=True)
class Squares:
    """Memory on the stack: cut rows of the block, ``row_bytes`` each; two cut panels, ``panel_bytes`` each; the largest
    numbers of every row, of every panel of the chunk, and of the block; the sums, panel after panel.
    """

    context: Context
    plan: Plan
    sizes: Sizes
    rows: Ssa
    row_bytes: Ssa
    part_bytes: Ssa
    panels: Ssa
    panel_bytes: Ssa
    row_peaks: Ssa
    panel_peaks: Ssa
    sums: Ssa
    block_peak: Ssa

    @property
    def writer(self) -> Writer:
        return self.context.writer

    def row(self, row: Ssa) -> Ssa:
        offset = self.writer.binary("mul nsw", row, self.row_bytes)
        return self.writer.pointer(self.rows, offset, "i8")

    def panel_peak(self, panel: Ssa) -> Ssa:
        """Where the largest numbers of the columns of a panel of the chunk are."""
        offset = self.writer.binary("mul nsw", panel, integer(self.plan.vectors * ROW_BYTES))
        return self.writer.pointer(self.panel_peaks, offset, "i8")

    def panel_sums(self, panel: Ssa, count: Ssa) -> Ssa:
        """Where the sums of a panel of the chunk are."""
        writer = self.writer
        size = writer.binary("mul nsw", _whole_rows(writer, count), integer(self.plan.width))
        return writer.pointer(self.sums, writer.binary("mul nsw", panel, size), "float")


def make_squares(context: Context, plan: Plan, sizes: Sizes) -> Squares:
    """Take the memory; none for what is not multiplied so."""
    writer, zero = context.writer, integer(0)
    assert sizes.squares is not None
    wanted = sizes.squares.wanted

    def take(size: Ssa) -> Ssa:
        size = writer.select(wanted, writer.binary("add nsw", size, integer(ROW_BYTES)), zero)
        return writer.value("ptr", f"alloca i8, {size}, align 64")

    steps = divide_up(writer, sizes.squares.depth, integer(SQUARE_K))
    block = _whole_rows(writer, sizes.block)
    part = writer.binary("mul nsw", steps, integer(ROW_BYTES))
    part = writer.binary("add nsw", part, integer(ROW_BYTES))  # a gap that may be written over
    row_bytes = writer.binary("mul nsw", part, integer(PARTS))
    panel = writer.binary("mul nsw", steps, integer(PARTS * STEP * plan.vectors * ROW_BYTES))
    panels = sizes.squares.sums_panels(sizes.group)
    columns = writer.binary("mul nsw", panels, integer(plan.width * plan.numbers.total.itemsize))
    return Squares(
        context,
        plan,
        sizes,
        take(writer.binary("mul nsw", row_bytes, block)),
        row_bytes,
        part,
        take(writer.binary("mul nsw", panel, integer(2))),
        panel,
        take(writer.binary("mul nsw", block, integer(ROW_BYTES))),
        take(writer.binary("mul nsw", sizes.group, integer(plan.vectors * ROW_BYTES))),
        take(writer.binary("mul nsw", columns, block)),
        reserve(writer, f"[{ROW_BYTES} x i8]"),
    )


def _peak(writer: Writer, peaks: Ssa, place: Ssa) -> Ssa:
    return writer.pointer(peaks, writer.binary("mul nsw", place, integer(ROW_BYTES)), "i8")


def _whole_rows(writer: Writer, count: Ssa) -> Ssa:
    """Rows with those that the last tile has too many."""
    raised = writer.binary("add nsw", count, integer(HEIGHTS[0] - 1))
    return writer.binary("and", raised, integer(-HEIGHTS[0]))


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows and panels of a chunk; ``enter`` says where a panel is, ``again`` multiplies a row by a panel as they are,
    ``finish`` does what follows the sums of a panel.
    """

    table: Ssa
    count: Ssa
    first: Ssa
    last: Ssa
    enter: Callable[[Ssa, Ssa], Panel]
    again: Callable[[Ssa, Panel, Ssa], None]
    finish: Callable[[Ssa, Ssa], None]


def emit_squares(squares: Squares, chunk: Chunk, is_new: Ssa) -> None:
    """Work out the sums of a chunk; ``is_new``: its block is another than that of the chunk before."""
    writer, sizes = squares.writer, squares.sizes
    statement = squares.plan.statement
    extents = [squares.context.index(extent) for _, extent in statement.inner]
    assert sizes.squares is not None
    some, rest = sizes.squares.turns, sizes.squares.rest
    keeps = writer.binary(
        "and", sizes.squares.at_once, writer.binary("xor", is_new, Ssa("true", "i1"))
    )

    def turn(start: Ssa, _: list[Ssa]) -> list[Ssa]:
        with squares.context.scope():
            turns = least(writer, some, writer.binary("sub nsw", extents[0], start))
            with writer.when(writer.binary("xor", keeps, Ssa("true", "i1"))):
                _cut_rows(squares, chunk, (start, turns), extents)
            _multiply(squares, chunk, (start, turns), extents[0], rest)
        return []

    count_loop(writer, extents[0], turn, steps=(integer(0), some))


def _cut_rows(squares: Squares, chunk: Chunk, part: tuple[Ssa, Ssa], extents: list[Ssa]) -> None:
    """Cut all rows of the block for some turns of the outermost loop over k."""
    writer, (start, turns) = squares.writer, part
    statement = squares.plan.statement
    strides = [
        squares.context.index(stride(statement.left.index, name)) for name, _ in statement.inner
    ]
    offset = writer.binary("mul nsw", start, strides[0])
    begins = writer.compare("icmp eq", start, integer(0))
    # the last step of these k: behind them it has to have zeros, whatever was there for other k
    depth = multiply_all(writer, [turns, *extents[1:]])
    last = divide_down(writer, writer.binary("sub nsw", depth, integer(1)), integer(SQUARE_K))
    last = writer.binary("mul nsw", last, integer(ROW_BYTES))

    def turn(row: Ssa, largest: list[Ssa]) -> list[Ssa]:
        source = writer.load("ptr", table_slot(writer, chunk.table, 0, row), 8)
        source = writer.pointer(source, offset, "float")
        target, peak = squares.row(row), _peak(writer, squares.row_peaks, row)
        with writer.when(begins):
            writer.store(NONE, peak, ROW_BYTES)
        for number in range(PARTS):
            end = writer.binary("mul nsw", squares.part_bytes, integer(number))
            end = writer.pointer(writer.pointer(target, end, "i8"), last, "i8")
            writer.store(NONE, end, ROW_BYTES)
        _cut_loops(squares, ((turns, *extents[1:]), strides), source, target, peak)
        note_tiny(writer, peak)
        return [larger_peak(writer, largest[0], peak)]

    (largest,) = count_loop(writer, chunk.count, turn, [NONE])
    writer.store(largest, squares.block_peak, ROW_BYTES)


def _cut_loops(
    squares: Squares, loops: tuple[tuple[Ssa, ...], list[Ssa]], source: Ssa, target: Ssa, peak: Ssa
) -> None:
    """Go through the loops over k; the copy has all of them one behind the other."""
    writer, (extents, strides) = squares.writer, loops
    sizes = [integer(PART_BYTES)]
    for extent in reversed(extents[1:]):
        sizes.insert(0, writer.binary("mul nsw", sizes[0], extent))

    def nest(level: int, source: Ssa, target: Ssa) -> None:
        if level == len(extents) - 1:
            run = Run(writer, extents[level], strides[level])
            cut_run(run, source, target, squares.part_bytes, peak)
            return

        def turn(place: Ssa, _: list[Ssa]) -> list[Ssa]:
            there = writer.binary("mul nsw", place, strides[level])
            here = writer.binary("mul nsw", place, sizes[level])
            there = writer.pointer(source, there, "float")
            nest(level + 1, there, writer.pointer(target, here, "i8"))
            return []

        count_loop(writer, extents[level], turn)

    nest(0, source, target)


def _multiply(
    squares: Squares, chunk: Chunk, part: tuple[Ssa, Ssa], extent: Ssa, rest: Ssa
) -> None:
    """All rows of the block times all panels of the chunk, for some turns of the outermost loop over k."""
    writer, plan, (start, turns) = squares.writer, squares.plan, part
    assert squares.sizes.squares is not None
    at_once = squares.sizes.squares.at_once
    is_last = writer.compare("icmp sge", writer.binary("add nsw", start, turns), extent)
    depth = writer.binary("mul nsw", turns, rest)
    row_bytes = integer(plan.width * plan.numbers.total.itemsize)
    begin = writer.binary("mul nsw", writer.binary("mul nsw", start, rest), row_bytes)

    def pairs_of(panel: Ssa) -> Pairs:
        """What is cut of a panel, and to where."""
        place = writer.binary("sub nsw", panel, chunk.first)
        odd = writer.binary("and", place, integer(1))
        target = writer.binary("mul nsw", odd, squares.panel_bytes)
        target = writer.pointer(squares.panels, target, "i8")
        source = writer.pointer(chunk.enter(panel, chunk.count).right, begin, "i8")
        return Pairs(writer, plan.vectors, source, depth, target, squares.panel_peak(place))

    begins = writer.compare("icmp eq", start, integer(0))
    first = pairs_of(chunk.first)
    with writer.when(begins):
        first.reset()
    first.cut(integer(0), first.count)
    before_last = writer.binary("sub nsw", chunk.last, integer(1))

    def turn(panel: Ssa, _: list[Ssa]) -> list[Ssa]:
        with squares.context.scope():
            place = writer.binary("sub nsw", panel, chunk.first)
            peak = squares.panel_peak(place)
            sums = squares.panel_sums(writer.select(at_once, integer(0), place), chunk.count)
            more = writer.compare("icmp slt", panel, before_last)
            following = writer.binary("add nsw", panel, writer.convert("zext", more, "i64"))
            cuts = pairs_of(following)
            with writer.when(writer.binary("and", begins, more)):
                cuts.reset()
            stop = writer.select(more, cuts.count, integer(0))
            _multiply_tiles(squares, chunk.count, (place, sums), cuts, stop, adds)
            with writer.when(is_last):
                found = chunk.enter(panel, chunk.count)
                _multiply_wild(squares, chunk, found, peak, sums)
                chunk.finish(panel, sums)
        return []

    adds = writer.compare("icmp ne", start, integer(0))
    count_loop(writer, chunk.last, turn, steps=(chunk.first, integer(1)))


def _multiply_tiles(
    squares: Squares, count: Ssa, panel: tuple[Ssa, Ssa], following: Pairs, stop: Ssa, adds: Ssa
) -> None:
    """The tiles of a panel, while pairs of the next are cut."""
    writer, plan, (place, sums) = squares.writer, squares.plan, panel
    odd = writer.binary("and", place, integer(1))
    right = writer.pointer(squares.panels, writer.binary("mul nsw", odd, squares.panel_bytes), "i8")
    steps = divide_up(writer, following.depth, integer(SQUARE_K))
    tiles = writer.binary("udiv", _whole_rows(writer, count), integer(HEIGHTS[0]))
    tile_pairs = divide_up(writer, following.count, tiles)
    some = divide_up(writer, integer(STEP), writer.binary("mul nsw", tiles, integer(6)))

    def turn(row: Ssa, carried: list[Ssa]) -> list[Ssa]:
        low = writer.compare("icmp sle", writer.binary("sub nsw", count, row), integer(HEIGHTS[1]))
        high = writer.binary("xor", low, Ssa("true", "i1"))
        slot = writer.binary("mul nsw", row, integer(plan.width))
        end = least(writer, stop, writer.binary("add nsw", carried[0], tile_pairs))
        given = following.source, following.depth, following.target, following.peak
        here = Cuts(squares.part_bytes, adds, *given, carried[0], end, some)
        for height, is_so in zip(HEIGHTS, (high, low), strict=True):
            with writer.when(is_so):
                square = Square(plan.numbers, height, plan.vectors, plan.width)
                left = squares.row(row), squares.row_bytes
                there = writer.pointer(sums, slot, "float")
                call_square(writer, square, left, right, steps, there, here)
        return [end]

    count_loop(writer, count, turn, [integer(0)], (integer(0), integer(HEIGHTS[0])))


def _multiply_wild(squares: Squares, chunk: Chunk, panel: Panel, peak: Ssa, sums: Ssa) -> None:
    """The sums of a panel that is wild, or of those rows that are."""
    writer, plan = squares.writer, squares.plan
    some = is_wild(writer, squares.block_peak)
    whole = is_panel_wild(writer, peak, plan.vectors)

    def turn(row: Ssa, _: list[Ssa]) -> list[Ssa]:
        wild = is_wild(writer, _peak(writer, squares.row_peaks, row))
        with writer.when(writer.binary("or", whole, wild)):
            slot = writer.binary("mul nsw", row, integer(plan.width))
            chunk.again(row, panel, writer.pointer(sums, slot, "float"))
        return []

    with writer.when(writer.binary("or", whole, some)), squares.context.scope():
        count_loop(writer, chunk.count, turn)
