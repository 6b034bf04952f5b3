"""The folder of what was compiled: ``BURNX_CACHE``, by default ``~/.cache/burnx/kernels``; ``off`` is none.

It holds native code that will be run, so only a folder that is ours alone is used, and an entry that is not exactly as
it was written is as good as none.  A disk that is full or may not be written to means no cache, never an error.
``BURNX_ENV`` names an environment: a folder of its own inside that one, which can be handed on as one file.
"""

from __future__ import annotations

import json
import os
import re
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import IO

from burnx.errors import UsageError

FORMAT = 3  # another number when the same text is to give another object
_MAGIC = b"burnx-object-%d\n" % FORMAT
_HEAD = len(_MAGIC) + 32 + 4
NOTES = ("host-", "source-")  # how the names of entries begin that are found again by anybody
PART = ".new-"  # how the name of a file begins that is being written
ENVIRONMENTS = "environments"
DEFAULT = "default"  # the environment without a name: the folder itself
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

About = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """A folder of entries: magic, sha256 of the rest, how long the next is, what it was made for (JSON), the object."""

    folder: str

    def read_entry(self, name: str) -> bytes | None:
        """The object of an entry; None if there is none that can be trusted."""
        found = self._read(name)
        return None if found is None else found[1]

    def _read(self, name: str) -> tuple[bytes, bytes] | None:
        try:
            with open_ours(os.path.join(self.folder, name)) as file:
                return split_entry(file.read())
        except OSError:
            return None

    def write_entry(self, name: str, image: bytes, about: About | None = None) -> None:
        """Keep an object; whoever reads meanwhile sees the old entry or the new one, never a part."""
        text = json.dumps(dict(about or {}), sort_keys=True).encode()
        rest = len(text).to_bytes(4, "little") + text + image
        with suppress(OSError), write_entry(os.path.join(self.folder, name)) as file:
            file.write(_MAGIC + sha256(rest).digest() + rest)


def split_entry(content: bytes) -> tuple[bytes, bytes] | None:
    """(what an entry was made for, its object); None if it is not exactly as it was written."""
    start = len(_MAGIC) + 32
    if content[:start] != _MAGIC + sha256(content[start:]).digest():
        return None
    length = int.from_bytes(content[start:_HEAD], "little")
    image = content[_HEAD + length :]
    return (content[_HEAD : _HEAD + length], image) if image else None


def about_of(text: bytes) -> About | None:
    """What an entry says that it was made for."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else None


def find_kept_files(inside: str = "") -> KeptFiles | None:
    """The folder of this process's environment, or a folder ``inside`` it, if that is ours alone.

    Raises: UsageError if ``BURNX_ENV`` is not a name.
    """
    return open_environment(name_environment(), inside)


def name_environment() -> str:
    """The environment that ``BURNX_ENV`` names."""
    return check_environment(os.environ.get("BURNX_ENV") or DEFAULT, "BURNX_ENV")


def is_environment_name(name: str) -> bool:
    """Whether an environment may be called so: it is a folder's name as well."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is not None


def check_environment(name: str, where: str) -> str:
    """Raises: UsageError if it is not a name that can be a folder's."""
    if not is_environment_name(name):
        raise UsageError(
            f"the name of an environment is letters, digits, '.', '_' and '-', at most 64 of them;"
            f" {where} is {name!r}"
        )
    return name


def open_environment(name: str, inside: str = "") -> KeptFiles | None:
    """The folder of an environment, or one ``inside`` it; None where nothing is kept."""
    parts = () if name == DEFAULT else (ENVIRONMENTS, name)
    wanted = os.environ.get("BURNX_CACHE") or "~/.cache/burnx/kernels"
    if wanted == "off":
        return None
    return _open_folder(os.path.expanduser(wanted), (*parts, inside) if inside else parts)


def forget_environment(name: str) -> None:
    """Remove the folder of a named environment, as far as nothing is left in it."""
    files = open_environment(name)
    if files is None or name == DEFAULT:
        return
    for folder, _, names in os.walk(files.folder, topdown=False):
        with suppress(OSError):  # something else lies there
            for each in names:
                if each.startswith((*NOTES, PART)):
                    os.unlink(os.path.join(folder, each))
            os.rmdir(folder)
    _open_folder.cache_clear()


@lru_cache(maxsize=32)
def _open_folder(folder: str, parts: tuple[str, ...]) -> KeptFiles | None:
    if parts and _open_folder(folder, parts[:-1]) is None:
        return None
    folder = os.path.join(folder, *parts)
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
    return KeptFiles(folder)


def _is_ours(found: os.stat_result) -> bool:
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & _OTHERS_WRITE


@contextmanager
def write_entry(path: str) -> Iterator[IO[bytes]]:
    """A new file that takes the place of an entry when the block ends well.

    Raises: OSError, and then there is nothing new.
    """
    name = os.path.join(os.path.dirname(path), PART + os.urandom(8).hex())
    new = open(name, "xb", opener=_open_for_us)  # noqa: SIM115  (closed below; a name that is there is not ours)
    try:
        with new as file:
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


def _open_for_us(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _open_plain(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))
