"""What an operator takes beyond what its type variables say: inputs of some ranks, attributes of a domain.

Enters: the inputs and attributes of one call.  Leaves: nothing, or a ModelError that says the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from burnx.dtype import DType, dtype_name
from burnx.errors import ModelError
from burnx.graph import Graph
from burnx.shape import shape_text
from burnx.tensor import Tensor
from burnx.types import TensorType

Ranks: TypeAlias = Mapping[str, int | tuple[int, ...]]
"""The ranks that an input may have, by its name; -n stands for n and more."""

_DOMAINS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "Flag": (lambda value: value in (0, 1), "0 or 1"),
    "Count": (lambda value: value >= 1, "at least 1"),
}
_SHOWN_LETTERS = 60


def domains_of(annotations: Mapping[str, str]) -> dict[str, str]:
    """The attributes whose annotation is a domain, and which one."""
    kinds = {name: text.partition(" |")[0].strip() for name, text in annotations.items()}
    return {name: kind for name, kind in kinds.items() if kind in _DOMAINS}


def check_attributes(domains: Mapping[str, str], attributes: Mapping[str, Any]) -> None:
    """Raises: ModelError if an attribute is outside of its domain."""
    for name, kind in domains.items():
        value = attributes.get(name)
        allows, text = _DOMAINS[kind]
        if isinstance(value, int) and not allows(value):
            raise ModelError(f"{name} is {text}, not {value}")


def check_dtypes(wanted: Sequence[DType | None], inputs: Mapping[str, Tensor | None]) -> None:
    """Raises: ModelError if an input that has one dtype only, whatever the others have, has another one."""
    for (name, value), dtype in zip(inputs.items(), wanted, strict=False):
        found = value.type if value is not None else None
        if dtype is not None and isinstance(found, TensorType) and found.dtype != dtype:
            raise ModelError(f"{name} is {dtype_name(dtype)}, not {dtype_name(found.dtype)}")


def check_ranks(ranks: Ranks, inputs: Mapping[str, Tensor | None]) -> None:
    """Raises: ModelError if an input is of another rank; one whose rank is not known yet may be any."""
    for name, wanted in ranks.items():
        value = inputs.get(name)
        shape = getattr(value.type, "shape", None) if value is not None else None
        if shape is None:
            continue
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        if not any(len(shape) == rank or (rank < 0 and len(shape) >= -rank) for rank in allowed):
            raise ModelError(f"{name} has {_axes_text(allowed)}, not {shape_text(shape)}")


def unfit(name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> ModelError:
    """The error for inputs and attributes that contradict each other in a way that no rule of the operator names."""
    given = [f"{key} {_shown(value)}" for key, value in inputs.items() if value is not None]
    given += [f"{key} = {_shown(value)}" for key, value in attributes.items() if value is not None]
    return ModelError(
        f"the inputs and attributes of {name} fit together in rank, size and number: "
        f"these do not: {', '.join(given) or 'none'}"
    )


def _axes_text(allowed: Sequence[int]) -> str:
    texts = [f"{-rank} or more" if rank < 0 else str(rank) for rank in allowed]
    return f"{' or '.join(texts)} {'axis' if texts == ['1'] else 'axes'}"


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value.type)
    if isinstance(value, Graph):
        return "a graph"
    if isinstance(value, np.ndarray):
        return str(TensorType(value.dtype, value.shape))
    text = repr(value)
    return text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}…"
