"""A tile of a product in registers: each thread sums up its part by multiplying and adding.

Both operands' tiles lie in local memory with the inner places outermost, twice: one is read while the next is filled.
"""

from __future__ import annotations

from burnx.gpu.tiles_feed import (
    Feed,
    each_load,
    feeds,
    guard,
    local_places,
    write_starts,
    write_step,
)
from burnx.gpu.tiles_frame import Frame, local_array, pointer, unrolled, write_place
from burnx.gpu.tiles_rest import write_rest
from burnx.kernels.ir import Cast, Load
from burnx.shape import symbol

PAD = 4  # elements between inner places in local memory
VECTORS = {
    ("u32", 4): "uint4",
    ("u32", 2): "uint2",
    ("f32", 4): "float4",
    ("f32", 2): "float2",
    ("f64", 2): "double2",
}
PARTS = "xyzw"


def local_bytes(frame: Frame) -> int:
    """Bytes of local memory: two tiles of each operand, or the finished sums of all slices."""
    tile = frame.tile
    operands = tile.stages * tile.inner * (tile.rows + tile.columns + 2 * PAD)
    size = frame.product.contract.dtype.itemsize
    return max(operands, tile.slices * tile.rows * frame.width) * size


def write_plain(frame: Frame) -> None:
    """The body of the function."""
    writer, tile = frame.writer, frame.tile
    both = feeds(frame)
    local_array(writer, frame.sums, "finished", local_bytes(frame))
    if frame.places:
        local_array(writer, "i32", "places", 4 * len(frame.product.contract.rows) * tile.rows)
    write_place(frame)
    for feed in both:
        write_starts(feed)
        writer.line(f"{frame.sums} {feed.name}_next[{feed.turns * feed.side.vector}];")
    _write_sums(frame)
    _write_turns(frame, both)
    _write_finished(frame)
    writer.line("BARRIER;")
    write_rest(frame)


def _write_sums(frame: Frame) -> None:
    """Name the thread's part, with sums that are zero."""
    writer, tile = frame.writer, frame.tile
    wide = tile.columns // tile.part_columns
    writer.line(f"const i32 slice = thread / {tile.parts};")
    writer.line(f"const i32 part_column = thread % {wide};")
    writer.line(f"const i32 part_row = thread % {tile.parts} / {wide};")
    size = tile.part_rows * tile.part_columns
    writer.line(f"{frame.sums} sums[{size}];")
    with unrolled(writer, f"for (i32 place = 0; place < {size}; place++)"):
        writer.line("sums[place] = 0;")


