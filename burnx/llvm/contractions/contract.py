"""``Contract``: matrix products and convolutions, with what follows them worked out tile by tile.

Rows are cut into blocks that stay in cache, columns into panels as wide as a few registers.  A chunk is one block and a
group of panels; a thread has its own (``chunks``).  Inside a chunk: panel by panel, a few rows at a time, sums in
registers over all of k.  From there ``body`` takes them at once where it is light and the tile whole; else they go over
a small buffer on the stack to a ``body`` that is written once.  So every sum is added in one order whatever the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from burnx.kernels.ir import Contract, Let, Store, walk
from burnx.kernels.spelling import every_node
from burnx.llvm.context import Context
from burnx.llvm.contractions.amx import Square, call_square, configure, release
from burnx.llvm.contractions.chunks import take_chunks
from burnx.llvm.contractions.int8 import (
    Copier,
    copy_rows,
    is_shifted,
    make_copier,
    needs_copies,
)
from burnx.llvm.contractions.matrix import find_matrix
from burnx.llvm.contractions.numbers import vector
from burnx.llvm.contractions.panels import Packed, Panel, Right, find_packed
from burnx.llvm.contractions.plan import (
    SIDE_BY_SIDE,
    Plan,
    Sizes,
    make_plan,
    measure,
    panels_at_once,
)
from burnx.llvm.contractions.rows import (
    TABLE_ROWS,
    bind_row,
    count_loop,
    cut_tiles,
    fill_rows,
    reserve,
    table_slot,
)
from burnx.llvm.contractions.squares import Chunk, Squares, emit_squares, make_squares
from burnx.llvm.contractions.tile import Inner, Tile, call_tile, inline_tile
from burnx.llvm.uses import weight
from burnx.llvm.whole import least
from burnx.llvm.writer import Ssa, Writer, integer

LIGHT = 16  # instructions of what follows a sum that are written out behind a tile
LIGHT_OF_BYTES = 24  # behind a tile of bytes
SHORT = 24  # values of what follows a sum that are written out for every vector of a panel


@dataclass(frozen=True, slots=True)
class Work:
    """One contraction being written: its plan and sizes, and the memory on the stack."""

    context: Context
    plan: Plan
    sizes: Sizes
    right: Right
    entered: Ssa  # the block that the table is of
    table: Ssa
    sums: Ssa
    copier: Copier | None  # of left rows
    shift: Ssa | None  # what is taken off each column's sums
    squares: Squares | None = None  # where numbers may be cut

    @property
    def writer(self) -> Writer:
        return self.context.writer

    def tile(self, rows: int, rights: int = 1) -> Tile:
        plan = self.plan
        return Tile(plan.numbers, rows, rights, plan.vectors, plan.lanes, plan.tile_columns)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums in memory: where they begin, and how many columns lie between two rows."""

    first: Ssa
    apart: int


@dataclass(frozen=True, slots=True)
class Some:
    """Panels from ``first`` to before ``stop``: one, or several of a few rows if ``at_once``."""

    first: Ssa
    stop: Ssa
    at_once: Ssa


def emit_contract(context: Context, statement: Contract) -> None:
    plan = make_plan(context.target, statement)
    context.prepare(statement.body)
    writer, sizes = context.writer, measure(context, plan)
    find = find_packed if statement.packing else find_matrix
    columns = TABLE_ROWS * (1 + len(statement.rows))
    table = reserve(writer, f"[{columns} x i64]")
    sums = reserve(writer, f"[{plan.rows * plan.tile_columns} x {plan.numbers.type}]")
    entered = reserve(writer, "i64")
    writer.store(integer(-1), entered, 8)
    shift, copier, squares = None, None, None
    if is_shifted(plan.numbers):
        shift = reserve(writer, f"[{plan.tile_columns} x i32]")
    with _some_stack(writer, plan), _matrix_unit(writer, plan, sizes):
        if plan.numbers.together > 1:
            copier = make_copier(context, statement, plan.numbers, sizes.block)
        if plan.cuts:
            squares = make_squares(context, plan, sizes)
        right = find(context, plan, sizes)
        work = Work(context, plan, sizes, right, entered, table, sums, copier, shift, squares)
        _emit_chunks(work)


