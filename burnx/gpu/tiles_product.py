"""A kernel as a matrix product: its rows, columns and inner extent, and how each operand is walked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from burnx.dtype import DType, float32, float64, int32, int64, uint32, uint64
from burnx.kernels.affine import affine
from burnx.kernels.ir import Buffer, Contract, Kernel, Load, Loop, Statement
from burnx.shape import Dim, evaluate, product, symbols

Loops = tuple[tuple[str, Dim], ...]
SUMS: tuple[DType, ...] = (float32, float64, int32, uint32, int64, uint64)
WIDEST = 16  # bytes that one load takes


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """Where an operand's elements lie: ``base`` plus a stride times each loop variable."""

    buffer: Buffer
    strides: Mapping[str, Dim]
    base: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A contraction inside parallel loops."""

    outer: Loops
    contract: Contract
    left: Walk
    right: Walk

    @property
    def rows(self) -> Dim:
        return product(tuple(extent for _, extent in self.contract.rows))

    @property
    def columns(self) -> Dim:
        return self.contract.column[1]

    @property
    def inner(self) -> Dim:
        return product(tuple(extent for _, extent in self.contract.inner))


def product_of(kernel: Kernel) -> Product | None:
    """The product that is all a kernel does; None if it does something else, or not in tiles."""
    outer, body = parallel_loops(kernel.body)
    if len(body) != 1 or not isinstance(body[0], Contract):
        return None
    contract = body[0]
    sides = walks(contract)
    if sides is not None:
        contract = _in_order(contract, *sides)
    if sides is None or contract.packing or contract.dtype not in SUMS:
        return None
    inside = {name for name, _ in (*outer, *contract.rows, contract.column, *contract.inner)}
    extents = (*outer, *contract.rows, contract.column, *contract.inner)
    if any(symbols(extent) & inside for _, extent in extents):
        return None
    return Product(outer, contract, *sides)


def _in_order(contract: Contract, left: Walk, right: Walk) -> Contract:
    """The contraction whose innermost loop steps through the left operand element by element, if one does.

    Where the right one's columns lie next to each other, it does not matter to it.
    """
    inner = contract.inner
    steps = [loop for loop in inner if left.strides[loop[0]] == 1]
    if not steps or left.strides[inner[-1][0]] == 1 or right.strides[contract.column[0]] != 1:
        return contract
    return replace(contract, inner=(*(each for each in inner if each is not steps[0]), steps[0]))


def parallel_loops(body: tuple[Statement, ...]) -> tuple[Loops, tuple[Statement, ...]]:
    """(the parallel loops outside, what is inside of them)."""
    found: list[tuple[str, Dim]] = []
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].parallel and not body[0].lanes:
        found.append((body[0].variable, body[0].extent))
        body = body[0].body
    return tuple(found), body


def walks(contract: Contract) -> tuple[Walk, Walk] | None:
    """How the left and the right operand are walked, if each is by strides of its own loops."""
    rows, inner = [[name for name, _ in loops] for loops in (contract.rows, contract.inner)]
    column = contract.column[0]
    left, right = _walk(contract.left, [*rows, *inner]), _walk(contract.right, [column, *inner])
    if left is None or right is None:
        return None
    if column in symbols(contract.left.index) or symbols(contract.right.index) & set(rows):
        return None
    return left, right


def _walk(load: Load, names: list[str]) -> Walk | None:
    found = affine(load.index, names)
    if found is None or any(name.startswith(("@", "worker")) for name in symbols(load.index)):
        return None
    return Walk(load.buffer, *found)


@dataclass(frozen=True, slots=True)
class Side:
    """How an operand is loaded.

    ``vector`` elements at a time, along the inner loops (``along_inner``) or along its rows or columns; the innermost
    ``joined`` inner loops step through it as one.
    """

    vector: int
    along_inner: bool
    joined: int


def joined_loops(walk: Walk, inner: Loops, sizes: Mapping[str, int]) -> int:
    """How many of the innermost loops step through an operand as one."""
    count, extent = 1, evaluate(inner[-1][1], sizes)
    step = evaluate(walk.strides[inner[-1][0]], sizes)
    while count < len(inner):
        name, size = inner[-1 - count]
        if evaluate(walk.strides[name], sizes) != step * extent:
            break
        extent *= evaluate(size, sizes)
        count += 1
    return count


def side_of(walk: Walk, free: Loops, inner: Loops, outer: Loops, sizes: Mapping[str, int]) -> Side:
    """The best way to load an operand of these sizes; ``free`` are its rows, or its column."""
    joined = joined_loops(walk, inner, sizes)
    steps = {name: evaluate(step, sizes) for name, step in walk.strides.items()}
    last, first = inner[-1][0], free[-1][0]
    along_inner = steps[last] == 1 or steps[first] != 1
    base = affine(walk.base, [name for name, _ in outer])
    if base is None or steps[last if along_inner else first] != 1:
        return Side(1, along_inner, joined)
    run = inner[-joined:] if along_inner else free[-1:]
    length = math.prod(evaluate(extent, sizes) for _, extent in run)
    others = [*free, *inner[:-joined]] if along_inner else [*free[:-1], *inner]
    strides = [steps[name] for name, extent in others if evaluate(extent, sizes) > 1]
    strides += [evaluate(step, sizes) for step in (*base[0].values(), base[1])]
    most = WIDEST // walk.buffer.dtype.itemsize
    return Side(math.gcd(most, length, *strides), along_inner, joined)
