"""Where in one arena each buffer of a running program lies.

Two buffers may lie at the same place if no step needs both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

ALIGNMENT = 64
CLOSE = 1.02  # to the least possible: no other order is tried

Interval = tuple[int, int, int]  # bytes, first step, last step


def plan_arena(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Where each buffer lies, in bytes from the start, and how many bytes that takes in all.

    A buffer is needed from its first step to its last.  Large buffers are placed first, each in the tightest gap
    between those that are needed at the same time; of several orders the one that takes least is kept.
    """
    sizes = [_align(size) for size, _, _ in intervals]
    least = lower_bound(intervals)
    best: tuple[list[int], int] = ([0] * len(sizes), 0)
    for number, order in enumerate(_list_orders(intervals)):
        found = _place(order, sizes, intervals)
        if number == 0 or found[1] < best[1]:
            best = found
        if best[1] <= least * CLOSE:
            break
    return best


def lower_bound(intervals: Sequence[Interval]) -> int:
    """The bytes that are needed at once in the step that needs most: no plan takes less."""
    changes: dict[int, int] = {}
    for size, first, last in intervals:
        changes[first] = changes.get(first, 0) + _align(size)
        changes[last + 1] = changes.get(last + 1, 0) - _align(size)
    live = most = 0
    for step in sorted(changes):
        live += changes[step]
        most = max(most, live)
    return most


def _align(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _list_orders(intervals: Sequence[Interval]) -> list[list[int]]:
    """Orders to try: by size, by first step."""
    numbers = range(len(intervals))

    def by_size(number: int) -> tuple[int, int]:
        size, first, last = intervals[number]
        return -size, first - last

    def by_time(number: int) -> tuple[int, int]:
        size, first, _ = intervals[number]
        return first, -size

    return [sorted(numbers, key=key) for key in (by_size, by_time)]


def _place(
    order: Sequence[int], sizes: Sequence[int], intervals: Sequence[Interval]
) -> tuple[list[int], int]:
    starts, ends = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    taken: list[tuple[int, int]] = []  # by rank, as ``starts`` and ``ends``
    for rank, neighbours in enumerate(_find_neighbours(order, intervals)):
        size = sizes[order[rank]]
        if neighbours.bit_count() < _MANY:
            start = _find_gap(sorted(taken[each] for each in _list_bits(neighbours)), size)
        else:
            chosen = _list_many_bits(neighbours)
            start = _find_gap_of_many(starts[chosen], ends[chosen], size)
        taken.append((start, start + size))
        starts[rank], ends[rank] = taken[-1]
    offsets = [0] * len(order)
    for number, (start, _) in zip(order, taken, strict=True):
        offsets[number] = start
    return offsets, int(ends.max(initial=0))


_MANY = 48  # from here on NumPy is faster


def _find_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap that is large enough, else the end of all."""
    best, tightest, end = -1, 0, 0
    for low, high in taken:
        gap = low - end
        if gap >= size and (best < 0 or gap < tightest):
            best, tightest = end, gap
        if high > end:
            end = high
    return end if best < 0 else best


def _find_gap_of_many(starts: np.ndarray, ends: np.ndarray, size: int) -> int:
    order = np.argsort(starts, kind="stable")
    reached = np.concatenate(([0], np.maximum.accumulate(ends[order])))
    gaps = starts[order] - reached[:-1]
    fitting = np.flatnonzero(gaps >= size)
    return int(reached[fitting[np.argmin(gaps[fitting])]] if fitting.size else reached[-1])


def _find_neighbours(order: Sequence[int], intervals: Sequence[Interval]) -> Iterator[int]:
    """For each rank, as bits, the ranks before it that are needed at the same time."""
    started, ended = _Sets(order, intervals, 1), _Sets(order, intervals, 2)
    for rank, number in enumerate(order):
        _, first, last = intervals[number]
        yield started.until(last) & ~ended.until(first - 1) & ((1 << rank) - 1)


class _Sets:
    """For each step the buffers, as bits by rank, whose first (or last) step is not after it."""

    def __init__(self, order: Sequence[int], intervals: Sequence[Interval], field: int) -> None:
        at: dict[int, int] = {}
        for rank, number in enumerate(order):
            step = intervals[number][field]
            at[step] = at.get(step, 0) | 1 << rank
        self._steps = sorted(at)
        self._sets = [0]
        for step in self._steps:
            self._sets.append(self._sets[-1] | at[step])

    def until(self, step: int) -> int:
        return self._sets[bisect_right(self._steps, step)]


def _list_bits(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _list_many_bits(bits: int) -> np.ndarray:
    packed = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little"))
