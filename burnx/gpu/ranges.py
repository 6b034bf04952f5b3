"""How far indices go: whether they need more than 32 bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from burnx.kernels.ir import (
    Carry,
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
    walk,
)
from burnx.kernels.spelling import every_node
from burnx.shape import Call, Dim, Expr, Symbol

Range = tuple[int, int]
_LARGEST = (1 << 31) - (1 << 22)  # some room for steps beyond the last turn
_UNKNOWN = 1  # what a name stands for that is counted in 64 bits, or has no size yet


def loops_in(statement: Statement) -> list[tuple[str, Dim]]:
    """The loops that a statement is, or names beside its own."""
    match statement:
        case Loop() | Carry():
            return [(statement.variable, statement.extent)]
        case Fold():
            return list(statement.loops)
        case Contract():
            return [*statement.rows, statement.column, *statement.inner]
        case _:
            return []


def values_in(statement: Statement) -> list[Value]:
    """The values that a statement itself takes, those of its body not."""
    match statement:
        case Store() | Let() | Lookup():
            return [statement.value]
        case Fold():
            return [each.value for each in statement.accumulators]
        case Carry():
            return [
                each for _, first, following in statement.carried for each in (first, following)
            ]
        case Contract():
            return [statement.left, statement.right]
        case _:
            return []


def used_dims(kernel: Kernel) -> Iterator[Dim]:
    """All indices and extents of a kernel."""
    for statement in walk(kernel.body):
        yield from (extent for _, extent in loops_in(statement))
        if isinstance(statement, Store):
            yield statement.index
        if isinstance(statement, Lookup):
            yield statement.limit
        for node in every_node(values_in(statement)):
            if isinstance(node, (Load, Position)):
                yield node.index
            elif isinstance(node, Inside):
                yield from (dim for check in node.checks for dim in check)


def needs_wide(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """Whether an index, or a number on the way to it, may not fit in 32 bits."""
    ranges: dict[str, Range] = {name: (number, number) for name, number in sizes.items()}
    total = 1
    for statement in walk(kernel.body):
        for name, extent in loops_in(statement):
            most = max(range_of(extent, ranges)[1], 1)
            ranges[name] = (0, most - 1)
            if isinstance(statement, (Contract, Fold)) or getattr(statement, "parallel", False):
                total *= most
        if isinstance(statement, Lookup):
            ranges[statement.name] = (0, max(range_of(statement.limit, ranges)[1], 1))
    largest = max((reach(dim, ranges) for dim in used_dims(kernel)), default=0)
    largest = max([largest, *map(abs, sizes.values())])
    return max(largest, _flattened(kernel, ranges)) >= _LARGEST


def _flattened(kernel: Kernel, ranges: Mapping[str, Range]) -> int:
    """The most turns of loops that may be counted by one number."""
    return max((_turns(each, ranges) for each in kernel.body), default=1)


def _turns(statement: Statement, ranges: Mapping[str, Range]) -> int:
    found = 1
    for name, _ in loops_in(statement):
        if not isinstance(statement, Contract) or name in {
            n for n, _ in (*statement.rows, statement.column)
        }:
            found *= ranges[name][1] + 1
    if isinstance(statement, Loop) and (statement.parallel or statement.lanes):
        return found * max((_turns(each, ranges) for each in statement.body), default=1)
    inner = getattr(statement, "body", ())
    return max([found, *(_turns(each, ranges) for each in inner)])


def range_of(dim: Dim, ranges: Mapping[str, Range]) -> Range:
    """A least and a greatest value of an index."""
    if not isinstance(dim, Expr):
        return int(dim), int(dim)
    low = high = 0
    for monomial, factor in dim.terms.items():
        least = most = factor
        for atom in monomial:
            ends = [a * b for a in (least, most) for b in _atom_range(atom, ranges)]
            least, most = min(ends), max(ends)
        low, high = low + least, high + most
    return low, high


def _atom_range(atom: Symbol | Call, ranges: Mapping[str, Range]) -> Range:
    if isinstance(atom, Symbol):
        return ranges.get(atom.name, (0, _UNKNOWN))
    left, right = range_of(atom.left, ranges), range_of(atom.right, ranges)
    if atom.kind == "floordiv":
        ends = [a // b for a in left for b in right if b]
        return min(ends, default=0), max(ends, default=0)
    if atom.kind == "mod":
        return 0, max(max(right) - 1, 0)
    if atom.kind in ("min", "max"):
        choose = min if atom.kind == "min" else max
        return choose(left[0], right[0]), choose(left[1], right[1])
    return min(*left, *right), max(*left, *right)


def reach(dim: Dim, ranges: Mapping[str, Range]) -> int:
    """A bound for an index and all numbers on the way to it."""
    if not isinstance(dim, Expr):
        return abs(int(dim))
    total, inner = 0, 0
    for monomial, factor in dim.terms.items():
        size = abs(factor)
        for atom in monomial:
            size *= max(1, *map(abs, _atom_range(atom, ranges)))
            if isinstance(atom, Call):
                inner = max(inner, reach(atom.left, ranges), reach(atom.right, ranges))
        total += size
    return max(total, inner)
