"""A tile of a product on the matrix units of a CUDA device: each warp sums up its part.

Both operands' tiles are copied to local memory as they lie in global memory, several tiles ahead.  float16 and bfloat16 are
multiplied as they are, float32 as tfloat32 ("tfloat32"), or in two tfloat32 parts each ("float32x3"): high by high, high by
low and low by high give all but the last bits of a float32 product.  Those are added up in float32 at every step, because
the units' own additions cut off what they do not keep.

Source: PTX ISA 8.0, sections 9.7.13 (mma, ldmatrix) and 9.7.8.22 (cp.async); Ootomo and Yokota 2022 for the parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from burnx.gpu.tiles_blocks import (
    DEEP,
    HIGH,
    SIDE,
    WARP,
    lane_place,
    slots_of,
    width_of,
    write_copy,
    write_read,
)
from burnx.gpu.tiles_feed import Feed, each_load, feeds, write_starts, write_step
from burnx.gpu.tiles_frame import Frame, local_array, unrolled, write_place
from burnx.gpu.tiles_rest import write_rest


@dataclass(frozen=True, slots=True)
class Stage:
    """A tile of both operands in local memory: bytes of an element, of the left operand, of both."""

    size: int
    left: int
    both: int


def stage_of(both: tuple[Feed, Feed]) -> Stage:
    sizes = []
    for feed in both:
        rows = feed.free if feed.side.along_inner else feed.frame.tile.inner
        sizes.append(rows * width_of(feed) * feed.walk.buffer.dtype.itemsize)
    return Stage(both[0].walk.buffer.dtype.itemsize, sizes[0], sum(sizes))


def local_bytes(frame: Frame) -> int:
    """Bytes of local memory: all stages, or the finished sums of all slices."""
    tile = frame.tile
    operands = tile.stages * stage_of(feeds(frame)).both
    return max(operands, tile.slices * tile.rows * frame.width * 4)


def write_matrix(frame: Frame) -> None:
    """The body of the function."""
    writer, tile = frame.writer, frame.tile
    both = feeds(frame)
    local_array(writer, "f32", "finished", local_bytes(frame))
    if frame.places:
        local_array(writer, "i32", "places", 4 * len(frame.product.contract.rows) * tile.rows)
    write_place(frame)
    for feed in both:
        write_starts(feed)
    _write_parts(frame, both)
    _write_ahead(frame, both)
    _write_turns(frame, both)
    _write_finished(frame)
    writer.line("BARRIER;")
    write_rest(frame)


def _write_parts(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Name the warp's part, what its threads read of it, and its sums."""
    writer, tile = frame.writer, frame.tile
    wide = tile.columns // tile.part_columns
    high, side = tile.part_rows // HIGH, tile.part_columns // SIDE
    writer.line(f"const i32 lane = thread % {WARP}, warp = thread / {WARP};")
    writer.line(f"const i32 slice = warp / {tile.parts};")
    writer.line(f"const i32 part_column = warp % {wide} * {tile.part_columns};")
    writer.line(f"const i32 part_row = warp % {tile.parts} / {wide} * {tile.part_rows};")
    writer.line("const u32 local_start = local_address(finished);")
    for feed in both:
        _write_lane(feed)
    writer.line(f"float sums[{high}][{side}][4];")
    with unrolled(writer, f"for (i32 place = 0; place < {high * side * 4}; place++)"):
        writer.line(f"sums[place / {side * 4}][place / 4 % {side}][place % 4] = 0;")


def _write_lane(feed: Feed) -> None:
    """The place in the first stage that this lane gives for a small matrix at inner place 0."""
    part = "part_row" if feed.name == "left" else "part_column"
    place = f"{start_of(feed)} + {lane_place(feed, part)}"
    feed.frame.writer.line(f"const i32 {feed.name}_lane = {place};")


def start_of(feed: Feed) -> int:
    """Where an operand's tile begins in a stage."""
    return stage_of(feeds(feed.frame)).left if feed.name == "right" else 0


# --- copies ---------------------------------------------------------------------------------------------------------


