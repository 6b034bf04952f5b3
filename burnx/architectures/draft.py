"""The source of a checkpoint before it is written: that of a family that fits it, or a skeleton."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from re import search
from typing import Any, Final

from burnx.architectures.checkpoint import Checkpoint, family_renames
from burnx.architectures.config import read_settings
from burnx.architectures.family import Family, family_of_names, family_of_type, known_types
from burnx.architectures.fitting import check_fit, check_rest, kinds_of, make_model
from burnx.architectures.render import render
from burnx.architectures.skeleton import make_skeleton
from burnx.dtype import dtype_name, is_float
from burnx.errors import UnsupportedError
from burnx.nn.stored import is_counter
from burnx.tensor import Array

DTYPES: Final = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class Draft:
    """Source that is ready to be written, but for its docstring and constants.

    ``names``: name in the source -> name in the file; ``dtype``: what the parameters are to be, or nothing where each
    is what its tensor is.
    """

    code: str
    title: str
    renames: Mapping[str, str]
    names: Mapping[str, str]
    dtype: str = ""
    family: str = ""
    to_do: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def make_draft(checkpoint: Checkpoint) -> Draft:
    """The source of a known family, or else a skeleton and why it is one.

    Raises: UnsupportedError, ModelError for a config.json that burnx knows but cannot follow.
    """
    kind = (checkpoint.config or {}).get("model_type")
    if isinstance(kind, str):
        family = family_of_type(kind)
        if family is not None:
            return draft_of(family, checkpoint)
        reason = f"model_type {kind!r} of config.json is not one that burnx knows ({known_types()})"
        return _skeleton(checkpoint, reason)
    family = family_of_names(checkpoint.names())
    if family is None:
        return _skeleton(checkpoint, "no config.json beside it names a model_type that burnx knows")
    try:
        return draft_of(family, replace(checkpoint, config=None))
    except UnsupportedError as error:
        return _skeleton(checkpoint, f"it is no {family.title} that burnx knows: {error}")


def draft_of(family: Family, checkpoint: Checkpoint) -> Draft:
    """The source of a family.

    Raises: UnsupportedError if the tensors are not those of the source.
    """
    settings = read_settings(family, checkpoint.config or {})
    own = family_renames(checkpoint.names(), family.prefixes, family.renames)
    renames = {**checkpoint.renames, **own}
    names = replace(checkpoint, renames=renames).names()
    arrays = {path: checkpoint.tensors[name] for path, name in names.items()}
    dtype = widest_dtype(arrays)
    code = render(family, settings, {path: array.shape for path, array in arrays.items()}, dtype)
    model = make_model(code, "Model")
    kinds = kinds_of(model)
    check_fit(kinds, names, checkpoint, family.title)
    left = dict(_left_out(arrays, kinds, family.ignored))
    check_rest(left, model, checkpoint, family.title)
    out = tuple(names[path] for path in left)
    return Draft(code, family.title, renames, names, dtype, family.title, (), out)


def _left_out(
    arrays: Mapping[str, Array], kinds: Mapping[str, Any], ignored: tuple[str, ...]
) -> Iterator[tuple[str, Array]]:
    """The tensors that no parameter takes, but for those that are ignored or tied to one that is taken."""
    taken = {_memory(arrays[path]) for path in kinds}
    for path, array in arrays.items():
        known = path in kinds or is_counter(path) or any(search(each, path) for each in ignored)
        if not known and _memory(array) not in taken:
            yield path, array


def _memory(array: Array) -> Any:
    return array.__array_interface__["data"][0], array.shape


def _skeleton(checkpoint: Checkpoint, reason: str) -> Draft:
    arrays = {path: checkpoint.tensors[name] for path, name in checkpoint.names().items()}
    made = make_skeleton(arrays, reason)
    renames = {**checkpoint.renames, **made.renames}
    names = replace(checkpoint, renames=renames).names()
    return Draft(made.code, made.title, renames, names, to_do=made.to_do)


def widest_dtype(arrays: Mapping[str, Array]) -> str:
    """The float dtype that most elements have.

    Raises: UnsupportedError if it is one that no model computes in.
    """
    sizes: Counter[str] = Counter()
    for array in arrays.values():
        if is_float(array.dtype):
            sizes[dtype_name(array.dtype)] += array.size
    found = max(sizes, key=lambda name: sizes[name], default="float32")
    if found not in DTYPES:
        raise UnsupportedError(f"weights of a known family are {', '.join(DTYPES)}: found {found}")
    return found
