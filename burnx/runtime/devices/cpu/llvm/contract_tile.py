"""The innermost part of a contraction: a few rows times a few vectors of columns, summed in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx.runtime.devices.cpu.llvm import contract_int8
from burnx.runtime.devices.cpu.llvm.contract_numbers import (
    Numbers,
    load,
    multiply_add,
    vector,
)
from burnx.runtime.devices.cpu.llvm.contract_rows import count_loop
from burnx.runtime.devices.cpu.llvm.writer import Ssa, Writer, integer


@dataclass(frozen=True, slots=True)
class Inner:
    """One loop over k: its extent, and how many bytes left and right move in a turn."""

    extent: Ssa
    left: Ssa
    right: Ssa


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of the sums: rows, and vectors of ``lanes`` columns behind every right pointer."""

    numbers: Numbers
    vectors: int
    lanes: int

    @property
    def type(self) -> str:
        return vector(self.lanes, self.numbers.type)


def emit_tile(
    writer: Writer, tile: Tile, lefts: Sequence[Ssa], rights: Sequence[Ssa], inner: Sequence[Inner]
) -> list[Ssa]:
    """The sums of every left row with the columns at every right pointer: by row, right pointer and vector."""
    zero = Ssa("zeroinitializer", tile.type)
    sums = [zero] * (len(lefts) * len(rights) * tile.vectors)
    return _emit_loops(writer, tile, lefts, rights, inner, sums)


def _emit_loops(
    writer: Writer,
    tile: Tile,
    lefts: Sequence[Ssa],
    rights: Sequence[Ssa],
    inner: Sequence[Inner],
    sums: list[Ssa],
) -> list[Ssa]:
    loop, deeper = inner[0], inner[1:]
    zero = integer(0)

    def turn(_: Ssa, carried: list[Ssa]) -> list[Ssa]:
        left, right, now = carried[0], carried[1], carried[2:]
        ours = [move(writer, each, right) for each in rights]
        if deeper:
            rows = [move(writer, each, left) for each in lefts]
            after = _emit_loops(writer, tile, rows, ours, deeper, now)
        else:
            after = _emit_turn(writer, tile, [(each, left) for each in lefts], ours, now)
        left = writer.binary("add nsw", left, loop.left)
        right = writer.binary("add nsw", right, loop.right)
        return [left, right, *after]

    return count_loop(writer, loop.extent, turn, [zero, zero, *sums])[2:]


def _emit_turn(
    writer: Writer,
    tile: Tile,
    lefts: Sequence[tuple[Ssa, Ssa]],
    rights: Sequence[Ssa],
    sums: Sequence[Ssa],
) -> list[Ssa]:
    step = tile.lanes * tile.numbers.right_bytes
    columns = [
        _right(writer, tile, move(writer, right, integer(step * place)))
        for right in rights
        for place in range(tile.vectors)
    ]
    after: list[Ssa] = []
    for base, offset in lefts:
        factor = _left(writer, tile, move(writer, base, offset))
        for column in columns:
            after.append(_multiply_add(writer, tile, (factor, column), sums[len(after)]))
    return after


def _left(writer: Writer, tile: Tile, pointer: Ssa) -> Ssa:
    numbers = tile.numbers
    if numbers.together > 1:
        return contract_int8.left_factor(writer, pointer, tile.lanes)
    return writer.splat(load(writer, pointer, numbers.left, numbers.total, 1), tile.lanes)


def _right(writer: Writer, tile: Tile, pointer: Ssa) -> Ssa:
    numbers = tile.numbers
    if numbers.together > 1:
        return contract_int8.right_factor(writer, numbers, pointer, tile.lanes)
    return load(writer, pointer, numbers.right, numbers.total, tile.lanes)


def _multiply_add(writer: Writer, tile: Tile, factors: tuple[Ssa, Ssa], total: Ssa) -> Ssa:
    if tile.numbers.together > 1:
        return contract_int8.multiply_add(writer, tile.numbers, factors, total, tile.lanes)
    return multiply_add(writer, *factors, total)


def move(writer: Writer, pointer: Ssa, size_bytes: Ssa) -> Ssa:
    """The pointer some bytes further."""
    if size_bytes.name == "0":
        return pointer
    return writer.pointer(pointer, size_bytes, "i8")
