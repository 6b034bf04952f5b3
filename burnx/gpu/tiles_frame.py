"""What all tiled kernels begin with: which tile a group has, and which row and column an element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from burnx.gpu.tiles_form import Tile
from burnx.gpu.tiles_product import Loops, Product
from burnx.gpu.writer import Writer
from burnx.kernels.ir import Buffer
from burnx.shape import Dim, product

STATIC_BYTES = 40960  # local memory that a function may declare; more must be asked for at launch
PAD = 8  # elements between rows in local memory, so that columns do not fall on one bank


@dataclass(slots=True)
class Frame:
    """A tiled kernel while it is written: the product, its tile, the threads of a group, the type of the sums.

    ``units``: the matrix units' dtype, or "float32x3".  ``places``: row variables lie in local memory, one table each, because there are several row loops.
    """

    writer: Writer
    product: Product
    tile: Tile
    threads: int
    sums: str
    units: str = ""

    @property
    def places(self) -> bool:
        return len(self.product.contract.rows) > 1

    @property
    def width(self) -> int:
        """Elements from one row of finished sums to the next in local memory."""
        return self.tile.columns + PAD

    @property
    def inner_ends(self) -> tuple[str, str]:
        """The group's first inner place, and the one after its last."""
        return ("inner_begin", "inner_end") if self.tile.spread > 1 else ("0", "inner_count")


def grid(product_: Product, tile: Tile) -> tuple[Dim, Dim, Dim]:
    """The groups: tiles of columns, of rows, and turns of the loops outside."""
    columns = (product_.columns + tile.columns - 1) // tile.columns
    rows = (product_.rows + tile.rows - 1) // tile.rows
    turns = product(tuple(extent for _, extent in product_.outer))
    return columns * rows * turns * tile.spread, 1, 1


def write_place(frame: Frame) -> None:
    """Name the thread, the counts, the first row and column of the group's tile, and the variables outside."""
    writer, tile, whole = frame.writer, frame.tile, frame.product
    writer.line(f"const i32 thread = {writer.dialect.ids[0]};")
    counts = {"row_count": whole.rows, "column_count": whole.columns, "inner_count": whole.inner}
    for name, count in counts.items():
        writer.line(f"const i32 {name} = {writer.dim(count)};")
    writer.line(f"const i32 row_tiles = (row_count + {tile.rows - 1}) / {tile.rows};")
    writer.line(f"const i32 column_tiles = (column_count + {tile.columns - 1}) / {tile.columns};")
    writer.line(f"i32 tile = {writer.dialect.ids[1]};")
    if tile.spread > 1:
        _write_share(frame)
    writer.line(f"const i32 first_column = (i32)(tile % column_tiles) * {tile.columns};")
    writer.line("tile /= column_tiles;")
    writer.line(f"const i32 first_row = (i32)(tile % row_tiles) * {tile.rows};")
    writer.line("tile /= row_tiles;")
    unravel(writer, "tile", whole.outer)
    if frame.places:
        write_places(frame)


def _write_share(frame: Frame) -> None:
    """Name the group's place in its cluster, and its share of the inner extent, whole tiles but for the last one."""
    writer, tile = frame.writer, frame.tile
    each = tile.spread * tile.inner
    writer.line(f"const i32 rank = tile % {tile.spread};")
    writer.line(f"tile /= {tile.spread};")
    writer.line(f"const i32 share = (inner_count + {each - 1}) / {each} * {tile.inner};")
    writer.line("const i32 inner_begin = rank * share;")
    end = "inner_begin + share"
    writer.line(f"const i32 inner_end = {end} < inner_count ? {end} : inner_count;")


def unravel(writer: Writer, rest: str, loops: Loops) -> None:
    """Name the variables of nested loops, given the number ``rest`` of a turn of all of them."""
    for place, (name, extent) in reversed(list(enumerate(loops))):
        variable = writer.declare(name, "i")
        value = rest if place == 0 else f"{rest} % {writer.factor(extent)}"
        writer.line(f"const {writer.index_type} {variable} = {value};")
        if place:
            writer.line(f"{rest} /= {writer.factor(extent)};")


def write_places(frame: Frame) -> None:
    """Divide each row of the tile into its variables once."""
    writer, rows = frame.writer, frame.tile.rows
    loops = frame.product.contract.rows
    with writer.block(f"for (i32 row = thread; row < {rows}; row += {frame.threads})"):
        writer.line("i32 rest = first_row + row;")
        writer.line("rest = rest < row_count ? rest : row_count - 1;")
        for place, (_, extent) in reversed(list(enumerate(loops))):
            value = f"rest % {writer.factor(extent)}" if place else "rest"
            writer.line(f"places[{place * rows} + row] = {value};")
            if place:
                writer.line(f"rest /= {writer.factor(extent)};")
    writer.line("BARRIER;")


def name_row(frame: Frame, row: str) -> None:
    """Name the row variables of a row of the tile that exists."""
    writer, loops = frame.writer, frame.product.contract.rows
    for place, (name, _) in enumerate(loops):
        value = (
            f"places[{place * frame.tile.rows} + {row}]" if frame.places else f"first_row + {row}"
        )
        writer.line(f"const {writer.index_type} {writer.declare(name, 'i')} = {value};")


def name_column(frame: Frame, column: str) -> None:
    name = frame.writer.declare(frame.product.contract.column[0], "i")
    frame.writer.line(f"const {frame.writer.index_type} {name} = {column};")


# --- words of the text ----------------------------------------------------------------------------------------------


@contextmanager
def unrolled(writer: Writer, head: str) -> Iterator[None]:
    """A loop whose turns are written out by the compiler."""
    writer.line("#pragma unroll")
    with writer.block(head):
        yield


def local_array(writer: Writer, type_: str, name: str, size: int) -> None:
    """Memory of a group, to be read 16 bytes at a time; ``size`` in bytes."""
    count = f"{size} / sizeof({type_})"
    if writer.dialect.name != "cuda":
        writer.line(f"__local {type_} {name}[{count}] __attribute__((aligned(16)));")
    elif size <= STATIC_BYTES:
        writer.line(f"__shared__ __align__(16) {type_} {name}[{count}];")
    else:
        given_array(writer, type_, name, 16)


def given_array(writer: Writer, type_: str, name: str, alignment: int) -> None:
    """All memory of a group that is asked for at launch."""
    writer.line(f"extern __shared__ __align__({alignment}) u8 given_memory[];")
    writer.line(f"{type_} *const {name} = ({type_} *)given_memory;")


def pointer(writer: Writer, buffer: Buffer, place: str, type_: str) -> str:
    """The address of an element, as that of another type."""
    return f"(GLOBAL const {type_} *)({writer.buffers[id(buffer)]} + ({place}))"


def scaled(writer: Writer, text: str, by: Dim) -> str:
    """A text times a stride."""
    if by == 0:
        return "0"
    text = text if text.isidentifier() or text.startswith("(") else f"({text})"
    return text if by == 1 else f"{text} * {writer.factor(by)}"


def sum_of(parts: Sequence[str]) -> str:
    """Texts added up."""
    kept = [part for part in parts if part != "0"]
    return " + ".join(kept) if kept else "0"