def _write_turns(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Walk along the inner extent, a tile at a time."""
    writer, tile = frame.writer, frame.tile
    size = tile.inner * (tile.rows + tile.columns + 2 * PAD)
    for feed in both:
        _write_fetch(feed, "0")
    for feed in both:
        _write_keep(feed, "finished")
    writer.line("BARRIER;")
    writer.line("i32 turn_place = 0;")
    with writer.block(f"for (i32 first = 0; first < inner_count; first += {tile.inner})"):
        writer.line(f"const i32 following = first + {tile.inner};")
        with writer.block("if (following < inner_count)"):
            for feed in both:
                write_step(feed)
                _write_fetch(feed, "following")
        _write_multiply(frame, f"turn_place * {size}")
        writer.line("turn_place ^= 1;")
        with writer.block("if (following < inner_count)"):
            for feed in both:
                _write_keep(feed, f"finished + turn_place * {size}")
        writer.line("BARRIER;")


def _write_fetch(feed: Feed, first: str) -> None:
    with feed.frame.writer.block():
        each_load(feed, _write_load, first)


def _write_load(feed: Feed, place: str, inside: str) -> None:
    """Load one turn's elements into registers, or zeros."""
    writer, sums, vector = feed.frame.writer, feed.frame.sums, feed.side.vector
    kind = VECTORS.get((sums, vector))
    even = guard(feed)
    condition = f"{inside} && {even}" if even else inside
    slots = [f"{feed.name}_next[turn * {vector} + {each}]" for each in range(vector)]
    with writer.block(f"if ({condition})"):
        if kind is not None:
            address = pointer(writer, feed.walk.buffer, place, kind)
            writer.line(f"const {kind} loaded = *{address};")
            for slot, part in zip(slots, PARTS, strict=False):
                writer.line(f"{slot} = loaded.{part};")
        else:
            _write_single_loads(feed, place, slots)
    with writer.block("else"):
        writer.line(f"{' = '.join(slots)} = 0;")


def _write_single_loads(feed: Feed, place: str, slots: list[str]) -> None:
    writer, contract = feed.frame.writer, feed.frame.product.contract
    writer.names["$from"] = "from"
    writer.line(f"const {writer.index_type} from = {place};")
    for each, slot in enumerate(slots):
        value = Load(feed.walk.buffer, symbol("$from") + each)
        number = value if value.dtype == contract.dtype else Cast(value, contract.dtype)
        writer.line(f"{slot} = {writer.value(number)};")


def _write_keep(feed: Feed, at: str) -> None:
    """Put what was loaded into local memory."""
    frame, tile = feed.frame, feed.frame.tile
    writer, vector = frame.writer, feed.side.vector
    start, width = (0, tile.rows + PAD)
    if feed.name == "right":
        start, width = tile.inner * width, tile.columns + PAD
    free, inner = local_places(feed)
    even = guard(feed)
    head = f"for (i32 turn = 0; turn < {feed.turns}; turn++)"
    with unrolled(writer, head), writer.block(f"if ({even})" if even else ""):
        for each in range(vector):
            along = f"({inner} + {each}) * {width} + {free}"
            if not feed.side.along_inner:
                along = f"{inner} * {width} + {free} + {each}"
            value = f"{feed.name}_next[turn * {vector} + {each}]"
            writer.line(f"({at})[{start} + {along}] = {value};")


# --- multiply and add -----------------------------------------------------------------------------------------------


def _chunk(frame: Frame, part: int) -> int:
    """How many neighbouring rows or columns of a part are read at a time."""
    widest = {"f32": 4, "u32": 4, "f64": 2}.get(frame.sums, 1)
    return widest if part % widest == 0 else 1


def _places(frame: Frame, columns: bool) -> list[str]:
    """Where each row (column) of the thread's part lies in the tile."""
    tile = frame.tile
    part = tile.part_columns if columns else tile.part_rows
    count = (tile.columns if columns else tile.rows) // part
    chunk, name = _chunk(frame, part), "part_column" if columns else "part_row"
    return [
        f"{name} * {chunk} + {each // chunk * chunk * count + each % chunk}" for each in range(part)
    ]


def _write_multiply(frame: Frame, start: str) -> None:
    writer, tile = frame.writer, frame.tile
    turns = tile.inner // tile.slices
    with unrolled(writer, f"for (i32 turn = 0; turn < {turns}; turn++)"):
        writer.line(f"const i32 inner = turn * {tile.slices} + slice;")
        size = tile.inner * (tile.rows + PAD)
        rows = f"{start} + inner * {tile.rows + PAD}"
        columns = f"{start} + {size} + inner * {tile.columns + PAD}"
        left = _write_reads(frame, "left", rows, _places(frame, False))
        right = _write_reads(frame, "right", columns, _places(frame, True))
        for row, one in enumerate(left):
            for column, other in enumerate(right):
                place = row * tile.part_columns + column
                writer.line(f"sums[{place}] += {one} * {other};")


def _write_reads(frame: Frame, name: str, start: str, places: list[str]) -> list[str]:
    """Read a part's operands of one inner place; their texts."""
    writer, chunk = frame.writer, _chunk(frame, len(places))
    texts: list[str] = []
    for each in range(0, len(places), chunk):
        value, at = f"{name}{each}", f"{start} + {places[each]}"
        if chunk == 1:
            writer.line(f"const {frame.sums} {value} = finished[{at}];")
            texts.append(value)
            continue
        kind = VECTORS[frame.sums, chunk]
        pointer = f"(LOCAL const {kind} *)(finished + {at})"
        writer.line(f"const {kind} {value} = *{pointer};")
        texts += [f"{value}.{part}" for part in PARTS[:chunk]]
    return texts


def _write_finished(frame: Frame) -> None:
    """Put the thread's sums where the rest is worked out."""
    writer, tile = frame.writer, frame.tile
    rows, columns = _places(frame, False), _places(frame, True)
    start = f"slice * {tile.rows * frame.width}" if tile.slices > 1 else "0"
    for row, one in enumerate(rows):
        for column, other in enumerate(columns):
            at = f"{start} + ({one}) * {frame.width} + {other}"
            writer.line(f"finished[{at}] = sums[{row * tile.part_columns + column}];")
