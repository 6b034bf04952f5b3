"""A tile of a product of float32 on the warpgroup units: as tfloat32, or in two tfloat32 parts each ("float32x3").

These units read tfloat32 along the inner places only, and leave out the bits that are too many.  So both operands are copied to
local memory as they lie in global memory, some stages ahead; from there every thread rounds or splits some of them, and puts
them where the units read them, turned if need be.  That is done for the next stage while the products of one are under way.

The sums of a stage in parts begin with low by high and high by low, and are added up in float32 after high by high, because
the units' own additions cut off what they do not keep.
"""

from __future__ import annotations

from dataclasses import dataclass

from burnx.gpu.tiles_feed import Feed, feeds, guard, local_places, write_starts
from burnx.gpu.tiles_frame import Frame, given_array, pointer, unrolled, write_place
from burnx.gpu.tiles_rest import write_rest
from burnx.gpu.tiles_swizzled import ALIGNMENT, BUNCH, CHUNK, LINE, SWIZZLE
from burnx.gpu.tiles_wgmma import write_copies, write_finished, write_own, write_zeros
from burnx.gpu.tiles_wgmma_units import HIGH, KINDS, product_name

SIZE = 4  # bytes of an element
INNER = LINE // SIZE  # of every tile: a row of what the units read
PER = CHUNK // SIZE
DEEP = KINDS["tfloat32"][1]
BUFFERS = 2  # of what the units read
_REST = SWIZZLE | ALIGNMENT // 16 << 32 | 1 << 16  # a descriptor without its address


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of local memory: an operand's part as the units read it, all parts of both, where stages begin, a stage."""

    parts: int
    buffer: int
    stages: int
    stage: int
    all: int


def room_of(frame: Frame) -> Room:
    tile, parts = frame.tile, 2 if in_parts(frame) else 1
    lines = (tile.rows + tile.columns) * LINE
    buffer = parts * lines
    stages = BUFFERS * buffer
    finished = tile.slices * tile.rows * frame.width * 4
    return Room(parts, buffer, stages, lines, max(stages + tile.stages * lines, finished))


def in_parts(frame: Frame) -> bool:
    return frame.units.endswith("float32x3")


def local_bytes(frame: Frame) -> int:
    """Bytes of local memory."""
    places = 4 * len(frame.product.contract.rows) * frame.tile.rows if frame.places else 0
    return room_of(frame).all + places


def write_single(frame: Frame) -> None:
    """The body of the function."""
    writer, tile, both = frame.writer, frame.tile, feeds(frame)
    assert tile.inner == INNER and tile.slices == 1
    writer.needs.add(product_name("tfloat32", tile.part_columns))
    given_array(writer, "f32", "finished", ALIGNMENT)
    if frame.places:
        writer.line(f"i32 *const places = (i32 *)(given_memory + {room_of(frame).all});")
    write_place(frame)
    for feed in both:
        write_starts(feed)
    _write_parts(frame)
    _write_ahead(frame, both)
    _write_turns(frame, both)
    write_finished(frame)
    writer.line("BARRIER;")
    write_rest(frame)


def _write_parts(frame: Frame) -> None:
    """Name the warpgroup's part, where the units read its operands, and its sums."""
    writer, tile, room = frame.writer, frame.tile, room_of(frame)
    write_own(frame)
    for name, start in (("row", 0), ("column", room.parts * tile.rows * LINE)):
        side = "left" if name == "row" else "right"
        place = f"(local_start + {start} + part_{name} * {LINE}) / 16"
        writer.line(f"const u64 {side}_first = {_REST}ULL + (u64)({place});")
    write_zeros(frame, "sums")
    if room.parts > 1:
        writer.line(f"float part[{tile.part_rows // HIGH}][{tile.part_columns // 2}];")


# --- copies ---------------------------------------------------------------------------------------------------------