@contextmanager
def _some_stack(writer: Writer, plan: Plan) -> Iterator[None]:
    """What is taken of the stack, as much as the sizes say, is given back."""
    if plan.numbers.together == 1 and not plan.cuts:
        yield
        return
    before = writer.call("ptr", "llvm.stacksave.p0")
    yield
    writer.call("void", "llvm.stackrestore.p0", before)


@contextmanager
def _matrix_unit(writer: Writer, plan: Plan, sizes: Sizes) -> Iterator[None]:
    """The matrix unit is ready where it is needed."""
    needed = Ssa("true" if plan.numbers.squares else "false", "i1")
    if sizes.squares is not None:
        needed = sizes.squares.wanted
    if needed.name != "false":
        with writer.when(needed):
            configure(writer)
    yield
    if needed.name != "false":
        with writer.when(needed):
            release(writer)


def _emit_chunks(work: Work) -> None:
    """All chunks, or this thread's."""
    context, sizes = work.context, work.sizes
    parallel = work.plan.statement.parallel
    if parallel and len(context.scopes) == 1 and "counter" not in context.facts:
        context.facts["counter"] = work
        take_chunks(context, sizes.chunks, partial(_emit_chunk, work))
        return
    first, last = integer(0), sizes.chunks
    if parallel:
        first, last = context.share(sizes.chunks)
    _loop(work, first, last, integer(1), lambda chunk: _emit_chunk(work, chunk))


def _loop(work: Work, start: Ssa, stop: Ssa, step: Ssa, body: Callable[[Ssa], None]) -> None:
    """A loop that carries nothing, its body in a scope of names."""

    def turn(index: Ssa, _: list[Ssa]) -> list[Ssa]:
        with work.context.scope():
            body(index)
        return []

    count_loop(work.writer, stop, turn, steps=(start, step))


@contextmanager
def _when(work: Work, condition: Ssa) -> Iterator[None]:
    with work.writer.when(condition), work.context.scope():
        yield


def _emit_chunk(work: Work, chunk: Ssa) -> None:
    """One block of rows times one group of panels."""
    writer, sizes = work.writer, work.sizes
    block = writer.binary("udiv", chunk, sizes.groups)
    group = writer.binary("urem", chunk, sizes.groups)
    first = writer.binary("mul nsw", block, sizes.block)
    count = least(writer, sizes.block, writer.binary("sub nsw", sizes.rows, first))
    before = writer.load("i64", work.entered, 8)
    is_new = writer.compare("icmp ne", before, block)
    with _when(work, is_new):
        writer.store(block, work.entered, 8)
        _enter_block(work, first, count)
    panel = writer.binary("mul nsw", group, sizes.group)
    last = least(writer, writer.binary("add nsw", panel, sizes.group), sizes.panels)
    if work.squares is None or sizes.squares is None:
        _emit_groups(work, panel, last, count)
        return
    with _when(work, sizes.squares.wanted):
        _emit_by_squares(work, work.squares, (panel, last), count, is_new)
    with _when(work, writer.binary("xor", sizes.squares.wanted, Ssa("true", "i1"))):
        _emit_groups(work, panel, last, count)


def _emit_by_squares(
    work: Work, squares: Squares, panels: tuple[Ssa, Ssa], count: Ssa, is_new: Ssa
) -> None:
    """The chunk by the matrix unit."""
    writer, plan = work.writer, work.plan

    def again(row: Ssa, panel: Panel, sums: Ssa) -> None:
        left = table_slot(writer, work.table, 0, row)
        tile = Tile(plan.numbers, 1, 1, plan.vectors, plan.lanes, plan.width)
        call_tile(writer, tile, left, [panel.right], panel.inner, sums)

    def finish(panel: Ssa, sums: Ssa) -> None:
        column = writer.binary("mul nsw", panel, integer(plan.width))
        columns = writer.binary("sub nsw", work.sizes.columns, column)
        columns = least(writer, columns, integer(plan.width))
        _emit_body(work, (integer(0), count), column, columns, Sums(sums, plan.width))

    chunk = Chunk(work.table, count, *panels, work.right.enter, again, finish)
    emit_squares(squares, chunk, is_new)


