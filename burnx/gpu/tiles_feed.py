"""From global to local memory: how the threads of a group share the loading of one operand's tile.

``Feed`` says which elements a thread takes: ``turns`` times ``vector`` neighbours, the next ``step`` rows (columns) or
inner places further.  A row or column beyond the last one is the last one again, for its sums are not used; an inner place
beyond the last one is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from burnx.gpu.tiles_frame import Frame, name_column, name_row, scaled, sum_of, unrolled
from burnx.gpu.tiles_product import Loops, Side, Walk
from burnx.shape import Dim, product

Take = Callable[["Feed", str, str], None]


@dataclass(frozen=True, slots=True)
class Feed:
    """The loading of one operand: ``free`` is the tile's extent beside the inner one."""

    frame: Frame
    name: str
    walk: Walk
    side: Side
    free: int

    @property
    def per(self) -> int:
        """Loads side by side, before the next row (column, inner place) begins."""
        tile = self.frame.tile
        return (tile.inner if self.side.along_inner else self.free) // self.side.vector

    @property
    def step(self) -> int:
        return self.frame.threads // self.per

    @property
    def turns(self) -> int:
        tile = self.frame.tile
        return -(-(self.free if self.side.along_inner else tile.inner) // self.step)

    @property
    def is_even(self) -> bool:
        """Whether every thread has something to load in every turn, which is its own."""
        tile = self.frame.tile
        lines = self.free if self.side.along_inner else tile.inner
        return self.frame.threads % self.per == 0 and lines % self.step == 0

    @property
    def starts(self) -> int:
        """Rows (columns) that a thread loads of."""
        return self.turns if self.side.along_inner else 1

    @property
    def loops(self) -> Loops:
        """The inner loops, those that step as one joined."""
        inner = self.frame.product.contract.inner
        joined = inner[len(inner) - self.side.joined :]
        extent: Dim = product(tuple(size for _, size in joined))
        return (*inner[: len(inner) - self.side.joined], (joined[-1][0], extent))


def feeds(frame: Frame) -> tuple[Feed, Feed]:
    tile, whole = frame.tile, frame.product
    return (
        Feed(frame, "left", whole.left, tile.left, tile.rows),
        Feed(frame, "right", whole.right, tile.right, tile.columns),
    )


def write_starts(feed: Feed) -> None:
    """Where the rows (columns) of this thread start, and its first inner place."""
    frame, name, vector = feed.frame, feed.name, feed.side.vector
    writer = frame.writer
    first, second = f"thread % {feed.per} * {vector}", f"thread / {feed.per}"
    if not feed.side.along_inner:
        first, second = second, first
    writer.line(f"const i32 {name}_inner = {first};")
    writer.line(f"const i32 {name}_free = {second};")
    writer.line(f"{writer.index_type} {name}_start[{feed.starts}];")
    with unrolled(writer, f"for (i32 turn = 0; turn < {feed.starts}; turn++)"):
        _write_start(feed)
    if _is_counted(feed):
        _write_counters(feed)


def _write_start(feed: Feed) -> None:
    frame, name = feed.frame, feed.name
    writer, contract = frame.writer, frame.product.contract
    place = f"{name}_free + turn * {feed.step}" if feed.starts > 1 else f"{name}_free"
    free = "row" if name == "left" else "column"
    apart = 1 if feed.side.along_inner else feed.side.vector
    writer.line(f"i32 {free} = {place}, last = {free}_count - first_{free} - {apart};")
    if not feed.is_even:
        writer.line(f"last = last < {feed.free - apart} ? last : {feed.free - apart};")
    writer.line(f"{free} = {free} < last ? {free} : last;")
    if name == "left":
        name_row(frame, "row")
    else:
        name_column(frame, "first_column + column")
    loops = contract.rows if name == "left" else (contract.column,)
    parts = [scaled(writer, writer.called(each), feed.walk.strides[each]) for each, _ in loops]
    writer.line(f"{name}_start[turn] = {sum_of([writer.dim(feed.walk.base), *parts])};")


# --- inner places ---------------------------------------------------------------------------------------------------


def _is_counted(feed: Feed) -> bool:
    """Whether the inner place is several loops that a thread counts through."""
    return feed.side.along_inner and len(feed.loops) > 1


def _write_counters(feed: Feed) -> None:
    """This thread's inner place as counters, from the innermost loop outwards, and as an offset."""
    writer, name = feed.frame.writer, feed.name
    first = sum_of([feed.frame.inner_ends[0], f"{name}_inner"])
    for place in range(len(feed.loops)):
        writer.line(f"i32 {name}_count{place} = {first if place == 0 else '0'};")
    step = writer.factor(feed.walk.strides[feed.loops[-1][0]])
    writer.line(f"{writer.index_type} {name}_offset = ({first}) * {step};")
    _write_carries(feed)


def _write_carries(feed: Feed) -> None:
    """Counters that reached their ends start again, and the next ones go on."""
    writer, name, loops = feed.frame.writer, feed.name, feed.loops[::-1]
    size = writer.factor(loops[0][1])
    with writer.block(f"while ({name}_count0 >= {size} && inner_count > 0)"):
        for place, ((inner, extent), (outer, _)) in enumerate(pairwise(loops)):
            step, jump = (writer.factor(feed.walk.strides[each]) for each in (inner, outer))
            size = writer.factor(extent)
            if place:
                writer.line(f"if ({name}_count{place} < {size}) continue;")
            writer.line(f"{name}_count{place} -= {size};")
            writer.line(f"{name}_offset += {jump} - {size} * {step};")
            writer.line(f"{name}_count{place + 1}++;")


def write_step(feed: Feed) -> None:
    """Go on to the next tile along the inner extent."""
    writer, name, inner = feed.frame.writer, feed.name, feed.frame.tile.inner
    if _is_counted(feed):
        step = writer.factor(feed.walk.strides[feed.loops[-1][0]])
        writer.line(f"{name}_count0 += {inner};")
        writer.line(f"{name}_offset += {inner} * {step};")
        _write_carries(feed)


def inner_offset(feed: Feed, place: str) -> str:
    """The offset of an inner place; what it is made of is written before."""
    writer, loops = feed.frame.writer, feed.loops
    if _is_counted(feed):
        return f"{feed.name}_offset"
    if len(loops) == 1:
        return scaled(writer, place, feed.walk.strides[loops[0][0]])
    parts = []
    writer.line(f"i32 rest = {place};")
    for index, (variable, extent) in reversed(list(enumerate(loops))):
        stride = feed.walk.strides[variable]
        part = f"rest % {writer.factor(extent)}" if index else "rest"
        writer.line(
            f"const {writer.index_type} part{index} = {scaled(writer, f'({part})', stride)};"
        )
        parts.append(f"part{index}")
        if index:
            writer.line(f"rest /= {writer.factor(extent)};")
    return sum_of(parts)


def each_load(feed: Feed, write: Take, first: str) -> None:
    """Write the loads of a thread: ``write`` is given (turn, place of the element, whether it is inside)."""
    frame, name = feed.frame, feed.name
    writer = frame.writer
    if feed.side.along_inner:
        writer.line(f"const i32 {name}_at = {first} + {name}_inner;")
        writer.line(f"const {writer.index_type} {name}_step = {inner_offset(feed, f'{name}_at')};")
    with unrolled(writer, f"for (i32 turn = 0; turn < {feed.turns}; turn++)"):
        if not feed.side.along_inner:
            writer.line(f"const i32 {name}_at = {first} + {name}_inner + turn * {feed.step};")
            offset = inner_offset(feed, f"{name}_at")
            writer.line(f"const {writer.index_type} {name}_step = {offset};")
        start = f"{name}_start[{'turn' if feed.starts > 1 else '0'}]"
        write(feed, f"{start} + {name}_step", f"{name}_at < inner_count")


def local_places(feed: Feed) -> tuple[str, str]:
    """(free place, inner place) in the tile of the first element of a turn."""
    name = feed.name
    along, other = f"{name}_inner", f"{name}_free"
    if feed.side.along_inner:
        return (f"({other} + turn * {feed.step})", along)
    return (other, f"({along} + turn * {feed.step})")


def guard(feed: Feed) -> str:
    """The condition under which a turn has something to do; empty where it always has."""
    if feed.is_even:
        return ""
    free, inner = local_places(feed)
    limit = feed.free if feed.side.along_inner else feed.frame.tile.inner
    return f"{free if feed.side.along_inner else inner} < {limit}"
