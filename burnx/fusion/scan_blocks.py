"""Running sums for many threads: blocks are added up, then each takes up where those before it end.

What the blocks before each add up to is itself a running sum, of as many numbers as there are blocks; if these are many it
is taken in the same way.  The order of additions depends on nothing but the length, so results are the same every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burnx.dtype import DType
from burnx.fusion.expressions import (
    Expressions,
    Index,
    as_stored,
    dtype_of,
    shape_of,
    working_dtype,
)
from burnx.fusion.rows import FOLDS
from burnx.fusion.scheduler import Scheduler
from burnx.fusion.storage import Storage
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Carry,
    Constant,
    Fold,
    Let,
    Local,
    Statement,
    Store,
    Value,
    in_loops,
)
from burnx.program import Instruction
from burnx.shape import Dim, Shape, minimum, product

_BLOCK = 64  # elements that one thread goes through
_DEEPEST = 2  # how often blocks are made of blocks
_MANY_ROWS = 1 << 15
Element = Callable[[Expressions, Index, Dim], Value]  # of a row, at a place along it
Place = Callable[[Expressions, Index, Dim], Dim]


def is_worth_blocks(shape: Shape, axis: int) -> bool:
    """Whether there are more elements along the axis than one thread should go through."""
    rows = product((*shape[:axis], *shape[axis + 1 :]))
    if isinstance(rows, int) and rows >= _MANY_ROWS:
        return False
    length = shape[axis]
    return not isinstance(length, int) or length > 2 * _BLOCK


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    """``rows`` are the other axes' sizes; ``element`` is what is combined by ``function``, in ``dtype``."""

    scheduler: Scheduler
    rows: Shape
    length: Dim
    function: str
    dtype: DType
    element: Element

    @property
    def blocks(self) -> Dim:
        return (self.length + (_BLOCK - 1)) // _BLOCK

    def neutral(self) -> Constant:
        return Constant(0 if self.function == "add" else 1, self.dtype)

    def open(self, at: Expressions) -> tuple[list[tuple[str, Dim]], Index]:
        """(loops, index) over the rows."""
        index = tuple(0 if size == 1 else at.variable(size) for size in self.rows)
        pairs = zip(index, self.rows, strict=True)
        return [(str(each), size) for each, size in pairs if each != 0], index


def write_in_blocks(scheduler: Scheduler, instruction: Instruction) -> None:
    """The steps of a cumulate."""
    source, (var,) = instruction.inputs[0], instruction.outputs
    assert source is not None
    scheduler.in_memory(source)  # it is read twice
    given, shape = instruction.attributes, shape_of(source)
    axis = given["axis"] % len(shape)
    storage, length = scheduler.allocate(var), shape[axis]

    def index(row: Index, turn: Dim) -> Index:
        place = length - 1 - turn if given["reverse"] else turn
        return (*row[:axis], place, *row[axis:])

    def element(at: Expressions, row: Index, turn: Dim) -> Value:
        return at.value(source, index(row, turn))

    def place(at: Expressions, row: Index, turn: Dim) -> Dim:
        return at.place(storage, index(row, turn))

    rows = (*shape[:axis], *shape[axis + 1 :])
    function, dtype = FOLDS[given["function"]], working_dtype(dtype_of(source))
    scan = _Scan(scheduler, rows, length, function, dtype, element)
    _write_scan(scan, (storage, place), bool(given["exclusive"]), 0)


def _write_scan(scan: _Scan, to: tuple[Storage, Place], exclusive: bool, depth: int) -> None:
    few = isinstance(scan.length, int) and scan.length <= _BLOCK
    if few or depth == _DEEPEST:
        _write_turns(scan, to, exclusive, None)
        return
    totals = Storage(scan.dtype, (*scan.rows, scan.blocks))
    before = Storage(scan.dtype, totals.shape)
    _write_totals(scan, totals)
    inner = _Scan(
        scan.scheduler,
        scan.rows,
        scan.blocks,
        scan.function,
        scan.dtype,
        lambda at, row, turn: at.load(totals, (*row, turn)),
    )
    _write_scan(
        inner, (before, lambda at, row, turn: at.place(before, (*row, turn))), True, depth + 1
    )
    _write_turns(scan, to, exclusive, before)


def _write_totals(scan: _Scan, totals: Storage) -> None:
    """Each block combined."""
    at = scan.scheduler.expressions()
    loops, row = scan.open(at)
    block = at.variable(scan.blocks)
    size = minimum(scan.length - block * _BLOCK, _BLOCK)
    turn, total = at.variable(size), at.name("f")
    value = scan.element(at, row, block * _BLOCK + turn)
    accumulator = Accumulator(total, scan.function, value)
    body: list[Statement] = [
        Fold((accumulator,), ((str(turn), size),), lanes=True),
        Store(at.buffer(totals), at.place(totals, (*row, block)), Local(total, scan.dtype)),
    ]
    nested = in_loops([*loops, (str(block), scan.blocks)], body, parallel=True)
    _add_step(scan, at, nested, totals)


def _write_turns(
    scan: _Scan, to: tuple[Storage, Place], exclusive: bool, before: Storage | None
) -> None:
    """The elements of each block one after the other, from what those before it give; or of each row."""
    at = scan.scheduler.expressions()
    loops, row = scan.open(at)
    first: Value = scan.neutral()
    start: Dim = 0
    size = scan.length
    if before is not None:
        block = at.variable(scan.blocks)
        loops.append((str(block), scan.blocks))
        start, size = block * _BLOCK, minimum(scan.length - block * _BLOCK, _BLOCK)
        first = at.load(before, (*row, block))
    turn = at.variable(size)
    old, new = (Local(at.name("c"), scan.dtype) for _ in range(2))
    value = scan.element(at, row, start + turn)
    storage, place = to
    stored = as_stored(old if exclusive else new, storage.dtype)
    body = (
        Let(new.name, Apply(scan.function, (old, value), scan.dtype)),
        Store(at.buffer(storage), place(at, row, start + turn), stored),
    )
    carry = Carry(((old.name, first, new),), str(turn), size, body)
    _add_step(scan, at, in_loops(loops, [carry], parallel=True), storage)


def _add_step(scan: _Scan, at: Expressions, body: list[Statement], to: Storage) -> None:
    work = product(scan.rows) * scan.length * 2
    scan.scheduler.step(at, body, [to], work)
