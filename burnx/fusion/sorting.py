"""Sorting along an axis: short rows by counting what comes before each element, long ones by merging sorted runs.

Nothing is compared but integers: what an element is sorted by becomes its key first, whose order is the reference's (NaN the
greatest, -0 equal to 0), or the reverse of it.  Equal keys stay in order because positions decide between them.  Every
element finds its own place, so all of them can at once: among the elements of a short block by counting, in two runs
that are merged by a binary search in the other one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from burnx.dtype import DType, bool_, int32, int64, is_float, uint32, uint64
from burnx.fusion.elementwise import fill
from burnx.fusion.expressions import (
    Expressions,
    Index,
    as_stored,
    as_working,
    dtype_of,
    shape_of,
)
from burnx.fusion.finishing import SHORT
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.searching import Integers, binary_search
from burnx.fusion.storage import Storage
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Cast,
    Constant,
    Fold,
    Load,
    Local,
    Lookup,
    Position,
    Statement,
    Store,
    Value,
    in_loops,
)
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape, maximum, minimum, product, symbol

COUNTED_MOST = (
    64  # elements of a row whose places are counted: on a processor longer ones are left to others
)
_BLOCK = 5  # where there are many threads, runs start with 2 to this power
_LONGEST = 31  # as a power of two


@dataclass(frozen=True, slots=True, eq=False)
class _Sorting:
    """``rows`` are the other axes' sizes, ``keys`` (*rows, length) what is compared, ``wide`` the dtype of positions."""

    scheduler: Scheduler
    instruction: Instruction
    source: Var
    axis: int
    rows: Shape
    length: Dim
    keys: Storage
    wide: DType

    def open(self, at: Expressions) -> tuple[list[tuple[str, Dim]], tuple[Dim, ...]]:
        """(loops, index) over the rows."""
        index = tuple(0 if size == 1 else at.variable(size) for size in self.rows)
        pairs = zip(index, self.rows, strict=True)
        return [(str(each), size) for each, size in pairs if each != 0], index

    def whole(self, row: Index, place: Dim) -> Index:
        """The index of a row's element in the order of the source's axes."""
        return (*row[: self.axis], place, *row[self.axis :])

    def wanted(self) -> list[tuple[Var, bool]]:
        """The outputs that somebody reads, and whether each is the one of the values."""
        uses = self.scheduler.uses
        pairs = zip(self.instruction.outputs, (True, False), strict=True)
        return [(var, first) for var, first in pairs if var in uses.kept or var in uses.readers]

    def step(
        self, at: Expressions, body: list[Statement], writes: list[Storage], each: Dim
    ) -> None:
        work = product(self.rows) * self.length * each
        self.scheduler.step(at, body, writes, work)


@writer("sort")
def write_sort(scheduler: Scheduler, instruction: Instruction) -> None:
    source = instruction.inputs[0]
    assert source is not None
    scheduler.in_memory(source)
    shape = shape_of(source)
    axis = instruction.attributes["axis"] % len(shape)
    length, rows = shape[axis], (*shape[:axis], *shape[axis + 1 :])
    wide = int32 if isinstance(length, int) and length < 1 << 30 else int64
    keys = Storage(_key_dtype(dtype_of(source)), (*rows, length))
    sorting = _Sorting(scheduler, instruction, source, axis, rows, length, keys, wide)
    _write_keys(sorting)
    most = 1 << _BLOCK if scheduler.traits.spread else COUNTED_MOST
    if isinstance(length, int) and length <= most:
        _write_counted(sorting)
    else:
        _write_merged(sorting)


# --- keys -----------------------------------------------------------------------------------------------------------


def _key_dtype(dtype: DType) -> DType:
    if dtype in (uint32, uint64):
        return dtype
    return int64 if dtype.itemsize == 8 else int32


