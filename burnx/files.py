"""Files as bytes: written whole or not at all, read through a map, known by their first bytes."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from burnx.dtype import DType
from burnx.errors import BurnxError, UsageError

Array: TypeAlias = "np.ndarray[Any, Any]"
Buffer: TypeAlias = "mmap.mmap | bytes"

# (offset, first bytes, what such a file is)
_MAGICS = (
    (0, b"PK\x03\x04", "a zip archive (PyTorch checkpoints and .npz files are such)"),
    (0, b"\x93NUMPY", "a NumPy .npy file"),
    (0, b"\x89HDF", "an HDF5 file (Keras writes such)"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"GGUF", "a GGUF file"),
    (0, b"\x7fELF", "an executable"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the real file was never downloaded"),
    (0, b"\x80\x02", "a pickle"),
    (0, b"\x80\x03", "a pickle"),
    (0, b"\x80\x04", "a pickle"),
    (0, b"\x80\x05", "a pickle"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (8, b'{"', "a safetensors file"),
    (257, b"ustar", "a tar archive"),
)


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a new file for writing that takes the place of ``path`` only when the block ends well.

    The new file has a temporary name in the same folder, and is removed on an error.  Devices and
    pipes are written directly.

    Raises: UsageError if nothing can be written there, BurnxError if writing fails later.
    """
    target = Path(os.path.realpath(path))
    special = target.exists() and not target.is_file()
    part = target.with_name(f".{target.name[:80]}.{os.urandom(6).hex()}.part")
    file = _open_for_write(target if special else part, target, mode)
    try:
        with file:
            yield file
        if not special:
            _replace(part, target)
    except OSError as error:
        raise BurnxError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _replace(part: Path, target: Path) -> None:
    if target.exists():
        os.chmod(part, stat.S_IMODE(target.stat().st_mode))
    os.replace(part, target)


def _open_for_write(path: Path, target: Path, mode: str) -> IO[Any]:
    flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if path != target else 0)
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "\n")
    try:
        number = os.open(path, flags, 0o666)
        return open(number, mode, encoding=encoding, newline=newline)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write {str(target)!r}: {reason}") from error


class MappedFile(mmap.mmap):
    """The memory of a file, which knows the file; ``status`` is that of the moment when it was opened."""

    path: str
    status: os.stat_result


def map_file(path: str | os.PathLike[str], kind: type[BurnxError]) -> MappedFile:
    """The whole of a regular, non-empty file as read-only memory; nothing is read yet.

    Raises: an error of class ``kind`` that names the file.
    """
    name = os.fspath(path)
    try:
        status = os.stat(name)
        if not stat.S_ISREG(status.st_mode):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise kind(f"a file is needed: {name!r} is {what}")
        if status.st_size == 0:
            raise kind(f"file {name!r} is empty")
        with open(name, "rb") as file:
            made = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
            made.path, made.status = os.path.abspath(name), os.fstat(file.fileno())
            return made
    except FileNotFoundError as error:
        raise kind(f"file {name!r} does not exist") from error
    except (OSError, ValueError) as error:
        raise kind(f"file {name!r} cannot be read: {error}") from error


def view_array(
    buffer: Buffer | Array,
    dtype: DType,
    shape: tuple[int, ...],
    offset_bytes: int = 0,
    aligns: bool = True,
) -> Array:
    """A read-only array over a buffer, without a copy unless the elements lie unaligned and it ``aligns``.

    The caller has checked that the elements lie inside the buffer.
    """
    if 0 in shape:
        array = np.zeros(shape, dtype)
    else:
        array = np.ndarray(shape, dtype, buffer=buffer, offset=offset_bytes)
        array = array.copy() if aligns and not array.flags.aligned else array
    if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        array = array.view(np.uint8) != 0
    array.flags.writeable = False
    return array


def fits_memory(shape: tuple[int, ...], itemsize: int) -> bool:
    """Whether NumPy can address an array of this shape at all, zero-sized ones included."""
    return len(shape) <= 64 and prod(max(dim, 1) for dim in shape) * max(itemsize, 1) < 1 << 63


def guess_kind(head: bytes) -> str | None:
    """What a file seems to be by its first 512 bytes, in words, or None."""
    for offset, magic, words in _MAGICS:
        if head[offset : offset + len(magic)] == magic:
            return words
    start = head[:256]
    if start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        return "a web page" if start.lstrip()[:1] == b"<" else "a text file"
    return None


def find_map(array: Array) -> mmap.mmap | None:
    """The mapped file that an array lies in."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None


def place_in_map(array: Array, base: mmap.mmap) -> int:
    """At which byte of a mapped file an array of it starts."""
    start: int = array.__array_interface__["data"][0]
    return start - np.frombuffer(base, np.uint8).__array_interface__["data"][0]


def let_go(array: Array) -> None:
    """Give back the memory of a mapped file that an array lies in; reading it again reads the file again."""
    base = find_map(array)
    if base is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = place_in_map(array, base)
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if array.flags.forc and 0 <= first < last <= len(base):
        base.madvise(mmap.MADV_DONTNEED, first, last - first)