def _emit_groups(work: Work, panel: Ssa, last: Ssa, count: Ssa) -> None:
    """The panels of a chunk, one after the other or some side by side."""
    writer = work.writer
    side = panels_at_once(writer, work.plan, count)

    def few(first: Ssa) -> None:
        """Some panels, one after the other or at once."""
        at_once = work.right.at_once(first, side)
        step = writer.select(at_once, side, integer(1))
        end = least(writer, writer.binary("add nsw", first, side), last)

        def turn(panel: Ssa) -> None:
            stop = least(writer, writer.binary("add nsw", panel, step), end)
            _emit_panels(work, Some(panel, stop, at_once), count)

        _loop(work, first, end, step, turn)

    _loop(work, panel, last, side, few)


def _enter_block(work: Work, first: Ssa, count: Ssa) -> None:
    """Find the rows of a block, which is the same one for several chunks."""
    fill_rows(work.context, work.plan.statement, work.table, first, count)
    if work.copier is not None:
        with _when(work, needs_copies(work.copier, work.sizes.inner)):
            copy_rows(work.copier, work.table, count)


def _emit_panels(work: Work, panels: Some, count: Ssa) -> None:
    """All rows of a block times one panel; or a few rows times several."""
    writer = work.writer
    found = work.right.enter(panels.first, count)
    if work.shift is not None:
        _emit_shift(work, work.shift, panels, found)
    first = writer.binary("mul nsw", panels.first, integer(work.plan.width))
    stop = writer.binary("mul nsw", panels.stop, integer(work.plan.width))
    columns = writer.binary("sub nsw", least(writer, stop, work.sizes.columns), first)
    cut = cut_tiles(writer, work.plan.rows, count)

    def turn(tile: Ssa) -> None:
        row, rows = cut.find(tile)
        other = panels.at_once
        _emit_few_rows(work, panels, count, found)
        if found.scattered is not None:
            other = writer.binary("or", other, found.scattered)
            _emit_scattered(work, found.scattered, found, (row, rows), columns)
        if not _is_direct(work):
            _emit_tiles(work, (row, rows), found, other)
            _emit_body(work, (row, rows), first, columns)
            return
        full = writer.compare("icmp eq", columns, integer(work.plan.width))
        high = writer.compare("icmp eq", rows, integer(work.plan.rows))
        apart = writer.select(writer.binary("and", full, high), other, Ssa("true", "i1"))
        with _when(work, writer.binary("xor", apart, Ssa("true", "i1"))):
            _emit_at_once(work, row, found, first)
        with _when(work, apart):
            _emit_tiles(work, (row, rows), found, other)
            _emit_body(work, (row, rows), first, columns)

    _loop(work, integer(0), cut.tiles, integer(1), turn)


def _emit_tiles(work: Work, rows: tuple[Ssa, Ssa], panel: Panel, other: Ssa) -> None:
    """The tile of so many rows, unless ``other``; where no tile has just these, the last is worked out twice."""
    writer, heights = work.writer, work.plan.heights
    row, count = rows
    count = writer.select(other, integer(-1), count)
    for height, lower in zip(heights, (*heights[1:], -1), strict=True):
        enough = writer.compare("icmp ule", count, integer(height))
        condition = writer.binary("and", enough, writer.compare("icmp sgt", count, integer(lower)))
        with _when(work, condition):
            left, tile = table_slot(writer, work.table, 0, row), work.tile(height)
            if work.plan.numbers.squares:
                _emit_square(work, height, left, panel)
                continue
            call_tile(writer, tile, left, [panel.right], panel.inner, work.sums, panel.ahead)


