"""From a checkpoint to a Python file: the family's source, or a skeleton where no family is known."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from burnx.architectures.checkpoint import Checkpoint, open_checkpoint
from burnx.architectures.draft import Draft, make_draft
from burnx.architectures.fitting import kinds_of, make_model
from burnx.architectures.render import module_text
from burnx.codegen.write import ImportOptions, check_target, check_weights, with_mark
from burnx.dtype import dtype_name
from burnx.errors import UsageError
from burnx.files import atomic_write
from burnx.nn import Input, Module, Output
from burnx.nn.declared import parameter_name
from burnx.tensor import Array
from burnx.weights import save_weights


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


def write_checkpoint(source: str | Path, target: Path, options: ImportOptions) -> CheckpointReport:
    """Write a checkpoint's model as ``target``, which loads the given weights where they lie.

    With ``weights`` in the options they are copied there, under their own names.
    Raises: WeightsError, UnsupportedError, ModelError; UsageError if ``target`` was edited or is not burnx's.
    """
    check_target(target, options.class_name, options.force)
    checkpoint = open_checkpoint(Path(source))
    draft = make_draft(checkpoint)
    code = _renamed_class(draft.code, options.class_name)
    model = make_model(code, options.class_name)
    names = [draft.names[path] for path in kinds_of(model)]
    used = {name: checkpoint.tensors[name] for name in names}
    file = _place_weights(checkpoint, used, target, options, draft.dtype)
    count = sum(array.size for array in used.values())
    beside = Path(os.path.relpath(file, target.parent)).as_posix()
    words = f"{draft.title}: {_amount(count)} parameters, from {checkpoint.path.name}."
    words = "\n".join([words, *_usage(model, beside), *_list(draft.to_do)])
    text = with_mark(module_text(words, code, _constants(draft, beside)))
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
        draft.left_out,
    )


def _constants(draft: Draft, weights: str) -> list[tuple[str, Any]]:
    """What stands at the top of the module."""
    found: list[tuple[str, Any]] = [("WEIGHTS", weights)]
    found += [("REMAP", dict(draft.renames))] if draft.renames else []
    return found + ([("DTYPE", draft.dtype)] if "DTYPE" in draft.code else [])


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
