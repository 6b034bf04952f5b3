"""Shapes as a whole: broadcasting, element counts, text, and other dimensions put in for symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from burnx.errors import ShapeError
from burnx.shape.expr import (
    Atom,
    Call,
    Dim,
    Expr,
    Shape,
    Symbol,
    broadcast_sizes,
    evaluate,
    floordiv,
    make_call,
    mod,
)
from burnx.shape.order import maximum, minimum


def broadcast_dim(left: Dim, right: Dim) -> Dim:
    """The size two broadcast dimensions have together.

    Raises: ShapeError if they are different integers and neither is 1.
    """
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        return broadcast_sizes(left, right)
    if isinstance(left, int):
        return left
    if isinstance(right, int):
        return right
    for size, other in ((left, right), (right, left)):
        if _is_capped(other, size):
            return size
    return make_call("broadcast", *sorted((left, right), key=str))


def _is_capped(dim: Dim, size: Dim) -> bool:
    """Whether ``dim`` is min(size, n) with n of 1 or more: it broadcasts with ``size`` only where it is ``size`` or 1."""
    if not isinstance(dim, Expr) or len(dim.terms) != 1:
        return False
    ((monomial, factor),) = dim.terms.items()
    if factor != 1 or len(monomial) != 1 or not isinstance(monomial[0], Call):
        return False
    call = monomial[0]
    ends = (call.left, call.right)
    return (
        call.kind == "min"
        and size in ends
        and any(isinstance(end, int) and end >= 1 for end in ends)
    )


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape of an elementwise operation on these shapes, aligned at the last axis.

    Raises: ShapeError naming the shapes if they do not fit.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    try:
        return tuple(reduce(broadcast_dim, dims) for dims in zip(*padded, strict=True))
    except ShapeError:
        listed = " and ".join(shape_text(shape) for shape in shapes)
        raise ShapeError(
            f"shapes broadcast when each pair of axes is equal or 1: {listed}"
        ) from None


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


_BUILD: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    "broadcast": broadcast_dim,
}


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """``dim`` with some of its symbols replaced."""
    if not isinstance(dim, Expr):
        return dim
    total: Dim = 0
    for monomial, factor in dim.terms.items():
        total = total + product((factor, *(_substitute_atom(atom, values) for atom in monomial)))
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Dim]) -> Dim:
    if isinstance(atom, Symbol):
        return values.get(atom.name, Expr({(atom,): 1}))
    return _BUILD[atom.kind](substitute(atom.left, values), substitute(atom.right, values))


def has_symbols(value: Any) -> bool:
    """Whether a dimension, or a nest of tuples, holds one that is not a number yet."""
    if isinstance(value, tuple):
        return any(has_symbols(item) for item in value)
    return isinstance(value, Expr)


def settled(value: Any, sizes: Mapping[str, int]) -> Any:
    """A dimension, or a nest of tuples, with the sizes of its symbols put in; all else is left as it is.

    Raises: ShapeError if a symbol has no size.
    """
    if isinstance(value, tuple):
        return tuple(settled(item, sizes) for item in value)
    return evaluate(value, sizes) if isinstance(value, Expr) else value


def shape_text(shape: Shape | None) -> str:
    """A shape as text: ``(batch, 3, 224)``; ``(...)`` where the rank is not known."""
    if shape is None:
        return "(...)"
    return f"({', '.join(str(dim) for dim in shape)})"
