"""Memory with a forbidden page on either side: who reads or writes outside of an array ends the process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

Array = np.ndarray[Any, Any]
PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


def protect(address: int, size: int) -> None:
    """Nobody may touch these pages any more."""
    assert _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0) == 0


def guarded(size_bytes: int, at_end: bool = True) -> Array:
    """Bytes that end (or begin) where a forbidden page begins (or ends)."""
    inner = max(-(-size_bytes // PAGE), 1) * PAGE
    whole = np.frombuffer(mmap.mmap(-1, inner + 2 * PAGE), np.uint8)
    address = whole.ctypes.data
    protect(address, PAGE)
    protect(address + PAGE + inner, PAGE)
    start = PAGE + inner - size_bytes if at_end else PAGE
    whole[PAGE : PAGE + inner] = 0xA5
    return whole[start : start + size_bytes]


def guarded_copy(array: Array, at_end: bool = True) -> Array:
    """The same elements where nothing beside them can be touched, read-only."""
    memory = guarded(array.nbytes, at_end).view(array.dtype)
    result = memory.reshape(array.shape)
    result[...] = array
    result.flags.writeable = False
    return result


class GuardedWorkspace:
    """An arena whose storages have a forbidden page between them; see ``spread_out``."""

    forbidden: list[int]  # offsets of pages
    size: int

    def __init__(self, size_bytes: int) -> None:
        self.array = np.frombuffer(mmap.mmap(-1, size_bytes + PAGE), np.uint8)
        self.address = self.array.ctypes.data
        for offset in type(self).forbidden:
            if offset + PAGE <= size_bytes:
                protect(self.address + offset, PAGE)


def spread_out(intervals: Any) -> tuple[list[int], int]:
    """Places for storages that end at forbidden pages, but for the 64 bytes of alignment."""
    places, end = [], 0
    GuardedWorkspace.forbidden = []
    for size, _, _ in intervals:
        inner = max(-(-size // PAGE), 1) * PAGE
        GuardedWorkspace.forbidden.append(end)
        places.append(end + PAGE + inner - -(-size // 64) * 64)
        end += PAGE + inner
    GuardedWorkspace.forbidden.append(end)
    return places, end + PAGE


@contextmanager
def guarded_memory() -> Iterator[None]:
    """Outputs and the values between kernels lie apart."""

    def empty(shape: tuple[int, ...], dtype: Any) -> Array:
        count = int(np.prod(shape, dtype=np.int64))
        return guarded(count * dtype.itemsize).view(dtype).reshape(shape)

    native, plans = "burnx.runtime.devices.cpu.native", "burnx.runtime.devices.cpu.plans"
    with (
        mock.patch(f"{native}._empty", empty),
        mock.patch("burnx.runtime.compiled.layout.plan_arena", spread_out),
        mock.patch(f"{plans}.Workspace", GuardedWorkspace),
    ):
        yield
