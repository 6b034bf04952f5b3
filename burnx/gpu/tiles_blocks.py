"""Small matrices in local memory: how operands are copied there, and read from there for the matrix units.

An operand lies as in global memory: along the inner places, or along its rows (columns), which are then turned on the way to
the registers.
"""

from __future__ import annotations

from burnx.gpu.tiles_feed import Feed, guard, local_places
from burnx.gpu.tiles_frame import pointer

WARP = 32
CHUNK = 16  # bytes of a row of the small matrices that are loaded for the units
DEEP = {2: 16, 4: 8}  # inner places of one multiplication, by the bytes of an element
HIGH, SIDE = 16, 8  # rows and columns of one multiplication


def width_of(feed: Feed) -> int:
    """Elements from one row in local memory to the next, such that small matrices meet all banks."""
    size = feed.walk.buffer.dtype.itemsize
    if feed.side.along_inner:
        return feed.frame.tile.inner + CHUNK // size
    return feed.free + (CHUNK if size == 2 else 2 * CHUNK) // size


def lane_place(feed: Feed, part: str) -> str:
    """The byte that this lane gives for a small matrix at inner place 0, where its part starts at row (column) ``part``."""
    size, width = feed.walk.buffer.dtype.itemsize, width_of(feed)
    free, inner = _lane_places(feed)
    if feed.side.along_inner:
        return f"(({part} + {free}) * {width} + {inner}) * {size}"
    return f"(({inner}) * {width} + {part} + {free}) * {size}"


def _lane_places(feed: Feed) -> tuple[str, str]:
    """(row or column, inner place) that this lane points to, or reads, in a block."""
    size, left = feed.walk.buffer.dtype.itemsize, feed.name == "left"
    if size == 4 and not feed.side.along_inner:
        return "lane / 4", "lane % 4"
    second, third = "lane / 8 % 2 * 8", "lane / 16 * 8"
    if feed.side.along_inner:
        free = f"lane % 8 + {second if left else third}"
        return free, f"lane / {16 if left else 8} % 2 * {CHUNK // size}"
    free = second if left else third
    return free, f"lane % 8 + {third if left else second}"


def write_copy(feed: Feed, place: str, inside: str, to: str) -> None:
    """Copy a turn's elements to the operand's tile that starts at ``to``, or zeros."""
    writer, size = feed.frame.writer, feed.walk.buffer.dtype.itemsize
    free, inner = local_places(feed)
    width = width_of(feed)
    at = f"{free} * {width} + {inner}" if feed.side.along_inner else f"{inner} * {width} + {free}"
    source = pointer(writer, feed.walk.buffer, place, "void")
    even = guard(feed)
    function = f"copy{feed.side.vector * size}"
    with writer.block(f"if ({even})" if even else ""):
        writer.line(f"{function}({to} + ({at}) * {size}, {source}, {inside});")


def slots_of(name: str) -> list[str]:
    """The registers of one block of the left operand, or of two neighbouring ones of the right."""
    if name == "left":
        return [f"left[block][{place}]" for place in range(4)]
    return [f"right[block + {place // 2}][{place % 2}]" for place in range(4)]


def write_read(feed: Feed, slots: list[str], lane: str) -> None:
    """Read the blocks that begin at row (column) ``block`` and inner place ``inner`` into registers."""
    writer, size, width = feed.frame.writer, feed.walk.buffer.dtype.itemsize, width_of(feed)
    side = HIGH if feed.name == "left" else SIDE
    if size == 4 and not feed.side.along_inner:
        _write_single_reads(feed, slots, lane)
    elif feed.side.along_inner:
        at = f"(block * {side} * {width} + inner) * {size}"
        writer.line(f"load_matrices({', '.join(slots)}, {lane} + {at});")
    else:
        at = f"(inner * {width} + block * {side}) * {size}"
        writer.line(f"load_turned_matrices({', '.join(slots)}, {lane} + {at});")


def _write_single_reads(feed: Feed, slots: list[str], lane: str) -> None:
    """The elements one by one: the inner places are apart in memory, and matrices of four bytes do not turn."""
    writer, width, left = feed.frame.writer, width_of(feed), feed.name == "left"
    start = f"block * {HIGH if left else SIDE}"
    for place, slot in enumerate(slots):
        free, inner = place % 2 * 8, place // 2 * 4
        if not left:
            free, inner = place // 2 * 8, place % 2 * 4
        at = f"((inner + {inner}) * {width} + {start} + {free}) * 4"
        writer.line(f"{slot} = load_word({lane} + {at});")
