"""Entries in the folder of plans: two texts in JSON and behind them the bytes of constants, which are mapped.

An entry is a plan, or a constant that several plans may name.

The folder is ``plans`` inside that of the compiled kernels, under the same conditions: ours alone, and an entry whose
texts are not exactly as they were written, or whose constants have another sum, is as good as none; words of constants
that changed places are not noticed.  An entry is written whole or not at all.  Together the entries take
at most ``BURNX_CACHE_MB`` (4,096 MB unless it says otherwise, 0: none are kept): those that were used longest ago go,
and none takes more than half of it.

    magic, sha256 of all up to the texts' end, 4 numbers: bytes of the head, of the body, of the constants, their sum
    head (JSON), body (JSON; read when it is needed), zeros up to a page, constants
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO, Any

import numpy as np

from burnx.errors import UsageError
from burnx.runtime.compiled.kept_files import PART, find_kept_files, open_ours, write_entry
from burnx.runtime.kept.pages import map_pages, populate
from burnx.runtime.kept.sums import Sums, add_up

Array = np.ndarray[Any, Any]

FORMAT = 1
ALIGNMENT = 64
_MAGIC = b"burnx-plan-%d\n" % FORMAT
_NUMBERS = struct.Struct("<4Q")
_START = len(_MAGIC) + 32 + _NUMBERS.size
PLAN, CONSTANT = ".plan", ".constant"
_ABANDONED_S = 3600  # from then on nobody is writing a file any more
_MOST_MB = 4096
_LARGE_BYTES = (
    1 << 18
)  # entries from this size on look after the bound, of smaller ones every 256th


@dataclass(slots=True)
class Constants:
    """The arrays that an entry is to hold, one behind the other."""

    arrays: list[tuple[int, Array]] = field(default_factory=list)
    size: int = 0
    _places: dict[int, int] = field(default_factory=dict)

    def add(self, array: Array) -> int:
        """Where a contiguous array will lie; the same array lies there once."""
        place = self._places.get(id(array))
        if place is None:
            place = self._places[id(array)] = self.size
            self.arrays.append((place, array))
            self.size = _aligned(self.size + array.nbytes, ALIGNMENT)
        return place


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it was read; the memory of ``constants`` stays as long as the array does."""

    head: Any
    body: bytes
    constants: Array

    def read_body(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Shared:
    """A constant with an entry of its own; ``is_kept``: it was read from there."""

    name: str
    array: Array
    head: Mapping[str, Any]
    is_kept: bool


class Entries:
    """The folder of plans."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def read(self, name: str, suffix: str = PLAN, sums: Sums | None = None) -> Entry | None:
        """An entry; None if there is none that can be trusted.  With ``sums`` its constants are still to be trusted."""
        path = os.path.join(self._folder, name + suffix)
        try:
            with open_ours(path) as file:
                found = _read(file)
                if found is not None and found[0].head.get("entry") != name + suffix:
                    return None
                entry = None if found is None else _checked(name, *found, sums)
                if entry is not None:
                    with suppress(OSError):  # a folder that may only be read
                        os.utime(path)  # it was used
                return entry
        except (OSError, ValueError, AttributeError, RecursionError):
            return None

    def write(
        self,
        name: str,
        head: Any,
        body: Any,
        constants: Constants,
        shared: Sequence[Shared] = (),
    ) -> None:
        """Keep a plan and what it shares, and remove others so that all of them stay within their bound."""
        most = _most_bytes()
        if constants.size + sum(each.array.nbytes for each in shared) > most // 2:
            return
        new = [each for each in shared if not each.is_kept]
        size = constants.size + sum(each.array.nbytes for each in new)
        with suppress(OSError):
            if size >= _LARGE_BYTES or name.startswith("00"):
                self._sweep(most - size)
            for each in new:
                alone = Constants()
                alone.add(each.array)
                self._write(each.name + CONSTANT, each.head, None, alone)
            self._write(name + PLAN, head, body, constants)

    def _write(self, name: str, head: Any, body: Any, constants: Constants) -> None:
        with write_entry(os.path.join(self._folder, name)) as file:
            _write(file, {**head, "entry": name}, body, constants)

    def _sweep(self, most: int) -> None:
        """Remove what was used longest ago, and what a process that was killed has left."""
        found = []
        now = time.time()
        for each in os.scandir(self._folder):
            with suppress(OSError):
                status = each.stat(follow_symlinks=False)
                if not each.name.startswith(PART):
                    found.append((status.st_mtime, status.st_size, each.path))
                elif now - status.st_mtime > _ABANDONED_S:
                    os.unlink(each.path)
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= most:
                return
            total -= size
            with suppress(OSError):
                os.unlink(path)


def find_entries() -> Entries | None:
    """The folder of plans; None where nothing is kept."""
    if os.environ.get("BURNX_DEBUG") or not _most_bytes():
        return None
    files = find_kept_files("plans")
    return Entries(files.folder) if files is not None else None


def _most_bytes() -> int:
    asked = os.environ.get("BURNX_CACHE_MB", "")
    if asked and not asked.isdecimal():
        raise UsageError(f"BURNX_CACHE_MB is a number of MB, 0 for none; found {asked!r}")
    return (int(asked) if asked else _MOST_MB) << 20


def _checked(name: str, entry: Entry, total: int, sums: Sums | None) -> Entry | None:
    if sums is not None:
        sums.add(name, entry.constants, total)
        return entry
    populate(entry.constants)
    return entry if add_up(entry.constants) == total else None


def _read(file: IO[bytes]) -> tuple[Entry, int] | None:
    """An entry whose texts are as they were written, and what the sum of its constants was."""
    start = file.read(_START)
    if len(start) != _START or not start.startswith(_MAGIC):
        return None
    head_bytes, body_bytes, size, total = _NUMBERS.unpack_from(start, _START - _NUMBERS.size)
    offset = _aligned(_START + head_bytes + body_bytes, mmap.ALLOCATIONGRANULARITY)
    if os.fstat(file.fileno()).st_size != offset + size:
        return None
    head, body = file.read(head_bytes), file.read(body_bytes)
    if start[len(_MAGIC) :][:32] != _digest(start[-_NUMBERS.size :], head, body):
        return None
    return Entry(json.loads(head), body, map_pages(file, offset, size)), total


def parse_head(data: bytes) -> Any:
    """The head of an entry's bytes; None if its texts are not as they were written, or it has another size."""
    start, rest = data[:_START], data[_START:]
    if len(start) != _START or not start.startswith(_MAGIC):
        return None
    head_bytes, body_bytes, size, _ = _NUMBERS.unpack_from(start, _START - _NUMBERS.size)
    head, body = rest[:head_bytes], rest[head_bytes : head_bytes + body_bytes]
    offset = _aligned(_START + head_bytes + body_bytes, mmap.ALLOCATIONGRANULARITY)
    if start[len(_MAGIC) :][:32] != _digest(start[-_NUMBERS.size :], head, body):
        return None
    try:
        return json.loads(head) if len(data) == offset + size else None
    except (ValueError, RecursionError):
        return None


def _write(file: IO[bytes], head: Any, body: Any, constants: Constants) -> None:
    texts = [json.dumps(each, separators=(",", ":")).encode() for each in (head, body)]
    total = 0
    for _, array in constants.arrays:
        total += add_up(_as_bytes(array))
    lengths = (len(texts[0]), len(texts[1]), constants.size, total % (1 << 64))
    numbers = _NUMBERS.pack(*lengths)
    file.write(_MAGIC + _digest(numbers, *texts) + numbers + texts[0] + texts[1])
    offset = _aligned(_START + len(texts[0]) + len(texts[1]), mmap.ALLOCATIONGRANULARITY)
    for place, array in constants.arrays:
        file.seek(offset + place)
        file.write(_as_bytes(array).data)
    file.truncate(offset + constants.size)


def _as_bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _digest(numbers: bytes, *texts: bytes) -> bytes:
    made = sha256(numbers)
    for text in texts:
        made.update(text)
    return made.digest()


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
