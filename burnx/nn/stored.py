"""What weights are called in a file: the names of the model that they come from, and which parameter each is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from burnx.tensor import Array
from burnx.weights import Weights

Remap = Mapping[str, str] | Callable[[str], str]
ORIGINAL_NAMES = "burnx.names"


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


def names_in(weights: Weights, remap: Remap | None) -> dict[str, str]:
    """Parameter name -> name in the file; several parameters may be one tensor of the file."""
    stored: dict[str, str] = json.loads(weights.metadata.get(ORIGINAL_NAMES, "{}"))
    found = {path: name for path, name in stored.items() if name in weights}
    renamed = set(found.values())
    rename = remap.get if isinstance(remap, Mapping) else remap
    for name in weights:
        path = (rename(name) or name) if rename is not None else name
        if path != name or name not in renamed:
            found[path] = name
    return found
