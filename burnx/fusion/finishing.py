"""From statements to a kernel: lookups are put into loops, sizes become arguments.

Strides, offsets and extents become arguments even where they are plain numbers: layers that differ in nothing else share
one kernel.  Kept as numbers are strides 0 and 1, divisors, and short extents, because code depends on them; and, around
windows that are taken several at a time, how far neighbours lie from each other: which of them are the same depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from burnx.fusion.indices import recombine
from burnx.kernels.affine import from_terms, terms
from burnx.kernels.blocking import near_variables
from burnx.kernels.ir import (
    WORKER,
    WORKERS,
    Accumulator,
    Apply,
    Buffer,
    Carry,
    Cast,
    Contract,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Lookup,
    Loop,
    Position,
    Statement,
    Store,
    Value,
    operands,
)
from burnx.shape import Call, Dim, Expr, Symbol, substitute, symbols

SHORT = 8  # extents up to this are written out in the code
OnDim = Callable[[Dim], Dim]


@dataclass(slots=True)
class Rewriter:
    """Rebuilds values and statements with every index mapped; shared values stay shared."""

    on_index: OnDim
    on_extent: OnDim
    _memo: dict[Value, Value] = field(default_factory=dict)

    def value(self, value: Value) -> Value:
        stack = [value]
        while stack:
            top = stack[-1]
            waiting = [each for each in operands(top) if each not in self._memo]
            if top in self._memo or not waiting:
                stack.pop()
                if top not in self._memo:
                    self._memo[top] = self._rebuilt(top)
            else:
                stack.extend(waiting)
        return self._memo[value]

    def _rebuilt(self, value: Value) -> Value:
        if isinstance(value, (Load, Position)):
            return replace(value, index=self.on_index(value.index))
        if isinstance(value, Apply):
            return replace(value, arguments=tuple(self._memo[each] for each in value.arguments))
        if isinstance(value, Cast):
            return replace(value, value=self._memo[value.value])
        if isinstance(value, Inside):
            checks = tuple(
                (self.on_index(low), self.on_index(at), self.on_index(high))
                for low, at, high in value.checks
            )
            return Inside(checks, self._memo[value.value], self._memo[value.otherwise])
        return value

    def body(self, body: Iterable[Statement]) -> tuple[Statement, ...]:
        return tuple(self.statement(each) for each in body)

    def statement(self, statement: Statement) -> Statement:
        return _STATEMENTS[type(statement)](self, statement)

    def loops(self, loops: Iterable[tuple[str, Dim]]) -> tuple[tuple[str, Dim], ...]:
        return tuple((name, self.on_extent(extent)) for name, extent in loops)


def _store(to: Rewriter, each: Store) -> Store:
    return replace(each, index=to.on_index(each.index), value=to.value(each.value))


def _let(to: Rewriter, each: Let) -> Let:
    return Let(each.name, to.value(each.value))


def _lookup(to: Rewriter, each: Lookup) -> Lookup:
    return replace(each, value=to.value(each.value), limit=to.on_extent(each.limit))


def _loop(to: Rewriter, each: Loop) -> Loop:
    return replace(each, extent=to.on_extent(each.extent), body=to.body(each.body))


def _fold(to: Rewriter, each: Fold) -> Fold:
    body = to.body(each.body)
    accumulators = tuple(
        Accumulator(one.name, one.function, to.value(one.value)) for one in each.accumulators
    )
    return Fold(accumulators, to.loops(each.loops), body, each.lanes)


def _carry(to: Rewriter, each: Carry) -> Carry:
    carried = tuple(
        (name, to.value(first), to.value(following)) for name, first, following in each.carried
    )
    return Carry(carried, each.variable, to.on_extent(each.extent), to.body(each.body))


def _contract(to: Rewriter, each: Contract) -> Contract:
    left, right = to.value(each.left), to.value(each.right)
    assert isinstance(left, Load) and isinstance(right, Load)
    (column,) = to.loops([each.column])
    rows, inner = to.loops(each.rows), to.loops(each.inner)
    return replace(
        each,
        rows=rows,
        column=column,
        inner=inner,
        left=left,
        right=right,
        body=to.body(each.body),
    )


_STATEMENTS: dict[type, Callable[[Rewriter, Any], Statement]] = {
    Store: _store,
    Let: _let,
    Lookup: _lookup,
    Loop: _loop,
    Fold: _fold,
    Carry: _carry,
    Contract: _contract,
}


def substituted(body: Iterable[Statement], values: Mapping[str, Dim]) -> tuple[Statement, ...]:
    """Statements with variables replaced in all indices."""

    def change(dim: Dim) -> Dim:
        return recombine(substitute(dim, values)) if symbols(dim) & values.keys() else dim

    return Rewriter(change, change).body(body)


# --- lookups --------------------------------------------------------------------------------------------------------


def _value_symbols(value: Value) -> set[str]:
    found: set[str] = set()
    seen: set[Value] = set()
    stack = [value]
    while stack:
        top = stack.pop()
        if top in seen:
            continue
        seen.add(top)
        stack.extend(operands(top))
        for dim in dims_of(top):
            found |= symbols(dim)
    return found


def dims_of(value: Value) -> tuple[Dim, ...]:
    """The indices in a value itself, not those in its operands."""
    if isinstance(value, (Load, Position)):
        return (value.index,)
    if isinstance(value, Inside):
        return tuple(dim for check in value.checks for dim in check)
    return ()


def place_lookups(body: tuple[Statement, ...], lookups: Iterable[Lookup]) -> tuple[Statement, ...]:
    """Put each lookup into the outermost loop where all that it depends on is known."""
    needs: dict[Lookup, set[str]] = {}
    by_name: dict[str, set[str]] = {}
    for each in lookups:
        found = _value_symbols(each.value)
        for name in list(found):
            found |= by_name.get(name, set())
        needs[each] = by_name[each.name] = {name for name in found if name.startswith("$")}
    return _placed(body, set(), needs)


def _placed(
    body: tuple[Statement, ...], bound: set[str], needs: dict[Lookup, set[str]]
) -> tuple[Statement, ...]:
    divided = len(body) == 1 and isinstance(body[0], (Loop, Contract)) and body[0].parallel
    result: list[Statement] = [] if divided else list(_ready(needs, bound))
    for each in body:
        inside = bound | _variables(each)
        if isinstance(each, (Loop, Fold, Carry, Contract)):
            each = replace(each, body=_placed(each.body, inside, needs))
        result.append(each)
    return tuple(result)


def _variables(statement: Statement) -> set[str]:
    """The loop variables that a statement binds for its body."""
    if isinstance(statement, (Loop, Carry)):
        return {statement.variable}
    if isinstance(statement, Fold):
        return {name for name, _ in statement.loops}
    if isinstance(statement, Contract):
        return {name for name, _ in statement.rows} | {statement.column[0]}
    return set()


def _ready(needs: dict[Lookup, set[str]], bound: set[str]) -> list[Lookup]:
    found = [each for each, names in needs.items() if names <= bound]
    for each in found:
        del needs[each]
    return found


# --- sizes ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Arguments:
    """Sizes of a kernel.

    Each place gets arguments of its own, also where two are equal by chance: else a square image would not share
    the kernel of another.  ``near`` are variables of which the strides stay numbers.
    """

    near: frozenset[str] = frozenset()
    sizes: list[Dim] = field(default_factory=list)
    _memo: dict[tuple[Dim, bool], Dim] = field(default_factory=dict)

    def _symbol(self, size: Dim) -> Symbol:
        self.sizes.append(size)
        return Symbol(f"n{len(self.sizes) - 1}")

    def extent(self, dim: Dim) -> Dim:
        if isinstance(dim, int) and dim <= SHORT:
            return dim
        return self.index(dim, whole=True)

    def index(self, dim: Dim, whole: bool = False) -> Dim:
        """An index with its loop-invariant parts as arguments."""
        found = self._memo.get((dim, whole))
        if found is None:
            found = self._memo[dim, whole] = self._index(dim, whole)
        return found

    def _index(self, dim: Dim, whole: bool) -> Dim:
        if isinstance(dim, int):
            plain = dim in (0, 1) and not whole
            return dim if plain else Expr({(self._symbol(dim),): 1})
        groups: dict[tuple[Symbol | Call, ...], list[Any]] = {}
        for monomial, factor in terms(dim):
            varying = tuple(atom for atom in monomial if _varies(atom))
            fixed = tuple(atom for atom in monomial if not _varies(atom))
            groups.setdefault(varying, []).append((fixed, factor))
        made: dict[tuple[Symbol | Call, ...], int] = {}
        for varying, parts in groups.items():
            scale = from_terms(parts)
            if scale == 0:
                continue
            if isinstance(scale, int) and self._is_near(varying):
                made[varying] = scale
                continue
            atoms = [self._atom(atom) for atom in varying]
            if not isinstance(scale, int) or scale != 1:
                atoms.append(self._symbol(scale))
            made[tuple(sorted(atoms, key=str))] = 1
        return Expr(made) if made else 0

    def _is_near(self, varying: tuple[Symbol | Call, ...]) -> bool:
        atoms = [each.name for each in varying if isinstance(each, Symbol)]
        return len(atoms) == len(varying) == 1 and atoms[0] in self.near

    def _atom(self, atom: Symbol | Call) -> Symbol | Call:
        if isinstance(atom, Symbol):
            return atom
        right = atom.right if isinstance(atom.right, int) else self.index(atom.right)
        return Call(atom.kind, self.index(atom.left), right)


def _varies(atom: Symbol | Call) -> bool:
    names = {atom.name} if isinstance(atom, Symbol) else symbols(Expr({(atom,): 1}))
    return any(name[0] in "$@" or name in (WORKER, WORKERS) for name in names)


def finish(
    body: tuple[Statement, ...], buffers: Iterable[Buffer], lookups: Iterable[Lookup]
) -> tuple[Kernel, tuple[Dim, ...]]:
    """(kernel, the sizes it is given)."""
    placed = place_lookups(body, lookups)
    arguments = Arguments(near_variables(placed))
    final = Rewriter(arguments.index, arguments.extent).body(placed)
    names = tuple(f"n{place}" for place in range(len(arguments.sizes)))
    return Kernel(tuple(buffers), names, final), tuple(arguments.sizes)
