"""Attention on the matrix units of a CUDA device: each warp has 16 rows, and all keys of a tile.

Scores stay in the registers that the units leave them in; exponentials, rounded to the operands' dtype, are where the units
read the left operand of the next product.  The next tile of keys and values is copied meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from burnx.dtype import dtype_name, float32
from burnx.gpu.attention_frame import (
    Scene,
    feeds_of,
    keys_beyond,
    loading,
    write_beyond,
    write_score,
    write_tile_place,
)
from burnx.gpu.tiles_blocks import (
    DEEP,
    HIGH,
    SIDE,
    WARP,
    lane_place,
    width_of,
    write_copy,
    write_read,
)
from burnx.gpu.tiles_feed import Feed, each_load
from burnx.gpu.tiles_frame import PAD, local_array, unrolled
from burnx.gpu.tiles_rest import write_rest

SLOTS = 2  # tiles of keys and values in local memory
STEP = DEEP[2]
_LOG2_E = "1.44269504f"


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of local memory: where keys begin, where values begin behind them, all of a slot, all there is."""

    keys: int
    values: int
    slot: int
    all: int


def room_of(scene: Scene) -> Room:
    queries, keys, values = (_bytes_of(feed) for feed in feeds_of(scene))
    finished = 4 * scene.tile.rows * (scene.tile.wide + PAD)
    return Room(queries, keys, keys + values, max(queries + SLOTS * (keys + values), finished))


def _bytes_of(feed: Feed) -> int:
    rows = feed.free if feed.side.along_inner else feed.frame.tile.inner
    return rows * width_of(feed) * feed.walk.buffer.dtype.itemsize


def write_matrix_attention(scene: Scene) -> None:
    """The body of the function."""
    writer, tile, room = scene.writer, scene.tile, room_of(scene)
    local_array(writer, "f32", "finished", room.all)
    local_array(writer, "i32", "places", 4 * 2 * tile.rows)
    write_tile_place(scene)
    _write_own(scene, room)
    _write_queries(scene)
    with writer.block(f"for (i32 first_key = 0; first_key < key_count; first_key += {tile.keys})"):
        writer.line("wait_for_copies<0>();")
        writer.line("BARRIER;")
        writer.line(f"const u32 from = local_start + {room.keys} + slot * {room.slot};")
        writer.line("slot ^= 1;")
        writer.line(f"const i32 following = first_key + {tile.keys};")
        with writer.block("if (following < key_count)"):
            _write_copies(scene, room, "following")
        _write_scores(scene)
        _write_weights(scene)
        _write_sums(scene, room)
    _write_end(scene)
    writer.line("const i32 first_column = 0, column_count = wide_count, inner_count = key_count;")
    write_rest(scene.sums)


def _write_own(scene: Scene, room: Room) -> None:
    """Name the thread's place in its warp, and what it knows of its two rows in each block of sums."""
    writer, tile = scene.writer, scene.tile
    queries, keys, values = feeds_of(scene)
    writer.line(f"const i32 lane = thread % {WARP}, own_row = thread / {WARP} * {HIGH};")
    writer.line("const u32 local_start = local_address(finished);")
    writer.line(f"const i32 query_lane = {lane_place(queries, 'own_row')};")
    writer.line(f"const i32 key_lane = {lane_place(keys, '0')};")
    writer.line(f"const i32 value_lane = {room.values} + {lane_place(values, '0')};")
    writer.line("i32 slot = 0;")
    writer.line(f"f32 scores[{tile.keys // SIDE}][4], sums[{tile.wide // SIDE}][4];")
    lowest = writer.neutral("max", float32)
    writer.line(f"f32 greatest[2] = {{{lowest}, {lowest}}}, total[2] = {{0, 0}};")
    _write_zeros(scene, "sums", tile.wide)


def _write_zeros(scene: Scene, name: str, extent: int) -> None:
    writer = scene.writer
    with unrolled(writer, f"for (i32 place = 0; place < {extent // SIDE * 4}; place++)"):
        writer.line(f"{name}[place / 4][place % 4] = 0;")


# --- loading --------------------------------------------------------------------------------------------------------


def _write_queries(scene: Scene) -> None:
    """Load the queries into registers; the first keys and values are on their way, too."""
    writer, tile, room = scene.writer, scene.tile, room_of(scene)
    queries, _, _ = feeds_of(scene)
    with loading(queries, "", ("row_count", "deep_count")):
        _write_tile(queries, "local_start", "0")
    _write_copies(scene, room, "0")
    writer.line("wait_for_copies<0>();")
    writer.line("BARRIER;")
    writer.line(f"u32 query[{tile.deep // STEP}][4];")
    with unrolled(writer, f"for (i32 step = 0; step < {tile.deep // STEP}; step++)"):
        writer.line(f"const i32 inner = step * {STEP}, block = 0;")
        slots = [f"query[step][{place}]" for place in range(4)]
        write_read(queries, slots, "local_start + query_lane")


def _write_copies(scene: Scene, room: Room, first: str) -> None:
    """Begin to copy the keys and values from ``first`` on into the slot that is next."""
    writer = scene.writer
    _, keys, values = feeds_of(scene)
    writer.line(f"const u32 to = local_start + {room.keys} + slot * {room.slot};")
    with loading(keys, first, ("key_count", "deep_count")):
        _write_tile(keys, "to", "0")
    with loading(values, "0", ("wide_count", "key_count")):
        _write_tile(values, f"to + {room.values}", first)
    writer.line("end_copies();")


