"""Which kernels a library's product can stand for, and the kernel of what it leaves to do.

A library is only asked for what has one meaning: float32 sums, rounded where they are stored.  What treats NaN in a way of
its own (its ReLU) or is an approximation (its GELU) is left to burnx.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from burnx.dtype import bfloat16, dtype_name, float16, float32
from burnx.gpu.tiles_product import Product, product_of
from burnx.kernels.affine import affine
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Lookup,
    Statement,
    Store,
    Value,
    in_loops,
)
from burnx.runtime.devices.gpu.library import Gemm, Matrix
from burnx.shape import Dim, evaluate, symbol

Sizes = Mapping[str, int]
LEAST = 1 << 20  # multiplications; below them nothing is won
MOST_BYTES = 1 << 31  # of sums that are kept in memory
GIVEN = (float32, float16, bfloat16)
_STRIDES_MOST = (1 << 31) - 1


def is_large(found: Product, sizes: Sizes) -> bool:
    extents = [extent for _, extent in found.outer]
    work = math.prod(evaluate(each, sizes) for each in (*extents, found.rows, found.columns))
    return work * evaluate(found.inner, sizes) >= LEAST


# --- what follows -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ending:
    """What is stored: factor * sum, and the elements that are added to it."""

    store: Store
    factor: float
    terms: tuple[Load, ...]


def _ending(found: Product) -> _Ending | None:
    """What follows a sum, if a library can do it."""
    body = found.contract.body
    if len(body) != 1 or not isinstance(body[0], Store) or body[0].combine:
        return None
    store, value, made = body[0], body[0].value, body[0].buffer.dtype
    if made != float32:
        if not isinstance(value, Cast) or value.dtype != made or value.bits:
            return None
        value = value.value
    factor, loads = 1.0, []
    sums = 0
    for term in _terms(value):
        if isinstance(term, Constant) and term.value == 0:
            continue  # sums that begin with 0 are never -0, so nothing is changed by one more
        known = _factor_of(term, found.contract.name)
        if known is not None:
            factor, sums = known, sums + 1
            continue
        load = term.value if isinstance(term, Cast) and not term.bits else term
        if not isinstance(load, Load) or load.dtype != made or term.dtype != float32:
            return None
        loads.append(load)
    return _Ending(store, factor, tuple(loads)) if sums == 1 else None


def _terms(value: Value) -> list[Value]:
    if isinstance(value, Apply) and value.function == "add":
        return [each for one in value.arguments for each in _terms(one)]
    return [value]


def _factor_of(value: Value, name: str) -> float | None:
    """The factor of the sum, if a value is that and nothing else."""
    if isinstance(value, Local):
        return 1.0 if value.name == name else None
    if isinstance(value, Apply) and value.function == "mul":
        one, two = value.arguments
        if isinstance(one, Constant):
            one, two = two, one
        if isinstance(one, Local) and one.name == name and isinstance(two, Constant):
            return float(two.value)
    return None


# --- how it is walked -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Walk:
    """A buffer's steps along the loops: outer ones and rows, the column, the inner ones; and where it starts."""

    start: int
    loops: tuple[int, ...]
    column: int
    inner: tuple[int, ...] = ()


