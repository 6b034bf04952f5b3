"""Where a PyTorch checkpoint keeps its pickle and its storages: in a zip archive, or a plain file.

Nothing is extracted and nothing unpickled here: the caller does that with the bytes it gets.
"""

from __future__ import annotations

import io
import pickletools
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from burnx.checkpoints.pickle_keys import KeyCosts
from burnx.errors import WeightsError
from burnx.files import Buffer, guess_kind

Array: TypeAlias = "np.ndarray[Any, Any]"
Locate: TypeAlias = Callable[[str, int], Array]

MAX_PICKLE_BYTES = 1 << 28
# Source: torch.serialization, MAGIC_NUMBER and PROTOCOL_VERSION of files before PyTorch 1.6
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_VERSION = 1001
_REFUSED_OPCODES = frozenset(
    {"EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER", "STRING", "PERSID"}
)
_MEMO_OPCODES = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})


@dataclass(frozen=True, slots=True)
class Storages:
    """The bytes of storages by key; each is found once, so that tied tensors share memory."""

    locate: Locate
    found: dict[str, Array] = field(default_factory=dict)

    def read(self, key: str, size_bytes: int) -> Array:
        """The bytes of one storage: a view of the file unless they lie unaligned there.

        Raises: WeightsError if there is none of this key and size.
        """
        if key not in self.found:
            data = self.locate(key, size_bytes)
            self.found[key] = data.copy() if data.ctypes.data % 8 else data
        if self.found[key].size != size_bytes:
            found = self.found[key].size
            raise WeightsError(f"storage {key!r} has {found} bytes where {size_bytes} are named")
        return self.found[key]


def pickle_end(buffer: Buffer, start: int = 0) -> int:
    """Walk the pickle at ``start`` without running it, and give where it ends.

    Lengths are checked against the bytes that are there and memo indices against the opcodes before
    them, so that no number makes an unpickler ask for absurd memory, and keys are such as can be hashed.

    Raises: WeightsError if the pickle is damaged or uses what no checkpoint needs.
    """
    file: Any = io.BytesIO(buffer) if isinstance(buffer, bytes) else buffer
    file.seek(start)
    keys = KeyCosts()
    try:
        with warnings.catch_warnings():
            # Text with odd escapes makes pickletools warn before it gives the opcode.
            warnings.simplefilter("ignore", DeprecationWarning)
            for place, (opcode, argument, _) in enumerate(pickletools.genops(file)):
                _check_opcode(opcode.name, argument, place)
                keys.step(opcode, argument)
                if file.tell() - start > MAX_PICKLE_BYTES:
                    raise WeightsError(f"the pickle is larger than {MAX_PICKLE_BYTES} bytes")
    except (ArithmeticError, AssertionError, MemoryError, ValueError, struct.error) as error:
        raise WeightsError(f"the pickle is damaged: {error}") from error
    end: int = file.tell()
    return end


def _check_opcode(name: str, argument: object, place: int) -> None:
    if name in _REFUSED_OPCODES:
        raise WeightsError(f"a checkpoint may not use the pickle opcode {name}")
    if name in _MEMO_OPCODES and not 0 <= int(str(argument)) <= place:
        raise WeightsError(f"the pickle is damaged: memo index {argument}")


# --- zip archives ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Archive:
    """The table of a zip archive over the map of its file; ``prefix`` is the folder of data.pkl."""

    buffer: Buffer
    entries: Mapping[str, zipfile.ZipInfo]
    prefix: str

    def pickle(self) -> bytes:
        """The checked pickle."""
        self._check_byte_order()
        data = self._read(f"{self.prefix}data.pkl", MAX_PICKLE_BYTES).tobytes()
        return data[: pickle_end(data)]

    def locate(self, key: str, size_bytes: int) -> Array:
        """The bytes of a storage."""
        name = f"{self.prefix}data/{key}"
        if name not in self.entries:
            raise WeightsError(f"storage {key!r} is missing from the archive")
        found = self.entries[name].file_size
        if found != size_bytes:
            raise WeightsError(f"storage {key!r} has {found} bytes where {size_bytes} are named")
        return self._read(name, size_bytes)

    def _check_byte_order(self) -> None:
        name = f"{self.prefix}byteorder"
        if name in self.entries and self._read(name, 16).tobytes().strip() != b"little":
            raise WeightsError("only checkpoints in little-endian byte order can be read")

    def _read(self, name: str, limit_bytes: int) -> Array:
        entry = self.entries[name]
        if entry.file_size > limit_bytes:
            raise WeightsError(f"{name!r} of the archive is too large: {entry.file_size} bytes")
        start = _data_start(self.buffer, entry)
        if entry.compress_type != zipfile.ZIP_STORED:
            return _decompress(self.buffer, entry, start)
        return np.frombuffer(self.buffer, np.uint8, entry.file_size, start)


