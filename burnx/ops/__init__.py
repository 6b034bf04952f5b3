"""Operators: ONNX's, as Python functions.

Enters: tensors and attributes.  Leaves: tensors.  May import: builder, waist, tensor, graph, types, shape, dtype.
Start reading at ``operator.py``, then any family.  ``find`` gives an operator by its ONNX name; the functions
themselves are attributes of this package.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from typing import Any

from burnx.builder import Operators
from burnx.errors import UnsupportedError
from burnx.ops import operator as _operator

_NOT_FAMILIES = {"operator", "kinds", "infer", "methods"}


@lru_cache(maxsize=1)
def _families() -> None:
    """Import every family, which registers its operators."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _NOT_FAMILIES:
            importlib.import_module(f"{__name__}.{module.name}")


def table() -> dict[tuple[str, str], _operator.Operator]:
    """Every operator by (domain, op_type)."""
    _families()
    return dict(_operator.table())


def find(domain: str, op_type: str) -> _operator.Operator:
    """The operator of an ONNX name.

    Raises: UnsupportedError if burnx has none.
    """
    _families()
    entry = _operator.table().get(("" if domain == "ai.onnx" else domain, op_type))
    if entry is None:
        raise UnsupportedError(f"burnx has no operator {domain + '.' if domain else ''}{op_type}")
    return entry


@lru_cache(maxsize=1)
def operators() -> Operators:
    """What a builder needs to know of all this."""
    _families()
    from burnx.ops.methods import METHODS

    return Operators(find, METHODS)


def limitations() -> tuple[_operator.Limitation, ...]:
    """Every declared gap."""
    return tuple(gap for entry in table().values() for gap in entry.limitations)


@lru_cache(maxsize=1)
def _names() -> dict[str, _operator.Operator]:
    return {entry.name: entry for entry in table().values()}


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in _names():
        raise AttributeError(f"burnx.ops has no operator {name!r}")
    return _names()[name]


def __dir__() -> list[str]:
    return sorted(_names())
