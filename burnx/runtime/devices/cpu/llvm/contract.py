"""``Contract``: matrix products and convolutions, with what follows them worked out tile by tile.

Rows are cut into blocks that stay in cache, columns into panels as wide as a few registers.  A chunk is one block and a
group of panels; threads take chunks as they come.  Inside a chunk: panel by panel, a few rows at a time, sums in
registers over all of k; then they go over a small buffer on the stack to ``body``, which is written once.  So every sum
is added in one order whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from collections.abc import Iterator
from dataclasses import dataclass

from burnx.kernels.ir import Contract
from burnx.runtime.devices.cpu.llvm.context import Context
from burnx.runtime.devices.cpu.llvm.contract_panels import Panels, make_panels
from burnx.runtime.devices.cpu.llvm.contract_plan import (
    FEW_ROWS,
    ROWS,
    SIDE_BY_SIDE,
    Plan,
    Sizes,
    least,
    make_plan,
    measure,
)
from burnx.runtime.devices.cpu.llvm.contract_rows import (
    TABLE_ROWS,
    bind_row,
    count_loop,
    fill_rows,
    reserve,
    table_slot,
)
from burnx.runtime.devices.cpu.llvm.contract_tile import Tile, emit_tile
from burnx.runtime.devices.cpu.llvm.writer import Ssa, Writer, integer

COUNTER_BYTES = 192  # where in ``state`` the number of the next chunk is


@dataclass(frozen=True, slots=True)
class Work:
    """One contraction being written: its plan and sizes, and the memory on the stack."""

    context: Context
    plan: Plan
    sizes: Sizes
    panels: Panels
    table: Ssa
    sums: Ssa

    @property
    def writer(self) -> Writer:
        return self.context.writer

    @property
    def tile(self) -> Tile:
        return Tile(self.plan.numbers, self.plan.vectors, self.plan.lanes)


def emit_contract(context: Context, statement: Contract) -> None:
    plan = make_plan(context.target, statement)
    writer = context.writer
    context.prepare(statement.body)
    sizes = measure(context, plan)
    columns = TABLE_ROWS * (1 + len(statement.rows))
    table = reserve(writer, f"[{columns} x i64]")
    sums = reserve(writer, f"[{ROWS * plan.tile_columns} x {plan.numbers.type}]")
    work = Work(context, plan, sizes, make_panels(context, plan, sizes), table, sums)
    if statement.parallel:
        _take_chunks(work)
        return
    _loop(work, integer(0), sizes.chunks, 1, lambda chunk: _emit_chunk(work, chunk))


def _loop(work: Work, start: Ssa, stop: Ssa, step: int, body: Callable[[Ssa], None]) -> None:
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


def _take_chunks(work: Work) -> None:
    """Take the next chunk that no thread has taken, until there is none."""
    writer = work.writer
    head, inside, after = writer.fresh("take"), writer.fresh("chunk"), writer.fresh("taken")
    counter = writer.pointer(work.context.state, integer(COUNTER_BYTES), "i8")
    writer.jump(head)
    writer.label(head)
    chunk = writer.value("i64", f"atomicrmw add ptr {counter.name}, i64 1 monotonic")
    writer.branch(writer.compare("icmp slt", chunk, work.sizes.chunks), inside, after)
    writer.label(inside)
    with work.context.scope():
        _emit_chunk(work, chunk)
    writer.jump(head)
    writer.label(after)


def _emit_chunk(work: Work, chunk: Ssa) -> None:
    """One block of rows times one group of panels."""
    writer, sizes = work.writer, work.sizes
    block = writer.binary("udiv", chunk, sizes.groups)
    group = writer.binary("urem", chunk, sizes.groups)
    first = writer.binary("mul nsw", block, sizes.block)
    count = least(writer, sizes.block, writer.binary("sub nsw", sizes.rows, first))
    with work.context.scope():
        fill_rows(work.context, work.plan.statement, work.table, first, count)
    panel = writer.binary("mul nsw", group, sizes.group)
    last = least(writer, writer.binary("add nsw", panel, sizes.group), sizes.panels)
    if work.panels.side_by_side:
        single = writer.compare("icmp eq", sizes.rows, integer(1))
        with _when(work, single):
            _loop(work, panel, last, SIDE_BY_SIDE, lambda each: _emit_single_row(work, each, last))
        last = writer.select(single, panel, last)
    _loop(work, panel, last, 1, lambda each: _emit_panel(work, each, count))


def _emit_panel(work: Work, panel: Ssa, count: Ssa) -> None:
    """All rows of a block times one panel."""
    writer = work.writer
    right, inner = work.panels.enter(panel, count)
    first = writer.binary("mul nsw", panel, integer(work.plan.width))
    columns = writer.binary("sub nsw", work.sizes.columns, first)
    columns = least(writer, columns, integer(work.plan.width))

    def turn(row: Ssa) -> None:
        rows = least(writer, writer.binary("sub nsw", count, row), integer(ROWS))
        many = writer.compare("icmp sgt", rows, integer(FEW_ROWS))
        for condition, height in (
            (many, ROWS),
            (writer.binary("xor", many, Ssa("true", "i1")), FEW_ROWS),
        ):
            with _when(work, condition):
                lefts = [_left(work, row, place) for place in range(height)]
                _keep(work, emit_tile(writer, work.tile, lefts, [right], inner), work.plan.width)
        _emit_body(work, row, rows, first, columns)

    _loop(work, integer(0), count, ROWS, turn)


def _emit_single_row(work: Work, panel: Ssa, stop: Ssa) -> None:
    """One row times several panels, which come from memory at its speed."""
    writer, width = work.writer, work.plan.width
    last = writer.binary("sub nsw", stop, integer(1))
    rights = []
    for place in range(SIDE_BY_SIDE):
        there = writer.binary("add nsw", panel, integer(place))
        rights.append(work.panels.start(least(writer, there, last)))
    left = _left(work, integer(0), 0)
    sums = emit_tile(writer, work.tile, [left], rights, work.panels.packed)
    _keep(work, sums, width * SIDE_BY_SIDE)
    first = writer.binary("mul nsw", panel, integer(width))
    end = writer.binary("mul nsw", stop, integer(width))
    columns = writer.binary("sub nsw", least(writer, end, work.sizes.columns), first)
    columns = least(writer, columns, integer(width * SIDE_BY_SIDE))
    _emit_body(work, integer(0), integer(1), first, columns)


def _left(work: Work, row: Ssa, place: int) -> Ssa:
    """Where a row begins in the left buffer."""
    there = work.context.add(row, integer(place))
    return work.writer.load("ptr", table_slot(work.writer, work.table, 0, there), 8)


def _keep(work: Work, sums: list[Ssa], columns: int) -> None:
    """Store a tile's sums on the stack, ``columns`` to a row."""
    across = columns // work.plan.lanes
    for place, each in enumerate(sums):
        row, vector = divmod(place, across)
        slot = row * work.plan.tile_columns + vector * work.plan.lanes
        pointer = work.writer.pointer(work.sums, integer(slot), work.plan.numbers.type)
        work.writer.store(each, pointer, _alignment(work))


