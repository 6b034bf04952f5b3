"""Symbolic dimensions: integers, names, and the arithmetic between them.

A dimension is an ``int`` or an ``Expr``: a polynomial with integer coefficients over atoms.  An atom is a ``Symbol``
(a dim name of the model, or a size that is only known while running) or a ``Call`` of floor division, remainder,
minimum, maximum or broadcasting.  Symbols are sizes, so they are never negative.

    >>> batch, seq = symbol("batch"), symbol("seq")
    >>> (batch * seq * 768) // (batch * seq)
    768
    >>> (seq + 3) // 2
    ((seq + 1) // 2) + 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, Union

from burnx.errors import ShapeError

Dim: TypeAlias = Union[int, "Expr"]
Shape: TypeAlias = tuple[Dim, ...]


class Undecided(Exception):
    """A comparison of dimensions whose answer depends on sizes that are not known."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named size."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """A function of dimensions that is not a polynomial."""

    kind: str
    left: Dim
    right: Dim

    def __str__(self) -> str:
        if self.kind in _INFIX:
            return f"{_grouped(self.left)} {_INFIX[self.kind]} {_grouped(self.right)}"
        return f"{self.kind}({self.left}, {self.right})"


Atom: TypeAlias = Symbol | Call
Monomial: TypeAlias = tuple[Atom, ...]  # sorted by text; repeated for powers

_INFIX = {"floordiv": "//", "mod": "%"}


def _grouped(dim: Dim) -> str:
    text = str(dim)
    return text if text.replace("_", "a").isalnum() else f"({text})"


def _floordiv(left: int, right: int) -> int:
    if right == 0:
        raise ShapeError(f"a dimension cannot be divided by zero: {left} // 0")
    return left // right


def _mod(left: int, right: int) -> int:
    if right == 0:
        raise ShapeError(f"a dimension cannot be divided by zero: {left} % 0")
    return left % right


