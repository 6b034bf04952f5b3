"""The innermost part of a contraction: a few rows times a few vectors of columns, summed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from burnx.dtype import dtype_name
from burnx.llvm.contractions import int8
from burnx.llvm.contractions.numbers import (
    Numbers,
    load,
    multiply_add,
    vector,
)
from burnx.llvm.contractions.rows import count_loop
from burnx.llvm.writer import Ssa, Writer, integer

LINE_BYTES = 64
AHEAD = Ssa("%ahead", "i64")
SPILLED = Ssa("%spilled", "i64")


@dataclass(frozen=True, slots=True)
class Inner:
    """One loop over k: its extent, and how many bytes left and right move in a turn.

    ``spilled``: how many turns more go through what was spilled when the right side was packed.
    """

    extent: Ssa
    left: Ssa
    right: Ssa
    spilled: Ssa | None = None


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of the sums: ``rows``, ``vectors`` of ``lanes`` columns behind every one of ``rights`` pointers.

    In memory the rows of the sums are ``apart`` columns apart.  ``ahead``: while it reads a panel it asks for the next.
    """

    numbers: Numbers
    rows: int
    rights: int
    vectors: int
    lanes: int
    apart: int
    ahead: bool = False

    @property
    def type(self) -> str:
        return vector(self.lanes, self.numbers.type)


@dataclass(frozen=True, slots=True)
class Sides:
    """A tile and where its rows and panels are; ``ahead`` are the bytes to the next panel."""

    tile: Tile
    lefts: Sequence[Ssa]
    rights: Sequence[Ssa]
    ahead: Ssa


def call_tile(
    writer: Writer,
    tile: Tile,
    left: Ssa,
    rights: Sequence[Ssa],
    inner: Sequence[Inner],
    sums: Ssa,
    ahead: Ssa | None = None,
) -> None:
    """Store the sums of some rows; ``left`` is where the pointers to the rows are, ``ahead`` the bytes of a panel.

    A tile is a function of its own: among other code LLVM runs out of registers for it, and moves sums to the stack.
    """
    tile = replace(tile, ahead=ahead is not None)
    values = [part for loop in inner for part in (loop.extent, loop.left, loop.right)]
    known = [each if _is_number(each) else None for each in values]
    name = _name(tile, known)
    if name not in writer.declarations:
        writer.declarations[name] = ""  # its place: before what it needs itself
        writer.declarations[name] = _emit_function(name, writer.declarations, tile, known)
    given = [each for each in values if not _is_number(each)]
    given += [each for each in (ahead, inner[-1].spilled) if each is not None]
    listed = ", ".join(map(str, (left, sums, *rights, *given)))
    writer.line(f"call void @{name}({listed})")


def inline_tile(
    writer: Writer,
    tile: Tile,
    left: Ssa,
    rights: Sequence[Ssa],
    inner: Sequence[Inner],
    ahead: Ssa,
) -> list[Ssa]:
    """The sums of a tile worked out here, row after row, where they are wanted in registers."""
    return _emit_sums(writer, replace(tile, ahead=True), left, rights, inner, ahead)


def _is_number(value: Ssa) -> bool:
    return value.name.lstrip("-").isdigit()


def _name(tile: Tile, known: Sequence[Ssa | None]) -> str:
    numbers = tile.numbers
    dtypes = "_".join(dtype_name(each) for each in (numbers.left, numbers.right, numbers.total))
    sums = (tile.rows, tile.rights, tile.vectors, tile.lanes, tile.apart)
    shape = (*sums, numbers.together, int(numbers.spills), int(tile.ahead))
    steps = "_".join("n" if each is None else each.name.replace("-", "m") for each in known)
    return f"tile_{'x'.join(map(str, shape))}_{dtypes}_{steps}"


def _emit_function(
    name: str, declarations: dict[str, str], tile: Tile, known: Sequence[Ssa | None]
) -> str:
    writer = Writer(declarations=declarations)
    left, sums = Ssa("%left", "ptr"), Ssa("%sums", "ptr")
    rights = [Ssa(f"%right{place}", "ptr") for place in range(tile.rights)]
    given = [each or Ssa(f"%given{place}", "i64") for place, each in enumerate(known)]
    inner = [Inner(*given[place : place + 3]) for place in range(0, len(given), 3)]
    parameters = [left, sums, *rights, *(each for each in given if not _is_number(each))]
    parameters += [AHEAD] if tile.ahead else []
    parameters += [SPILLED] if tile.numbers.spills else []
    if tile.numbers.spills:
        inner = [*inner[:-1], replace(inner[-1], spilled=SPILLED)]
    _keep(writer, tile, _emit_sums(writer, tile, left, rights, inner, AHEAD), sums)
    writer.line("ret void")
    head = f"define internal void @{name}({', '.join(map(str, parameters))}) noinline nounwind {{"
    return "\n".join([head, "entry:", *writer.lines, "}"])


def _emit_sums(
    writer: Writer,
    tile: Tile,
    left: Ssa,
    rights: Sequence[Ssa],
    inner: Sequence[Inner],
    ahead: Ssa,
) -> list[Ssa]:
    lefts = [
        writer.load("ptr", writer.pointer(left, integer(row), "ptr"), 8) for row in range(tile.rows)
    ]
    zero = Ssa("zeroinitializer", tile.type)
    first = [zero] * (tile.rows * tile.rights * tile.vectors)
    sides = Sides(tile, lefts, rights, ahead)
    totals = _emit_loops(writer, sides, inner, first)
    if inner[0].spilled is not None:
        for place in range(len(rights)):
            _emit_spilled(writer, sides, place, inner[0], totals)
    return totals


