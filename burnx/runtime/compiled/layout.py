"""Where all storages of a schedule lie, for given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnx.errors import ModelError
from burnx.fusion.storage import Storage
from burnx.runtime.compiled.arena import plan_arena
from burnx.runtime.compiled.lines import Line, Lines, Task, find_lifetimes
from burnx.shape import evaluate

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each storage lies in the arena, the bytes of the whole, and those that start as zero.

    Of these, ``filled`` are then (start, stop, number) of those that start as another number.
    """

    offsets: dict[Storage, int]
    size: int
    zeroed: tuple[int, int]
    filled: tuple[tuple[int, int, int], ...]


def place_all(lines: Lines, sizes: Sizes, threads: int) -> Layout:
    intervals = find_lifetimes(lines)
    bytes_of = {storage: size_bytes(storage, sizes) for storage in intervals}
    plain = [storage for storage in intervals if not storage.zeroed]
    places, total = plan_arena([(bytes_of[each], *intervals[each]) for each in plain])
    offsets = dict(zip(plain, places, strict=True))
    start = _aligned(total)
    end = _place_zeroed(intervals, bytes_of, sizes, offsets, start)
    size = _place_scratch(lines.lines, sizes, threads, offsets, end)
    filled = {
        (offsets[each], offsets[each] + bytes_of[each], each.fill & 0xFF)
        for each in intervals
        if each.fill
    }
    return Layout(offsets, size, (start, end), tuple(sorted(filled)))


def _place_zeroed(
    intervals: Mapping[Storage, tuple[int, int]],
    bytes_of: Mapping[Storage, int],
    sizes: Sizes,
    offsets: dict[Storage, int],
    total: int,
) -> int:
    """Storages with margins share memory with those of the same geometry only: who writes leaves them alone."""
    slots: dict[object, list[list[int]]] = {}  # geometry -> [offset, last step that needs it]
    for storage in sorted((s for s in intervals if s.zeroed), key=lambda each: intervals[each]):
        first, last = intervals[storage]
        extents = tuple(evaluate(size, sizes) for size in storage.extents())
        around = (storage.margin, storage.fill, storage.apart)
        key = (storage.dtype, extents, storage.order, *around)
        taken = slots.setdefault(key, [])
        slot = next((each for each in taken if each[1] < first), None)
        if slot is None:
            slot = [total, last]
            taken.append(slot)
            total += _aligned(bytes_of[storage])
        slot[1] = last
        offsets[storage] = slot[0]
    return total


def _place_scratch(
    lines: Sequence[Line], sizes: Sizes, threads: int, offsets: dict[Storage, int], total: int
) -> int:
    end = total
    for line in lines:
        place = total
        for storage in line.storages if isinstance(line, Task) else ():
            if storage.role == "scratch":
                offsets[storage] = place
                place += _aligned(size_bytes(storage, sizes) * threads)
        end = max(end, place)
    return end


def size_bytes(storage: Storage, sizes: Sizes) -> int:
    size = evaluate(storage.elements(), sizes) * storage.dtype.itemsize
    if size < 0 or size > 1 << 46:
        raise ModelError(f"not enough memory for a value of {size} bytes")
    return size


def _aligned(size: int) -> int:
    return -(-size // 64) * 64
