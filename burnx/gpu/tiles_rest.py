"""What follows the sums of a tile: the rest of each element's work, of neighbouring columns together where that pays.

Where every store's columns lie next to each other, a thread takes ``Tile.together`` of them: it loads and stores them in
as few words as they fill, and the variables of a row are read once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from burnx.gpu.dtypes import memory_type
from burnx.gpu.neighbours import Run, certain_loads, count_neighbours, is_run, loads_in, moves
from burnx.gpu.ranges import values_in
from burnx.gpu.tiles_frame import Frame, name_column, name_row, unrolled
from burnx.gpu.tiles_product import WIDEST, Product
from burnx.kernels.ir import Let, Load, Store
from burnx.shape import symbols

AHEAD = 4  # rows of a thread that are loaded for at a time


# --- columns together -----------------------------------------------------------------------------------------------


def runs_of(product: Product) -> list[Run]:
    """The loads and stores of neighbouring columns; none if a store is of other elements or its buffer is read."""
    body, contract = product.contract.body, product.contract
    if not all(isinstance(each, (Let, Store)) for each in body):
        return []
    stores = [each for each in body if isinstance(each, Store)]
    values = [value for each in body for value in values_in(each)]
    stored = {id(each.buffer) for each in stores}
    if any(id(load.buffer) in stored for load in loads_in(values)):
        return []
    runs: list[Run] = [*stores, *certain_loads(values)]
    beside = [each for each in runs if is_run(each.index, contract.column[0])]
    whole = all(each in beside and not each.combine for each in stores)
    return beside if whole else []


def together_of(product: Product, sizes: Mapping[str, int]) -> int:
    """How many neighbouring columns a thread may finish together."""
    loops = (*product.outer, *product.contract.rows)
    name, extent = product.contract.column
    runs = runs_of(product)
    most = WIDEST // min((run.buffer.dtype.itemsize for run in runs), default=WIDEST)
    return count_neighbours(runs, loops, name, sizes, (extent,), most)


# --- the text -------------------------------------------------------------------------------------------------------


def write_rest(frame: Frame) -> None:
    """Finish every element: the sums of all slices lie in local memory, ``finished``, a row after the other."""
    tile = frame.tile
    if tile.together > 1:
        _write_runs(frame)
        return
    names = ("row", "column") if tile.across else ("column", "row")
    share = tile.rows // tile.spread
    lengths = (share, tile.columns) if tile.across else (tile.columns, share)
    side = min(lengths[1], frame.threads)
    steps = (frame.threads // side, side)
    starts = (f"thread / {side}", f"thread % {side}")
    before = {"row": f"rank * {share} + " if tile.spread > 1 else "", "column": ""}
    heads = [
        f"for (i32 {name} = {before[name]}{start}; {name} < {before[name]}{length}; {name} += {step})"
        for name, start, length, step in zip(names, starts, lengths, steps, strict=True)
    ]
    with _each(frame, heads[0], names[0]), _each(frame, heads[1], names[1]):
        _write_element(frame)


@contextmanager
def _each(frame: Frame, head: str, name: str) -> Iterator[None]:
    """A loop over the tile's rows or columns that there are; each is named."""
    writer = frame.writer
    with writer.block(head), writer.block(f"if (first_{name} + {name} < {name}_count)"):
        if name == "row":
            name_row(frame, "row")
        else:
            name_column(frame, "first_column + column")
        yield


def _write_element(frame: Frame) -> None:
    writer = frame.writer
    at = f"row * {frame.width} + column"
    first, *others = _sums_at(frame, f"finished + ({at})")
    writer.line(f"{frame.sums} total = *{first};")
    for each in others:
        writer.line(f"total += *{each};")
    if frame.units.endswith("float32x3"):
        with writer.block("if (total != total)"):
            _write_again(frame, "total")
    _write_body(frame, "total")


def _sums_at(frame: Frame, own: str) -> list[str]:
    """Where the sums of an element lie, of every slice of every group of the cluster, in this order."""
    tile = frame.tile
    slices = [f"({own} + {slice_ * tile.rows * frame.width})" for slice_ in range(tile.slices)]
    if tile.spread == 1:
        return slices
    return [f"memory_of({rank}, {each})" for rank in range(tile.spread) for each in slices]


def _write_body(frame: Frame, total: str) -> None:
    writer, contract = frame.writer, frame.product.contract
    result = writer.declare(contract.name, "v")
    kind = writer.type_of(contract.dtype)
    writer.line(f"const {kind} {result} = ({kind}){total};")
    writer.body(contract.body)


def _write_again(frame: Frame, total: str) -> None:
    """Work out a sum that is NaN once more: an infinite number has no parts that could be multiplied."""
    writer, contract = frame.writer, frame.product.contract
    writer.line(f"{total} = 0;")
    if writer.dialect.name == "cuda":
        writer.line("#pragma unroll 1")
    with writer.loops(contract.inner):
        factors = [
            writer.place(each.buffer, each.index) for each in (contract.left, contract.right)
        ]
        writer.line(f"{total} += {factors[0]} * {factors[1]};")


