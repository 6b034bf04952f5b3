"""``Fold`` and ``Carry``: values that go from turn to turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from burnx.dtype import DType, bool_, dtype_name, float32, float64, is_float
from burnx.kernels.blocking import is_written_out, written_out
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Carry,
    Fold,
    Let,
    Lookup,
    Statement,
    Value,
    walk,
)
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context, Unsupported
from burnx.llvm.dtypes import is_signed, lanes_of, scalar_type, size_bytes
from burnx.llvm.functions import combine
from burnx.llvm.literals import literal, vector_literal, widen
from burnx.llvm.loops import enter, lane_count, overlapping
from burnx.llvm.uses import free_names, may_repeat, statement_values, weight
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Dim

Loops = Sequence[tuple[str, Dim]]
Innermost = Callable[[list[Ssa]], list[Ssa]]


def emit_fold(context: Context, fold: Fold, lanes: int) -> None:
    if fold.lanes and context.count == 1 and fold.loops:
        results = _fold_in_lanes(context, fold)
    else:
        results = _fold_in_turns(context, fold)
    for accumulator, result in zip(fold.accumulators, results, strict=True):
        context.bind(accumulator.name, result)


def neutral(function: str, dtype: DType) -> Ssa:
    """What combined with a value leaves it."""
    if function in ("and", "or"):
        return literal(function == "and", dtype)
    if function in ("add", "mul"):
        return literal(0 if function == "add" else 1, dtype)
    if dtype == bool_:
        return literal(function == "min", dtype)
    if is_float(dtype):
        return literal(float("inf") if function == "min" else float("-inf"), dtype)
    return literal(_limit(dtype, function == "min"), dtype)


def _limit(dtype: DType, greatest: bool) -> int:
    bits = size_bytes(dtype) * 8
    if is_signed(dtype):
        return (1 << (bits - 1)) - 1 if greatest else -(1 << (bits - 1))
    return (1 << bits) - 1 if greatest else 0


def _take(context: Context, accumulator: Accumulator, before: Ssa) -> Ssa:
    """The accumulator after this turn; a sum of products takes each product without rounding it."""
    value, function, dtype = accumulator.value, accumulator.function, accumulator.value.dtype
    if is_float(dtype) and dtype not in (float32, float64):
        raise Unsupported(f"kernels do not sum up {dtype_name(dtype)}")
    is_product = isinstance(value, Apply) and value.function == "mul" and is_float(dtype)
    if function == "add" and is_product and isinstance(value, Apply):
        lanes = lanes_of(before.type)
        left, right = (
            widen(context.writer, context.value(each, 1), lanes) for each in value.arguments
        )
        return Calculator(context.writer).fma(left, right, before)
    return combine(context, function, before, context.value(value, 1), dtype)


def _nest(
    context: Context,
    loops: Loops,
    carried: list[Ssa],
    innermost: Innermost,
    body: Sequence[Statement],
) -> list[Ssa]:
    """Nested serial loops that carry values."""
    if not loops:
        return innermost(carried)
    (variable, extent), *inner = loops

    def turn(index: Ssa, values: list[Ssa]) -> list[Ssa]:
        with context.scope():
            context.bind(variable, index)
            return _nest(context, inner, values, innermost, body)

    stop = context.index(extent)
    enter(context, body)
    return context.writer.loop(integer(0), stop, integer(1), turn, carried)


def _body_of(fold: Fold) -> tuple[Statement, ...]:
    """The fold's body, and what it takes, as statements."""
    return (*fold.body, *(Let(each.name, each.value) for each in fold.accumulators))


def _fold_in_turns(context: Context, fold: Fold) -> list[Ssa]:
    """One turn after the other; inside lanes, every lane for itself."""
    body = _body_of(fold)
    moving = moving_names(context, fold.body, set())
    first = []
    for each in fold.accumulators:
        start = neutral(each.function, each.value.dtype)
        varies = context.count > 1 and moves(context, each.value, moving)
        first.append(vector_literal(start, context.count if varies else 1))

    def innermost(values: list[Ssa]) -> list[Ssa]:
        context.statements(fold.body, context.count)
        return [
            _take(context, each, old) for each, old in zip(fold.accumulators, values, strict=True)
        ]

    if context.count > 1 and is_written_out(fold):
        return _nest(context, fold.loops[:-1], first, partial(_write_out, context, fold), body)
    return _nest(context, fold.loops, first, innermost, body)


def _write_out(context: Context, fold: Fold, values: list[Ssa]) -> list[Ssa]:
    """The turns of the innermost loop one after the other."""
    turns = written_out(fold)
    context.facts["keep", id(turns)] = turns  # identities are keys of what was worked out
    for turn in turns:
        values = [_take(context, each, old) for each, old in zip(turn, values, strict=True)]
    return values


# --- the innermost loop in lanes ------------------------------------------------------------------------------------


