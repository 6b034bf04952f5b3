"""A tile of a product on the warpgroup units of compute capability 9.0: each warpgroup sums up its part.

Both operands' tiles are copied to local memory some stages ahead, swizzled on their way.  Products run beside the work of the
threads: while those of a stage are under way, the threads begin the copies of another one.  A stage is written again when
every warpgroup has waited for the products that read it, which all have at the barrier of the turn after the next.
"""

from __future__ import annotations

from burnx.gpu.tiles_feed import Feed, Take, each_load, feeds, write_starts, write_step
from burnx.gpu.tiles_form import WARPGROUP
from burnx.gpu.tiles_frame import Frame, given_array, unrolled, write_place
from burnx.gpu.tiles_rest import write_rest
from burnx.gpu.tiles_swizzled import (
    ALIGNMENT,
    PLACES,
    descriptor_rest,
    free_step,
    inner_step,
    tile_bytes,
    write_swizzled_copy,
)
from burnx.gpu.tiles_wgmma_units import CLUSTER, HIGH, KINDS, product_name

WARP = 32


def stage_bytes(frame: Frame) -> int:
    return sum(tile_bytes(feed) for feed in feeds(frame))


def finished_bytes(frame: Frame) -> int:
    """All stages, or the finished sums of all slices."""
    tile = frame.tile
    return max(tile.stages * stage_bytes(frame), tile.slices * tile.rows * frame.width * 4)


def local_bytes(frame: Frame) -> int:
    """Bytes of local memory."""
    places = 4 * len(frame.product.contract.rows) * frame.tile.rows if frame.places else 0
    return finished_bytes(frame) + places


def write_wgmma(frame: Frame) -> None:
    """The body of the function."""
    writer = frame.writer
    writer.needs.add(product_name(dtype_of(frame), frame.tile.part_columns))
    given_array(writer, "f32", "finished", ALIGNMENT)
    if frame.places:
        writer.line(f"i32 *const places = (i32 *)(given_memory + {finished_bytes(frame)});")
    write_place(frame)
    both = feeds(frame)
    for feed in both:
        write_starts(feed)
    write_parts(frame, both)
    _write_ahead(frame, both)
    _write_turns(frame, both)
    write_finished(frame)
    if frame.tile.spread == 1:
        writer.line("BARRIER;")
        write_rest(frame)
        return
    writer.needs.add(CLUSTER)
    writer.line("wait_for_cluster();")
    write_rest(frame)
    writer.line("wait_for_cluster();")  # a group's memory is gone when it ends


def dtype_of(frame: Frame) -> str:
    """What the units multiply."""
    name = frame.units.partition("_")[2]
    return "tfloat32" if name == "float32x3" else name


