"""From a checkpoint to a Python file: the family's source, or a skeleton where no family is known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import search
from typing import Any, Final

import numpy as np

from burnx.architectures.checkpoint import Checkpoint, family_renames, open_checkpoint
from burnx.architectures.config import read_settings
from burnx.architectures.family import Family, family_of_names, family_of_type, known_types
from burnx.architectures.fitting import check_fit, kinds_of, make_model
from burnx.architectures.render import module_text, render
from burnx.architectures.skeleton import make_skeleton
from burnx.codegen.write import ImportOptions, check_target, check_weights, with_mark
from burnx.dtype import dtype_name, is_float
from burnx.errors import UnsupportedError, UsageError
from burnx.files import atomic_write
from burnx.nn import Input, Module, Output
from burnx.nn.declared import parameter_name
from burnx.tensor import Array
from burnx.weights import save_weights

_COUNTERS: Final = r"(^|\.)num_batches_tracked$"


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """What was written from a checkpoint: ``to_do`` is left to a person, ``left_out`` are tensors without a place."""

    source: str
    weights: str
    family: str
    lines: int
    classes: int
    parameters: int
    to_do: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = f"{self.family}, complete" if self.family else "a skeleton"
        classes = "1 class" if self.classes == 1 else f"{self.classes} classes"
        size = f"{self.lines} lines, {classes}"
        weights = f"{self.weights} ({self.parameters:,} parameters)"
        said = [f"wrote {self.source} ({kind}: {size}) for {weights}"]
        if self.left_out:
            shown = ", ".join(self.left_out[:4]) + (", ..." if len(self.left_out) > 4 else "")
            said.append(f"left out, as no part of this forward: {shown}")
        said += [f"to fill in: {line}" for line in self.to_do]
        return "\n".join(said)


@dataclass(frozen=True, slots=True)
class Draft:
    """Source that is ready to be written, but for its docstring and constants."""

    code: str
    title: str
    renames: Mapping[str, str]
    dtype: str
    family: str = ""
    to_do: tuple[str, ...] = ()
    ignored: tuple[str, ...] = field(default=(_COUNTERS,))


def write_checkpoint(source: str | Path, target: Path, options: ImportOptions) -> CheckpointReport:
    """Write a checkpoint's model as ``target``, which loads the given weights where they lie.

    With ``weights`` in the options they are copied there, under their own names.
    Raises: WeightsError, UnsupportedError, ModelError; UsageError if ``target`` was edited or is not burnx's.
    """
    check_target(target, options.class_name, options.force)
    checkpoint = open_checkpoint(Path(source))
    draft = make_draft(checkpoint)
    code = _renamed_class(draft.code, options.class_name)
    names = checkpoint_names(checkpoint, draft)
    model = make_model(code, options.class_name)
    wanted = kinds_of(model)
    check_fit(wanted, names, checkpoint, draft.family)
    used = {names[path]: checkpoint.tensors[names[path]] for path in wanted}
    file = _place_weights(checkpoint, used, target, options, draft.dtype)
    beside = Path(os.path.relpath(file, target.parent)).as_posix()
    constants: list[tuple[str, Any]] = [("WEIGHTS", beside)]
    constants += [("REMAP", dict(draft.renames))] if draft.renames else []
    constants += [("DTYPE", draft.dtype)] if "DTYPE" in code else []
    count = sum(array.size for array in used.values())
    lines = [f"{draft.title}: {_amount(count)} parameters, from {checkpoint.path.name}."]
    words = "\n".join([*lines, *_usage(model, beside), *_list(draft.to_do)])
    text = with_mark(module_text(words, code, constants))
    with atomic_write(target, "w") as stream:
        stream.write(text)
    return CheckpointReport(
        str(target),
        str(file),
        draft.family,
        text.count("\n"),
        text.count("\nclass "),
        count,
        draft.to_do,
        tuple(_left_out(checkpoint, names, used, draft)),
    )


def _left_out(
    checkpoint: Checkpoint, names: Mapping[str, str], used: Mapping[str, Array], draft: Draft
) -> Iterator[str]:
    """The tensors that no parameter takes, but for what a family ignores and what is tied to one that is taken."""
    taken = {_place(array) for array in used.values()}
    for name in names.values():
        known = name in used or any(search(each, name) for each in draft.ignored)
        if not known and _place(checkpoint.tensors[name]) not in taken:
            yield name


def _place(array: Array) -> Any:
    return array.__array_interface__["data"][0], array.shape


def checkpoint_names(checkpoint: Checkpoint, draft: Draft) -> dict[str, str]:
    """Name in the source -> name in the file."""
    whole = Checkpoint(checkpoint.path, checkpoint.tensors, checkpoint.config, draft.renames)
    return whole.names()


def make_draft(checkpoint: Checkpoint) -> Draft:
    """The source of a known family, or else a skeleton and why it is one."""
    config = checkpoint.config or {}
    kind = config.get("model_type")
    if isinstance(kind, str):
        family = family_of_type(kind)
        if family is not None:
            return _draft_of(family, checkpoint, config)
        reason = f"model_type {kind!r} of config.json is not one that burnx knows ({known_types()})"
        return _skeleton(checkpoint, reason)
    family = family_of_names(checkpoint.names())
    if family is None:
        return _skeleton(checkpoint, "no config.json beside it names a model_type that burnx knows")
    try:
        draft = _draft_of(family, checkpoint, config)
        wanted = kinds_of(make_model(draft.code, "Model"))
        check_fit(wanted, checkpoint_names(checkpoint, draft), checkpoint, family.title)
        return draft
    except UnsupportedError as error:
        return _skeleton(checkpoint, f"it is no {family.title} that burnx knows: {error}")


def _draft_of(family: Family, checkpoint: Checkpoint, config: Mapping[str, Any]) -> Draft:
    settings = read_settings(family, config)
    own = family_renames(checkpoint.names(), family.prefixes, family.renames)
    renames = {**checkpoint.renames, **own}
    plain = Draft("", family.title, renames, "", family.title, (), (*family.ignored, _COUNTERS))
    names = checkpoint_names(checkpoint, plain)
    arrays = {path: checkpoint.tensors[name] for path, name in names.items()}
    dtype = widest_dtype(arrays)
    code = render(family, settings, {path: array.shape for path, array in arrays.items()}, dtype)
    return Draft(code, family.title, renames, dtype, family.title, (), plain.ignored)


def _skeleton(checkpoint: Checkpoint, reason: str) -> Draft:
    arrays = {path: checkpoint.tensors[name] for path, name in checkpoint.names().items()}
    made = make_skeleton(arrays, reason)
    renames = {**checkpoint.renames, **made.renames}
    return Draft(made.code, made.title, renames, "", "", made.to_do)


def widest_dtype(arrays: Mapping[str, Array]) -> str:
    """The float dtype that most elements have."""
    sizes: Counter[str] = Counter()
    for array in arrays.values():
        if is_float(array.dtype):
            sizes[dtype_name(array.dtype)] += array.size
    return max(sizes, key=lambda name: sizes[name], default="float32")


def _renamed_class(code: str, name: str) -> str:
    if name != "Model" and f"\nclass {name}(" in f"\n{code}":
        raise UsageError(f"the source has a class {name!r} of its own: give the model another name")
    return code.replace("class Model(nn.Module)", f"class {name}(nn.Module)")


def _place_weights(
    checkpoint: Checkpoint,
    used: Mapping[str, Array],
    target: Path,
    options: ImportOptions,
    dtype: str,
) -> Path:
    """The file that the source names: the given one, or a copy if one is asked for or its dtypes are mixed."""
    mixed = dtype and any(dtype_name(array.dtype) != dtype for array in used.values())
    if options.weights is None and not mixed:
        return checkpoint.path
    file = Path(options.weights or target.with_suffix(".safetensors"))
    if file.exists() and file.samefile(checkpoint.path):
        raise UsageError(
            f"weights that are copied, as several dtypes are to one, need another file than {str(file)!r}: --weights names it"
        )
    check_weights(file, target, options.force)
    wanted = np.dtype(dtype) if dtype else None
    save_weights(file, {name: _as_dtype(array, wanted) for name, array in used.items()})
    return file


def _as_dtype(array: Array, dtype: Any) -> Array:
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


def _usage(model: Module, weights: str) -> list[str]:
    """Lines of the docstring: what goes in and out, and how to call it."""
    kind = type(model)
    if not kind.inputs:
        return []
    given = ", ".join(parameter_name(entry) for entry in kind.inputs)
    results = ", ".join(entry.name for entry in kind.outputs)
    return [
        "",
        "Inputs:  " + "; ".join(map(_described, kind.inputs)),
        "Outputs: " + "; ".join(map(_described, kind.outputs)),
        "",
        f"    model = {kind.__name__}.load()  # {weights}",
        f"    {results} = model({given})",
    ]


def _described(entry: Input | Output) -> str:
    dims = ", ".join(map(str, entry.dims or ()))
    return f"{entry.name}: {entry.dtype} ({dims})"


def _list(to_do: Sequence[str]) -> list[str]:
    return ["", "To fill in:", *(f"- {line}" for line in to_do)] if to_do else []


def _amount(count: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)
