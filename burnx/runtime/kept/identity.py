"""What entries are found by: a number for everything that a device's native code depends on.

Memory is known by its content.  What is mapped from a file is known by the file: its path, inode, size and times, and
where in it the array lies; but only if the file has been left alone for a while, since one that was written a moment ago
may be written again with the same times.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np

import burnx
from burnx.dtype import dtype_name
from burnx.files import MappedFile, find_map, place_in_map
from burnx.program import Instruction, Var
from burnx.runtime.compiled.kept_files import About, find_kept_files
from burnx.runtime.kept.codec import Writer

Array = np.ndarray[Any, Any]
FileKey = list[Any]

SETTLED_NS = (
    2_000_000_000  # a file that was changed later than that before it was opened may change unseen
)


def file_key(path: str, status: os.stat_result) -> FileKey | None:
    """What a file is known by; None if it was changed a moment ago."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if time.time_ns() - changed < SETTLED_NS:
        return None
    return [path, *_numbers(status)]


def is_same(key: FileKey) -> bool:
    """Whether a file is still what it was."""
    try:
        return list(key[1:]) == _numbers(os.stat(key[0]))
    except (OSError, ValueError):  # the latter of a path that is none
        return False


def is_replaced(base: MappedFile) -> bool:
    """Whether a file of that name is another one than the one that was mapped, or there is none."""
    try:
        status = os.stat(base.path)
    except OSError:
        return True
    return (status.st_dev, status.st_ino) != (base.status.st_dev, base.status.st_ino)


def map_key(base: MappedFile) -> FileKey | None:
    """What a mapped file is known by; None if it was changed a moment ago, or since it was mapped."""
    key = file_key(base.path, base.status)
    return key if key is not None and is_same(key) else None


def _numbers(status: os.stat_result) -> list[int]:
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    ]


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a device's native code depends on: its ``machine``, and its ``makers``, compilers and races.

    ``about`` is what an entry says of both.  The source of burnx is added to all.
    """

    machine: Sequence[Any]
    makers: Sequence[Any]
    about: Mapping[str, str]

    def key(self, *parts: Any) -> str:
        """The name of an entry that depends on these parts, too."""
        return self._name([*parts, *self.makers])

    def constant_key(self, *parts: Any) -> str:
        """The name of a constant that is known by these parts; no compiler and no race says what it is."""
        return self._name(["constant", *parts])

    def _name(self, parts: list[Any]) -> str:
        text = json.dumps([*parts, *self.machine, source_stamp()])
        return sha256(text.encode()).hexdigest()

    def describe(self) -> About:
        """What an entry says that it was made for."""
        return {**self.about, "source": source_stamp()[:16]}


@lru_cache(maxsize=1)
def source_stamp() -> str:
    """Which source this is: other source may make other code.

    It is the same for the same text anywhere; files that have not changed since are not read again.
    """
    root = str(Path(burnx.__file__).parent)
    folders, lines = [root], list[str]()
    with suppress(OSError):  # what is no folder has its version alone
        while folders:
            lines += _list_sources(folders.pop(), folders)
    files = find_kept_files()
    entry = "source-" + sha256("".join(lines).encode()).hexdigest()
    known = files.read_entry(entry) if files is not None else None
    if known is not None:
        return known.decode("ascii", "replace")
    made = sha256()
    for path in sorted(line.rsplit(" ", 2)[0] for line in lines):
        made.update(os.path.relpath(path, root).encode() + b"\0" + _content(path))
    if files is not None:
        files.write_entry(entry, made.hexdigest().encode())
    return made.hexdigest()


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return sha256(file.read()).digest()
    except OSError:
        return b""


def _list_sources(folder: str, folders: list[str]) -> list[str]:
    """The files of a folder with their sizes and times; ``folders`` collects those inside it."""
    lines = []
    with os.scandir(folder) as found:
        for each in sorted(found, key=lambda each: each.name):
            if each.name.endswith(".py"):
                status = each.stat()
                lines.append(f"{each.path} {status.st_size} {status.st_mtime_ns}\n")
            elif "." not in each.name and each.name != "__pycache__" and each.is_dir():
                folders.append(each.path)
    return lines


def segment_key(
    stamp: Stamp,
    instructions: Sequence[Instruction],
    ends: tuple[Sequence[Var], Sequence[Var]],
    options: Sequence[Any],
    keys: ArrayKeys,
) -> tuple[str, list[Array]]:
    """The name of a segment's entry, and its constants in the order that entries number them.

    Raises: Unkeepable.
    """
    constants: list[Array] = []

    def write(array: Array) -> list[Any]:
        constants.append(array)
        return keys.find(array)

    to = Writer(write)
    rows = [to.instruction(each) for each in instructions]
    numbers = [[to.var(var) for var in part] for part in ends]
    return stamp.key("segment", rows, numbers, to.vars, to.dims, list(options)), constants


@dataclass(slots=True)
class ArrayKeys:
    """What arrays are known by: a place in a file, or their content, which is only read once."""

    _files: dict[int, tuple[MappedFile, FileKey | None]] = field(default_factory=dict)
    _contents: dict[int, tuple[Array, list[Any]]] = field(default_factory=dict)

    def find(self, array: Array) -> list[Any]:
        """Type, shape, strides, and where it lies or what it holds."""
        known = self._contents.get(id(array))
        if known is not None:
            return known[1]
        kind = [dtype_name(array.dtype), list(array.shape), list(array.strides)]
        file = self.file_of(array)
        if file is not None:
            return [*kind, file, place_in_map(array, cast(MappedFile, find_map(array)))]
        if array.dtype == object:
            return [*kind, [str(item) for item in array.flat]]
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        found = [*kind, sha256(content.data).hexdigest()]
        if array.nbytes >= _LARGE_BYTES:
            self._contents[id(array)] = array, found
        return found

    def file_of(self, array: Array) -> FileKey | None:
        """The file that a large array lies in; None if it lies in none that can be told apart from another."""
        base = find_map(array) if array.nbytes >= _LARGE_BYTES else None
        if not isinstance(base, MappedFile):
            return None
        if id(base) not in self._files:
            self._files[id(base)] = base, map_key(base)
        return self._files[id(base)][1]


_LARGE_BYTES = 1 << 12  # less is known by its content wherever it lies
