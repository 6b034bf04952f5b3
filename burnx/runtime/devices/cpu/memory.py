"""The memory of a running program."""

from __future__ import annotations

import mmap
from contextlib import suppress
from weakref import WeakSet

import numpy as np

from burnx.errors import ModelError

ALIGNMENT = 64
HUGE_PAGE = 2 << 20


class Workspace:
    """Zeroed memory that goes back to the system as soon as nobody refers to it, at an aligned address."""

    __slots__ = ("__weakref__", "_map", "address", "array")

    def __init__(self, size_bytes: int) -> None:
        huge = size_bytes >= HUGE_PAGE
        alignment = HUGE_PAGE if huge else ALIGNMENT
        try:
            self._map = mmap.mmap(-1, size_bytes + alignment)
        except (OSError, OverflowError, MemoryError) as error:
            raise ModelError(f"not enough memory to run, {size_bytes} bytes: {error}") from error
        if huge and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without huge pages
                self._map.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(self._map, np.uint8)
        start = -whole.ctypes.data % alignment
        self.array = whole[start : start + size_bytes]
        self.address: int = self.array.ctypes.data
        live_workspaces.add(self)


live_workspaces: WeakSet[Workspace] = WeakSet()
