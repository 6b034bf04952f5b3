"""Binaries of functions on disk: found by their text and all that the driver's compiler depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TypeVar

from burnx import __version__
from burnx.runtime.compiled.kept_files import find_kept_files

Loaded = TypeVar("Loaded")
Stamp = Mapping[str, str]


def load_or_build(
    text: str, stamp: Stamp, load: Callable[[bytes], Loaded | None], build: Callable[[], bytes]
) -> Loaded | None:
    """What ``load`` makes of the binary of a text: the kept one, or one that is built now and kept.

    ``load`` gives None for a binary that the driver does not take; then it is built anew.
    """
    files, name = find_kept_files(), name_binary(text, stamp)
    image = files.read_entry(name) if files is not None else None
    found = load(image) if image is not None else None
    if found is not None:
        return found
    image = build()
    if files is not None and image:
        files.write_entry(name, image, {**stamp, "burnx": __version__})
    return load(image)


def load_binary(name: str, load: Callable[[bytes], Loaded | None]) -> Loaded | None:
    """What ``load`` makes of a binary that is kept under this name; None if there is none, or it does not take it."""
    files = find_kept_files()
    image = files.read_entry(name) if files is not None else None
    return load(image) if image is not None else None


def name_binary(text: str, stamp: Stamp) -> str:
    """The file name of a binary."""
    parts = (text, *(f"{name}={value}" for name, value in sorted(stamp.items())))
    suffix = {"cuda": ".cubin"}.get(stamp["for"], ".cl")
    return sha256("\0".join(parts).encode()).hexdigest() + suffix