def open_archive(buffer: Buffer) -> Archive:
    """Check the table of a zip archive and find its data.pkl.

    Raises: WeightsError if the archive is damaged, unsafe, or no checkpoint.
    """
    file: Any = io.BytesIO(buffer) if isinstance(buffer, bytes) else buffer
    try:
        table = zipfile.ZipFile(file).infolist()
    except (zipfile.BadZipFile, RuntimeError, OSError, ValueError, struct.error) as error:
        raise WeightsError(f"the zip archive is damaged or truncated: {error}") from error
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in table:
        _check_entry(entry)
        if entry.filename in entries:
            raise WeightsError(f"the archive holds {entry.filename!r} twice")
        entries[entry.filename] = entry
    return Archive(buffer, entries, _find_prefix(entries))


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.orig_filename
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in parts or ":" in parts[0]:
        raise WeightsError(f"the archive holds an unsafe name: {name!r}")
    if entry.flag_bits & 1:
        raise WeightsError(f"the archive is encrypted: {name!r}")


def _find_prefix(entries: Mapping[str, zipfile.ZipInfo]) -> str:
    pickles = [name for name in entries if name == "data.pkl" or name.endswith("/data.pkl")]
    if any(name.endswith(".npy") for name in entries):
        raise WeightsError("the zip archive is a NumPy .npz file, not a PyTorch checkpoint")
    if len(pickles) != 1:
        raise WeightsError(f"a checkpoint has one data.pkl: this archive has {len(pickles)}")
    prefix = pickles[0].removesuffix("data.pkl")
    if f"{prefix}constants.pkl" in entries:
        raise WeightsError("a TorchScript archive holds code: save its state_dict() instead")
    return prefix


def _data_start(buffer: Buffer, entry: zipfile.ZipInfo) -> int:
    """Where an entry's bytes start: its local header says, not the table."""
    head = buffer[entry.header_offset : entry.header_offset + 30]
    if len(head) != 30 or head[:4] != b"PK\x03\x04":
        raise WeightsError(f"the zip archive is damaged at {entry.filename!r}")
    name_bytes, extra_bytes = struct.unpack("<HH", head[26:30])
    start: int = entry.header_offset + 30 + name_bytes + extra_bytes
    if start + entry.compress_size > len(buffer):
        raise WeightsError(f"{entry.filename!r} goes past the end of the archive: truncated?")
    if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
        raise WeightsError(f"the zip archive gives {entry.filename!r} two sizes")
    return start


def _decompress(buffer: Buffer, entry: zipfile.ZipInfo, start: int) -> Array:
    if entry.compress_type != zipfile.ZIP_DEFLATED:
        raise WeightsError(f"{entry.filename!r} is compressed in a way that is not known")
    try:
        packed = buffer[start : start + entry.compress_size]
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.file_size + 1)
    except (zlib.error, MemoryError, OverflowError) as error:
        raise WeightsError(f"{entry.filename!r} cannot be decompressed: {error}") from error
    if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
        raise WeightsError(f"{entry.filename!r} is damaged: its size or checksum is wrong")
    return np.frombuffer(data, np.uint8)


# --- the format before PyTorch 1.6 -------------------------------------------------------------


def read_legacy_head(buffer: Buffer, load: Callable[[bytes], Any]) -> tuple[Any, list[str], int]:
    """The head of an old checkpoint: its content, the keys of its storages, where these start.

    Raises: WeightsError if this is no such checkpoint.
    """
    objects: list[Any] = []
    end = 0
    for _ in range(5):
        start, end = end, pickle_end(buffer, end)
        objects.append(load(buffer[start:end]))
        if type(objects[0]) is not int or objects[0] != _LEGACY_MAGIC:
            kind = guess_kind(buffer[:512]) or "some other file"
            raise WeightsError(f"not a PyTorch checkpoint: it seems to be {kind}")
    _, version, system, content, keys = objects
    if type(version) is not int or version != _LEGACY_VERSION:
        raise WeightsError("the version of the old checkpoint format is not known")
    if isinstance(system, dict) and system.get("little_endian") is False:
        raise WeightsError("only checkpoints in little-endian byte order can be read")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise WeightsError("the list of storages is damaged")
    return content, keys, end


def legacy_storages(
    buffer: Buffer, keys: list[str], start: int, item_bytes: Mapping[str, int]
) -> Storages:
    """The storages of an old checkpoint: for each key a count of elements, then the elements."""
    stretches: dict[str, tuple[int, int]] = {}
    for key in keys:
        if key not in item_bytes or key in stretches:
            raise WeightsError(f"the list of storages is damaged at {key!r}")
        size = int.from_bytes(buffer[start : start + 8], "little") * item_bytes[key]
        stretches[key] = (start + 8, size)
        start += 8 + size
        if start > len(buffer):
            raise WeightsError(f"storage {key!r} goes past the end of the file: truncated?")

    def locate(key: str, size_bytes: int) -> Array:
        if key not in stretches:
            raise WeightsError(f"storage {key!r} is missing from the file")
        offset, size = stretches[key]
        return np.frombuffer(buffer, np.uint8, size, offset)

    return Storages(locate)
