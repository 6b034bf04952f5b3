"""Tiles of bytes multiplied by the matrix unit of x86 (AMX): 16 rows times 64 k times 16 columns in one instruction.

All eight of the unit's registers hold 16 rows of 64 bytes: four the sums of up to 32 rows and 32 columns as int32, two
rows of the left side, two columns of the right one, of which four neighbouring k lie together.  Left rows are copies
that lie equally far apart; what stands behind their last k meets zeros of the packed side.  Rows that a tile has too
many hold anything, and nobody reads their sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from burnx.dtype import dtype_name
from burnx.kernels.packing import SQUARE_ROWS
from burnx.llvm.contract_numbers import Numbers
from burnx.llvm.contract_rows import count_loop
from burnx.llvm.writer import Ssa, Writer, integer

ROW_BYTES = 64
STEP = SQUARE_ROWS  # groups of four k in one turn
HEIGHTS = (2 * SQUARE_ROWS, SQUARE_ROWS)
SUMS, LEFT, RIGHT = 0, 4, 6  # the first register of each
_SHAPES = "tile_shapes"


@dataclass(frozen=True, slots=True)
class Square:
    """A tile of ``rows`` and ``vectors`` of 16 columns; in memory the rows of the sums are ``apart`` columns apart."""

    numbers: Numbers
    rows: int
    vectors: int
    apart: int


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
    writer: Writer, square: Square, left: tuple[Ssa, Ssa], right: Ssa, steps: Ssa, sums: Ssa
) -> None:
    """Store the sums of some rows; ``left`` is where the first begins and how many bytes lie between two."""
    numbers = square.numbers
    dtypes = "_".join(dtype_name(each) for each in (numbers.left, numbers.right))
    name = f"square_{square.rows}x{square.vectors}x{square.apart}_{dtypes}"
    if name not in writer.declarations:
        writer.declarations[name] = ""  # its place: before what it needs itself
        writer.declarations[name] = _emit_function(name, writer.declarations, square)
    listed = ", ".join(map(str, (*left, right, steps, sums)))
    writer.line(f"call void @{name}({listed})")


def _emit_function(name: str, declarations: dict[str, str], square: Square) -> str:
    writer = Writer(declarations=declarations)
    left, right, sums = (Ssa(f"%{name}", "ptr") for name in ("left", "right", "sums"))
    apart, steps = Ssa("%apart", "i64"), Ssa("%steps", "i64")
    across = range(square.vectors)
    down = range(square.rows // SQUARE_ROWS)
    places = [(row, column) for row in down for column in across]
    for row, column in places:
        writer.call("void", "llvm.x86.tilezero", _register(SUMS, 2 * row + column))
    row_bytes = square.vectors * ROW_BYTES
    lower = writer.binary("mul nsw", apart, integer(SQUARE_ROWS))

    def turn(_: Ssa, carried: list[Ssa]) -> list[Ssa]:
        here, there = carried
        for row in down:
            place = writer.pointer(here, lower, "i8") if row else here
            writer.call("void", "llvm.x86.tileloadd64", _register(LEFT, row), place, apart)
        for column in across:
            place = writer.pointer(there, integer(column * ROW_BYTES), "i8")
            to = _register(RIGHT, column)
            writer.call("void", "llvm.x86.tileloadd64", to, place, integer(row_bytes))
        for row, column in places:
            sides = _register(LEFT, row), _register(RIGHT, column)
            total = _register(SUMS, 2 * row + column)
            writer.call("void", _multiplication(square.numbers), total, *sides)
        following = writer.pointer(there, integer(STEP * row_bytes), "i8")
        return [writer.pointer(here, integer(ROW_BYTES), "i8"), following]

    count_loop(writer, steps, turn, [left, right])
    for row, column in places:
        slot = integer(SQUARE_ROWS * (row * square.apart + column))
        place = writer.pointer(sums, slot, square.numbers.type)
        size = integer(square.apart * square.numbers.total.itemsize)
        total = _register(SUMS, 2 * row + column)
        writer.call("void", "llvm.x86.tilestored64", total, place, size)
    writer.line("ret void")
    head = f"define internal void @{name}({', '.join(map(str, (left, apart, right, steps, sums)))})"
    return "\n".join([f"{head} noinline nounwind {{", "entry:", *writer.lines, "}"])


def _register(first: int, place: int) -> Ssa:
    return integer(first + place, "i8")


def _multiplication(numbers: Numbers) -> str:
    signs = "".join("s" if each.kind == "i" else "u" for each in (numbers.left, numbers.right))
    return f"llvm.x86.tdpb{signs}d"
