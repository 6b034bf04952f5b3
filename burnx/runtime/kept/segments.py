"""Native code of segments that are known by their instructions and constants: modules, models in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from burnx.runtime.compiled.segments import Segment
from burnx.runtime.kept.codec import Unkeepable
from burnx.runtime.kept.constants import Find, Places
from burnx.runtime.kept.entries import Constants, Entries, find_entries
from burnx.runtime.kept.identity import Stamp, segment_key
from burnx.runtime.kept.models import DAMAGED, Read, Write
from burnx.runtime.kept.shared import SharedConstants, find_shared
from burnx.runtime.kept.sums import Sums

Array = np.ndarray[Any, Any]

LEAST = 8  # instructions: fewer are built as fast as they are found


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """Where the native code of a segment is kept; ``constants`` are the segment's own, which are not."""

    entries: Entries
    name: str
    segment: Segment
    constants: list[Array]
    shared: SharedConstants

    def find(self, read: Read) -> Any:
        """The native code that is kept, as the device reads it; None if there is none that can be used."""
        entry = self.entries.read(self.name)
        if entry is None:
            return None
        sums = Sums()
        find: dict[str, Find] = {
            "kept": lambda number: entry.constants,
            "given": lambda number: as_bytes(self.constants[number]),
            "shared": partial(find_shared, self.entries, sums),
        }
        ends = (self.segment.inputs, self.segment.outputs)
        try:
            found = read(entry.head, entry.read_body, ends, find)
        except DAMAGED:
            found = None
        return None if sums.settle() else found

    def keep(self, native: Any, write: Write) -> None:
        """Keep native code that has run."""
        ranges = sorted(
            (each.__array_interface__["data"][0], each.nbytes, number)
            for number, each in enumerate(self.constants)
            if each.flags.forc and each.nbytes
        )

        def locate(array: Array) -> list[Any] | None:
            start = array.__array_interface__["data"][0]
            for first, size, number in ranges:
                if first <= start and start + array.nbytes <= first + size:
                    return ["given", number, start - first]
            return None

        constants = Constants()
        try:
            head, body = write(native, Places(constants, locate, self.shared.place))
        except Unkeepable:
            return
        head["about"] = dict(self.shared.stamp.describe())
        self.entries.write(self.name, head, body, constants, list(self.shared.made.values()))


def find_slot(segment: Segment, fuse: bool, stamp: Stamp) -> Slot | None:
    """Where a segment's native code is kept; None if it is not."""
    entries = find_entries() if len(segment.instructions) >= LEAST else None
    if entries is None:
        return None
    ends, shared = (segment.inputs, segment.outputs), SharedConstants(entries, stamp)
    try:
        name, constants = segment_key(stamp, segment.instructions, ends, [fuse], shared.keys)
    except Unkeepable:
        return None
    return Slot(entries, name, segment, constants, shared)


def as_bytes(array: Array) -> Array:
    """The memory of an array that has no gaps."""
    return (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
