"""Results of races, kept for later processes: a small text in JSON for each kernel, class of sizes and device.

They lie in ``tuning`` inside the folder of compiled kernels, under the same conditions.  Whoever finds one asks whether
it still is among what there is to choose from: a result never decides what is right, only what is tried first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from burnx import __version__
from burnx.runtime.compiled.kept_files import About, KeptFiles, find_kept_files

FOLDER = "tuning"


def shape_class(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Sizes as far as results are told apart by them: to the next power of two."""
    return tuple(sorted((name, max(size, 0).bit_length()) for name, size in sizes.items()))


@dataclass(slots=True)
class Store:
    """The results for one device; ``about`` says which, and all else that they depend on."""

    about: About
    files: KeptFiles | None = None
    known: dict[str, Any] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)  # what this process has kept itself

    def find(self, *key: Any) -> Any:
        """What was kept under a key; None if there is nothing that can be trusted."""
        name = self._name(key)
        if name not in self.known:
            image = self.files.read_entry(name) if self.files is not None else None
            try:
                self.known[name] = None if image is None else json.loads(image)
            except (ValueError, RecursionError):
                self.known[name] = None
        return self.known[name]

    def keep(self, value: Any, *key: Any) -> None:
        """Keep a value that JSON can hold."""
        name = self._name(key)
        self.known[name] = json.loads(json.dumps(value))
        self.fresh.add(name)
        if self.files is not None:
            self.files.write_entry(name, json.dumps(value).encode(), self.about)

    def is_fresh(self, *key: Any) -> bool:
        """Whether this process has kept something under a key."""
        return self._name(key) in self.fresh

    def _name(self, key: Any) -> str:
        text = json.dumps([key, sorted(self.about.items())])
        return sha256(text.encode()).hexdigest() + ".json"


def find_store(about: About) -> Store:
    """The results for a device; where nothing is kept they are this process's alone."""
    files = find_kept_files(FOLDER)
    return _open(tuple(sorted({**about, "burnx": __version__}.items())), files)


@lru_cache(maxsize=64)
def _open(about: tuple[tuple[str, str], ...], files: KeptFiles | None) -> Store:
    return Store(dict(about), files)
