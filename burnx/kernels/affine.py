"""An index as a sum: its terms, the factor of one variable, the strides of several."""

from __future__ import annotations

from collections.abc import Iterable

from burnx.shape import Call, Dim, Expr, Symbol, symbols

Term = tuple[tuple[Symbol | Call, ...], int]


def terms(dim: Dim) -> list[Term]:
    """The monomials of a dimension with their factors."""
    if isinstance(dim, Expr):
        return list(dim.terms.items())
    return [((), dim)] if dim else []


def from_terms(parts: Iterable[Term]) -> Dim:
    total: Dim = 0
    kept = {}
    for monomial, factor in parts:
        if monomial:
            kept[monomial] = factor
        else:
            total = factor
    return Expr(kept) + total if kept else total


def coefficient(dim: Dim, of: Expr) -> tuple[Dim, Dim]:
    """(factor, rest) with dim = factor * of + rest, for one atom ``of`` that occurs at most once in a term."""
    ((key, _),) = of.terms.items()
    atom = key[0]
    with_atom: list[Term] = []
    without: list[Term] = []
    for monomial, factor in terms(dim):
        if atom in monomial:
            left = list(monomial)
            left.remove(atom)
            with_atom.append((tuple(left), factor))
        else:
            without.append((monomial, factor))
    return from_terms(with_atom), from_terms(without)


def affine(dim: Dim, names: Iterable[str]) -> tuple[dict[str, Dim], Dim] | None:
    """({variable: stride}, offset), or None if the index is not affine in the variables."""
    strides: dict[str, Dim] = {}
    rest = dim
    wanted = list(names)
    for name in wanted:
        stride, rest = coefficient(rest, Expr({(Symbol(name),): 1}))
        if symbols(stride) & set(wanted):
            return None
        strides[name] = stride
    if symbols(rest) & set(wanted):
        return None
    return strides, rest
