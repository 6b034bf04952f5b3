"""Operands in local memory as warpgroup products read them: rows of 128 bytes, swizzled, so that no banks collide.

A row holds what lies next to each other in global memory, along the inner places or along the rows (columns) of the operand.
Each 16 bytes of it change places with others by the number of the row, modulo 8.  As many rows as the tile has inner places, or
rows (columns), are a block; where 128 bytes do not hold a whole line of the tile there are several blocks.

Source: PTX ISA 8.0, section 9.7.14.5.1 (layouts and descriptors of matrices in shared memory).
"""

from __future__ import annotations

from burnx.gpu.tiles_feed import Feed, guard, local_places
from burnx.gpu.tiles_frame import pointer

LINE = 128  # bytes of a row
CHUNK = 16  # bytes that change places together
BUNCH = 8  # rows after which places repeat
ALIGNMENT = LINE * BUNCH
SWIZZLE = 1 << 62  # rows of 128 bytes
PLACES = (
    1 << 14
)  # that a descriptor tells apart; in a cluster addresses hold the group's number above them


def line_of(size: int) -> int:
    """Elements of a row."""
    return LINE // size


def lines_of(feed: Feed) -> int:
    """Rows of a block."""
    return feed.free if feed.side.along_inner else feed.frame.tile.inner


def block_bytes(feed: Feed) -> int:
    return lines_of(feed) * LINE


def tile_bytes(feed: Feed) -> int:
    """All blocks of an operand's tile."""
    size = feed.walk.buffer.dtype.itemsize
    along = feed.frame.tile.inner if feed.side.along_inner else feed.free
    return -(-along // line_of(size)) * block_bytes(feed)


def place_of(feed: Feed, free: str, inner: str) -> str:
    """The byte of an element in its tile."""
    size = feed.walk.buffer.dtype.itemsize
    along, line = (inner, free) if feed.side.along_inner else (free, inner)
    per, chunk = line_of(size), CHUNK // size
    return (
        f"{along} / {per} * {block_bytes(feed)} + {line} * {LINE}"
        f" + (({along} / {chunk} ^ {line}) & {BUNCH - 1}) * {CHUNK} + {along} % {chunk} * {size}"
    )


def write_swizzled_copy(feed: Feed, place: str, inside: str, to: str) -> None:
    """Copy a turn's elements to the operand's tile that starts at ``to``, or zeros."""
    writer, size = feed.frame.writer, feed.walk.buffer.dtype.itemsize
    source = pointer(writer, feed.walk.buffer, place, "void")
    even, at = guard(feed), place_of(feed, *local_places(feed))
    with writer.block(f"if ({even})" if even else ""):
        writer.line(f"copy{feed.side.vector * size}({to} + ({at}), {source}, {inside});")


# --- descriptors: addresses count 16 bytes --------------------------------------------------------------------------


def descriptor_rest(feed: Feed) -> int:
    """A descriptor without its address: how far blocks and bunches of rows lie apart, and the swizzle."""
    return SWIZZLE | ALIGNMENT // 16 << 32 | block_bytes(feed) // 16 << 16


def inner_step(feed: Feed, inner: int) -> int:
    """How far an inner place lies behind the first one, for a descriptor."""
    size = feed.walk.buffer.dtype.itemsize
    if not feed.side.along_inner:
        return inner * LINE // 16
    per = line_of(size)
    return (inner // per * block_bytes(feed) + inner % per * size) // 16


def free_step(feed: Feed) -> int:
    """How far 64 rows (columns) lie behind the first ones, for a descriptor."""
    return (64 * LINE if feed.side.along_inner else block_bytes(feed)) // 16
