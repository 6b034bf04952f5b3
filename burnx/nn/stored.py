"""What weights are called in a file: the names of the model that they come from, and which parameter each is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from burnx.errors import UsageError, WeightsError
from burnx.tensor import Array

Remap = Mapping[str, str] | Callable[[str], str]
ORIGINAL_NAMES = "burnx.names"
_COUNTER = "num_batches_tracked"


def is_counter(name: str) -> bool:
    """Whether a tensor of a checkpoint is a count of training steps, which no model that only runs reads."""
    return name.rpartition(".")[2] == _COUNTER


def under_original_names(
    weights: Iterable[tuple[str, str, Array]],
) -> tuple[dict[str, Array], dict[str, str]]:
    """Each array once under its name, and the metadata of the file; ``weights``: (path, original name, array).

    The metadata says which parameters have another name than their path.
    """
    tensors: dict[str, Array] = {}
    names: dict[str, str] = {}
    known: dict[int, str] = {}
    for path, original, array in weights:
        key = original or known.get(id(array), path)
        if tensors.get(key, array) is not array:
            key = path
        while tensors.get(key, array) is not array:
            key += "_"
        tensors[key], names[path] = array, key
        known.setdefault(id(array), key)
    shared = {key for path, key in names.items() if key != path}
    renamed = {path: key for path, key in names.items() if key != path or key in shared}
    return tensors, {ORIGINAL_NAMES: json.dumps(renamed)} if renamed else {}


def names_in(tensors: Mapping[str, Any], remap: Remap | None) -> dict[str, str]:
    """Parameter name -> name in the file; several parameters may be one tensor of the file.

    Raises: WeightsError if ``remap`` gives two tensors one name, UsageError if it is damaged.
    """
    metadata: Mapping[str, str] = getattr(tensors, "metadata", {})
    stored: dict[str, str] = json.loads(metadata.get(ORIGINAL_NAMES, "{}"))
    found = {path: name for path, name in stored.items() if name in tensors}
    renamed = set(found.values())
    rename = renamer(remap, tensors)
    taken: dict[str, str] = {}
    for name in tensors:
        path = rename(name)
        if path == name and name in renamed:
            continue
        if taken.setdefault(path, name) != name:
            raise WeightsError(f"remap makes {path!r} of both {taken[path]!r} and {name!r}")
        found[path] = name
    return found


def renamer(remap: Remap | None, names: Iterable[str]) -> Callable[[str], str]:
    """``remap`` as a function: a key that is one of the names stands for that name alone, any other key is a regular
    expression, and all of these are applied in their order, as by ``re.sub``.

    Raises: UsageError if an expression is damaged.
    """
    if remap is None:
        return lambda name: name
    if not isinstance(remap, Mapping):
        function = remap
        return lambda name: function(name) or name
    whole = {key: remap[key] for key in names if key in remap}
    rules = [(_compiled(key), new) for key, new in remap.items() if key not in whole]

    def rename(name: str) -> str:
        if name in whole:
            return whole[name]
        path = name
        for pattern, new in rules:
            try:
                path = pattern.sub(new, path)
            except (re.error, IndexError) as error:
                raise UsageError(f"remap to {new!r} is no replacement: {error}") from error
        return path or name

    return rename


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"remap takes regular expressions; {pattern!r} is none: {error}"
        ) from error