def _alignment(work: Work) -> int:
    return min(64, work.plan.lanes * work.plan.numbers.total.itemsize)


def _emit_body(work: Work, row: Ssa, rows: Ssa, first: Ssa, columns: Ssa) -> None:
    """Run ``body`` for the sums on the stack: whole vectors, then the columns left over."""
    writer, context, plan = work.writer, work.context, work.plan
    statement, lanes = plan.statement, plan.lanes
    even = writer.binary("and", columns, integer(-lanes))

    def run(base: Ssa, count: int, column: Ssa) -> None:
        pointer = writer.pointer(base, column, plan.numbers.type)
        align = _alignment(work) if count > 1 else plan.numbers.total.itemsize
        type_ = work.tile.type if count > 1 else plan.numbers.type
        total = writer.load(type_, pointer, align)
        with context.lanes(statement.column[0], context.add(first, column), count):
            context.bind(statement.name, total)
            context.statements(statement.body, count)

    def turn(place: Ssa) -> None:
        bind_row(context, statement, work.table, context.add(row, place))
        context.prepare(statement.body)
        offset = writer.binary("mul nsw", place, integer(plan.tile_columns))
        base = writer.pointer(work.sums, offset, plan.numbers.type)
        _loop(work, integer(0), even, lanes, lambda column: run(base, lanes, column))
        _loop(work, even, columns, 1, lambda column: run(base, 1, column))

    _loop(work, integer(0), rows, 1, turn)
