"""What an environment's folder holds: its entries by kind, and what each was made for."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from burnx.runtime.compiled.kept_files import (
    DEFAULT,
    ENVIRONMENTS,
    About,
    KeptFiles,
    about_of,
    is_environment_name,
    open_environment,
    open_ours,
    split_entry,
)

_SUM = r"[0-9a-f]{64}"
# kind of entry -> what it is called in the folder
KINDS = {
    "kernel": re.compile(rf"{_SUM}\.(?:o|cl|cubin)"),
    "plan": re.compile(rf"plans/{_SUM}\.plan"),
    "constant": re.compile(rf"plans/{_SUM}\.constant"),
    "tuning": re.compile(rf"tuning/{_SUM}\.json"),
}
FOLDERS = ("", "plans", "tuning")


@dataclass(frozen=True, slots=True)
class Content:
    """An entry as it stands in a manifest; ``files`` are the model files that it was made of."""

    name: str
    kind: str
    size: int
    about: About
    files: tuple[tuple[Any, ...], ...] = ()


def kind_of(name: str) -> str | None:
    """The kind of an entry by its name; None for what is not handed on."""
    return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(name)), None)


def list_environments() -> list[str]:
    """The environments that are there, the default one first; none where nothing is kept."""
    whole = open_environment(DEFAULT)
    if whole is None:
        return []
    with suppress(OSError):
        found = sorted(os.scandir(os.path.join(whole.folder, ENVIRONMENTS)), key=lambda e: e.name)
        ours = (e for e in found if e.is_dir(follow_symlinks=False))
        return [DEFAULT, *(e.name for e in ours if is_environment_name(e.name))]
    return [DEFAULT]


def find_environment(name: str) -> KeptFiles | None:
    """The folder of an environment that is there; none is made for one that is not."""
    return open_environment(name) if name in list_environments() else None


def list_names(files: KeptFiles) -> Iterator[str]:
    """The names of the entries of an environment."""
    for folder in FOLDERS:
        with suppress(OSError):
            for each in sorted(
                os.scandir(os.path.join(files.folder, folder)), key=lambda e: e.name
            ):
                name = f"{folder}/{each.name}" if folder else each.name
                if kind_of(name) and each.is_file(follow_symlinks=False):
                    yield name


def read_content(files: KeptFiles, name: str) -> tuple[Content, bytes] | None:
    """An entry and its bytes; None if it is not as it was written."""
    try:
        with open_ours(os.path.join(files.folder, *name.split("/"))) as file:
            data = file.read()
    except OSError:
        return None
    return examine(name, data)


def examine(name: str, data: bytes) -> tuple[Content, bytes] | None:
    """What the bytes of an entry say of it; None if they are no entry of that kind."""
    kind = kind_of(name)
    if kind is None:
        return None
    found = _READERS[kind](data)
    if found is None:
        return None
    about, files = found
    return Content(name, kind, len(data), about, files), data


_Found = tuple[About, tuple[tuple[Any, ...], ...]]


def _read_object(data: bytes) -> _Found | None:
    parts = split_entry(data)
    about = about_of(parts[0]) if parts is not None else None
    return None if not about else (about, ())


def _read_plan(data: bytes) -> _Found | None:
    from burnx.runtime.kept.entries import parse_head

    head = parse_head(data)
    about = head.get("about") if isinstance(head, Mapping) else None
    if not isinstance(about, Mapping):
        return None
    files = head.get("files") or []
    if not isinstance(files, list) or not all(map(_is_file_key, files)):
        return None
    return {str(k): str(v) for k, v in about.items()}, tuple(tuple(each) for each in files)


def _is_file_key(key: Any) -> bool:
    """Whether it may be what ``identity.file_key`` has made."""
    if not isinstance(key, list) or not key or not isinstance(key[0], str):
        return False
    return all(type(each) is int for each in key[1:])


_READERS: Mapping[str, Callable[[bytes], _Found | None]] = {
    "kernel": _read_object,
    "plan": _read_plan,
    "constant": _read_plan,
    "tuning": _read_object,
}


def as_manifest(content: Content) -> dict[str, Any]:
    """An entry's line in a manifest."""
    return {"name": content.name, "kind": content.kind, "size": content.size} | {
        "about": dict(content.about)
    }


def manifest_text(head: Mapping[str, Any], entries: list[dict[str, Any]]) -> bytes:
    return json.dumps({**head, "entries": entries}, indent=1, sort_keys=True).encode()