def _write_keys(sorting: _Sorting) -> None:
    descending = sorting.instruction.attributes["descending"]

    def element(at: Expressions, index: Index) -> Value:
        value = at.value(sorting.source, sorting.whole(index[:-1], index[-1]))
        key = make_key(value, dtype_of(sorting.source))
        return Apply("bit_not", (key,), key.dtype) if descending else key

    fill(sorting.scheduler, sorting.keys, sorting.keys.shape, element)


def make_key(value: Value, dtype: DType) -> Value:
    """An integer that is less than another's where the value (of that dtype, as it is computed in) comes before it."""
    value = as_working(as_stored(value, dtype), dtype)
    target = _key_dtype(dtype)
    if not is_float(dtype):
        return value if value.dtype == target else Cast(value, target)
    zero = Constant(0.0, value.dtype)
    plain = Apply("select", (_said("eq", value, zero), zero, value), value.dtype)
    bits, last = Cast(plain, target, bits=True), Constant(int(np.iinfo(target).max), target)
    turned = Apply("bit_xor", (bits, last), target)
    key = Apply("select", (_said("lt", bits, Constant(0, target)), turned, bits), target)
    return Apply("select", (Apply("is_nan", (value,), bool_), last, key), target)


def _said(function: str, *values: Value) -> Value:
    return Apply(function, values, bool_)


# --- short rows -----------------------------------------------------------------------------------------------------


def _write_counted(sorting: _Sorting) -> None:
    """The outputs at once: an element's place is how many of its row come before it."""
    at = sorting.scheduler.expressions()
    loops, row = sorting.open(at)
    place = at.variable(sorting.length)
    body, target, _ = _count(sorting, at, row, place, 0)
    writes = []
    for var, is_values in sorting.wanted():
        storage = sorting.scheduler.allocate(var)
        index = sorting.whole(row, place)
        value = at.value(sorting.source, index) if is_values else Position(place, int64)
        where = at.place(storage, sorting.whole(row, target))
        body.append(Store(at.buffer(storage), where, as_stored(value, dtype_of(var))))
        writes.append(storage)
    nested = in_loops([*loops, (str(place), sorting.length)], body, parallel=True)
    sorting.step(at, nested, writes, sorting.length)


def _count(
    sorting: _Sorting, at: Expressions, row: Index, place: Dim, start: Dim
) -> tuple[list[Statement], Dim, Value]:
    """(statements, the place of an element among those of its block, its key); the block begins at ``start``."""
    block = minimum(sorting.length - start, 1 << _BLOCK) if start != 0 else sorting.length
    other = at.variable(block)
    key: Value = at.load(sorting.keys, (*row, place))
    one = at.load(sorting.keys, (*row, start + other))
    earlier = _said("lt", Position(start + other, sorting.wide), Position(place, sorting.wide))
    before = _said("or", _said("lt", one, key), _said("and", _said("eq", one, key), earlier))
    count, found = at.name("f"), f"@{at.name('')}"
    at.ranges[found] = sorting.length
    total: Value = Local(count, sorting.wide)
    if start != 0:
        total = Apply("add", (Position(start, sorting.wide), total), sorting.wide)
    body: list[Statement] = [
        Fold(
            (Accumulator(count, "add", Cast(before, sorting.wide)),),
            ((str(other), block),),
            lanes=True,
        ),
        Lookup(found, total, sorting.length, sure=True),
    ]
    return body, symbol(found), key


# --- long rows ------------------------------------------------------------------------------------------------------

Run = tuple[Storage, Storage]  # keys, and where in its row each of them stood


def _write_merged(sorting: _Sorting) -> None:
    length = sorting.length
    other = Storage(sorting.keys.dtype, sorting.keys.shape)
    first, second = (Storage(sorting.wide, sorting.keys.shape) for _ in range(2))
    here: Run = (other, first)
    there: Run = (sorting.keys, second)
    _write_blocks(sorting, here)
    for level in range(_BLOCK, _LONGEST, 2):
        if isinstance(length, int) and length <= 1 << level:
            break
        _write_merge(sorting, level, here, there, level)  # two at a time: it ends where it began
        _write_merge(sorting, level + 1, there, here, level)
    _write_results(sorting, here[1])


