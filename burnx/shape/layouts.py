"""How a value that was reshaped and transposed lies in the memory of what it was made from.

Axes are taken apart into the pieces that moved as one.  A step in between may have axes that are scattered in memory; what
matters is whether those of the last one lie together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx.shape.broadcasting import product
from burnx.shape.expr import Dim, Shape, exact_quotient


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """An axis of memory, or a part of one; compared by identity."""

    size: Dim


Pieces = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """``memory``: all pieces, the outermost first; ``axes``: those of each axis of the value, the outermost first."""

    memory: Pieces
    axes: tuple[Pieces, ...]

    @property
    def shape(self) -> Shape:
        return tuple(product(piece.size for piece in axis) for axis in self.axes)


def layout_of(shape: Shape, order: Sequence[int]) -> Layout:
    """That of a value whose axes lie in this order."""
    pieces = [Piece(size) for size in shape]
    return Layout(tuple(pieces[axis] for axis in order), tuple((piece,) for piece in pieces))


def order_of(layout: Layout) -> tuple[int, ...] | None:
    """The order of the value's axes in memory; None if the pieces of one do not lie together.

    An axis of one element lies before the next one that has more.
    """
    places = {piece: place for place, piece in enumerate(layout.memory)}
    keys: list[tuple[int, int]] = []
    last = len(places)
    for number, axis in reversed(list(enumerate(layout.axes))):
        if axis:
            last = places[axis[0]]
            if [places[piece] for piece in axis] != list(range(last, last + len(axis))):
                return None
        keys.append((last, number))
    return tuple(number for _, number in sorted(keys))


def transposed(layout: Layout, perm: Sequence[int]) -> Layout:
    """The layout of a value with its axes in another order."""
    return Layout(layout.memory, tuple(layout.axes[axis] for axis in perm))


def reshaped(layout: Layout, target: Shape) -> Layout | None:
    """The layout of the same elements under another shape; None if it has an axis that is no whole number of pieces."""
    source = layout.shape
    if 0 in source or 0 in target:
        return None
    memory = [piece for piece in layout.memory if piece.size != 1]
    axes: list[Pieces] = []
    for (low, high), (start, stop) in matching_runs(source, target):
        pieces = [p for axis in layout.axes[low:high] for p in axis if p.size != 1]
        dealt = _dealt(pieces, target[start:stop], memory)
        if dealt is None:
            return None
        axes += dealt
    return Layout(tuple(memory), tuple(axes))


def _dealt(pieces: list[Piece], sizes: Shape, memory: list[Piece]) -> list[Pieces] | None:
    """The pieces of each of these axes, in turn; larger ones are taken apart, in ``memory`` as well."""
    left, axes, parted = list(pieces), [], dict[Piece, Pieces]()
    for size in sizes:
        axis: list[Piece] = []
        while (missing := exact_quotient(size, product(piece.size for piece in axis))) != 1:
            if missing is None or not left:
                return None
            if exact_quotient(missing, left[0].size) is None:
                rest = exact_quotient(left[0].size, missing)
                if rest is None:
                    return None
                whole, parts = left[0], (Piece(missing), Piece(rest))
                parted[whole] = parts
                left[:1] = parts
            axis.append(left.pop(0))
        axes.append(tuple(axis))
    if left:
        return None
    memory[:] = _parted(memory, parted)
    return axes


def _parted(memory: Sequence[Piece], parted: dict[Piece, Pieces]) -> list[Piece]:
    """The pieces of memory, those that were taken apart as their parts."""
    found: list[Piece] = []
    for piece in memory:
        found += _parted(parted[piece], parted) if piece in parted else [piece]
    return found


def matching_runs(source: Shape, target: Shape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of runs of axes, one of each shape, that hold the same number of elements."""
    runs = []
    low = start = 0
    while low < len(source) or start < len(target):
        high, stop = min(low + 1, len(source)), min(start + 1, len(target))
        found = _grow_run(source, target, (low, high), (start, stop))
        runs.append(found)
        (_, low), (_, start) = found
    return runs


def _grow_run(
    source: Shape, target: Shape, left: tuple[int, int], right: tuple[int, int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    (low, high), (start, stop) = left, right
    for _ in range(len(source) + len(target) + 1):
        one, two = product(source[low:high]), product(target[start:stop])
        if one == two:
            return (low, high), (start, stop)
        if isinstance(one, int) and isinstance(two, int) and one != two:
            grow_source = one < two
        else:
            grow_source = len(str(one)) <= len(str(two)) and one != two
        if (grow_source and high < len(source)) or stop >= len(target):
            high = min(high + 1, len(source))
        else:
            stop = min(stop + 1, len(target))
        if high == len(source) and stop == len(target):
            break
    return (low, len(source)), (start, len(target))
