"""Attention without matrix units: a group walks over the keys with its rows, and never holds all of their scores.

A thread has a part of the scores and of the weighted sums of the same rows.  Of each row it knows the greatest score so far
and the sum of exponentials of its own keys; both, and the weighted sums, are scaled when a greater score turns up.
"""

from __future__ import annotations

from burnx.dtype import float32
from burnx.gpu.attention_frame import (
    AttentionTile,
    Scene,
    feeds_of,
    loading,
    write_beyond,
    write_score,
    write_tile_place,
)
from burnx.gpu.tiles_feed import Feed, each_load, guard, local_places
from burnx.gpu.tiles_frame import PAD, local_array, unrolled
from burnx.gpu.tiles_rest import write_rest
from burnx.kernels.ir import Cast, Load
from burnx.shape import symbol

APART = 4  # elements between rows in local memory


def across_of(tile: AttentionTile) -> int:
    """Threads that share rows."""
    return tile.keys // tile.part_keys


def part_wide(tile: AttentionTile) -> int:
    """Weighted sums of a row that a thread has."""
    return tile.wide // across_of(tile)


def plain_parts(tile: AttentionTile) -> dict[str, int]:
    """Floats of local memory by what they hold."""
    rows, keys = tile.rows + APART, tile.keys + APART
    parts = {
        "queries": tile.deep * rows,
        "keys": tile.deep * keys,
        "values": tile.keys * (tile.wide + APART),
        "weights": tile.keys * rows,
        "shared": tile.rows * across_of(tile),
    }
    finished = tile.rows * (tile.wide + PAD)
    parts["values"] += max(0, finished - sum(parts.values()))
    return parts


def plain_bytes(tile: AttentionTile) -> int:
    return 4 * sum(plain_parts(tile).values())


def write_plain_attention(scene: Scene) -> None:
    """The body of the function."""
    writer, tile = scene.writer, scene.tile
    queries, keys, values = feeds_of(scene)
    local_array(writer, "f32", "finished", plain_bytes(tile))
    start = 0
    for name, size in plain_parts(tile).items():
        writer.line(f"LOCAL f32 *const {name} = finished + {start};")
        start += size
    local_array(writer, "i32", "places", 4 * 2 * tile.rows)
    write_tile_place(scene)
    _write_own(scene)
    with loading(queries, "", ("row_count", "deep_count")):
        _write_fill(queries, "queries", tile.rows + APART, "0")
    with writer.block(f"for (i32 first_key = 0; first_key < key_count; first_key += {tile.keys})"):
        with loading(keys, "first_key", ("key_count", "deep_count")):
            _write_fill(keys, "keys", tile.keys + APART, "0")
        with loading(values, "0", ("wide_count", "key_count")):
            _write_fill(values, "values", tile.wide + APART, "first_key")
        writer.line("BARRIER;")
        _write_scores(scene)
        _write_weights(scene)
        _write_sums(scene)
        writer.line("BARRIER;")
    _write_end(scene)
    writer.line("const i32 first_column = 0, column_count = wide_count, inner_count = key_count;")
    write_rest(scene.sums)


def _write_own(scene: Scene) -> None:
    """Name the thread's part, and what it knows of its rows."""
    writer, tile = scene.writer, scene.tile
    own = tile.part_rows
    writer.line(f"const i32 own_key = thread % {across_of(tile)};")
    writer.line(f"const i32 own_row = thread / {across_of(tile)} * {own};")
    writer.line(f"f32 scores[{own}][{tile.part_keys}], sums[{own}][{part_wide(tile)}];")
    writer.line(f"f32 greatest[{own}], total[{own}];")
    lowest = writer.neutral("max", float32)
    with unrolled(writer, f"for (i32 row = 0; row < {own}; row++)"):
        writer.line(f"greatest[row] = {lowest};")
        writer.line("total[row] = 0;")
        with unrolled(writer, f"for (i32 column = 0; column < {part_wide(tile)}; column++)"):
            writer.line("sums[row][column] = 0;")


def _write_fill(feed: Feed, name: str, width: int, first: str) -> None:
    """Load an operand's tile as float32, inner places outermost."""
    writer = feed.frame.writer
    free, inner = local_places(feed)

    def take(_: Feed, place: str, inside: str) -> None:
        even = guard(feed)
        with writer.block(f"if ({even})" if even else ""):
            writer.names["$from"] = "from"
            writer.line(f"const {writer.index_type} from = {place};")
            writer.line("f32 loaded = 0;")
            value = Load(feed.walk.buffer, symbol("$from"))
            number = value if value.dtype == float32 else Cast(value, float32)
            with writer.block(f"if ({inside})"):
                writer.line(f"loaded = {writer.value(number)};")
            writer.line(f"{name}[{inner} * {width} + {free}] = loaded;")

    each_load(feed, take, first)


