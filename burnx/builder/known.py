"""What is known of values while a program is built: small arrays, and arrays of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from burnx.dtype import string
from burnx.errors import BurnxError
from burnx.program import Var
from burnx.shape import Dim, Expr, Shape, Undecided, maximum
from burnx.tensor import Array, Tensor
from burnx.types import TensorType, Type


def native(array: Array) -> Any:
    """The dtype of an array; object arrays hold strings."""
    return string if array.dtype == object else array.dtype


def known_of(var: Var) -> Array | None:
    return var.array if var.array is not None else var.known


def number_of(var: Var) -> Array | None:
    """What is known of a value, if that is its value and not dimensions."""
    known = known_of(var)
    if known is None or not isinstance(var.type, TensorType):
        return None
    return None if known.dtype == object and var.type.dtype != string else known


def fold(
    entry: Any, operands: Iterable[Var | None], kind: Type, attributes: Mapping[str, Any], most: int
) -> Array | None:
    """What is known of a primitive's result: computed from what is known of the operands, if it is small."""
    if entry.name == "sizes":
        return _dims_array(attributes["dims"])
    if not isinstance(kind, TensorType) or _elements(kind) > most or _has_dims(attributes):
        return None
    values: list[Array] = []
    symbolic = False
    for var in operands:
        known = None if var is None else var.known if var.known is not None else var.array
        if var is None or known is None or known.size > most:
            return None
        assert isinstance(var.type, TensorType)
        symbolic = symbolic or (known.dtype == object and var.type.dtype != string)
        values.append(known)
    return _evaluate(entry, values, attributes) if entry.symbolic or not symbolic else None


def measured(
    entry: Any, operands: Iterable[Var | None], kind: Type, attributes: Mapping[str, Any], most: int
) -> Type:
    """The type of a primitive's result, with sizes that depend on data where those data are known."""
    if not isinstance(kind, TensorType) or kind.shape is None or None not in kind.shape:
        return kind
    found = fold(entry, operands, TensorType(kind.dtype, ()), attributes, most)
    return kind if found is None else TensorType(kind.dtype, found.shape)


def _dims_array(dims: Shape) -> Array:
    if all(isinstance(dim, int) for dim in dims):
        return np.array(dims, np.int64).reshape(len(dims))
    result = np.empty(len(dims), object)
    result[:] = dims
    return result


def _evaluate(entry: Any, values: list[Array], attributes: Mapping[str, Any]) -> Array | None:
    try:
        result = np.asarray(entry.evaluate(*values, **attributes))
    except (BurnxError, ArithmeticError, LookupError, TypeError, ValueError, Undecided):
        return None  # an error belongs to the run, which may never come here
    whole = result.dtype == object and result.size > 0
    if whole and all(isinstance(item, int) for item in result.flat):
        return result.astype(np.int64)
    return result


def _elements(kind: TensorType) -> float:
    total = 1
    for dim in kind.shape or ():
        if not isinstance(dim, int):
            return float("inf")
        total *= dim
    return total


def _has_dims(attributes: Mapping[str, Any]) -> bool:
    return any(
        isinstance(value, Expr)
        or (isinstance(value, tuple) and any(isinstance(item, Expr) for item in value))
        for value in attributes.values()
    )


def trip_count(
    trips: Tensor | None, condition: Tensor | None, going: tuple[Var, Var]
) -> Dim | None:
    """How often a loop runs, if nothing but the count can end it; ``going``: the body's condition in and out."""
    always = condition is None or _is_true(condition.ref)
    if trips is None or not always or not (going[0] is going[1] or _is_true(going[1])):
        return None
    known = known_of(trips.ref)  # type: ignore[arg-type]
    if known is None:
        return None
    (count,) = known.reshape(-1)
    return maximum(count if isinstance(count, Expr) else int(count), 0)


def _is_true(var: Any) -> bool:
    known = number_of(var)
    return known is not None and bool(known.all())
