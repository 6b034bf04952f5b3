"""Which of two dimensions is greater, as far as that holds for all sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from burnx.shape.expr import Atom, Dim, Expr, Monomial, Symbol, Undecided, make_call

_NO_SIZE = 2**62  # no size comes near: exporters write INT64_MAX for the end of an axis


def minimum(left: Dim, right: Dim) -> Dim:
    return _extreme("min", left, right)


def maximum(left: Dim, right: Dim) -> Dim:
    return _extreme("max", left, right)


def _extreme(kind: str, left: Dim, right: Dim) -> Dim:
    for end, other in ((left, right), (right, left)):
        if isinstance(end, int) and end >= _NO_SIZE and isinstance(other, Expr):
            return other if kind == "min" else end
    for low, high in ((left, right), (right, left)):
        try:
            if at_least(high, low):
                return low if kind == "min" else high
        except Undecided:
            continue
    return make_call(kind, *sorted((left, right), key=str))


_INFINITY = float("inf")
Bounds: TypeAlias = tuple[float, float]


def bounds(dim: Dim) -> Bounds:
    """A least and a greatest value of a dimension, given that symbols are never negative."""
    if not isinstance(dim, Expr):
        return dim, dim
    low = high = 0.0
    for monomial, factor in dim.terms.items():
        least, most = _monomial_bounds(monomial)
        low += factor * (least if factor > 0 else most)
        high += factor * (most if factor > 0 else least)
    return low, high


def _monomial_bounds(monomial: Monomial) -> Bounds:
    least, most = 1.0, 1.0
    for atom in monomial:
        low, high = _atom_bounds(atom)
        ends = [_times(a, b) for a in (least, most) for b in (low, high)]
        least, most = min(ends), max(ends)
    return least, most


def _quotient(value: float, by: int) -> float:
    return value if abs(value) == _INFINITY else value // by


def _times(left: float, right: float) -> float:
    return 0.0 if left == 0 or right == 0 else left * right


@lru_cache(maxsize=65536)
def _atom_bounds(atom: Atom) -> Bounds:
    if isinstance(atom, Symbol):
        return 0.0, _INFINITY
    left, right = bounds(atom.left), bounds(atom.right)
    if atom.kind == "floordiv":
        by = atom.right
        return (
            (_quotient(left[0], by), _quotient(left[1], by))
            if isinstance(by, int) and by > 0
            else (-_INFINITY, _INFINITY)
        )
    if atom.kind == "mod":
        return (0.0, right[1] - 1) if right[0] > 0 else (-_INFINITY, _INFINITY)
    if atom.kind == "min":
        return min(left[0], right[0]), min(left[1], right[1])
    if atom.kind == "max":
        return max(left[0], right[0]), max(left[1], right[1])
    return min(left[0], right[0]), max(left[1], right[1])


def at_least(left: Dim, right: Dim) -> bool:
    """Whether left >= right for all sizes; False if it never is.

    Raises: Undecided if it depends on the sizes.
    """
    difference = left - right
    if isinstance(difference, int):
        return difference >= 0
    low, high = bounds(difference)
    if low >= 0 or high < 0:
        return low >= 0
    raise Undecided(f"{left} >= {right} depends on sizes that are not known")


def same(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are equal for all sizes; False if they never are.

    Raises: Undecided if it depends on the sizes.
    """
    difference = left - right
    if isinstance(difference, int):
        return difference == 0
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    raise Undecided(f"{left} == {right} depends on sizes that are not known")


def may_equal(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are equal for some sizes."""
    try:
        return same(left, right)
    except Undecided:
        return True
