"""Squares multiplied by the matrix unit of x86 (AMX): 16 rows times 64 bytes of k times 16 columns in one instruction.

All eight of the unit's registers hold 16 rows of 64 bytes: four the sums of up to 32 rows and 32 columns in 32 bits, two
rows of the left side, two columns of the right one, of which four bytes of neighbouring k lie together.  Left rows are
copies that lie equally far apart; what stands behind their last k meets zeros of the right side.  Rows that a tile has
too many hold anything, and nobody reads their sums.  Parts of float32 (``cut``) are multiplied a pair after the
other, such that one of two registers stays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from burnx.dtype import dtype_name, float32
from burnx.kernels.packing import SQUARE_BYTES, SQUARE_ROWS
from burnx.llvm.contractions.cut import PARTS, Pairs
from burnx.llvm.contractions.numbers import Numbers
from burnx.llvm.contractions.rows import count_loop
from burnx.llvm.writer import Ssa, Writer, integer

ROW_BYTES = SQUARE_BYTES
STEP = SQUARE_ROWS  # groups of four bytes of k in one turn
HEIGHTS = (2 * SQUARE_ROWS, SQUARE_ROWS)
SUMS, LEFT, RIGHT = 0, 4, 6  # the first register of each
# (part of the left number, part of the right one), the largest products last; neighbours have one in common
_PAIRS = ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 0))
_SHAPES = "tile_shapes"


@dataclass(frozen=True, slots=True)
class Square:
    """A tile of ``rows`` and ``vectors`` of 16 columns; in memory the rows of the sums are ``apart`` columns apart."""

    numbers: Numbers
    rows: int
    vectors: int
    apart: int

    @property
    def is_cut(self) -> bool:
        """Whether numbers are multiplied as parts."""
        return self.numbers.total == float32


@dataclass(frozen=True, slots=True)
class Cuts:
    """What a tile of cut numbers is told beside: the bytes between two parts of left numbers; whether it adds to what the
    sums are; and the panel that comes next, of which it cuts pairs from ``first`` to before ``stop`` meanwhile, at most
    ``some`` after every four products.
    """

    part_bytes: Ssa
    adds: Ssa
    source: Ssa
    depth: Ssa
    target: Ssa
    peak: Ssa
    first: Ssa
    stop: Ssa
    some: Ssa

    @property
    def all(self) -> tuple[Ssa, ...]:
        return (
            *(self.part_bytes, self.adds, self.source, self.depth, self.target, self.peak),
            *(self.first, self.stop, self.some),
        )


def configure(writer: Writer) -> None:
    """Give the registers their shapes: for a thread, until ``release``."""
    shapes = [1] + [0] * 15 + [ROW_BYTES, 0] * 8 + [0] * 16 + [SQUARE_ROWS] * 8 + [0] * 8
    listed = ", ".join(f"i8 {each}" for each in shapes)
    text = f"@{_SHAPES} = internal constant [{len(shapes)} x i8] [{listed}], align 64"
    writer.declarations[_SHAPES] = text
    writer.call("void", "llvm.x86.ldtilecfg", Ssa(f"@{_SHAPES}", "ptr"))


def release(writer: Writer) -> None:
    writer.call("void", "llvm.x86.tilerelease")


def call_square(
    writer: Writer,
    square: Square,
    left: tuple[Ssa, Ssa],
    right: Ssa,
    steps: Ssa,
    sums: Ssa,
    cuts: Cuts | None = None,
) -> None:
    """Store the sums of some rows; ``left`` is where the first begins and how many bytes lie between two."""
    numbers = square.numbers
    dtypes = "_".join(dtype_name(each) for each in (numbers.left, numbers.right))
    name = f"square_{square.rows}x{square.vectors}x{square.apart}_{dtypes}"
    if name not in writer.declarations:
        writer.declarations[name] = ""  # its place: before what it needs itself
        writer.declarations[name] = _emit_function(name, writer.declarations, square)
    given = [*left, right, steps, sums, *(() if cuts is None else cuts.all)]
    writer.line(f"call void @{name}({', '.join(map(str, given))})")


def _emit_function(name: str, declarations: dict[str, str], square: Square) -> str:
    writer = Writer(declarations=declarations)
    left, right, sums = (Ssa(f"%{name}", "ptr") for name in ("left", "right", "sums"))
    apart, steps = Ssa("%apart", "i64"), Ssa("%steps", "i64")
    types = {"adds": "i1", "source": "ptr", "target": "ptr", "peak": "ptr"}
    cuts = Cuts(*(Ssa(f"%{each.name}", types.get(each.name, "i64")) for each in fields(Cuts)))
    tile = _Tile(writer, square, apart, sums, cuts if square.is_cut else None)
    tile.begin()
    carried = [left, right] if not square.is_cut else [left, right, cuts.first]
    count_loop(writer, steps, tile.turn, carried)
    tile.move_sums("tilestored64")
    writer.line("ret void")
    given = [left, apart, right, steps, sums]
    if square.is_cut:
        given += cuts.all
    head = f"define internal void @{name}({', '.join(map(str, given))})"
    return "\n".join([f"{head} noinline nounwind {{", "entry:", *writer.lines, "}"])


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile while its function is written."""

    writer: Writer
    square: Square
    apart: Ssa
    sums: Ssa
    cuts: Cuts | None

    @property
    def row_bytes(self) -> int:
        return self.square.vectors * ROW_BYTES

    @property
    def places(self) -> list[tuple[int, int]]:
        down, across = range(self.square.rows // SQUARE_ROWS), range(self.square.vectors)
        return [(row, column) for row in down for column in across]

    def begin(self) -> None:
        writer = self.writer
        for row, column in self.places:
            writer.call("void", "llvm.x86.tilezero", _register(SUMS, 2 * row + column))
        if self.cuts is not None:
            with writer.when(self.cuts.adds):
                self.move_sums("tileloadd64")

    def move_sums(self, how: str) -> None:
        """Load or store the sums."""
        writer, square = self.writer, self.square
        size = integer(square.apart * square.numbers.total.itemsize)
        for row, column in self.places:
            slot = integer(SQUARE_ROWS * (row * square.apart + column))
            place = writer.pointer(self.sums, slot, square.numbers.type)
            total = _register(SUMS, 2 * row + column)
            writer.call("void", f"llvm.x86.{how}", total, place, size)

    def turn(self, _: Ssa, carried: list[Ssa]) -> list[Ssa]:
        """64 bytes of every row: all pairs of parts that are taken."""
        writer, before, after = self.writer, (-1, -1), carried[2:]
        pairs = ((0, 0),) if self.cuts is None else _PAIRS
        parts = 1 if self.cuts is None else PARTS
        for pair in pairs:
            if pair[0] != before[0]:
                self._load_left(carried[0], pair[0])
            if pair[1] != before[1]:
                self._load_right(carried[1], pair[1])
            before = pair
            for row, column in self.places:
                sides = _register(LEFT, row), _register(RIGHT, column)
                total = _register(SUMS, 2 * row + column)
                writer.call("void", _multiplication(self.square.numbers), total, *sides)
            after = [self._cut(each) for each in after]
        moves = integer(ROW_BYTES), integer(parts * STEP * self.row_bytes)
        moved = [writer.pointer(*each, "i8") for each in zip(carried[:2], moves, strict=True)]
        return [*moved, *after]

    def _cut(self, first: Ssa) -> Ssa:
        """Cut some pairs of the next panel: other units of the processor do that."""
        writer, cuts = self.writer, self.cuts
        assert cuts is not None
        pairs = Pairs(writer, self.square.vectors, cuts.source, cuts.depth, cuts.target, cuts.peak)
        stop = writer.binary("add nsw", first, cuts.some)
        stop = writer.call("i64", "llvm.smin.i64", stop, cuts.stop)
        pairs.cut(first, stop)
        return stop

    def _load_left(self, here: Ssa, part: int) -> None:
        writer = self.writer
        if part and self.cuts is not None:
            offset = writer.binary("mul nsw", self.cuts.part_bytes, integer(part))
            here = writer.pointer(here, offset, "i8")
        lower = writer.binary("mul nsw", self.apart, integer(SQUARE_ROWS))
        for row in range(self.square.rows // SQUARE_ROWS):
            place = writer.pointer(here, lower, "i8") if row else here
            writer.call("void", "llvm.x86.tileloadd64", _register(LEFT, row), place, self.apart)

    def _load_right(self, there: Ssa, part: int) -> None:
        writer = self.writer
        for column in range(self.square.vectors):
            offset = integer(part * STEP * self.row_bytes + column * ROW_BYTES)
            place, to = writer.pointer(there, offset, "i8"), _register(RIGHT, column)
            writer.call("void", "llvm.x86.tileloadd64", to, place, integer(self.row_bytes))


def _register(first: int, place: int) -> Ssa:
    return integer(first + place, "i8")


def _multiplication(numbers: Numbers) -> str:
    if numbers.total == float32:
        return "llvm.x86.tdpbf16ps"
    signs = "".join("s" if each.kind == "i" else "u" for each in (numbers.left, numbers.right))
    return f"llvm.x86.tdpb{signs}d"