def _write_runs(frame: Frame) -> None:
    """Finish the columns that lie next to each other together, a few rows after all that they need is under way."""
    writer, tile = frame.writer, frame.tile
    side = min(tile.columns // tile.together, frame.threads)
    step = side * tile.together
    apart, rows = frame.threads // side, _rows_ahead(frame, side)
    share = tile.rows // tile.spread
    first, end = ("", str(share)) if tile.spread == 1 else (f"rank * {share} + ", "row_share")
    if tile.spread > 1:
        writer.line(f"const i32 row_share = (rank + 1) * {share};")
    writer.line("const i32 rows_left = row_count - first_row;")
    writer.line(f"const i32 row_end = rows_left < {end} ? rows_left : {end};")
    start = f"thread % {side} * {tile.together}"
    columns = f"for (i32 column = {start}; column < {tile.columns}; column += {step})"
    start = f"{first}thread / {side}"
    heads = f"for (i32 ahead = {start}; ahead < row_end; ahead += {apart * rows})"
    with writer.block(columns), writer.block("if (first_column + column < column_count)"):
        if rows == 1:
            writer.line("#pragma unroll 2")
        with writer.block(heads):
            names = _name_runs(frame, rows)
            turns = f"for (i32 turn = 0; turn < {rows}; turn++)"
            with unrolled(writer, turns):
                writer.line(f"i32 row = ahead + turn * {apart};")
                writer.line("row = row < row_end ? row : row_end - 1;")
                name_row(frame, "row")
                _write_loads(frame, names)
            with unrolled(writer, turns):
                writer.line(f"const i32 row = ahead + turn * {apart};")
                with writer.block("if (row < row_end)"):
                    name_row(frame, "row")
                    _write_run(frame, names)


def _rows_ahead(frame: Frame, side: int) -> int:
    """How many rows are loaded for ahead: several if loads wait for memory that no other row has asked for."""
    rows = {name for name, _ in frame.product.contract.rows}
    turns = -(-(frame.tile.rows // frame.tile.spread) * side // frame.threads)
    waits = any(
        isinstance(run, Load) and symbols(run.index) & rows for run in runs_of(frame.product)
    )
    return min(AHEAD, turns) if waits else 1


def _name_runs(frame: Frame, rows: int) -> list[tuple[str, Run]]:
    """The runs with the names of their elements; what is loaded several times has one name."""
    writer, found = frame.writer, dict[tuple[int, str, int], str]()
    runs = []
    for run in runs_of(frame.product):
        key = (id(run.buffer), str(run.index), id(run) if isinstance(run, Store) else 0)
        if key not in found:
            found[key] = f"run{len(found)}"
            kind = memory_type(run.buffer.dtype)
            writer.line(f"ALIGNED {kind} {found[key]}[{rows}][{frame.tile.together}];")
            writer.line(f"{writer.index_type} {found[key]}_at[{rows}];")
            runs.append((found[key], run))
        writer.given[id(run)] = f"{found[key]}[turn][each]"
    return runs


def _write_loads(frame: Frame, names: list[tuple[str, Run]]) -> None:
    """Work out where the runs of a row are, and load those that are loaded."""
    name_column(frame, "first_column + column")
    for name, run in names:
        frame.writer.line(f"{name}_at[turn] = {frame.writer.dim(run.index)};")
        if isinstance(run, Load):
            _write_move(frame, name, run)


def _write_run(frame: Frame, names: list[tuple[str, Run]]) -> None:
    """Finish the columns of a row."""
    writer = frame.writer
    _write_totals(frame)
    with unrolled(writer, f"for (i32 each = 0; each < {frame.tile.together}; each++)"):
        name_column(frame, "first_column + column + each")
        _write_body(frame, "totals[each]")
    writer.given.clear()
    for name, run in names:
        if isinstance(run, Store):
            _write_move(frame, name, run)


def _write_move(frame: Frame, name: str, run: Run) -> None:
    """Move a run from memory to registers, or back."""
    address = f"{frame.writer.buffers[id(run.buffer)]} + {name}_at[turn]"
    for line in moves(f"{name}[turn]", run, address, frame.tile.together):
        frame.writer.line(line)


def _write_totals(frame: Frame) -> None:
    """Add up the slices of a run."""
    writer, together = frame.writer, frame.tile.together
    each_head = f"for (i32 each = 0; each < {together}; each++)"
    writer.line(f"{frame.sums} *const from = finished + (row * {frame.width} + column);")
    writer.line(f"ALIGNED {frame.sums} totals[{together}];")
    first, *others = _sums_at(frame, "from")
    _write_read(frame, "totals", first)
    for place, other in enumerate(others):
        writer.line(f"ALIGNED {frame.sums} more{place}[{together}];")
        _write_read(frame, f"more{place}", other)
        with unrolled(writer, each_head):
            writer.line(f"totals[each] += more{place}[each];")
    if not frame.units.endswith("float32x3"):
        return
    writer.line("bool again = false;")
    with unrolled(writer, each_head):
        writer.line("again = again || totals[each] != totals[each];")
    with writer.block("if (again)"):
        with unrolled(writer, each_head):
            writer.line("from[each] = totals[each];")
        writer.line("#pragma unroll 1")
        with writer.block(each_head), writer.block("if (from[each] != from[each])"):
            name_column(frame, "first_column + column + each")
            writer.line("f32 total;")
            _write_again(frame, "total")
            writer.line("from[each] = total;")
        with unrolled(writer, each_head):
            writer.line("totals[each] = from[each];")


def _write_read(frame: Frame, to: str, start: str) -> None:
    """Read a run of sums from local memory."""
    writer, together = frame.writer, frame.tile.together
    if frame.sums == "f32" and together >= 2:
        word, count = ("uint4", together // 4) if together % 4 == 0 else ("uint2", 1)
        for place in range(count):
            writer.line(f"(({word} *){to})[{place}] = ((const {word} *){start})[{place}];")
        return
    with unrolled(writer, f"for (i32 each = 0; each < {together}; each++)"):
        writer.line(f"{to}[each] = {start}[each];")