def _copies(fold: Fold) -> int:
    """How many vectors of each accumulator are under way at once, to hide how long an addition takes."""
    size = weight(value for each in _body_of(fold) for value in statement_values(each))
    by_size = 4 if size <= 8 else 2 if size <= 24 else 1
    return max(by_size // len(fold.accumulators), 1)


def _fold_in_lanes(context: Context, fold: Fold) -> list[Ssa]:
    """Vectors of partial results, copies of them, and single ones for what is left; all combined in the end."""
    body = _body_of(fold)
    context.facts["keep", id(fold)] = body  # its identity is a key of other facts
    width, copies, many = lane_count(context, body), _copies(fold), len(fold.accumulators)
    starts = [neutral(each.function, each.value.dtype) for each in fold.accumulators]
    vectors = [vector_literal(start, width) for start in starts]
    *outer, (variable, extent) = fold.loops
    repeats = may_repeat(context, fold.body, [each.value for each in fold.accumulators])

    def step(index: Ssa, lanes: int, values: list[Ssa]) -> list[Ssa]:
        with context.lanes(variable, index, lanes):
            context.statements(fold.body, lanes)
            pairs = zip(fold.accumulators, values, strict=True)
            return [_take(context, each, old) for each, old in pairs]

    def main(index: Ssa, values: list[Ssa]) -> list[Ssa]:
        result: list[Ssa] = []
        for copy in range(copies):
            start = context.add(index, integer(copy * width))
            result += step(start, width, values[copy * many : (copy + 1) * many])
        return result

    def innermost(values: list[Ssa]) -> list[Ssa]:
        writer, stop = context.writer, context.index(extent)
        enter(context, body)
        run = lambda index, old: step(index, width, old)  # noqa: E731
        split = copies * many
        whole, single = values[:split], values[split:]
        full_end = integer(0)
        if copies > 1 or not repeats:
            full_end = writer.binary("and", stop, integer(-copies * width))
            whole = writer.loop(integer(0), full_end, integer(copies * width), main, whole)
        if repeats:
            ends, some = (full_end, stop), whole[:many]
            full_end, whole[:many] = overlapping(context, ends, integer(0), width, run, some)
        elif copies > 1:
            many_end, full_end = full_end, writer.binary("and", stop, integer(-width))
            whole[:many] = writer.loop(many_end, full_end, integer(width), run, whole[:many])
        run_one = lambda index, old: step(index, 1, old)  # noqa: E731
        single = writer.loop(full_end, stop, integer(1), run_one, single)
        return [*whole, *single]

    results = _nest(context, outer, [*vectors * copies, *starts], innermost, body)
    return [
        _merge(context, each, results[place::many]) for place, each in enumerate(fold.accumulators)
    ]


def _merge(context: Context, accumulator: Accumulator, parts: list[Ssa]) -> Ssa:
    """All vectors and the single one (last) combined into one number."""
    *vectors, single = parts
    function, dtype = accumulator.function, accumulator.value.dtype
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [
            combine(context, function, vectors[at], vectors[at + half], dtype) for at in range(half)
        ]
    return combine(context, function, _across(context, function, vectors[0], dtype), single, dtype)


def _across(context: Context, function: str, vector: Ssa, dtype: DType) -> Ssa:
    """The lanes of a vector combined, halves with halves."""
    lanes = lanes_of(vector.type)
    while lanes > 1:
        lanes //= 2
        low, high = (_part(context, vector, start, lanes) for start in (0, lanes))
        vector = combine(context, function, low, high, dtype)
    return vector


def _part(context: Context, vector: Ssa, start: int, lanes: int) -> Ssa:
    if lanes == 1:
        return context.pick(vector, integer(start))
    order = ", ".join(f"i32 {start + lane}" for lane in range(lanes))
    type_ = f"<{lanes} x {scalar_type(vector.type)}>"
    text = f"shufflevector {vector}, {vector.type} poison, <{lanes} x i32> <{order}>"
    return context.writer.value(type_, text)


# --- what moves with the lanes --------------------------------------------------------------------------------------


def moves(context: Context, value: Value, moving: set[str]) -> bool:
    """Whether a value differs between lanes, given names of statements to come that do."""
    names = free_names(context, value)
    return any(
        name in moving or (context.is_bound(name) and context.varies(name)) for name in names
    )


def moving_names(context: Context, body: Sequence[Statement], moving: set[str]) -> set[str]:
    """The names that statements will bind to other values in every lane."""
    if context.count == 1:
        return set()
    found = set(moving)
    for each in walk(tuple(body)):
        match each:
            case Let() | Lookup():
                found |= {each.name} if moves(context, each.value, found) else set()
            case Fold():
                inner = moving_names(context, each.body, found)
                found |= {a.name for a in each.accumulators if moves(context, a.value, inner)}
            case Carry():
                found |= _moving_carried(context, each, found)
            case _:
                pass
    return found


def _moving_carried(context: Context, carry: Carry, moving: set[str]) -> set[str]:
    """The carried values that differ between lanes: from the first turn on, or through one that does."""
    found = {name for name, first, _ in carry.carried if moves(context, first, moving)}
    while True:
        inner = moving_names(context, carry.body, moving | found)
        more = {name for name, _, following in carry.carried if moves(context, following, inner)}
        if more <= found:
            return found
        found |= more


def emit_carry(context: Context, carry: Carry, lanes: int) -> None:
    moving = _moving_carried(context, carry, set()) if context.count > 1 else set()
    wide = [context.count if name in moving else 1 for name, _, _ in carry.carried]
    first = [
        widen(context.writer, context.value(start, 1), many)
        for (_, start, _), many in zip(carry.carried, wide, strict=True)
    ]

    def turn(index: Ssa, values: list[Ssa]) -> list[Ssa]:
        with context.scope():
            context.bind(carry.variable, index)
            for (name, _, _), value in zip(carry.carried, values, strict=True):
                context.bind(name, value)
            context.statements(carry.body, context.count)
            return [
                widen(context.writer, context.value(following, 1), many)
                for (_, _, following), many in zip(carry.carried, wide, strict=True)
            ]

    stop = context.index(carry.extent)
    enter(context, carry.body)
    last = context.writer.loop(integer(0), stop, integer(1), turn, first)
    for (name, _, _), value in zip(carry.carried, last, strict=True):
        context.bind(name, value)
