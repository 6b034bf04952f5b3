"""The memory of an entry's constants: mapped without keeping the file open, for there may be hundreds."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import lru_cache
from typing import IO, Any

import numpy as np

Array = np.ndarray[Any, Any]
_FAILED = ctypes.c_void_p(-1).value
_POPULATE_READ = 22  # of madvise, from Linux 5.14 on


class _Pages:
    """Mapped memory, which is given back when no array refers to it any more."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self.size,), "typestr": "|u1", "data": (self.address, True)}

    def __del__(self) -> None:
        _library().munmap(self.address, self.size)


def map_pages(file: IO[bytes], offset: int, size: int) -> Array:
    """Bytes of a file, which may only be read; ``offset`` is a multiple of ``mmap.ALLOCATIONGRANULARITY``.

    Nothing is read yet.

    Raises: OSError, ValueError.
    """
    if size == 0:
        return np.zeros(0, np.uint8)
    if sys.platform != "linux" or sys.maxsize < 2**32:
        pages = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ, offset=offset)
        return np.frombuffer(pages, np.uint8)
    place = file.fileno(), offset
    address = _library().mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, *place)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), "a file cannot be mapped")
    return np.asarray(_Pages(address, size))


def populate(pages: Array) -> None:
    """Have all of the bytes at hand at once; a system that does not know how brings them as they are read."""
    if isinstance(pages.base, _Pages):
        _library().madvise(pages.base.address, pages.base.size, _POPULATE_READ)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    found = ctypes.CDLL(None, use_errno=True)
    found.mmap.restype = ctypes.c_void_p
    found.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    found.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found