def _write_tile(feed: Feed, to: str, first: str) -> None:
    each_load(feed, lambda one, place, inside: write_copy(one, place, inside, to), first)


# --- one tile of keys -----------------------------------------------------------------------------------------------


def _write_scores(scene: Scene) -> None:
    writer, tile = scene.writer, scene.tile
    _, keys, _ = feeds_of(scene)
    units = dtype_name(keys.walk.buffer.dtype)
    _write_zeros(scene, "scores", tile.keys)
    with unrolled(writer, f"for (i32 step = 0; step < {tile.deep // STEP}; step++)"):
        writer.line(f"const i32 inner = step * {STEP};")
        with unrolled(writer, f"for (i32 block = 0; block < {tile.keys // SIDE}; block += 2)"):
            _write_pair(keys, "from + key_lane")
            for place in range(2):
                slot = f"scores[block + {place}]"
                writer.line(f"multiply_{units}({slot}, query[step], pair[{place}]);")
    key = f"first_key + block * {SIDE} + lane % 4 * 2 + place % 2"
    with _each_score(scene):
        writer.line("const i32 of = own_row + lane / 4 + place / 2 * 8;")
        writer.line(f"const i32 at = {key};")
        write_score(scene, "scores[block][place]", "of", "at")
    with keys_beyond(scene), _each_score(scene):
        write_beyond(scene, "scores[block][place]", key)


@contextmanager
def _each_score(scene: Scene) -> Iterator[None]:
    writer = scene.writer
    blocks = f"for (i32 block = 0; block < {scene.tile.keys // SIDE}; block++)"
    with unrolled(writer, blocks), unrolled(writer, "for (i32 place = 0; place < 4; place++)"):
        yield


def _write_pair(feed: Feed, lane: str) -> None:
    """Read two neighbouring blocks of a right operand."""
    feed.frame.writer.line("u32 pair[2][2];")
    slots = [f"pair[{place // 2}][{place % 2}]" for place in range(4)]
    write_read(feed, slots, lane)


def _write_weights(scene: Scene) -> None:
    """The greatest scores so far, and the exponentials beside them as a left operand."""
    writer, tile = scene.writer, scene.tile
    blocks = f"for (i32 block = 0; block < {tile.keys // SIDE}; block++)"
    lowest = writer.neutral("max", float32)
    units = dtype_name(feeds_of(scene)[1].walk.buffer.dtype)
    writer.line(f"u32 weights[{tile.keys // STEP}][4];")
    with unrolled(writer, "for (i32 part = 0; part < 2; part++)"):
        writer.line("f32 most = greatest[part];")
        with unrolled(writer, blocks), unrolled(writer, "for (i32 place = 0; place < 2; place++)"):
            writer.line("const f32 score = scores[block][part * 2 + place];")
            writer.line("most = most < score ? score : most;")
        for step in (1, 2):
            with writer.block():
                writer.line(f"const f32 other = exchange(most, {step});")
                writer.line("most = most < other ? other : most;")
        # a mask's lowest number times log2(e) is infinite: differences are multiplied, not scores
        writer.line(f"const f32 base = most == {lowest} ? 0 : most;")
        writer.line(f"const f32 scale = quick_power((greatest[part] - base) * {_LOG2_E});")
        writer.line("greatest[part] = most;")
        writer.line("total[part] *= scale;")
        columns = f"for (i32 column = 0; column < {tile.wide // SIDE}; column++)"
        with unrolled(writer, columns), unrolled(writer, "for (i32 place = 0; place < 2; place++)"):
            writer.line("sums[column][part * 2 + place] *= scale;")
        with unrolled(writer, blocks):
            for place in range(2):
                value = f"(scores[block][part * 2 + {place}] - base) * {_LOG2_E}"
                writer.line(f"const f32 weight{place} = quick_power({value});")
            writer.line("total[part] += weight0 + weight1;")
            packed = f"pack_{units}(weight0, weight1)"
            writer.line(f"weights[block / 2][block % 2 * 2 + part] = {packed};")


def _write_sums(scene: Scene, room: Room) -> None:
    """Add the values of these keys, each by its weight."""
    writer, tile = scene.writer, scene.tile
    _, _, values = feeds_of(scene)
    units = dtype_name(values.walk.buffer.dtype)
    with unrolled(writer, f"for (i32 step = 0; step < {tile.keys // STEP}; step++)"):
        writer.line(f"const i32 inner = step * {STEP};")
        with unrolled(writer, f"for (i32 block = 0; block < {tile.wide // SIDE}; block += 2)"):
            _write_pair(values, "from + value_lane")
            for place in range(2):
                slot = f"sums[block + {place}]"
                writer.line(f"multiply_{units}({slot}, weights[step], pair[{place}]);")


def _write_end(scene: Scene) -> None:
    """Divide by the sum of all exponentials, and put the results where the rest is worked out."""
    writer, tile = scene.writer, scene.tile
    writer.line("BARRIER;")
    with unrolled(writer, "for (i32 part = 0; part < 2; part++)"):
        for step in (1, 2):
            writer.line(f"total[part] += exchange(total[part], {step});")
        columns = f"for (i32 column = 0; column < {tile.wide // SIDE}; column++)"
        with unrolled(writer, columns), unrolled(writer, "for (i32 place = 0; place < 2; place++)"):
            row = "(own_row + lane / 4 + part * 8)"
            at = f"{row} * {scene.sums.width} + column * {SIDE} + lane % 4 * 2 + place"
            share = scene.attention.share("sums[column][part * 2 + place]", "total[part]")
            writer.line(f"finished[{at}] = {share};")
    writer.line("BARRIER;")
