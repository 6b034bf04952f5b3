"""The folder of compiled objects: ``BURNX_CACHE``, by default ``~/.cache/burnx/kernels``; ``off`` is none.

It holds native code that will be run, so only a folder that is ours alone is used, and an entry that is not exactly as
it was written is as good as none.  A disk that is full or may not be written to means no cache, never an error.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from typing import IO

from burnx import __version__
from burnx.llvm.target import Target

FORMAT = 2  # another number when the same text is to give another object
_MAGIC = b"burnx-object-%d\n" % FORMAT
PART = ".new-"  # how the name of a file begins that is being written
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """A folder of entries: magic, sha256 of the object, the object."""

    folder: str

    def read(self, key: str, target: Target) -> bytes | None:
        """The object of a key, as ``read_entry``."""
        return self.read_entry(name_entry(key, target))

    def read_entry(self, name: str) -> bytes | None:
        """The object of an entry; None if there is none that can be trusted."""
        try:
            with open_ours(os.path.join(self.folder, name)) as file:
                content = file.read()
        except OSError:
            return None
        start = len(_MAGIC) + 32
        body = content[start:]
        intact = content[:start] == _MAGIC + sha256(body).digest()
        return body if intact and body else None

    def write(self, key: str, target: Target, image: bytes) -> None:
        """Keep an object; whoever reads meanwhile sees the old entry or the new one, never a part."""
        self.write_entry(name_entry(key, target), image)

    def write_entry(self, name: str, image: bytes) -> None:
        """As ``write``, under the name of an entry."""
        with suppress(OSError), write_entry(os.path.join(self.folder, name)) as file:
            file.write(_MAGIC + sha256(image).digest() + image)


def name_entry(key: str, target: Target) -> str:
    """The file name of an entry: everything that the object depends on, as a number."""
    parts = (key, target.triple, target.cpu, target.features, *list_versions(), str(FORMAT))
    return sha256("\0".join(parts).encode()).hexdigest() + ".o"


@lru_cache(maxsize=1)
def list_versions() -> tuple[str, str]:
    """The versions of burnx and of llvmlite, as far as can be told without importing it."""
    found = find_spec("llvmlite")
    for folder in (found and found.submodule_search_locations) or ():
        with suppress(OSError), open(os.path.join(folder, "_version.py"), "rb") as file:
            return __version__, sha256(file.read()).hexdigest()
    from importlib.metadata import version

    return __version__, version("llvmlite")


def find_object_files(inside: str = "") -> ObjectFiles | None:
    """The cache as the environment asks for it, or a folder ``inside`` it, if that is ours alone."""
    wanted = os.environ.get("BURNX_CACHE") or "~/.cache/burnx/kernels"
    return None if wanted == "off" else _open_folder(os.path.expanduser(wanted), inside)


@lru_cache(maxsize=8)
def _open_folder(folder: str, inside: str) -> ObjectFiles | None:
    if inside and _open_folder(folder, "") is None:
        return None
    folder = os.path.join(folder, inside) if inside else folder
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
    except OSError:
        return None
    if not _is_ours(found):
        warnings.warn(
            f"compiled kernels are kept in a folder that only its owner, the user, may write to; {folder} is not"
            " so, and is not used (BURNX_CACHE names another)",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return ObjectFiles(folder)


def _is_ours(found: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS_WRITE


@contextmanager
def write_entry(path: str) -> Iterator[IO[bytes]]:
    """A new file that takes the place of an entry when the block ends well.

    Raises: OSError, and then there is nothing new.
    """
    handle, name = tempfile.mkstemp(prefix=PART, dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@contextmanager
def open_ours(path: str) -> Iterator[IO[bytes]]:
    """An entry, opened to be read.

    Raises: OSError if there is none, or it is a link, or somebody else may write to it.
    """
    with open(path, "rb", opener=_open_plain) as file:
        if not _is_ours(os.fstat(file.fileno())):
            raise PermissionError(f"others may write to {path!r}")
        yield file


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))
