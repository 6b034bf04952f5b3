"""Objects of the cpu among the files that are kept: what they are called, and what they were made for."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec

from burnx import __version__
from burnx.llvm.target import Target
from burnx.runtime.compiled.kept_files import FORMAT, About, KeptFiles, find_kept_files


@dataclass(frozen=True, slots=True)
class ObjectFiles(KeptFiles):
    """A folder of objects."""

    def read(self, key: str, target: Target) -> bytes | None:
        """The object of a key; None if there is none that can be trusted."""
        return self.read_entry(name_entry(key, target))

    def write(self, key: str, target: Target, image: bytes) -> None:
        """Keep an object."""
        self.write_entry(name_entry(key, target), image, describe_target(target))


def describe_target(target: Target) -> About:
    """What an object depends on, beside its text."""
    burnx, llvmlite = list_versions()
    return {
        "for": "cpu",
        "burnx": burnx,
        "triple": target.triple,
        "processor": target.cpu,
        "features": sha256(target.features.encode()).hexdigest()[:16],
        "llvmlite": llvmlite[:16],
    }


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


def find_object_files() -> ObjectFiles | None:
    """The folder of objects, if it is ours alone."""
    found = find_kept_files()
    return ObjectFiles(found.folder) if found is not None else None