def find_walk(
    index: Dim, loops: Sequence[str], column: str, inner: Sequence[str], sizes: Sizes
) -> Walk | None:
    found = affine(index, [*loops, column, *inner])
    if found is None:
        return None
    steps = {name: evaluate(step, sizes) for name, step in found[0].items()}
    return Walk(
        evaluate(found[1], sizes),
        tuple(steps[name] for name in loops),
        steps[column],
        tuple(steps[name] for name in inner),
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """Loops that are walked as one: how many turns, and each buffer's step."""

    turns: int
    steps: tuple[int, ...]


def join_loops(turns: Sequence[int], steps: Sequence[tuple[int, ...]]) -> list[_Group]:
    """Neighbouring loops as one, as far as all buffers' steps allow; outermost first."""
    groups: list[_Group] = []
    for count, step in zip(turns, steps, strict=True):
        if count == 1:
            continue
        last = groups[-1] if groups else None
        if last is not None and last.steps == tuple(each * count for each in step):
            groups[-1] = _Group(last.turns * count, step)
        else:
            groups.append(_Group(count, step))
    return groups


def whole_gemm(kernel: Kernel, sizes: Sizes) -> Gemm | None:
    """A kernel as one product that writes its result; None if what it does is no library's to do."""
    found = product_of(kernel)
    ending = _ending(found) if found is not None else None
    if found is None or ending is None:
        return None
    names = [name for name, _ in (*found.outer, *found.contract.rows)]
    column = found.contract.column[0]
    result = find_walk(ending.store.index, names, column, (), sizes)
    bias, added = None, []
    for load in ending.terms:
        walk = find_walk(load.index, names, column, (), sizes)
        if walk is None:
            return None
        flat = not any(
            step
            for step, turns in zip(walk.loops, turns_of(found, sizes), strict=True)
            if turns > 1
        )
        if flat and walk.column == 1 and bias is None:
            bias = (kernel.buffers.index(load.buffer), walk.start)
        else:
            added.append((kernel.buffers.index(load.buffer), walk))
    if result is None or len(added) > 1:
        return None
    where = kernel.buffers.index(ending.store.buffer), result
    made = _gemm(kernel, found, sizes, where, added[0] if added else None)
    return None if made is None else replace(made, bias=bias, factor=ending.factor)


def parted_gemm(kernel: Kernel, sizes: Sizes) -> Gemm | None:
    """A kernel's product alone: its float32 sums, one row of columns behind the other."""
    found = product_of(kernel)
    if found is None or not is_simple_rest(found):
        return None
    turns, columns = turns_of(found, sizes), evaluate(found.columns, sizes)
    steps = [math.prod(turns[place + 1 :]) * columns for place in range(len(turns))]
    size = math.prod(turns) * columns * 4
    if size > MOST_BYTES:
        return None
    made = _gemm(kernel, found, sizes, (len(kernel.buffers), Walk(0, tuple(steps), 1)), None)
    return None if made is None else replace(made, made="float32", temporary_bytes=size)


def is_simple_rest(found: Product) -> bool:
    """Whether what follows the sums can be a kernel of its own."""
    return all(isinstance(each, (Let, Lookup, Store)) for each in found.contract.body)


def turns_of(found: Product, sizes: Sizes) -> list[int]:
    return [evaluate(extent, sizes) for _, extent in (*found.outer, *found.contract.rows)]


_Where = tuple[int, Walk]


def _gemm(
    kernel: Kernel, found: Product, sizes: Sizes, result: _Where, added: _Where | None
) -> Gemm | None:
    """A product whose ``result``, and what is ``added``, are walked like this; None if that is no library's way."""
    contract, ends = found.contract, [result, *([added] if added else [])]
    given, sides = contract.left.dtype, _sides(found, sizes)
    if given not in GIVEN or contract.right.dtype != given or contract.dtype != float32:
        return None
    if sides is None or any(walk.column != 1 for _, walk in ends):
        return None
    left, right = sides
    groups = _grouped(found, sizes, [left, right, *(walk for _, walk in ends)])
    if groups is None:
        return None
    batch, rows, depth = groups
    shape = evaluate(found.columns, sizes), rows.turns, depth.turns
    first = _operand(right.column, depth.steps[1], shape[0], shape[2])
    second = _operand(depth.steps[0], rows.steps[0], shape[2], shape[1])
    made = [
        _end(where, rows.steps[place], batch.steps[place], shape)
        for place, where in enumerate(ends, 2)
    ]
    if first is None or second is None or made[0] is None or made[-1] is None:
        return None
    one, two = [kernel.buffers.index(each.buffer) for each in (contract.left, contract.right)]
    stored = kernel.buffers[result[0]].dtype if result[0] < len(kernel.buffers) else float32
    return Gemm(
        dtype_name(given),
        dtype_name(stored),
        *shape,
        batch.turns,
        Matrix(two, right.start, first[0], batch.steps[1], first[1]),
        Matrix(one, left.start, second[0], batch.steps[0], second[1]),
        made[0],
        made[1] if added else None,
    )


def _sides(found: Product, sizes: Sizes) -> tuple[Walk, Walk] | None:
    contract = found.contract
    names = [name for name, _ in (*found.outer, *contract.rows)]
    inner, column = [name for name, _ in contract.inner], contract.column[0]
    left = find_walk(contract.left.index, names, column, inner, sizes)
    right = find_walk(contract.right.index, names, column, inner, sizes)
    return None if left is None or right is None else (left, right)


def _grouped(
    found: Product, sizes: Sizes, walks: Sequence[Walk]
) -> tuple[_Group, _Group, _Group] | None:
    """(batch, rows, inner extent), each of loops that all ``walks`` step through as one; the first two are left, right."""
    turns, columns = turns_of(found, sizes), evaluate(found.columns, sizes)
    if columns == 0 or 0 in turns:
        return None
    extents = [evaluate(extent, sizes) for _, extent in found.contract.inner]
    depth = join_loops(extents, list(zip(walks[0].inner, walks[1].inner, strict=True)))
    outside = join_loops(turns, list(zip(*(each.loops for each in walks), strict=True)))
    once = _Group(1, (0,) * len(walks))
    rows = outside.pop() if outside and outside[-1].steps[1] == 0 else once
    batch = outside.pop() if outside else once
    if outside or len(depth) != 1 or min(batch.steps) < 0:
        return None
    return batch, rows, depth[0]


def _operand(down: int, across: int, rows: int, columns: int) -> tuple[int, bool] | None:
    """(step from column to column, whether it is turned) of a matrix with these steps; None if neither is 1."""
    if down == 1 or rows == 1:
        step = across if columns > 1 else max(rows, 1)
        if rows <= step <= _STRIDES_MOST:
            return step, False
    if across == 1 or columns == 1:
        step = down if rows > 1 else max(columns, 1)
        if columns <= step <= _STRIDES_MOST:
            return step, True
    return None


def _end(where: _Where, step: int, batch: int, shape: tuple[int, int, int]) -> Matrix | None:
    rows, columns, _ = shape
    step = step if columns > 1 else rows
    if not rows <= step <= _STRIDES_MOST:
        return None
    return Matrix(where[0], where[1].start, step, batch)


# --- the kernel of the rest -------------------------------------------------------------------------------------------


def rest_of(kernel: Kernel) -> Kernel:
    """What follows a kernel's product, with the sums in a buffer behind the others."""
    found = product_of(kernel)
    assert found is not None
    contract = found.contract
    loops = (*found.outer, *contract.rows, contract.column)
    sums = Buffer(f"b{len(kernel.buffers)}", float32)
    index: Dim = 0
    for variable, extent in loops:
        index = index * extent + symbol(variable)
    put = _Replacing({contract.name: Load(sums, index)})
    body = in_loops(loops, [put.statement(each) for each in contract.body], parallel=True)
    return Kernel((*kernel.buffers, sums), kernel.sizes, tuple(body))


@dataclass(slots=True)
class _Replacing:
    """Values in the place of names, in a graph of values in which some are met more than once."""

    names: Mapping[str, Value]
    known: dict[Value, Value] = field(default_factory=dict)

    def statement(self, statement: Statement) -> Statement:
        assert isinstance(statement, (Let, Lookup, Store))
        return replace(statement, value=self.value(statement.value))

    def value(self, value: Value) -> Value:
        if value not in self.known:
            self.known[value] = self._value(value)
        return self.known[value]

    def _value(self, value: Value) -> Value:
        match value:
            case Local():
                return self.names.get(value.name, value)
            case Apply():
                return replace(value, arguments=tuple(map(self.value, value.arguments)))
            case Cast():
                return replace(value, value=self.value(value.value))
            case Inside():
                inner, other = self.value(value.value), self.value(value.otherwise)
                return replace(value, value=inner, otherwise=other)
            case _:
                return value