def _emit_square(work: Work, height: int, slot: Ssa, panel: Panel) -> None:
    """A tile for the matrix unit: its rows are copies, equally far apart."""
    assert work.copier is not None
    writer, plan = work.writer, work.plan
    square = Square(plan.numbers, height, plan.vectors, plan.tile_columns)
    left = writer.load("ptr", slot, 8), work.copier.row_bytes
    call_square(writer, square, left, panel.right, panel.inner[0].extent, work.sums)


def _is_direct(work: Work) -> bool:
    """Whether what follows the sums is written out behind a tile, which leaves them in registers."""
    most = LIGHT if work.plan.numbers.together == 1 else LIGHT_OF_BYTES
    return (
        work.shift is None and not work.plan.numbers.squares and _weigh(work.plan.statement) <= most
    )


def _emit_at_once(work: Work, row: Ssa, panel: Panel, first: Ssa) -> None:
    """A whole tile, and what follows its sums in registers."""
    writer, plan, context = work.writer, work.plan, work.context
    left = table_slot(writer, work.table, 0, row)
    ahead = integer(0) if panel.ahead is None else panel.ahead
    sums = inline_tile(writer, work.tile(plan.rows), left, [panel.right], panel.inner, ahead)
    for place in range(plan.rows):
        with context.scope():
            bind_row(context, plan.statement, work.table, context.add(row, integer(place)))
            context.prepare(plan.statement.body)
            for across in range(plan.vectors):
                column = context.add(first, integer(across * plan.lanes))
                _follow(work, column, sums[place * plan.vectors + across], plan.lanes)


def _follow(work: Work, column: Ssa, total: Ssa, count: int) -> None:
    """What follows some sums of a row."""
    context, statement = work.context, work.plan.statement
    with context.lanes(statement.column[0], column, count):
        context.bind(statement.name, total)
        context.statements(statement.body, count)


def _emit_few_rows(work: Work, panels: Some, count: Ssa, found: Panel) -> None:
    """A few rows times several panels: one row has those come from memory at its speed."""
    writer = work.writer
    for rows, side in work.plan.few.items():
        so_many = writer.compare("icmp eq", count, integer(rows))
        with _when(work, writer.binary("and", panels.at_once, so_many)):
            rights = _side_by_side(work, panels, side)
            tile = work.tile(rows, side)
            call_tile(writer, tile, work.table, rights, found.inner, work.sums)


def _side_by_side(work: Work, panels: Some, side: int = SIDE_BY_SIDE) -> list[Ssa]:
    """Where several panels begin; in place of those past the last, the last."""
    writer = work.writer
    last = writer.binary("sub nsw", panels.stop, integer(1))
    places = [writer.binary("add nsw", panels.first, integer(each)) for each in range(side)]
    return [work.right.start(least(writer, each, last)) for each in places]


def _emit_shift(work: Work, shift: Ssa, panels: Some, found: Panel) -> None:
    """Left elements are 128 too large: what that comes to in every column."""
    writer = work.writer
    if isinstance(work.right, Packed) and work.right.sums is not None:
        _copy_shift(work, shift, panels, work.right.sums)
        return
    element, left = reserve(writer, "i32"), reserve(writer, "ptr")
    writer.store(integer(-0x7F7F7F80, "i32"), element, 4)  # four times 128
    writer.store(element, left, 8)
    inner = [Inner(each.extent, integer(0), each.right) for each in found.inner]
    one = writer.binary("xor", panels.at_once, Ssa("true", "i1"))
    for condition, rights in (
        (panels.at_once, _side_by_side(work, panels)),
        (one, [found.right]),
    ):
        with _when(work, condition):
            call_tile(writer, work.tile(1, len(rights)), left, rights, inner, shift)