def _write_ahead(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Begin the copies of all stages, and make the first one what the units read."""
    writer, tile, room = frame.writer, frame.tile, room_of(frame)
    writer.line("i32 copied = 0, slot = 0, ahead = 0, buffer = 0;")
    with writer.block(f"for (i32 stage = 0; stage < {tile.stages}; stage++)"):
        write_copies(both, f"local_start + {room.stages} + stage * {room.stage}", _write_copy)
    _write_conversions(frame, both)


def _write_copy(feed: Feed, place: str, inside: str) -> None:
    """Copy a turn's elements as they lie in global memory, or zeros."""
    writer = feed.frame.writer
    free, inner = local_places(feed)
    along = feed.side.along_inner
    at = f"{free} * {INNER} + {inner}" if along else f"{inner} * {feed.free} + {free}"
    source = pointer(writer, feed.walk.buffer, place, "void")
    even = guard(feed)
    with writer.block(f"if ({even})" if even else ""):
        to = f"to + {_start_of(feed)} + ({at}) * {SIZE}"
        writer.line(f"copy{feed.side.vector * SIZE}({to}, {source}, {inside});")


def _start_of(feed: Feed) -> int:
    """Where an operand begins in a stage."""
    return feed.frame.tile.rows * LINE if feed.name == "right" else 0


# --- what the units read --------------------------------------------------------------------------------------------


def _write_conversions(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Wait for the stage in ``slot``, make it what the units read in ``buffer``, and go on to the next ones."""
    writer, tile, room = frame.writer, frame.tile, room_of(frame)
    writer.line(f"wait_for_copies<{tile.stages - 1}>();")
    writer.line("BARRIER;")
    with writer.block():
        writer.line(f"const u8 *const from = given_memory + {room.stages} + slot * {room.stage};")
        writer.line(f"u8 *const to = given_memory + buffer * {room.buffer};")
        for feed in both:
            _write_conversion(feed)
    writer.line(f"slot = slot == {tile.stages - 1} ? 0 : slot + 1;")
    writer.line("buffer ^= 1;")
    writer.line("show_copies();")


def _write_conversion(feed: Feed) -> None:
    """Each thread takes 16 bytes of a row or column at a time."""
    frame, along = feed.frame, feed.side.along_inner
    writer, parts, per = frame.writer, room_of(frame).parts, LINE // CHUNK
    chunks, start = feed.free * per, _start_of(feed)
    with unrolled(writer, f"for (i32 turn = 0; turn < {-(-chunks // frame.threads)}; turn++)"):
        writer.line(f"const i32 chunk = thread + turn * {frame.threads};")
        even = chunks % frame.threads == 0
        with writer.block("" if even else f"if (chunk < {chunks})"):
            line, part = ("/", "%") if along else ("%", "/")
            by = per if along else feed.free
            writer.line(f"const i32 line = chunk {line} {by}, part = chunk {part} {by};")
            writer.line(f"ALIGNED u32 whole[{PER}], low[{PER}];")
            _write_take(feed, start)
            with unrolled(writer, f"for (i32 each = 0; each < {PER}; each++)"):
                split = "split_tfloat32(whole[each], low[each]);"
                writer.line(split if parts > 1 else "round_tfloat32(whole[each]);")
            swizzled = f"line * {LINE} + ((part ^ line) & {BUNCH - 1}) * {CHUNK}"
            writer.line(f"u8 *const place = to + {parts * start} + {swizzled};")
            writer.line("*(uint4 *)place = *(const uint4 *)whole;")
            if parts > 1:
                writer.line(f"*(uint4 *)(place + {feed.free * LINE}) = *(const uint4 *)low;")


def _write_take(feed: Feed, start: int) -> None:
    writer = feed.frame.writer
    if feed.side.along_inner:
        at = f"from + {start} + line * {LINE} + part * {CHUNK}"
        writer.line(f"*(uint4 *)whole = *(const uint4 *)({at});")
        return
    writer.line(f"const u32 *const first = (const u32 *)(from + {start}) + line;")
    with unrolled(writer, f"for (i32 each = 0; each < {PER}; each++)"):
        writer.line(f"whole[each] = first[(part * {PER} + each) * {feed.free}];")


# --- products -------------------------------------------------------------------------------------------------------


def _write_turns(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Walk along the inner extent, a stage at a time: what one was copied to is free when the units read its parts."""
    writer, tile, room = frame.writer, frame.tile, room_of(frame)
    with writer.block(f"for (i32 first = 0; first < inner_count; first += {tile.inner})"):
        writer.line("BARRIER;")
        writer.line(f"const u64 read = (buffer ^ 1) * {room.buffer // 16};")
        _write_products(frame)
        write_copies(both, f"local_start + {room.stages} + ahead * {room.stage}", _write_copy)
        writer.line(f"ahead = ahead == {tile.stages - 1} ? 0 : ahead + 1;")
        with writer.block(f"if (first + {tile.inner} < inner_count)"):
            _write_conversions(frame, both)
        writer.line("wait_for_products<0>();")
        if room.parts > 1:
            _write_totals(frame)
    writer.line("wait_for_copies<0>();")
    writer.line("BARRIER;")


def _write_products(frame: Frame) -> None:
    """The products of a stage: in parts low by high, high by low and high by high, else what there is."""
    writer, tile, parts = frame.writer, frame.tile, room_of(frame).parts
    name = product_name("tfloat32", tile.part_columns)
    low = (tile.rows * LINE // 16, tile.columns * LINE // 16)
    order = [(low[0], 0), (0, low[1]), (0, 0)] if parts > 1 else [(0, 0)]
    to = "part" if parts > 1 else "sums"
    writer.line("begin_products();")
    for turn, (left, right) in enumerate(order):
        for inner in range(0, INNER, DEEP):
            step = inner * SIZE // 16
            adds = int(parts == 1 or turn + inner > 0)
            for block in range(tile.part_rows // HIGH):
                one = f"left_first + read + {left + step + block * HIGH * LINE // 16}"
                other = f"right_first + read + {right + step}"
                writer.line(f"{name}<0, 0, {adds}>({to}[{block}], {one}, {other});")
    writer.line("end_products();")


def _write_totals(frame: Frame) -> None:
    writer, tile = frame.writer, frame.tile
    count = tile.part_columns // 2
    with unrolled(
        writer, f"for (i32 place = 0; place < {tile.part_rows // HIGH * count}; place++)"
    ):
        at = f"[place / {count}][place % {count}]"
        writer.line(f"sums{at} += part{at};")
