"""Running sums, and where the greatest element is."""

from __future__ import annotations

from burnx.dtype import bool_, int64, is_float
from burnx.fusion.expressions import Index, as_stored, dtype_of, shape_of
from burnx.fusion.rows import FOLDS
from burnx.fusion.scan_blocks import is_worth_blocks, write_in_blocks
from burnx.fusion.scheduler import Scheduler, writer
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Carry,
    Constant,
    Fold,
    Let,
    Local,
    Loop,
    Position,
    Statement,
    Store,
    Value,
    in_loops,
)
from burnx.program import Instruction
from burnx.shape import Dim, product


@writer("argreduce")
def write_argreduce(scheduler: Scheduler, instruction: Instruction) -> None:
    """First the extreme of a row, then the first place that equals it; NaN equals NaN here."""
    source, (var,) = instruction.inputs[0], instruction.outputs
    assert source is not None
    shape, axis = shape_of(source), instruction.attributes["axis"] % len(shape_of(source))
    at = scheduler.expressions()
    storage = scheduler.allocate(var, tuple(range(len(shape) - 1)))
    outer = [at.variable(size) for place, size in enumerate(shape) if place != axis]

    def element(variable: Dim) -> Value:
        index = [*outer]
        index.insert(axis, variable)
        return at.value(source, tuple(index))

    first, second = at.variable(shape[axis]), at.variable(shape[axis])
    extreme, found = at.name("f"), at.name("f")
    value = element(first)
    best = Local(extreme, value.dtype)
    one = element(second)
    hit: Value = Apply("eq", (one, best), bool_)
    if is_float(value.dtype):
        both = tuple(Apply("is_nan", (each,), bool_) for each in (one, best))
        hit = Apply("or", (hit, Apply("and", both, bool_)), bool_)
    far = Constant(2**62, int64)
    place = Apply("select", (hit, Position(second, int64), far), int64)
    function = instruction.attributes["function"]
    body: list[Statement] = [
        Fold((Accumulator(extreme, function, value),), ((str(first), shape[axis]),), lanes=True),
        Fold((Accumulator(found, "min", place),), ((str(second), shape[axis]),), lanes=True),
        Store(at.buffer(storage), at.place(storage, tuple(outer)), Local(found, int64)),
    ]
    loops = [*zip(map(str, outer), _without(shape, axis), strict=True)]
    body = in_loops(loops, body, parallel=True)
    scheduler.step(at, body, [storage], product(shape) * 3)


def _without(shape: tuple[Dim, ...], axis: int) -> list[Dim]:
    return [size for place, size in enumerate(shape) if place != axis]


@writer("cumulate")
def write_cumulate(scheduler: Scheduler, instruction: Instruction) -> None:
    """A serial loop along the axis, the others around it; in blocks where there are many threads and few rows."""
    source, (var,) = instruction.inputs[0], instruction.outputs
    assert source is not None
    shape, axis = shape_of(source), instruction.attributes["axis"] % len(shape_of(source))
    if scheduler.traits.spread and is_worth_blocks(shape, axis):
        write_in_blocks(scheduler, instruction)
        return
    at = scheduler.expressions()
    storage = scheduler.allocate(var)
    turn = at.variable(shape[axis])
    place = shape[axis] - 1 - turn if instruction.attributes["reverse"] else turn
    outer = {k: at.variable(size) for k, size in enumerate(shape) if k != axis and size != 1}
    index: Index = tuple(place if k == axis else outer.get(k, 0) for k in range(len(shape)))
    value = at.value(source, index)
    function = FOLDS[instruction.attributes["function"]]
    neutral = Constant(0 if function == "add" else 1, value.dtype)
    old = Local(at.name("c"), value.dtype)
    new_name = at.name("c")
    new = Local(new_name, value.dtype)
    stored = old if instruction.attributes["exclusive"] else new
    body: list[Statement] = [
        Let(new_name, Apply(function, (old, value), value.dtype)),
        Store(at.buffer(storage), at.place(storage, index), as_stored(stored, dtype_of(var))),
    ]
    carry = Carry(((old.name, neutral, new),), str(turn), shape[axis], tuple(body))
    nested: list[Statement] = [carry]
    order = [k for k in storage.order if k in outer]
    for depth, k in enumerate(reversed(order)):
        lanes = depth == 0 and storage.order[-1] == k
        alone = len(order) == 1
        nested = [
            Loop(str(outer[k]), shape[k], tuple(nested), parallel=not lanes or alone, lanes=lanes)
        ]
    scheduler.step(at, nested, [storage], product(shape) * 2)
