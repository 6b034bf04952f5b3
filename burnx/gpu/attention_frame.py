"""What both ways of writing attention share: the tile of rows, the loading of operands, the scores, and the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace

from burnx.gpu.attention_parts import Attention
from burnx.gpu.tiles_feed import Feed, write_starts
from burnx.gpu.tiles_form import Tile
from burnx.gpu.tiles_frame import Frame, name_column, name_row, unravel, write_places
from burnx.gpu.tiles_product import Side
from burnx.gpu.writer import Writer
from burnx.kernels.ir import Load, Lookup
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, product


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """What a group takes: ``rows``, ``keys`` at a time, of which a thread has ``part_rows`` and ``part_keys``.

    ``deep``: room for the elements of a query and a key; ``wide``: for those of a value.  ``together``: neighbouring columns
    of the result that a thread finishes.
    """

    rows: int
    keys: int
    deep: int
    wide: int
    part_rows: int
    part_keys: int
    across: bool
    query: Side
    key: Side
    value: Side
    together: int = 1

    def numbers(self) -> tuple[int, ...]:
        """As ``Form.tile``."""
        *own, query, key, value, together = astuple(self)
        return tuple(map(int, (*own, *query, *key, *value, together)))


def attention_tile_of(numbers: tuple[int, ...]) -> AttentionTile:
    """The tile that ``Form.tile`` holds."""
    rows, keys, deep, wide, part_rows, part_keys, across, *sides = numbers
    query, key, value = (
        Side(vector, bool(along), joined)
        for vector, along, joined in (sides[:3], sides[3:6], sides[6:9])
    )
    return AttentionTile(
        rows, keys, deep, wide, part_rows, part_keys, bool(across), query, key, value, sides[9]
    )


@dataclass(slots=True)
class Scene:
    """An attention while it is written.  ``scores`` and ``sums`` are the frames of its two products."""

    writer: Writer
    attention: Attention
    tile: AttentionTile
    threads: int
    scores: Frame
    sums: Frame


def scene_of(writer: Writer, attention: Attention, tile: AttentionTile, threads: int) -> Scene:
    one = Tile(tile.rows, tile.keys, tile.deep, 1, 1, 1, 1, tile.across, tile.query, tile.key)
    other = replace(
        one, columns=tile.wide, inner=tile.keys, right=tile.value, together=tile.together
    )
    frames = (
        Frame(writer, each, shape, threads, "f32")
        for each, shape in ((attention.scores, one), (attention.sums, other))
    )
    return Scene(writer, attention, tile, threads, *frames)


def attention_grid(attention: Attention, tile: AttentionTile) -> tuple[Dim, Dim, Dim]:
    """The groups: tiles of rows, and turns of the loops outside."""
    tiles = (attention.count + tile.rows - 1) // tile.rows
    return tiles * product(tuple(extent for _, extent in attention.outer)), 1, 1


def write_tile_place(scene: Scene) -> None:
    """Name the thread, the counts, the first row of the group's tile, and the variables outside."""
    writer, rows = scene.writer, scene.tile.rows
    writer.line(f"const i32 thread = {writer.dialect.ids[0]};")
    counts = {
        "row_count": scene.attention.count,
        "key_count": scene.attention.scores.columns,
        "deep_count": scene.attention.scores.inner,
        "wide_count": scene.attention.sums.columns,
    }
    for name, count in counts.items():
        writer.line(f"const i32 {name} = {writer.dim(count)};")
    writer.line(f"const i32 row_tiles = (row_count + {rows - 1}) / {rows};")
    writer.line(f"i32 tile = {writer.dialect.ids[1]};")
    writer.line(f"const i32 first_row = tile % row_tiles * {rows};")
    writer.line("tile /= row_tiles;")
    unravel(writer, "tile", scene.attention.outer)
    write_places(scene.scores)


def feeds_of(scene: Scene) -> tuple[Feed, Feed, Feed]:
    """How queries, keys and values are loaded."""
    tile, attention = scene.tile, scene.attention
    return (
        Feed(scene.scores, "left", attention.scores.left, tile.query, tile.rows),
        Feed(scene.scores, "right", attention.scores.right, tile.key, tile.keys),
        Feed(scene.sums, "right", attention.sums.right, tile.value, tile.wide),
    )


@contextmanager
def loading(feed: Feed, free: str, counts: tuple[str, str]) -> Iterator[None]:
    """A block in which a feed's rows or columns start at ``free``; ``counts`` are those of them and of inner places."""
    writer = feed.frame.writer
    with writer.block():
        if feed.name == "right":
            writer.line(f"const i32 first_column = {free}, column_count = {counts[0]};")
        writer.line(f"const i32 inner_count = {counts[1]};")
        write_starts(feed)
        yield


def write_score(scene: Scene, slot: str, row: str, key: str) -> None:
    """The score in ``slot`` from its product there; a row or key beyond the last one reads what the last one reads."""
    writer, attention = scene.writer, scene.attention
    with writer.block():
        if _reads_memory(attention):
            writer.line("const i32 last_row = row_count - first_row - 1, last_key = key_count - 1;")
            writer.line(f"const i32 row_here = {row} < last_row ? {row} : last_row;")
            writer.line(f"const i32 key_here = {key} < last_key ? {key} : last_key;")
            row, key = "row_here", "key_here"
        name_row(scene.scores, row)
        name_column(scene.scores, key)
        writer.line(f"const f32 {writer.declare(attention.scores.contract.name, 'v')} = {slot};")
        writer.body(attention.lets)
        writer.line(f"{slot} = {writer.value(attention.score)};")


def _reads_memory(attention: Attention) -> bool:
    values = [attention.score, *(each.value for each in attention.lets)]
    return any(isinstance(node, (Load, Lookup)) for node in every_node(values))


@contextmanager
def keys_beyond(scene: Scene) -> Iterator[None]:
    """A block for a tile of keys of which some are beyond the last one: their scores must be less than all others."""
    head = f"if (key_count - first_key < {scene.tile.keys})"
    with scene.writer.block(head):
        yield


def write_beyond(scene: Scene, slot: str, key: str) -> None:
    lowest = scene.writer.neutral("max", scene.attention.scores.contract.dtype)
    scene.writer.line(f"if ({key} >= key_count) {slot} = {lowest};")
