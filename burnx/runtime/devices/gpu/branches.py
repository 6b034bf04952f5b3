"""Which launches of a plan must wait for which: those that meet in memory, where one of them writes.

Only the order within a plan is loosened; what a device makes of it (``Driver.record``) is its own affair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnx.fusion.storage import Storage
from burnx.runtime.compiled.layout import size_bytes
from burnx.runtime.compiled.lines import Task
from burnx.runtime.devices.gpu.flow import Flow, Run
from burnx.runtime.devices.gpu.launches import Sizes, Waits

MOST = 4096  # launches; longer plans stay one behind the other
Stretch = tuple[int, int]  # bytes of the arena: first, and the one after the last
SPARE: Stretch = (-2, -1)  # what libraries' products share beside the arena


@dataclass(slots=True)
class _Memory:
    """Which launches have read and written what, as far as they can still be met."""

    read: dict[Stretch, list[int]] = field(default_factory=dict)
    written: dict[Stretch, list[int]] = field(default_factory=dict)

    def note_read(self, stretch: Stretch, line: int) -> set[int]:
        """Launches that a reader must wait for."""
        self.read.setdefault(stretch, []).append(line)
        return _who_met(self.written, stretch)

    def note_write(self, stretch: Stretch, line: int) -> set[int]:
        """Launches that a writer must wait for.  Who wrote or read only what is written now is met through it."""
        found = _who_met(self.written, stretch) | _who_met(self.read, stretch)
        for noted in (self.written, self.read):
            for inner in [each for each in noted if _is_within(each, stretch)]:
                del noted[inner]
        self.written[stretch] = [line]
        return found - {line}


def _who_met(noted: Mapping[Stretch, Sequence[int]], stretch: Stretch) -> set[int]:
    first, last = stretch
    met = [lines for (start, stop), lines in noted.items() if start < last and first < stop]
    return {line for lines in met for line in lines}


def _is_within(inner: Stretch, outer: Stretch) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def find_waits(
    flow: Sequence[Flow],
    tasks: Sequence[Task],
    offsets: Mapping[Storage, int],
    sizes: Sizes,
    workers: int,
    shared: Sequence[bool],
) -> Waits:
    """For each launch those before it that it must wait for; empty where all are one behind the other.

    ``shared`` says of each launch whether it works in the memory that libraries' products share.
    """
    lines = [each.line for each in flow if isinstance(each, Run)]
    if len(lines) < len(flow) or lines != list(range(len(tasks))) or len(lines) > MOST:
        return ()
    memory, waits = _Memory(), []
    for line, task in enumerate(tasks):
        reads, writes = _stretches(task, offsets, sizes, workers)
        found = {each for stretch in reads for each in memory.note_read(stretch, line)}
        for stretch in [*writes, *([SPARE] if shared[line] else [])]:
            found |= memory.note_write(stretch, line)
        waits.append(found)
    reduced = reduce_waits(waits)
    return () if reduced == tuple((line - 1,) * (line > 0) for line in lines) else reduced


def _stretches(
    task: Task, offsets: Mapping[Storage, int], sizes: Sizes, workers: int
) -> tuple[list[Stretch], list[Stretch]]:
    """What a launch reads, and what it writes; a constant is nobody's to write."""
    reads: list[Stretch] = []
    writes: list[Stretch] = []
    written = {storage.root for storage in task.writes}
    for root in {storage.root for storage in task.storages}:
        if root.role == "constant":
            continue
        scratch = root.role == "scratch"
        size = size_bytes(root, sizes) * (workers if scratch else 1)
        stretch = offsets[root], offsets[root] + size
        (writes if scratch or root in written else reads).append(stretch)
    return reads, writes


def reduce_waits(waits: Sequence[set[int]]) -> Waits:
    """The same order without those that are waited for by others that are waited for."""
    before: list[int] = []  # all that each one waits for in the end, as bits
    reduced = []
    for found in waits:
        kept, covered = [], 0
        for each in sorted(found, reverse=True):
            if not covered >> each & 1:
                kept.append(each)
                covered |= before[each] | 1 << each
        before.append(covered)
        reduced.append(tuple(sorted(kept)))
    return tuple(reduced)


# --- lanes ------------------------------------------------------------------------------------------------------------

LANES = 8


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a launch stands: behind the last one of its lane, after ``others`` that stand in other lanes."""

    number: int
    others: tuple[int, ...]


def assign_lanes(waits: Waits) -> list[Lane]:
    """Lanes for launches, so that who need not wait for each other stand side by side as far as there are lanes."""
    lanes: list[Lane] = []
    last: list[int] = []  # the last launch of each lane
    behind: list[int] = []  # all that stand before each launch, as bits
    for place, found in enumerate(waits):
        covered = 0
        for each in found:
            covered |= behind[each] | 1 << each
        number = _pick_lane(found, last, covered)
        if number == len(last):
            last.append(place)
        elif not covered >> last[number] & 1:
            covered |= behind[last[number]] | 1 << last[number]
        lanes.append(Lane(number, tuple(each for each in found if lanes[each].number != number)))
        last[number] = place
        behind.append(covered)
    return lanes


def _pick_lane(found: Sequence[int], last: Sequence[int], covered: int) -> int:
    """A lane that ends with what is waited for anyway; else a new one; else the one that has been left alone longest."""
    ends = [number for number, each in enumerate(last) if each in found]
    ends += [number for number, each in enumerate(last) if covered >> each & 1]
    if ends:
        return ends[0]
    if len(last) < LANES:
        return len(last)
    return min(range(LANES), key=lambda number: last[number])