def _write_blocks(sorting: _Sorting, to: Run) -> None:
    at = sorting.scheduler.expressions()
    loops, row = sorting.open(at)
    place = at.variable(sorting.length)
    start = place // (1 << _BLOCK) * (1 << _BLOCK)
    body, target, key = _count(sorting, at, row, place, start)
    where = at.place(to[0], (*row, target))
    body += [
        Store(at.buffer(to[0]), where, key),
        Store(at.buffer(to[1]), where, Position(place, sorting.wide)),
    ]
    nested = in_loops([*loops, (str(place), sorting.length)], body, parallel=True)
    sorting.step(at, nested, list(to), 1 << _BLOCK)


def _write_merge(sorting: _Sorting, level: int, source: Run, to: Run, needed: int) -> None:
    """Runs of 2^level elements merged two by two, if there are more than 2^needed elements: else it has no turns."""
    at, wide, length = sorting.scheduler.expressions(), sorting.wide, sorting.length
    loops, row = sorting.open(at)
    place = at.variable(length)
    work = Integers(at, wide)
    index, power, one = Position(place, wide), Position(level, wide), Constant(1, wide)
    none = Constant(0, wide)
    run = work.let("shift_right", index, power)
    own = work.let("shift_left", run, power)
    beside = work.let("shift_left", work.let("bit_xor", run, one), power)
    left = work.let("sub", Position(length, wide), beside)
    size = work.let("max", work.let("min", work.let("shift_left", one, power), left), none)
    key = work.name(at.load(source[0], (*row, place)))
    is_second = work.name(_said("eq", Apply("bit_and", (run, one), wide), one))

    def comes(found: Dim) -> Value:
        other = at.load(source[0], (*row, found))
        equal = _said("and", is_second, _said("eq", other, key))
        return _said("or", _said("lt", other, key), equal)

    turns = (
        max(level, SHORT) + 1
    )  # one more than needed does nothing, and all levels share a kernel
    carry, before = binary_search(work, (beside, size, length), turns, comes)
    shift = Apply("add", (Apply("sub", (index, own), wide), before), wide)
    target = Apply("add", (Apply("min", (own, beside), wide), shift), wide)
    found = f"@{at.name('')}"
    at.ranges[found] = length
    where = at.place(to[0], (*row, symbol(found)))
    body = [
        *work.statements,
        carry,
        Lookup(found, target, length, sure=True),
        Store(at.buffer(to[0]), where, key),
        Store(at.buffer(to[1]), where, at.load(source[1], (*row, place))),
    ]
    wanted = minimum(maximum(length - (1 << needed), 0), 1)
    nested = in_loops([*loops, (str(place), length * wanted)], body, parallel=True)
    sorting.step(at, nested, list(to), 4 * level * wanted)


def _write_results(sorting: _Sorting, order: Storage) -> None:
    """What somebody reads of the elements in order and of where they stood."""
    axis, scheduler = sorting.axis, sorting.scheduler

    def stood(at: Expressions, index: Index) -> Load:
        return at.load(order, (*index[:axis], *index[axis + 1 :], index[axis]))

    def position(at: Expressions, index: Index) -> Value:
        return stood(at, index) if sorting.wide == int64 else Cast(stood(at, index), int64)

    def value(at: Expressions, index: Index) -> Value:
        name = f"@{at.name('')}"
        at.ranges[name] = sorting.length
        at.lookups.append(Lookup(name, stood(at, index), sorting.length, sure=True))
        moved = (*index[:axis], symbol(name), *index[axis + 1 :])
        return as_stored(at.value(sorting.source, moved), dtype_of(sorting.source))

    shape = shape_of(sorting.source)
    for var, is_values in sorting.wanted():
        element = value if is_values else position
        fill(scheduler, scheduler.allocate(var), shape, element)
