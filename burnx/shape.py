"""Symbolic dimensions: integers, names, and the arithmetic between them.

A dimension is an ``int`` or an ``Expr``: a polynomial with integer coefficients over atoms.  An atom is a ``Symbol``
(a dim name of the model, or a size that is only known while running) or a ``Call`` of floor division, remainder,
minimum, maximum or broadcasting.  Symbols are sizes, so they are never negative.

    batch, seq = symbol("batch"), symbol("seq")
    (batch * seq * 768) // (batch * seq) == 768
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
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

_NO_SIZE = 2**62  # no size comes near: exporters write INT64_MAX for the end of an axis
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


def _broadcast(left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise ShapeError(f"dimensions broadcast when equal or 1: {left} and {right}")
    return right if left == 1 else left


_CALLS: dict[str, Callable[[int, int], int]] = {
    "floordiv": _floordiv,
    "mod": _mod,
    "min": min,
    "max": max,
    "broadcast": _broadcast,
}


class Expr:
    """A polynomial over atoms that is not a plain integer.

    ``==`` between dimensions is structural: equal expressions are equal for all sizes, and unequal ones may still
    agree for some.  Use ``same`` to ask whether two dimensions are surely equal or surely different.
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(sorted(terms.items(), key=lambda item: _monomial_key(item[0])))
        self._hash = hash(tuple(self.terms.items()))

    def __hash__(self) -> int:
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
        return not at_least(self, other)

    def __ge__(self, other: Dim) -> bool:
        return at_least(self, other)

    def __gt__(self, other: Dim) -> bool:
        return not at_least(other, self)

    def __le__(self, other: Dim) -> bool:
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


def _call(kind: str, left: Dim, right: Dim) -> Dim:
    return Expr({(Call(kind, left, right),): 1})


def _divide_monomial(monomial: Monomial, by: Monomial) -> Monomial | None:
    rest = list(monomial)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _exact_quotient(left: Dim, right: Dim) -> Dim | None:
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
    exact = _exact_quotient(left, right)
    if exact is not None:
        return exact
    whole, rest = _split_multiples(left, right)
    return whole + _call("floordiv", rest, right) if whole != 0 else _call("floordiv", left, right)


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
    return 0 if _exact_quotient(left, right) is not None else _call("mod", left, right)


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
    return _call(kind, *sorted((left, right), key=str))


def broadcast_dim(left: Dim, right: Dim) -> Dim:
    """The size two broadcast dimensions have together.

    Raises: ShapeError if they are different integers and neither is 1.
    """
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        return _broadcast(left, right)
    if isinstance(left, int):
        return left
    if isinstance(right, int):
        return right
    for size, other in ((left, right), (right, left)):
        if _is_capped(other, size):
            return size
    return _call("broadcast", *sorted((left, right), key=str))


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


def _is_size(monomial: Monomial) -> bool:
    return all(
        isinstance(atom, Symbol) or _never_negative(atom.left) and _never_negative(atom.right)
        for atom in monomial
    )


def _never_negative(dim: Dim) -> bool:
    return all(factor >= 0 and _is_size(monomial) for monomial, factor in _terms(dim).items())


def at_least(left: Dim, right: Dim) -> bool:
    """Whether left >= right for all sizes; False if it never is.

    Raises: Undecided if it depends on the sizes.
    """
    difference = left - right
    if isinstance(difference, int):
        return difference >= 0
    if _never_negative(difference):
        return True
    if _never_negative(-difference - 1):
        return False
    raise Undecided(f"{left} >= {right} depends on sizes that are not known")


def same(left: Dim, right: Dim) -> bool:
    """Whether two dimensions are equal for all sizes; False if they never are.

    Raises: Undecided if it depends on the sizes.
    """
    difference = left - right
    if isinstance(difference, int):
        return difference == 0
    if _never_negative(difference - 1) or _never_negative(-difference - 1):
        return False
    raise Undecided(f"{left} == {right} depends on sizes that are not known")


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


def shape_text(shape: Shape | None) -> str:
    """A shape as text: ``(batch, 3, 224)``; ``(?)`` where the rank is not known."""
    if shape is None:
        return "(?)"
    return f"({', '.join(str(dim) for dim in shape)})"
