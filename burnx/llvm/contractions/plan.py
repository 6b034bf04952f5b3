"""How a contraction is cut: register tiles, blocks of rows that stay in cache, groups of panels, chunks for threads."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.dtype import DType, float32, int32
from burnx.kernels.ir import Contract
from burnx.kernels.packing import (
    element,
    name_packing,
    panel_width,
    spills,
    squares,
    together,
)
from burnx.llvm.context import Context, Unsupported
from burnx.llvm.contractions import amx
from burnx.llvm.contractions.int8 import STEP_BYTES, byte_packings
from burnx.llvm.contractions.numbers import Numbers, check_numbers
from burnx.llvm.contractions.rows import TABLE_ROWS
from burnx.llvm.contractions.square_sizes import HEIGHT as SQUARE_HEIGHT
from burnx.llvm.contractions.square_sizes import (
    MOST_VECTORS,
    SquareSizes,
    multiplies_cut,
    plan_squares,
)
from burnx.llvm.target import Target
from burnx.llvm.whole import divide_down, divide_up, greatest, least, multiply_all
from burnx.llvm.writer import Ssa, Writer, integer

LOWEST = 4  # rows of a tile; fewer would not keep the multipliers busy
FEW = {1: 4, 2: 2, 3: 2}  # rows -> panels at once, so that there are enough sums
SIDE_BY_SIDE = FEW[1]
CACHE_BYTES = 512 * 1024  # of left rows that are used again for the next panel
COPY_BYTES = 256 * 1024  # of left rows that are copied to the stack
FAR = 2  # how much dearer a left row of another thread's is than a column of weights that both read
CHUNK_WORK = 1 << 17  # multiplications that are worth handing out, some 3 µs


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known while the text is written."""

    statement: Contract
    numbers: Numbers
    lanes: int
    vectors: int
    heights: tuple[int, ...]  # rows of tiles, the highest first
    cuts: bool = False  # whether numbers may be cut for the matrix unit

    @property
    def rows(self) -> int:
        """Rows of the highest tile."""
        return self.heights[0]

    @property
    def few(self) -> dict[int, int]:
        """Rows that are too few for a tile -> how many panels they are multiplied by at once."""
        if self.numbers.squares:
            return {}
        return {rows: panels for rows, panels in FEW.items() if rows < self.heights[-1]}

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.lanes * self.vectors

    @property
    def tile_columns(self) -> int:
        """Columns between two rows of the sums on the stack."""
        return self.width * (SIDE_BY_SIDE if self.few else 1)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is known when the kernel runs, as i64."""

    rows: Ssa
    columns: Ssa
    inner: Ssa
    panels: Ssa
    block: Ssa  # rows of a block
    groups: Ssa  # groups of panels
    group: Ssa  # panels of a group
    chunks: Ssa
    squares: SquareSizes | None = None  # where numbers may be cut


def tile_vectors(target: Target) -> int:
    """Vectors of a panel, if nothing else counts: the rows of the highest tile times so many fill the registers."""
    return 4 if target.registers > 16 and not _is_wide(target) else 2


def tile_heights(target: Target, vectors: int, spills: bool = False) -> tuple[int, ...]:
    """Rows of tiles of so many vectors, the highest first, for which there are registers beside a panel's row and a factor.

    Wide vectors need more rows: a panel is read from the second cache for each.  Bytes that are added in 16 bits first
    take two registers more.
    """
    most = (target.registers - vectors - (3 if spills else 1)) // vectors
    rows = (12, 10, 8, 6, LOWEST) if _is_wide(target) else (6, 5, LOWEST)
    return tuple(each for each in rows if each <= most) if most > LOWEST else (most, most - 1)


def _is_wide(target: Target) -> bool:
    return target.registers > 16 and target.vector_bytes >= 64


# vectors of a panel -> how near to its peak the processor comes with the highest tile, with 32 registers and with 16
_NEARNESS = {4: 1.0, 3: 0.98, 2: 0.93, 1: 0.7}
_NEARNESS_OF_16 = {3: 1.0, 2: 1.0, 1: 0.7}


def choose_packing(
    target: Target,
    left: DType,
    right: DType | None = None,
    total: DType | None = None,
    columns: int | None = None,
) -> str:
    """The packing that this target's contractions take for right matrices; all are of one dtype if not said.

    Small numbers are summed in 32 bits.  A matrix of few columns gets panels that it fills.
    """
    right = left if right is None else right
    total = right if total is None else total
    if total.itemsize < 4:
        total = int32 if total.kind in "iu" else float32
    lanes = target.vector_bytes // total.itemsize
    kind, *_ = *byte_packings(target, left, right, total), ""
    vectors = tile_vectors(target)
    if columns is not None and columns > 0:
        near = {each: _NEARNESS[each] for each in range(vectors, 0, -1)}
        near = _NEARNESS_OF_16 if target.registers <= 16 and kind != "8p4" else near
        vectors = min(
            near, key=lambda count: -(-columns // (count * lanes)) * count * lanes / near[count]
        )
    return name_packing(right, lanes * vectors, kind)


def offer_packings(
    target: Target, left: DType, right: DType, total: DType, columns: int
) -> list[str]:
    """All packings that ``choose_packing`` could take for other columns; of floats all that registers allow."""
    first = choose_packing(target, left, right, total, columns)
    if total.itemsize < 4:
        total = int32 if total.kind in "iu" else float32
    lanes = target.vector_bytes // total.itemsize
    kind, *_ = *byte_packings(target, left, right, total), ""
    most = tile_vectors(target)
    if not kind:
        most = max(_NEARNESS if target.registers > 16 else _NEARNESS_OF_16)
    names = [name_packing(right, lanes * count, kind) for count in range(most, 0, -1)]
    return list(dict.fromkeys((first, *names)))


def make_plan(target: Target, statement: Contract) -> Plan:
    left, right, total = statement.left.dtype, statement.right.dtype, statement.dtype
    lanes, vectors, packing = (
        target.vector_bytes // total.itemsize,
        tile_vectors(target),
        statement.packing,
    )
    if packing:
        vectors = panel_width(packing) // lanes
    known = together(packing) == 1 or element(packing) in byte_packings(target, left, right, total)
    if not known or vectors == 0:
        raise Unsupported(f"this processor does not take the packing {packing}")
    numbers = Numbers(left, right, total, together(packing), spills(packing), squares(packing))
    check_numbers(numbers)
    heights = tile_heights(target, vectors, numbers.spills)
    if numbers.squares:
        heights = amx.HEIGHTS
    cuts = bool(packing) and multiplies_cut(target, numbers) and vectors <= MOST_VECTORS
    return Plan(statement, numbers, lanes, vectors, heights, cuts)


def measure(context: Context, plan: Plan) -> Sizes:
    """Work out the sizes: the text before the loops."""
    writer, statement = context.writer, plan.statement
    rows = multiply_all(writer, [context.index(extent) for _, extent in statement.rows])
    deep = [context.index(extent) for _, extent in statement.inner]
    inner = multiply_all(writer, deep)
    columns = context.index(statement.column[1])
    panels = divide_up(writer, columns, integer(plan.width))
    workers = context.workers if statement.parallel else integer(1)
    squares = plan_squares(writer, plan.width, deep, rows, columns) if plan.cuts else None
    block, blocks = _cut_rows(writer, plan, (rows, inner, panels), workers, squares)
    group = panels
    if statement.parallel:
        group = _cut_panels(writer, plan, (rows, block, blocks), inner, panels, workers)
    if squares is not None:
        cut = squares.cut_panels(block, blocks, panels, workers)
        group = writer.select(squares.wanted, cut, group)
    groups = divide_up(writer, panels, group)
    chunks = writer.binary("mul nsw", blocks, groups)
    return Sizes(rows, columns, inner, panels, block, groups, group, chunks, squares)


def _cut_rows(
    writer: Writer,
    plan: Plan,
    sizes: tuple[Ssa, Ssa, Ssa],
    workers: Ssa,
    squares: SquareSizes | None,
) -> tuple[Ssa, Ssa]:
    """Rows of a block, a multiple of the tile's, and how many blocks there are."""
    rows, inner, panels = sizes
    copied = plan.numbers.together > 1  # left rows, to the stack
    size = STEP_BYTES // plan.numbers.together if copied else plan.numbers.left.itemsize
    room = COPY_BYTES if copied else CACHE_BYTES
    fitting = divide_down(writer, integer(room), writer.binary("mul nsw", inner, integer(size)))
    fitting = greatest(writer, fitting, integer(1 if copied else 2 * plan.rows))
    most = least(writer, fitting, integer(TABLE_ROWS // plan.rows * plan.rows))
    tile = integer(plan.rows)
    if squares is not None:
        most = writer.select(squares.wanted, squares.rows, most)
        tile = writer.select(squares.wanted, integer(SQUARE_HEIGHT), tile)
    blocks = divide_up(writer, rows, most)
    if plan.statement.parallel:
        blocks = _divide_blocks(writer, plan, blocks, (rows, panels), workers)
    even = divide_up(writer, divide_up(writer, rows, blocks), tile)
    block = greatest(writer, writer.binary("mul nsw", even, tile), tile)
    if copied:
        block = writer.select(writer.compare("icmp slt", most, tile), most, block)
    return block, divide_up(writer, rows, block)


def _divide_blocks(
    writer: Writer, plan: Plan, blocks: Ssa, sizes: tuple[Ssa, Ssa], workers: Ssa
) -> Ssa:
    """Blocks for all threads: as many for each where columns are few enough, so that it stays with its rows."""
    rows, panels = sizes
    columns = writer.binary("mul nsw", panels, integer(plan.width))
    twice = writer.binary("mul nsw", workers, integer(2))
    alone = writer.compare("icmp eq", workers, integer(1))
    stays = writer.compare("icmp sge", writer.binary("mul nsw", rows, integer(FAR)), columns)
    # with few panels more blocks, so that every thread has some
    wanted = divide_up(writer, twice, panels)
    wanted = writer.select(stays, greatest(writer, wanted, workers), wanted)
    wanted = writer.select(alone, integer(1), wanted)
    possible = divide_up(writer, rows, integer(2 * plan.rows))
    blocks = greatest(writer, blocks, least(writer, wanted, possible))
    even = writer.binary("mul nsw", divide_up(writer, blocks, workers), workers)
    plenty = writer.compare("icmp sge", blocks, workers)
    return writer.select(writer.binary("and", stays, plenty), even, blocks)


def _cut_panels(
    writer: Writer, plan: Plan, rows: tuple[Ssa, Ssa, Ssa], inner: Ssa, panels: Ssa, workers: Ssa
) -> Ssa:
    """Panels of a group: enough work to be handed out, and enough groups for every thread."""
    count, block, blocks = rows
    wanted = writer.binary("mul nsw", workers, integer(6))
    even = divide_up(writer, writer.binary("mul nsw", panels, blocks), wanted)
    # fewer rows than the lowest tile's take as long as it
    busy = greatest(writer, least(writer, block, count), integer(plan.heights[-1]))
    work = multiply_all(writer, [busy, inner, integer(plan.width)])
    worthwhile = divide_up(writer, integer(CHUNK_WORK), work)
    unit = panels_at_once(writer, plan, count)
    group = divide_up(writer, greatest(writer, even, worthwhile), unit)
    group = writer.binary("mul nsw", group, unit)
    alone = writer.compare("icmp eq", workers, integer(1))
    group = writer.select(alone, panels, group)
    return greatest(writer, least(writer, group, panels), integer(1))


def panels_at_once(writer: Writer, plan: Plan, rows: Ssa) -> Ssa:
    """How many panels so many rows go through side by side."""
    at_once = integer(1)
    for few, panels in sorted(plan.few.items(), reverse=True):
        fewer = writer.compare("icmp sle", rows, integer(few))
        at_once = writer.select(fewer, integer(panels), at_once)
    return at_once
