"""Where a tensor's external data lies, and whether it may be read.

The location comes from the model, which may be hostile: nothing outside the model's folder is
opened.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import onnx

from burnx.errors import ModelError
from burnx.files import map_file


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a file inside the model's folder; without length it goes as far as needed."""

    path: Path
    file_bytes: int
    offset_bytes: int
    length_bytes: int | None

    def map(self, place: str) -> mmap.mmap:
        """The whole file as read-only memory."""
        try:
            return map_file(self.path, ModelError)
        except ModelError as error:
            raise ModelError(f"external data: {error}, {place}") from error


def locate_external(tensor: onnx.TensorProto, base_dir: Path | None, place: str) -> Stretch:
    """Check a tensor's external data entries and find its file; nothing is opened.

    Raises: ModelError if the entries are not legal, or the file is missing, special or elsewhere.
    """
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            raise ModelError(f"external data gives {entry.key!r} twice, {place}")
        entries[entry.key] = entry.value
    location = entries.get("location", "")
    offset = _parse_count(entries.get("offset", "0"), "offset", place)
    length = entries.get("length")
    size = None if length is None else _parse_count(length, "length", place)
    if base_dir is None:
        raise ModelError(f"external data {location!r} needs a folder: give base_dir, {place}")
    path, file_bytes = _find_file(location, base_dir, place)
    return Stretch(path, file_bytes, offset, size)


def _parse_count(text: str, key: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ModelError(f"the {key} of external data is a count of bytes: {text!r}, {place}")
    return int(text)


def _find_file(location: str, base_dir: Path, place: str) -> tuple[Path, int]:
    _check_location(location, place)
    folder = Path(os.path.realpath(base_dir))
    try:
        path = Path(os.path.realpath(folder / location))
        status = os.stat(path) if path.is_relative_to(folder) else None
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(
            f"external data {location!r} is not in {str(folder)!r}, {place}"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"external data {location!r} cannot be read: {reason}, {place}") from error
    if status is None:
        raise ModelError(
            f"external data stays in the model's folder: {location!r} is a link out of "
            f"{str(folder)!r}, {place}"
        )
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"external data is a regular file: {location!r} is not one, {place}")
    return path, status.st_size


def _check_location(location: str, place: str) -> None:
    """Refuse what is no plain relative path, on this system or on Windows."""
    windows = PureWindowsPath(location)
    if not location or "\0" in location:
        fault = "is empty" if not location else "holds a NUL"
    elif location.startswith(("/", "\\")) or windows.drive:
        fault = "is absolute"
    elif ".." in windows.parts:
        fault = "goes up with '..'"
    else:
        return
    raise ModelError(
        f"external data stays in the model's folder: location {location!r} {fault}, {place}"
    )