def _keep(writer: Writer, tile: Tile, sums: Sequence[Ssa], where: Ssa) -> None:
    for place, each in enumerate(sums):
        row, across = divmod(place, tile.rights * tile.vectors)
        slot = integer(row * tile.apart + across * tile.lanes)
        size = tile.lanes * tile.numbers.total.itemsize
        writer.store(each, writer.pointer(where, slot, tile.numbers.type), size)


def _emit_loops(writer: Writer, sides: Sides, inner: Sequence[Inner], sums: list[Ssa]) -> list[Ssa]:
    """One loop over k inside the other.  Left rows share an offset that moves, right pointers move themselves."""
    loop, deeper = inner[0], inner[1:]
    many = len(sides.rights)

    def turn(_: Ssa, carried: list[Ssa]) -> list[Ssa]:
        left, ours, now = carried[0], carried[1 : 1 + many], carried[1 + many :]
        if deeper:
            rows = [move(writer, each, left) for each in sides.lefts]
            there = replace(sides, lefts=rows, rights=ours)
            after = _emit_loops(writer, there, deeper, now)
        else:
            if sides.tile.ahead:
                _ask_for(writer, sides.tile, move(writer, ours[0], sides.ahead))
            lefts = [(each, left) for each in sides.lefts]
            after = _emit_turn(writer, sides.tile, lefts, ours, now)
        left = writer.binary("add nsw", left, loop.left)
        return [left, *(move(writer, each, loop.right) for each in ours), *after]

    return count_loop(writer, loop.extent, turn, [integer(0), *sides.rights, *sums])[1 + many :]


def _emit_spilled(writer: Writer, sides: Sides, place: int, loop: Inner, sums: list[Ssa]) -> None:
    """Add to the sums of a panel what was spilled when it was packed."""
    tile, right, spilled = sides.tile, sides.rights[place], loop.spilled
    assert spilled is not None
    count, width = tile.vectors, tile.rights * tile.vectors
    ours = [row * width + place * count + each for row in range(tile.rows) for each in range(count)]
    weights = move(writer, right, writer.binary("mul nsw", loop.extent, loop.right))
    step = writer.binary("mul nsw", spilled, loop.right)
    columns = integer(tile.vectors * tile.lanes)
    offsets = writer.pointer(move(writer, weights, step), columns, "i32")

    def turn(entry: Ssa, carried: list[Ssa]) -> list[Ssa]:
        offset = writer.load("i32", writer.pointer(offsets, entry, "i32"), 4)
        offset = writer.convert("sext", offset, "i64")
        here, lefts = carried[0], [(each, offset) for each in sides.lefts]
        after = _emit_turn(writer, tile, lefts, [here], carried[1:])
        return [move(writer, here, loop.right), *after]

    found = count_loop(writer, spilled, turn, [weights, *(sums[each] for each in ours)])
    for slot, total in zip(ours, found[1:], strict=True):
        sums[slot] = total


def _ask_for(writer: Writer, tile: Tile, pointer: Ssa) -> None:
    """Have a panel's row brought into the second cache; any address will do."""
    read, near, data = integer(0, "i32"), integer(2, "i32"), integer(1, "i32")
    row_bytes = tile.vectors * tile.lanes * tile.numbers.right_bytes
    for offset in range(0, row_bytes, LINE_BYTES):
        place = move(writer, pointer, integer(offset))
        writer.call("void", "llvm.prefetch.p0", place, read, near, data)


def _emit_turn(
    writer: Writer,
    tile: Tile,
    lefts: Sequence[tuple[Ssa, Ssa]],
    rights: Sequence[Ssa],
    sums: Sequence[Ssa],
) -> list[Ssa]:
    """One k.  Of factors and columns, the fewer are all in registers, the others one after the other."""
    step = tile.lanes * tile.numbers.right_bytes
    places = [(right, integer(step * place)) for right in rights for place in range(tile.vectors)]
    left = partial(_left, writer, tile)
    right = partial(_right, writer, tile)
    after = list(sums)
    if len(lefts) < len(places):
        factors = [left(move(writer, *each)) for each in lefts]
        for across, each in enumerate(places):
            column = right(move(writer, *each))
            for row, factor in enumerate(factors):
                slot = row * len(places) + across
                after[slot] = _multiply_add(writer, tile, (factor, column), after[slot])
        return after
    columns = [right(move(writer, *each)) for each in places]
    for row, each in enumerate(lefts):
        factor = left(move(writer, *each))
        for slot, column in enumerate(columns, row * len(columns)):
            after[slot] = _multiply_add(writer, tile, (factor, column), after[slot])
    return after


def _left(writer: Writer, tile: Tile, pointer: Ssa) -> Ssa:
    numbers = tile.numbers
    if numbers.together > 1:
        return int8.left_factor(writer, pointer, tile.lanes)
    return writer.splat(load(writer, pointer, numbers.left, numbers.total, 1), tile.lanes)


def _right(writer: Writer, tile: Tile, pointer: Ssa) -> Ssa:
    numbers = tile.numbers
    if numbers.together > 1:
        return int8.right_factor(writer, numbers, pointer, tile.lanes)
    return load(writer, pointer, numbers.right, numbers.total, tile.lanes)


def _multiply_add(writer: Writer, tile: Tile, factors: tuple[Ssa, Ssa], total: Ssa) -> Ssa:
    if tile.numbers.together > 1:
        return int8.multiply_add(writer, tile.numbers, factors, total, tile.lanes)
    return multiply_add(writer, *factors, total)


def move(writer: Writer, pointer: Ssa, size_bytes: Ssa) -> Ssa:
    """The pointer some bytes further."""
    if size_bytes.name == "0":
        return pointer
    return writer.pointer(pointer, size_bytes, "i8")
