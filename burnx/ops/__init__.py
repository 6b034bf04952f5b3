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

_NOT_FAMILIES = {"operator", "domain", "kinds", "infer", "methods", "re2_syntax", "other_names"}


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


def python_name(entry: _operator.Operator) -> str:
    """What an operator is called as an attribute of this package.

    An operator of another domain whose name ONNX has too is called after its domain: ``microsoft_gelu``.
    """
    if not entry.domain or ("", entry.name) not in _plain_names():
        return entry.name
    return f"{entry.domain.rpartition('.')[2]}_{entry.name}"


@lru_cache(maxsize=1)
def _plain_names() -> frozenset[tuple[str, str]]:
    return frozenset((entry.domain, entry.name) for entry in table().values())


@lru_cache(maxsize=1)
def _names() -> dict[str, _operator.Operator]:
    return {python_name(entry): entry for entry in table().values()}


def array(value: Any, dtype: str = "float32") -> Any:
    """A NumPy array of a dtype given by name: a constant in model code."""
    import numpy as np

    from burnx.dtype import parse_dtype

    return np.asarray(value, parse_dtype(dtype))


def dims(*sizes: Any) -> Any:
    """Sizes, such as those of ``x.shape``, as an int64 vector."""
    import numpy as np

    from burnx.tensor import recorder_of

    recorder: Any = recorder_of(sizes) or _operator.DEFAULT_RECORDER[0]()
    made = recorder.constant_of(list(sizes)) if hasattr(recorder, "constant_of") else None
    return (
        made
        if made is not None
        else recorder.constant(np.array(sizes, np.int64).reshape(len(sizes)))
    )


# generated source writes what is no arithmetic on sizes as a call of these
def broadcast_dim(left: Any, right: Any) -> Any:
    """The size that two broadcast axes have together."""
    from burnx.shape import broadcast_dim as combine

    return combine(left, right)


def min_dim(left: Any, right: Any) -> Any:
    """The smaller of two sizes."""
    from burnx.shape import minimum

    return minimum(left, right)


def max_dim(left: Any, right: Any) -> Any:
    """The greater of two sizes."""
    from burnx.shape import maximum

    return maximum(left, right)


def tensor_type(dtype: str, shape: tuple[int, ...] | None = None) -> Any:
    """The type of a tensor: an attribute of the operators of optional values."""
    from burnx.dtype import parse_dtype
    from burnx.types import TensorType

    return TensorType(parse_dtype(dtype), shape)


def sequence_type(element: Any) -> Any:
    """The type of a sequence."""
    from burnx.types import SequenceType

    return SequenceType(element)


def optional_type(element: Any) -> Any:
    """The type of an optional value."""
    from burnx.types import OptionalType

    return OptionalType(element)


@lru_cache(maxsize=1)
def _modules() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def __getattr__(name: str) -> Any:
    # a family may ask for another one while not all of them are there
    if name in _modules():
        raise AttributeError(f"burnx.ops has not imported {name!r}")
    if name.startswith("_") or name not in _names():
        from burnx.ops.other_names import suggestion

        hint = "" if name.startswith("_") else suggestion(name, _names(), _names())
        raise AttributeError(f"burnx.ops has no operator {name!r}{hint}")
    return _names()[name]


def __dir__() -> list[str]:
    return sorted(_names())
