"""Arithmetic of indices: divisions that vanish because a loop variable stays below its extent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from burnx.kernels.affine import Term, coefficient, from_terms, terms
from burnx.shape import (
    Call,
    Dim,
    Expr,
    Shape,
    Undecided,
    at_least,
    floordiv,
    mod,
    product,
    substitute,
    symbols,
)
from burnx.shape.layouts import matching_runs

Ranges = Mapping[str, Dim]  # variable -> extent


def greatest(dim: Dim, ranges: Ranges) -> Dim | None:
    """The greatest value of a dimension whose factors are not negative; None where that is not plain to see."""
    if not isinstance(dim, Expr):
        return dim
    if any(factor < 0 for _, factor in dim.terms.items()):
        return None
    if any(isinstance(atom, Call) for monomial in dim.terms for atom in monomial):
        dim = from_bounded_calls(dim, ranges)
    ends = {name: ranges[name] - 1 for name in symbols(dim) if name in ranges}
    return substitute(dim, ends)


def from_bounded_calls(dim: Expr, ranges: Ranges) -> Dim:
    """Remainders replaced by the greatest they can be."""
    total: Dim = 0
    for monomial, factor in dim.terms.items():
        parts: list[Dim] = [factor]
        for atom in monomial:
            if isinstance(atom, Call) and atom.kind == "mod":
                parts.append(atom.right - 1)
            elif isinstance(atom, Call) and atom.kind == "floordiv":
                top = greatest(atom.left, ranges)
                parts.append(floordiv(top, atom.right) if top is not None else Expr({(atom,): 1}))
            else:
                parts.append(Expr({(atom,): 1}))
        total = total + product(tuple(parts))
    return total


def is_below(dim: Dim, limit: Dim, ranges: Ranges) -> bool:
    """Whether 0 <= dim < limit is sure."""
    if isinstance(dim, int) and dim < 0:
        return False
    top = greatest(dim, ranges)
    if top is None:
        return False
    try:
        return at_least(limit - 1, top)
    except Undecided:
        return False


def _split(dim: Dim, by: Dim) -> tuple[Dim, Dim]:
    """(quotient, rest): the terms that ``by`` divides exactly, divided, and the others."""
    whole: Dim = 0
    rest: list[Term] = []
    for monomial, factor in terms(dim):
        part = from_terms([(monomial, factor)])
        quotient = floordiv(part, by)
        if quotient * by == part:
            whole = whole + quotient
        else:
            rest.append((monomial, factor))
    return whole, from_terms(rest)


def divide(dim: Dim, by: Dim, ranges: Ranges) -> Dim:
    """dim // by for an index that is not negative; 0 where an axis has no elements."""
    if by == 1 or dim == 0:
        return dim
    if by == 0:
        return 0
    whole, rest = _split(dim, by)
    if is_below(rest, by, ranges):
        return whole
    return whole + floordiv(rest, by)


def remainder(dim: Dim, by: Dim, ranges: Ranges) -> Dim:
    """dim % by for an index that is not negative."""
    if by in (0, 1) or dim == 0:
        return 0
    _, rest = _split(dim, by)
    if is_below(rest, by, ranges):
        return rest
    return mod(rest, by)


def recombine(dim: Dim) -> Dim:
    """b * s * (x // b) + s * (x % b) is s * x."""
    if not isinstance(dim, Expr):
        return dim
    for monomial in dim.terms:
        for atom in monomial:
            if isinstance(atom, Call) and atom.kind == "mod":
                joined = _recombine_one(dim, atom)
                if joined is not None:
                    return recombine(joined)
    return dim


def _recombine_one(dim: Expr, remaining: Call) -> Dim | None:
    quotient = floordiv(remaining.left, remaining.right)
    if not isinstance(quotient, Expr) or len(quotient.terms) != 1:
        return None
    ((key, one),) = quotient.terms.items()
    if one != 1 or len(key) != 1:
        return None
    scale, rest = coefficient(dim, Expr({(remaining,): 1}))
    other, last = coefficient(rest, quotient)
    if scale == 0 or other != scale * remaining.right:
        return None
    return last + scale * remaining.left


def linear(index: Iterable[Dim], shape: Shape) -> Dim:
    """The place of an element in row-major order."""
    total: Dim = 0
    for place, size in zip(index, shape, strict=True):
        total = total * size + place
    return recombine(total)


def unravel(place: Dim, shape: Shape, ranges: Ranges) -> tuple[Dim, ...]:
    """The index of the element at a place in row-major order."""
    result: list[Dim] = []
    for axis in range(len(shape)):
        inner = product(shape[axis + 1 :])
        part = divide(place, inner, ranges)
        result.append(part if axis == 0 else remainder(part, shape[axis], ranges))
    return tuple(result)


def reshaped(
    index: tuple[Dim, ...], source: Shape, target: Shape, ranges: Ranges
) -> tuple[Dim, ...]:
    """The index in ``target`` (an array's former shape) of the element at ``index`` in ``source``.

    Runs of axes with equal products are taken by themselves, so that divisions stay local.
    """
    result: list[Dim] = []
    for (low, high), (start, stop) in matching_runs(source, target):
        place = linear(index[low:high], source[low:high])
        result.extend(unravel(place, target[start:stop], ranges))
    return tuple(result)
