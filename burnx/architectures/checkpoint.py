"""A checkpoint on disk: which files it is made of, and what its tensors are called inside a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from burnx.checkpoints import INDEX_END, SUFFIXES, open_tensors
from burnx.errors import ModelError, WeightsError
from burnx.nn.stored import names_in, renamer
from burnx.tensor import Array

# In a folder, the first of these that is there.
_USUAL: Final = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
CONFIG: Final = "config.json"
MAX_CONFIG_BYTES: Final = 10_000_000
# What training code puts around a model: before all names, or wherever a module was wrapped.
_AROUND: Final = ("module", "model", "net", "network", "backbone")
_WRAPPED: Final = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights and what stands beside them; ``renames`` is what has to be taken from their names."""

    path: Path
    tensors: Mapping[str, Array]
    config: Mapping[str, Any] | None
    renames: Mapping[str, str]

    def names(self) -> dict[str, str]:
        """Name in the model -> name in the file."""
        return names_in(self.tensors, self.renames)


def is_checkpoint(source: Path) -> bool:
    """Whether a path names weights rather than a graph."""
    return source.is_dir() or source.name.endswith(INDEX_END) or source.suffix.lower() in SUFFIXES


def open_checkpoint(source: Path) -> Checkpoint:
    """Map a file of weights, or those of a folder, and read the config.json beside them.

    Raises: WeightsError for damaged weights, or ones that hold code, and a folder without one file of them.
    """
    path = _weights_in(source) if source.is_dir() else source
    tensors = open_tensors(path)
    return Checkpoint(path, tensors, read_config(path.parent / CONFIG), wrapper_renames(tensors))


def _weights_in(folder: Path) -> Path:
    for name in _USUAL:
        if (folder / name).is_file():
            return folder / name
    found = [each for each in sorted(folder.iterdir()) if each.suffix.lower() in SUFFIXES]
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "none"
        raise WeightsError(f"a folder has one file of weights: {str(folder)!r} has {names}")
    return found[0]


def read_config(path: Path) -> Mapping[str, Any] | None:
    """A config.json, or None if there is none.

    Raises: ModelError if it cannot be read as a JSON object.
    """
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise ModelError(f"{str(path)!r} is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{str(path)!r} must hold a JSON object")
    return content


def wrapper_renames(names: Iterable[str]) -> dict[str, str]:
    """Rules that take off what wrappers put around the names of a model."""
    left = list(names)
    rules: dict[str, str] = {}
    for word in _WRAPPED:
        rule = rf"\b{word}\."
        if any(re.search(rule, name) for name in left):
            rules[rule] = ""
            left = [re.sub(rule, "", name) for name in left]
    around = ""
    while first := next((word for word in _AROUND if _all_under(left, word)), None):
        around += rf"{first}\."
        left = [name[len(first) + 1 :] for name in left]
    return {**rules, f"^{around}": ""} if around else rules


def _all_under(names: list[str], word: str) -> bool:
    return bool(names) and all(name.startswith(f"{word}.") for name in names)


def family_renames(
    names: Iterable[str], prefixes: Iterable[str], renames: Mapping[str, str]
) -> dict[str, str]:
    """Those of a family's rules that change a name."""
    left = list(names)
    rules: dict[str, str] = {}
    for pattern, new in [*((f"^{re.escape(each)}", "") for each in prefixes), *renames.items()]:
        changed = list(map(renamer({pattern: new}, ()), left))
        if changed != left:
            rules[pattern], left = new, changed
    return rules