def write_parts(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Name the warpgroup's part, where its operands begin in the first stage, and its sums."""
    writer, tile, slices = frame.writer, frame.tile, frame.tile.slices
    write_own(frame)
    turns = tile.inner // KINDS[dtype_of(frame)][1] // slices
    for feed in both:
        part = f"part_{'row' if feed.name == 'left' else 'column'} / 64 * {free_step(feed)}"
        own = f" + slice * {inner_step(feed, tile.inner // slices)}" if slices > 1 else ""
        assert slices == 1 or turns % 4 == 0 or 4 % turns == 0
        start = f"(local_start + {start_of(feed)}) / 16 % {PLACES} + {part}{own}"
        rest = f"{descriptor_rest(feed)}ULL"
        writer.line(f"const u64 {feed.name}_first = {rest} + (u64)({start});")
    write_zeros(frame, "sums")


def write_own(frame: Frame) -> None:
    """Name the warpgroup's part of the tile, and the thread's place in its warpgroup."""
    writer, tile = frame.writer, frame.tile
    wide = tile.columns // tile.part_columns
    writer.line(f"const i32 lane = thread % {WARP}, warp = thread / {WARP} % 4;")
    writer.line(f"const i32 team = same_in_warp(thread / {WARPGROUP});")
    writer.line(f"const i32 slice = {f'team / {tile.parts}' if tile.slices > 1 else '0'};")
    writer.line(f"const i32 part_column = team % {wide} * {tile.part_columns};")
    writer.line(f"const i32 part_row = team % {tile.parts} / {wide} * {tile.part_rows};")
    writer.line("const u32 local_start = local_address(finished);")


def write_zeros(frame: Frame, name: str) -> None:
    """Sums of a thread, all of them 0."""
    writer, tile, count = frame.writer, frame.tile, frame.tile.part_columns // 2
    blocks = tile.part_rows // HIGH
    writer.line(f"float {name}[{blocks}][{count}];")
    with unrolled(writer, f"for (i32 place = 0; place < {blocks * count}; place++)"):
        writer.line(f"{name}[place / {count}][place % {count}] = 0;")


def start_of(feed: Feed) -> int:
    """Where an operand's tile begins in a stage."""
    return tile_bytes(feeds(feed.frame)[0]) if feed.name == "right" else 0


# --- copies ---------------------------------------------------------------------------------------------------------


def _write_ahead(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Begin the copies of the first stages."""
    writer, tile = frame.writer, frame.tile
    start = frame.inner_ends[0]
    writer.line(f"i32 copied = {start}, slot = 0, ahead = {tile.stages - 2};")
    with writer.block(f"for (i32 stage = 0; stage < {tile.stages - 2}; stage++)"):
        write_copies(both, f"local_start + stage * {stage_bytes(frame)}", _write_copy)


def write_copies(both: tuple[Feed, Feed], start: str, copy: Take) -> None:
    """Begin the copies of a stage, and go on to the next one; beyond the inner extent there is none."""
    frame = both[0].frame
    writer = frame.writer
    with writer.block(f"if (copied < {frame.inner_ends[1]})"):
        writer.line(f"const u32 to = {start};")
        for feed in both:
            with writer.block():
                each_load(feed, copy, "copied")
        for feed in both:
            write_step(feed)
    writer.line("end_copies();")
    writer.line(f"copied += {frame.tile.inner};")


def _write_copy(feed: Feed, place: str, inside: str) -> None:
    write_swizzled_copy(feed, place, inside, f"to + {start_of(feed)}")


# --- products -------------------------------------------------------------------------------------------------------


def _write_turns(frame: Frame, both: tuple[Feed, Feed]) -> None:
    """Walk along the inner extent, a stage at a time."""
    writer, tile = frame.writer, frame.tile
    begin, end = frame.inner_ends
    with writer.block(f"for (i32 first = {begin}; first < {end}; first += {tile.inner})"):
        writer.line(f"wait_for_copies<{tile.stages - 3}>();")
        writer.line("show_copies();")
        writer.line("BARRIER;")
        writer.line(f"const u64 from = slot * {stage_bytes(frame) // 16};")
        writer.line(f"slot = slot == {tile.stages - 1} ? 0 : slot + 1;")
        _write_products(frame, both)
        write_copies(both, f"local_start + ahead * {stage_bytes(frame)}", _write_copy)
        writer.line(f"ahead = ahead == {tile.stages - 1} ? 0 : ahead + 1;")
        writer.line("wait_for_products<1>();")
    writer.line("wait_for_products<0>();")
    writer.line("wait_for_copies<0>();")
    writer.line("BARRIER;")


def _write_products(frame: Frame, both: tuple[Feed, Feed]) -> None:
    writer, tile, dtype = frame.writer, frame.tile, dtype_of(frame)
    deep = KINDS[dtype][1]
    turned = ", ".join(str(int(not feed.side.along_inner)) for feed in both)
    function = f"{product_name(dtype, tile.part_columns)}<{turned}, 1>"
    left, right = both
    writer.line("begin_products();")
    for inner in range(0, tile.inner // tile.slices, deep):
        for block in range(tile.part_rows // HIGH):
            one = inner_step(left, inner) + block * free_step(left)
            other = inner_step(right, inner)
            places = f"left_first + from + {one}, right_first + from + {other}"
            writer.line(f"{function}(sums[{block}], {places});")
    writer.line("end_products();")


def write_finished(frame: Frame) -> None:
    """Put the warpgroup's sums where the rest is worked out."""
    writer, tile = frame.writer, frame.tile
    start = f"slice * {tile.rows * frame.width} + " if tile.slices > 1 else ""
    with (
        unrolled(writer, f"for (i32 block = 0; block < {tile.part_rows // HIGH}; block++)"),
        unrolled(writer, f"for (i32 place = 0; place < {tile.part_columns // 2}; place += 2)"),
    ):
        row = f"part_row + block * {HIGH} + warp * 16 + place / 2 % 2 * 8 + lane / 4"
        column = "part_column + place / 4 * 8 + lane % 4 * 2"
        writer.line(f"float *to = finished + {start}({row}) * {frame.width} + {column};")
        writer.line("*(float2 *)to = {sums[block][place], sums[block][place + 1]};")