def _copy_shift(work: Work, shift: Ssa, panels: Some, sums: Ssa) -> None:
    """What it comes to lies behind every panel."""
    writer, plan = work.writer, work.plan
    for place, right in enumerate(_side_by_side(work, panels)):
        panel = writer.pointer(right, sums, "i8")
        for start in range(0, plan.width, plan.lanes):
            type_ = vector(plan.lanes, plan.numbers.type)
            total = writer.load(type_, writer.pointer(panel, integer(start), "i32"), 4)
            slot = writer.pointer(shift, integer(place * plan.width + start), "i32")
            writer.store(total, slot, 4 * plan.lanes)


def _emit_scattered(
    work: Work, condition: Ssa, panel: Panel, rows: tuple[Ssa, Ssa], columns: Ssa
) -> None:
    """Sum by sum, for columns that lie anywhere and are too long to be copied."""
    writer, numbers = work.writer, work.plan.numbers
    tile = Tile(numbers, 1, 1, 1, 1, 1)

    def turn(place: Ssa, column: Ssa) -> None:
        there = writer.binary("mul nsw", column, panel.column_bytes or integer(0))
        right = writer.pointer(panel.right, there, "i8")
        left = table_slot(writer, work.table, 0, work.context.add(rows[0], place))
        slot = writer.binary("mul nsw", place, integer(work.plan.tile_columns))
        slot = writer.binary("add nsw", slot, column)
        total = writer.pointer(work.sums, slot, numbers.type)
        call_tile(writer, tile, left, [right], panel.inner, total)

    def turns(place: Ssa) -> None:
        _loop(work, integer(0), columns, integer(1), partial(turn, place))

    with _when(work, condition):
        _loop(work, integer(0), rows[1], integer(1), turns)


def _emit_body(
    work: Work, rows: tuple[Ssa, Ssa], first: Ssa, columns: Ssa, sums: Sums | None = None
) -> None:
    """Run ``body`` for the sums on the stack: whole vectors, then the columns left over."""
    writer, context, plan = work.writer, work.context, work.plan
    sums = Sums(work.sums, plan.tile_columns) if sums is None else sums
    statement = plan.statement

    def run(base: Ssa, count: int, column: Ssa) -> None:
        pointer = writer.pointer(base, column, plan.numbers.type)
        align = plan.numbers.total.itemsize * min(count, plan.lanes)
        total = writer.load(vector(count, plan.numbers.type), pointer, align)
        if work.shift is not None:
            pointer = writer.pointer(work.shift, column, plan.numbers.type)
            total = writer.binary("sub", total, writer.load(total.type, pointer, align))
        _follow(work, context.add(first, column), total, count)

    def any_columns(base: Ssa) -> None:
        even, wide = writer.binary("and", columns, integer(-plan.lanes)), integer(plan.lanes)
        _loop(work, integer(0), even, wide, partial(run, base, plan.lanes))
        _loop(work, even, columns, integer(1), partial(run, base, 1))

    short = _is_short(statement)

    def turn(place: Ssa) -> None:
        bind_row(context, statement, work.table, context.add(rows[0], place))
        context.prepare(statement.body)
        offset = writer.binary("mul nsw", place, integer(sums.apart))
        base = writer.pointer(sums.first, offset, plan.numbers.type)
        whole = writer.compare("icmp eq", columns, integer(plan.width))
        if short:
            with _when(work, whole):
                for vector_number in range(plan.vectors):
                    with context.scope():
                        run(base, plan.lanes, integer(vector_number * plan.lanes))
            whole = writer.binary("xor", whole, Ssa("true", "i1"))
            with _when(work, whole):
                any_columns(base)
        else:
            any_columns(base)

    _loop(work, integer(0), rows[1], integer(1), turn)


def _weigh(statement: Contract) -> int:
    return weight(each.value for each in walk(statement.body) if isinstance(each, (Store, Let)))


def _is_short(statement: Contract) -> bool:
    """Whether what follows the sums is little enough to be written out for every vector of a panel."""
    stored = [each.value for each in walk(statement.body) if isinstance(each, (Store, Let))]
    return len(every_node(stored)) <= SHORT