def _write_ahead(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Begin the copies of the first stages."""
    writer, tile = frame.writer, frame.tile
    stage = stage_of(both).both
    writer.line(f"i32 copied = 0, slot = 0, ahead = {tile.stages - 1};")
    head = f"for (i32 stage = 0; stage < {tile.stages - 1}; stage++)"
    with writer.block(head):
        _write_copies(both, f"local_start + stage * {stage}")
        writer.line("end_copies();")
        _write_steps(both)


def _write_copies(both: tuple[Feed, Feed], start: str) -> None:
    """Begin the copies of a stage; beyond the inner extent it is filled with zeros, and nothing is read."""
    writer = both[0].frame.writer
    with writer.block():
        writer.line(f"const u32 to = {start};")
        for feed in both:
            with writer.block():
                each_load(feed, _write_copy, "copied")


def _write_steps(both: tuple[Feed, Feed]) -> None:
    """Go on to the next stage that is to be copied."""
    for feed in both:
        write_step(feed)
    both[0].frame.writer.line(f"copied += {both[0].frame.tile.inner};")


def _write_copy(feed: Feed, place: str, inside: str) -> None:
    write_copy(feed, place, inside, f"to + {start_of(feed)}")


# --- multiplications ------------------------------------------------------------------------------------------------


def _write_turns(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Walk along the inner extent, a stage at a time."""
    writer, tile = frame.writer, frame.tile
    stage = stage_of(both)
    with writer.block(f"for (i32 first = 0; first < inner_count; first += {tile.inner})"):
        writer.line(f"wait_for_copies<{tile.stages - 2}>();")
        writer.line("BARRIER;")
        writer.line(f"const u32 next = local_start + ahead * {stage.both};")
        writer.line(f"ahead = ahead == {tile.stages - 1} ? 0 : ahead + 1;")
        writer.line(f"const u32 from = local_start + slot * {stage.both};")
        writer.line(f"slot = slot == {tile.stages - 1} ? 0 : slot + 1;")
        _write_multiplications(frame, both, stage)
        writer.line("end_copies();")
        _write_steps(both)
    writer.line("wait_for_copies<0>();")
    writer.line("BARRIER;")


def _write_multiplications(frame: Frame, both: tuple[Feed, Feed], stage: Stage) -> None:
    """Multiply what lies in a stage, and begin the copies of another one.

    A block is read while the one before is multiplied.
    """
    writer, tile = frame.writer, frame.tile
    turns = tile.inner // DEEP[stage.size] // tile.slices
    for feed, count, parts in _counts(both):
        writer.line(f"u32 {feed.name}_held[{min(turns, 2)}][{count}][{parts}];")
    _write_reads(both, stage, "0", "0")
    with unrolled(writer, f"for (i32 turn = 0; turn < {turns}; turn++)"):
        if turns > 1:
            with writer.block(f"if (turn + 1 < {turns})"):
                _write_reads(both, stage, "(turn + 1)", "(turn + 1) % 2")
        held = "turn % 2" if turns > 1 else "0"
        for feed in both:
            writer.line(f"auto &{feed.name} = {feed.name}_held[{held}];")
        if stage.size == 2:
            _write_products(frame)
        else:
            _write_single_products(frame, both)
        few = " && copied < inner_count" if tile.stages == 2 else ""  # then the extent may be short
        with writer.block(f"if (turn == 0{few})"):
            _write_copies(both, "next")


def _counts(both: tuple[Feed, Feed]) -> tuple[tuple[Feed, int, int], ...]:
    """(operand, its blocks in a part, the registers of a block)"""
    tile = both[0].frame.tile
    return (both[0], tile.part_rows // HIGH, 4), (both[1], tile.part_columns // SIDE, 2)


def _write_reads(both: tuple[Feed, Feed], stage: Stage, turn: str, held: str) -> None:
    """Read the blocks of both operands at an inner place into registers."""
    writer, slices = both[0].frame.writer, both[0].frame.tile.slices
    place = f"({turn} * {slices} + slice)" if slices > 1 else turn
    with writer.block():
        writer.line(f"const i32 inner = {place} * {DEEP[stage.size]};")
        for feed, count, _ in _counts(both):
            name, step = feed.name, 1 if feed.name == "left" else 2
            writer.line(f"auto &{name} = {name}_held[{held}];")
            with unrolled(writer, f"for (i32 block = 0; block < {count}; block += {step})"):
                write_read(feed, slots_of(name), f"from + {name}_lane")


def _heads(frame: Frame) -> tuple[str, str]:
    """The loops over a part's blocks of rows and of columns."""
    high, side = frame.tile.part_rows // HIGH, frame.tile.part_columns // SIDE
    return (
        f"for (i32 row = 0; row < {high}; row++)",
        f"for (i32 column = 0; column < {side}; column++)",
    )


def _write_products(frame: Frame) -> None:
    writer = frame.writer
    rows, columns = _heads(frame)
    with unrolled(writer, rows), unrolled(writer, columns):
        writer.line(f"multiply_{frame.units}(sums[row][column], left[row], right[column]);")


def _write_single_products(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Products of float32, rounded or in parts; the parts of a column of blocks run side by side."""
    writer, (rows, columns) = frame.writer, _heads(frame)
    in_parts = frame.units == "float32x3"
    function = "split_tfloat32" if in_parts else "round_tfloat32"
    (_, high, _), _ = _counts(both)
    if in_parts:
        writer.line(f"u32 left_low[{high}][4];")
    with unrolled(writer, f"for (i32 place = 0; place < {high * 4}; place++)"):
        low = ", left_low[place / 4][place % 4]" if in_parts else ""
        writer.line(f"{function}(left[place / 4][place % 4]{low});")
    with unrolled(writer, columns):
        if in_parts:
            writer.line("u32 right_low[2];")
        with unrolled(writer, "for (i32 place = 0; place < 2; place++)"):
            low = ", right_low[place]" if in_parts else ""
            writer.line(f"{function}(right[column][place]{low});")
        if not in_parts:
            with unrolled(writer, rows):
                writer.line("multiply_tfloat32(sums[row][column], left[row], right[column]);")
            return
        writer.line(f"float part[{high}][4] = {{}};")
        for one, other in (
            ("left_low", "right[column]"),
            ("left", "right_low"),
            ("left", "right[column]"),
        ):
            with unrolled(writer, rows):
                writer.line(f"multiply_tfloat32(part[row], {one}[row], {other});")
        with unrolled(writer, rows), unrolled(writer, "for (i32 place = 0; place < 4; place++)"):
            writer.line("sums[row][column][place] += part[row][place];")


def _write_finished(frame: Frame) -> None:
    """Put the warp's sums where the rest is worked out."""
    writer, tile = frame.writer, frame.tile
    start = f"slice * {tile.rows * frame.width} + " if tile.slices > 1 else ""
    rows, columns = _heads(frame)
    with unrolled(writer, rows), unrolled(writer, columns):
        row = f"part_row + row * {HIGH} + lane / 4"
        column = f"part_column + column * {SIDE} + lane % 4 * 2"
        writer.line(f"float *to = finished + {start}({row}) * {frame.width} + {column};")
        for half in range(2):
            values = ", ".join(f"sums[row][column][{2 * half + each}]" for each in range(2))
            writer.line(f"*(float2 *)(to + {half * 8 * frame.width}) = {{{values}}};")
