"""An environment as one file: a zip archive with a manifest in front, in JSON.

    manifest.json    format, burnx, name, machine (what it was made on) and entries: name, kind, size, sha256, about
    <name>           each entry as it lies in the folder

A file from elsewhere is not believed: its manifest and every entry are checked before the first byte is written, and one
thing that is wrong refuses the whole.  But what it holds is native code, which can be checked against damage, not
against malice: to import a file is to trust who made it.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, Any

from burnx import __version__
from burnx.errors import ModelError, UsageError
from burnx.files import atomic_write
from burnx.runtime.compiled.kept_files import (
    KeptFiles,
    forget_environment,
    open_environment,
    write_entry,
)
from burnx.runtime.environments.contents import (
    Content,
    as_manifest,
    examine,
    find_environment,
    kind_of,
    list_environments,
    list_names,
    manifest_text,
    read_content,
)
from burnx.runtime.environments.machine import describe_machine, find_obstacle

FORMAT = 1
NOTHING_KEPT = "nothing is kept here: BURNX_CACHE is 'off', or no folder that is ours"
MANIFEST = "manifest.json"
MANIFEST_MOST = 64 << 20
ENTRY_MOST = 4 << 30
WHOLE_MOST = 32 << 30
ENTRIES_MOST = 200_000
DENSITY_MOST = (
    200  # code is not packed as tightly as that; what unpacks to more is there to fill memory
)
SMALL_BYTES = 16 << 20
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PIECE = 1 << 20
_BEGINS = b"PK\3\4"  # of an archive's first record
_ENDS = b"PK\5\6"  # of its last one, which has no comment
_END_BYTES = 22
_STARTS = 1980, 1, 1, 0, 0, 0  # the time of all entries: equal contents make equal files


@dataclass(frozen=True, slots=True)
class Summary:
    """An environment: entries by kind, and their bytes."""

    name: str
    entries: Mapping[str, int]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """What became of the entries of a file: ``taken`` and ``left`` by kind; ``reasons`` why, and how often."""

    name: str
    burnx: str
    taken: Mapping[str, int]
    left: Mapping[str, int]
    reasons: Mapping[str, int]


def summarize() -> list[Summary]:
    """The environments that are there."""
    return [_summary(name) for name in list_environments()]


def _summary(name: str) -> Summary:
    files, kinds, total = find_environment(name), Counter[str](), 0
    for entry in list_names(files) if files is not None else ():
        with suppress(OSError):
            total += os.stat(os.path.join(files.folder, entry)).st_size  # type: ignore[union-attr]
            kinds[kind_of(entry) or ""] += 1
    return Summary(name, dict(kinds), total)


def clear(name: str) -> Summary:
    """Remove an environment; what it held.

    Raises: UsageError if nothing is kept here.
    """
    if not list_environments():
        raise _nothing_kept()
    found, files = _summary(name), find_environment(name)
    if files is not None:
        for entry in list(list_names(files)):
            with suppress(OSError):
                os.unlink(os.path.join(files.folder, entry))
        forget_environment(name)
    return found


def export_environment(name: str, path: str) -> Summary:
    """Write an environment as one file.

    Raises: UsageError if nothing is kept there.
    """
    if not list_environments():
        raise _nothing_kept()
    files = find_environment(name)
    names = [] if files is None else list(list_names(files))
    if files is None or not names:
        raise UsageError(f"environment {name!r} is empty: run a model with BURNX_ENV={name} first")
    entries, kinds, total = [], Counter[str](), 0
    for each in names:
        found = read_content(files, each)
        if found is None:
            continue
        entries.append({**as_manifest(found[0]), "sha256": sha256(found[1]).hexdigest()})
        kinds[found[0].kind] += 1
        total += found[0].size
    machine = [dict(each) for each in describe_machine()]
    head = {"format": FORMAT, "burnx": __version__, "name": name, "machine": machine}
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_info(MANIFEST), manifest_text(head, entries))
        for entry in entries:
            archive.writestr(_info(entry["name"]), _read_again(files, entry))
    return Summary(name, dict(kinds), total)


def _read_again(files: KeptFiles, entry: Mapping[str, Any]) -> bytes:
    found = read_content(files, entry["name"])
    if found is None or sha256(found[1]).hexdigest() != entry["sha256"]:
        raise UsageError(
            f"entry {entry['name']!r} was written to while it was exported: export again"
        )
    return found[1]


def _info(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, _STARTS)
    whole = name.endswith((".plan", ".constant"))
    made.compress_type = zipfile.ZIP_STORED if whole else zipfile.ZIP_DEFLATED
    made.external_attr = 0o600 << 16
    return made


def _open(name: str) -> KeptFiles:
    files = open_environment(name)
    if files is None:
        raise _nothing_kept()
    return files


def _nothing_kept() -> UsageError:
    return UsageError(NOTHING_KEPT)


def import_environment(path: str, name: str) -> Report:
    """Take over a file: all that is of use here goes to environment ``name``.

    Raises: ModelError if the file is not as it was written, UsageError if nothing is kept here.
    """
    with _archive(path) as archive:
        manifest = _read_manifest(archive, path)
        checked = [_check_entry(archive, each, path) for each in manifest["entries"]]
        here = describe_machine()
        obstacles = [(content, find_obstacle(content, here)) for content in checked]
        taken, left, reasons = Counter[str](), Counter[str](), Counter[str]()
        for content, why in obstacles:
            if why is not None:
                left[content.kind] += 1
                reasons[why] += 1
                continue
            _write(name, content, _read(archive, content.name, content.size, path))
            taken[content.kind] += 1
    return Report(name, manifest["burnx"], dict(taken), dict(left), dict(reasons))


def _write(target: str, content: Content, data: bytes) -> None:
    folder, _, name = content.name.rpartition("/")
    place = open_environment(target, folder) if folder else _open(target)
    if place is None:
        raise UsageError(f"folder {folder!r} of environment {target!r} cannot be written to")
    try:
        with write_entry(os.path.join(place.folder, name)) as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"an entry of environment {target!r} is not written: {error}") from error


# --- files that are not believed --------------------------------------------------------------------------------------


def _refused(path: str, what: str) -> ModelError:
    return ModelError(f"file {path!r} is not an environment of burnx as it was exported: {what}")


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    try:
        file = open(path, "rb")  # noqa: SIM115  (closed below; its errors are not the archive's)
    except OSError as error:
        raise UsageError(f"file {path!r} cannot be read: {error.strerror}") from error
    with file:
        try:
            _check_ends(file, path)
            with zipfile.ZipFile(file) as archive:
                yield archive
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, UnicodeError) as error:
            raise _refused(path, str(error) or "it is damaged") from error
        except OSError as error:
            raise _refused(path, f"it cannot be read to its end ({error})") from error


def _check_ends(file: IO[bytes], path: str) -> None:
    """An archive without anything before or behind it: what zipfile passes over was written by somebody else."""
    begins = file.read(len(_BEGINS))
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _END_BYTES, 0))
    end = file.read(_END_BYTES)
    if begins != _BEGINS or not end.startswith(_ENDS) or not end.endswith(b"\0\0"):
        raise _refused(path, "it does not begin and end as an archive does")


def _read_manifest(archive: zipfile.ZipFile, path: str) -> Mapping[str, Any]:
    """The manifest, whose entries are exactly what the archive holds."""
    infos = archive.infolist()
    if not infos or infos[0].filename != MANIFEST or infos[0].compress_type not in _PACKINGS:
        raise _refused(path, "it does not begin with a manifest")
    if infos[0].file_size > MANIFEST_MOST or len(infos) > ENTRIES_MOST:
        raise _refused(path, "its manifest is larger than any that burnx writes")
    try:
        found = json.loads(_read(archive, MANIFEST, infos[0].file_size, path))
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its manifest is no JSON ({error})") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        told = found.get("format") if isinstance(found, dict) else None
        raise _refused(path, f"its format is {told!r}; this burnx reads {FORMAT}")
    entries = found.get("entries")
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise _refused(path, "its manifest does not say what its entries are")
    if not isinstance(found.get("burnx"), str):
        raise _refused(path, "its manifest does not say what its entries are")
    if not isinstance(found.get("name"), str):
        raise _refused(path, "its manifest does not name it")
    _check_names(infos[1:], entries, path)
    return found


def _is_entry(entry: Any) -> bool:
    kinds = {"name": str, "kind": str, "size": int, "sha256": str, "about": dict}
    return isinstance(entry, dict) and all(type(entry.get(k)) is v for k, v in kinds.items())


def _check_names(infos: list[zipfile.ZipInfo], entries: list[dict[str, Any]], path: str) -> None:
    sizes = {info.filename: info.file_size for info in infos}
    if any(info.compress_type not in _PACKINGS for info in infos):
        raise _refused(path, "it is packed in a way that burnx does not use")
    if len(sizes) != len(infos) or len(sizes) != len(entries):
        raise _refused(path, "it holds other files than its manifest lists")
    for entry in entries:
        name = entry["name"]
        if kind_of(name) is None or kind_of(name) != entry["kind"]:
            raise _refused(path, f"{name[:200]!r} is no name of an entry")
        if sizes.get(name) != entry["size"]:
            raise _refused(path, f"{name!r} is not of the size that its manifest says")
        if not 0 <= entry["size"] <= ENTRY_MOST:
            raise _refused(path, f"{name!r} is larger than any that burnx writes")
    whole = sum(sizes.values())
    packed = sum(info.compress_size for info in infos)
    if whole > WHOLE_MOST or whole > DENSITY_MOST * packed + SMALL_BYTES:
        raise _refused(path, "its entries are larger than any that burnx writes")


def _read(archive: zipfile.ZipFile, name: str, size: int, path: str) -> bytes:
    """The bytes of a file in the archive, of which no more are read than it says that there are."""
    parts, total = [], 0
    with archive.open(name) as file:
        while total <= size and (part := file.read(min(_PIECE, size + 1 - total))):
            parts.append(part)
            total += len(part)
    if total != size:
        raise _refused(path, f"{name!r} is not of the size that its manifest says")
    return b"".join(parts)


def _check_entry(archive: zipfile.ZipFile, entry: Mapping[str, Any], path: str) -> Content:
    """An entry whose bytes are what the manifest says, and say of themselves what it says of them."""
    name = entry["name"]
    data = _read(archive, name, entry["size"], path)
    if sha256(data).hexdigest() != entry["sha256"]:
        raise _refused(path, f"the checksum of {name!r} differs")
    found = examine(name, data)
    if found is None or dict(found[0].about) != entry["about"]:
        raise _refused(path, f"{name!r} is not what its manifest says")
    return found[0]
