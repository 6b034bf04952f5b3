"""Whether source and weights are of one model: the written classes are made, and their parameters compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from re import search
from typing import Any

import burnx
from burnx.architectures.checkpoint import Checkpoint
from burnx.architectures.render import IMPORTED
from burnx.dtype import is_float
from burnx.errors import UnsupportedError
from burnx.nn import Module

Kinds = Mapping[str, tuple[tuple[int, ...], Any]]


def make_model(code: str, class_name: str) -> Module:
    """A model of a class that burnx has just written; no data is made."""
    names: dict[str, Any] = {"__name__": "burnx_written", "DTYPE": "float32"}
    names |= {name: getattr(burnx, name) for name in IMPORTED}
    exec(compile(code, "model.py", "exec"), names)
    model: Module = names[class_name]()
    return model


def kinds_of(model: Module) -> Kinds:
    """Shape and dtype of each parameter."""
    return {path: parameter.kind for path, parameter in model.named_parameters()}


def check_fit(wanted: Kinds, names: Mapping[str, str], checkpoint: Checkpoint, title: str) -> None:
    """Raises: UnsupportedError that lists the parameters which have no tensor, or one of another shape."""
    faults = []
    for path, (shape, dtype) in wanted.items():
        if path not in names:
            faults.append(f"missing: {path} {shape}")
            continue
        found = checkpoint.tensors[names[path]]
        if found.shape != shape:
            faults.append(f"mismatched: {names[path]} is {found.shape}, {title} has {shape}")
        elif is_float(found.dtype) != is_float(dtype):
            faults.append(f"mismatched: {names[path]} is {found.dtype}")
    if faults:
        teller = "config.json" if title and checkpoint.config else "their names"
        more = f"\n  and {len(faults) - 8} more" if len(faults) > 8 else ""
        raise UnsupportedError(
            f"the tensors of {str(checkpoint.path)!r} are not those of {title}, as {teller} would have it:\n  "
            + "\n  ".join(faults[:8])
            + more
        )


def check_rest(left: Iterable[str], model: Module, checkpoint: Checkpoint, title: str) -> None:
    """Raises: UnsupportedError if a tensor that is left is part of what the source computes, and not of a head.

    That is any tensor where names alone tell the family, and else one of a numbered module.
    """
    inside = {name for name, _ in model.children()}
    for path in left:
        if not checkpoint.config or (path.partition(".")[0] in inside and search(r"\.\d+\.", path)):
            raise UnsupportedError(
                f"{title} has no place for tensor {path!r} of {str(checkpoint.path)!r}: it is another model"
            )