def _write_scores(scene: Scene) -> None:
    """The products of the thread's rows and keys, and the scores from them."""
    writer, tile = scene.writer, scene.tile
    own, keys = tile.part_rows, tile.part_keys
    rows, columns = f"i32 row = 0; row < {own}; row++", f"i32 key = 0; key < {keys}; key++"
    with unrolled(writer, f"for ({rows})"), unrolled(writer, f"for ({columns})"):
        writer.line("scores[row][key] = 0;")
    with writer.block("for (i32 inner = 0; inner < deep_count; inner++)"):
        writer.line(f"f32 left[{own}], right[{keys}];")
        with unrolled(writer, f"for ({rows})"):
            writer.line(f"left[row] = queries[inner * {tile.rows + APART} + own_row + row];")
        with unrolled(writer, f"for ({columns})"):
            place = f"key * {across_of(tile)} + own_key"
            writer.line(f"right[key] = keys[inner * {tile.keys + APART} + {place}];")
        with unrolled(writer, f"for ({rows})"), unrolled(writer, f"for ({columns})"):
            writer.line("scores[row][key] += left[row] * right[key];")
    with unrolled(writer, f"for ({rows})"), unrolled(writer, f"for ({columns})"):
        writer.line(f"const i32 at = first_key + key * {across_of(tile)} + own_key;")
        writer.line("const i32 of = own_row + row;")
        write_score(scene, "scores[row][key]", "of", "at")
        write_beyond(scene, "scores[row][key]", "at")


def _write_weights(scene: Scene) -> None:
    """The greatest score of each row so far, and the exponentials beside it."""
    writer, tile = scene.writer, scene.tile
    own, keys, across = tile.part_rows, tile.part_keys, across_of(tile)
    rows = f"for (i32 row = 0; row < {own}; row++)"
    columns = f"for (i32 key = 0; key < {keys}; key++)"
    with unrolled(writer, rows):
        writer.line("f32 most = scores[row][0];")
        with unrolled(writer, f"for (i32 key = 1; key < {keys}; key++)"):
            writer.line("most = most < scores[row][key] ? scores[row][key] : most;")
        writer.line(f"shared[(own_row + row) * {across} + own_key] = most;")
    writer.line("BARRIER;")
    with unrolled(writer, rows):
        writer.line("f32 most = greatest[row];")
        with writer.block(f"for (i32 place = 0; place < {across}; place++)"):
            writer.line(f"const f32 other = shared[(own_row + row) * {across} + place];")
            writer.line("most = most < other ? other : most;")
        zero = writer.neutral("max", float32)
        writer.line(f"const f32 base = most == {zero} ? 0 : most;")
        exponential = writer.apply("exp", ["(greatest[row] - base)"], float32)
        writer.line(f"const f32 scale = {exponential};")
        writer.line("greatest[row] = most;")
        writer.line("total[row] *= scale;")
        with unrolled(writer, f"for (i32 column = 0; column < {part_wide(tile)}; column++)"):
            writer.line("sums[row][column] *= scale;")
        with unrolled(writer, columns):
            exponential = writer.apply("exp", ["(scores[row][key] - base)"], float32)
            writer.line(f"const f32 weight = {exponential};")
            writer.line("total[row] += weight;")
            place = f"(key * {across} + own_key) * {tile.rows + APART} + own_row + row"
            writer.line(f"weights[{place}] = weight;")
    writer.line("BARRIER;")


def _write_sums(scene: Scene) -> None:
    """Add the values of these keys, each by its weight."""
    writer, tile = scene.writer, scene.tile
    own, wide, across = tile.part_rows, part_wide(tile), across_of(tile)
    rows = f"for (i32 row = 0; row < {own}; row++)"
    columns = f"for (i32 column = 0; column < {wide}; column++)"
    with writer.block(f"for (i32 key = 0; key < {tile.keys}; key++)"):
        writer.line(f"f32 left[{own}], right[{wide}];")
        with unrolled(writer, rows):
            writer.line(f"left[row] = weights[key * {tile.rows + APART} + own_row + row];")
        with unrolled(writer, columns):
            place = f"column * {across} + own_key"
            writer.line(f"right[column] = values[key * {tile.wide + APART} + {place}];")
        with unrolled(writer, rows), unrolled(writer, columns):
            writer.line("sums[row][column] += left[row] * right[column];")


def _write_end(scene: Scene) -> None:
    """Divide by the sum of all exponentials, and put the results where the rest is worked out."""
    writer, tile = scene.writer, scene.tile
    own, across = tile.part_rows, across_of(tile)
    rows = f"for (i32 row = 0; row < {own}; row++)"
    with unrolled(writer, rows):
        writer.line(f"shared[(own_row + row) * {across} + own_key] = total[row];")
    writer.line("BARRIER;")
    with unrolled(writer, rows):
        writer.line("f32 all = 0;")
        with writer.block(f"for (i32 place = 0; place < {across}; place++)"):
            writer.line(f"all += shared[(own_row + row) * {across} + place];")
        writer.line("total[row] = all;")
    writer.line("BARRIER;")
    columns = f"for (i32 column = 0; column < {part_wide(tile)}; column++)"
    with unrolled(writer, rows), unrolled(writer, columns):
        place = f"(own_row + row) * {scene.sums.width} + column * {across} + own_key"
        share = scene.attention.share("sums[row][column]", "total[row]")
        writer.line(f"finished[{place}] = {share};")
    writer.line("BARRIER;")