def broadcast_sizes(left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise ShapeError(f"dimensions broadcast when equal or 1: {left} and {right}")
    return right if left == 1 else left


_CALLS: dict[str, Callable[[int, int], int]] = {
    "floordiv": _floordiv,
    "mod": _mod,
    "min": min,
    "max": max,
    "broadcast": broadcast_sizes,
}


class Expr:
    """A polynomial over atoms that is not a plain integer.

    ``==`` between dimensions is structural: equal expressions are equal for all sizes, and unequal ones may still
    agree for some.  Use ``same`` to ask whether two dimensions are surely equal or surely different.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(terms)
        if len(terms) > 1:
            self.terms = dict(sorted(terms.items(), key=_term_key))
        self._hash: int | None = None  # worked out when it is asked for

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __add__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return _sum(self, other, 1)

    def __sub__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return _sum(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return _sum(other, self, -1)

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return _product(self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        if not isinstance(other, (int, Expr)):
            return NotImplemented  # a tensor knows what to do with a size
        return mod(other, self)

    def __lt__(self, other: Dim) -> bool:
        from burnx.shape.order import at_least

        return not at_least(self, other)

    def __ge__(self, other: Dim) -> bool:
        from burnx.shape.order import at_least

        return at_least(self, other)

    def __gt__(self, other: Dim) -> bool:
        from burnx.shape.order import at_least

        return not at_least(other, self)

    def __le__(self, other: Dim) -> bool:
        from burnx.shape.order import at_least

        return at_least(other, self)

    def __int__(self) -> int:
        raise Undecided(f"the size {self} is not known")

    __index__ = __int__

    def __str__(self) -> str:
        parts = []
        for monomial, factor in sorted(
            self.terms.items(), key=lambda item: (item[1] < 0, not item[0])
        ):
            atoms = "*".join(_grouped_atom(atom) for atom in monomial)
            size = abs(factor)
            text = str(size) if not monomial else atoms if size == 1 else f"{size}*{atoms}"
            parts.append((" - " if factor < 0 else " + ") + text)
        text = "".join(parts)
        return text[3:] if text.startswith(" + ") else f"-{text[3:]}"

    __repr__ = __str__


def _grouped_atom(atom: Atom) -> str:
    text = str(atom)
    return f"({text})" if isinstance(atom, Call) and atom.kind in _INFIX else text


@lru_cache(maxsize=65536)
def _monomial_key(monomial: Monomial) -> tuple[int, str]:
    return -len(monomial), "*".join(str(atom) for atom in monomial)


def _term_key(term: tuple[Monomial, int]) -> tuple[int, str]:
    return _monomial_key(term[0])


def _terms(dim: Dim) -> Mapping[Monomial, int]:
    return dim.terms if isinstance(dim, Expr) else ({(): int(dim)} if dim else {})


def _make(terms: Mapping[Monomial, int]) -> Dim:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    return kept.get((), 0) if not kept or (len(kept) == 1 and () in kept) else Expr(kept)


def _sum(left: Dim, right: Dim, sign: int) -> Dim:
    terms = dict(_terms(left))
    for monomial, factor in _terms(right).items():
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return _make(terms)


def _product(left: Dim, right: Dim) -> Dim:
    terms: dict[Monomial, int] = {}
    for monomial, factor in _terms(left).items():
        for other, times in _terms(right).items():
            both = tuple(sorted(monomial + other, key=str))
            terms[both] = terms.get(both, 0) + factor * times
    return _make(terms)


def symbol(name: str) -> Expr:
    """The size called ``name``."""
    return Expr({(Symbol(name),): 1})


def symbol_name(dim: Dim) -> str | None:
    """The name of a dimension that is one symbol and nothing else."""
    if isinstance(dim, Expr) and len(dim.terms) == 1:
        ((monomial, factor),) = dim.terms.items()
        if factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol):
            return monomial[0].name
    return None


def make_call(kind: str, left: Dim, right: Dim) -> Dim:
    return Expr({(Call(kind, left, right),): 1})


def _divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def exact_quotient(left: Dim, right: Dim) -> Dim | None:
    """The polynomial q with left = q * right, if there is one (long division by the leading term)."""
    (lead, factor), quotient, rest = next(iter(_terms(right).items())), 0, left
    result: Dim = quotient
    for _ in range(64):
        if not isinstance(rest, Expr):
            if rest == 0:
                return result
            if lead or rest % factor:
                return None
            return result + rest // factor if len(_terms(right)) == 1 else None
        top, times = next(iter(rest.terms.items()))
        monomial = _divide_monomial(top, lead)
        if monomial is None or times % factor:
            return None
        part = _make({monomial: times // factor})
        result, rest = result + part, rest - part * right
    return None


def floordiv(left: Dim, right: Dim) -> Dim:
    """left // right, rounded towards minus infinity."""
    if isinstance(left, int) and isinstance(right, int):
        return _floordiv(left, right)
    if right == 0:
        raise ShapeError(f"a dimension cannot be divided by zero: {left} // 0")
    if left == right:
        return 1
    exact = exact_quotient(left, right)
    if exact is not None:
        return exact
    nested = _nested_quotient(left, right)
    if nested is not None:
        return nested
    whole, rest = _split_multiples(left, right)
    return (
        whole + make_call("floordiv", rest, right)
        if whole != 0
        else make_call("floordiv", left, right)
    )


def _nested_quotient(left: Dim, right: Dim) -> Dim | None:
    """(x // a + c) // b = (x + a * c) // (a * b), for positive numbers a and b."""
    terms = dict(_terms(left))
    constant = terms.pop((), 0)
    if not isinstance(right, int) or right < 1 or len(terms) != 1:
        return None
    ((monomial, factor),) = terms.items()
    if factor != 1 or len(monomial) != 1 or not isinstance(monomial[0], Call):
        return None
    call = monomial[0]
    if call.kind != "floordiv" or not isinstance(call.right, int) or call.right < 1:
        return None
    return floordiv(call.left + call.right * constant, call.right * right)


def _split_multiples(left: Dim, right: Dim) -> tuple[Dim, Dim]:
    """whole, rest with left = whole * right + rest, for an integer divisor and constant parts only."""
    constant = _terms(left).get((), 0)
    if not isinstance(right, int) or right < 1 or abs(constant) < right:
        return 0, left
    whole = constant // right
    return whole, left - whole * right


def mod(left: Dim, right: Dim) -> Dim:
    """left % right, with the sign of right."""
    if isinstance(left, int) and isinstance(right, int):
        return _mod(left, right)
    return 0 if exact_quotient(left, right) is not None else make_call("mod", left, right)


def evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The value of a dimension, given the sizes of its symbols.

    Raises: ShapeError if one of them has no size.
    """
    if isinstance(dim, int):
        return dim
    if not isinstance(dim, Expr):
        return int(dim)
    total = 0
    for monomial, factor in dim.terms.items():
        total += factor * math.prod(_atom_value(atom, sizes) for atom in monomial)
    return total


def _atom_value(atom: Atom, sizes: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        if atom.name not in sizes:
            raise ShapeError(f"the size {atom.name!r} has no value yet")
        return sizes[atom.name]
    return _CALLS[atom.kind](evaluate(atom.left, sizes), evaluate(atom.right, sizes))


def symbols(dim: Any) -> frozenset[str]:
    """The names of all symbols in a dimension."""
    if not isinstance(dim, Expr):
        return frozenset()
    found: set[str] = set()
    for monomial in dim.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                found.add(atom.name)
            else:
                found |= symbols(atom.left) | symbols(atom.right)
    return frozenset(found)
