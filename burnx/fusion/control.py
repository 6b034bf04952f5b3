"""Loops and branches as parts of a schedule: their bodies are scheduled like any list of instructions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnx.dtype import bool_, int64
from burnx.fusion.elementwise import fill, merge, nest
from burnx.fusion.expressions import Expressions, Index, as_stored, dtype_of, shape_of
from burnx.fusion.folding import fold, replaced
from burnx.fusion.scheduler import Scheduler, schedule_inner, writer
from burnx.fusion.storage import Branch, Node, Repeat, Storage
from burnx.kernels.ir import Apply, Constant, Let, Load, Local, Lookup, Statement, Store, Value
from burnx.program import Instruction, Program, Var
from burnx.shape import Dim, Shape, symbol


@writer("cond")
def write_cond(scheduler: Scheduler, instruction: Instruction) -> None:
    """Both branches store into the memory of the results; one of them runs."""
    condition, *operands = instruction.inputs
    assert condition is not None
    then, otherwise = instruction.attributes["programs"]
    results = [scheduler.allocate(var, _plain(var)) for var in instruction.outputs]
    split = len(then.captures)
    where = Storage(bool_, shape_of(condition))
    _copy(scheduler, condition, where)
    branches = [
        _branch(scheduler, program, given, results)
        for program, given in ((then, operands[:split]), (otherwise, operands[split:]))
    ]
    scheduler.schedule.steps.append(Branch(where, *branches))


def _plain(var: Var) -> tuple[int, ...]:
    return tuple(range(len(shape_of(var))))


def _branch(
    scheduler: Scheduler, program: Program, operands: Sequence[Var | None], results: list[Storage]
) -> list[Node]:
    inner, outputs = _inner(scheduler, program, operands, {})
    for var, storage in zip(outputs, results, strict=True):
        _copy(inner, var, storage)
    return inner.schedule.steps


def _inner(
    scheduler: Scheduler,
    program: Program,
    operands: Sequence[Var | None],
    memory: dict[Var, Storage],
) -> tuple[Scheduler, list[Var]]:
    """(the scheduled body, its outputs); captures are replaced by what they capture."""
    names = dict(zip(program.captures, operands, strict=True))
    given = {inner: outer for inner, outer in names.items() if outer is not None}
    folded: dict[Var, Var] = {}
    renamed = [replaced(each, given) for each in program.instructions]
    instructions = fold(renamed, folded, program.outputs)
    outputs = [folded.get(var, given.get(var, var)) for var in program.outputs]
    return schedule_inner(scheduler, instructions, outputs, memory), outputs


def _copy(scheduler: Scheduler, var: Var, target: Storage) -> None:
    dtype = dtype_of(var)
    fill(
        scheduler,
        target,
        shape_of(var),
        lambda at, index: as_stored(at.value(var, index), dtype),
    )


@writer("loop")
def write_loop(scheduler: Scheduler, instruction: Instruction) -> None:
    """What is carried lies at one place, and so do the turn and whether to go on."""
    program: Program = instruction.attributes["program"]
    count = len(program.inputs) - 2
    trips, condition, *operands = instruction.inputs
    turn, going = Storage(int64, ()), Storage(bool_, ())
    carried = [Storage(dtype_of(var), shape_of(var)) for var in program.inputs[2:]]
    for var, storage in zip(operands[:count], carried, strict=True):
        assert var is not None
        _copy(scheduler, var, storage)
    _begin(scheduler, turn, going, trips, condition)
    memory = dict(zip(program.inputs, (turn, going, *carried), strict=True))
    body, (going_now, *results) = _inner(scheduler, program, operands[count:], memory)
    stacked = [scheduler.allocate(var, _plain(var)) for var in instruction.outputs[count:]]
    for var, storage in zip(results[count:], stacked, strict=True):
        _stack(body, var, storage, turn)
    _carry(body, results[:count], carried)
    _go_on(scheduler, body, turn, going, trips, going_now)
    turns = _count_turns(trips, condition, going_now)
    scheduler.schedule.steps.append(Repeat(going, body.schedule.steps, turns, scheduler.near))
    for var, storage in zip(instruction.outputs[:count], carried, strict=True):
        _give(scheduler, var, storage)


def _begin(
    scheduler: Scheduler, turn: Storage, going: Storage, trips: Var | None, condition: Var | None
) -> None:
    at = scheduler.expressions()
    start: Value = Constant(True, bool_)
    if condition is not None:
        start = at.value(condition, _first(condition))
    start = _below(at, Constant(0, int64), trips, start)
    body: list[Statement] = [
        Store(at.buffer(turn), 0, Constant(0, int64)),
        Store(at.buffer(going), 0, start),
    ]
    scheduler.step(at, body, [turn, going], 1)


def _count_turns(trips: Var | None, condition: Var | None, going_now: Var) -> int | None:
    """How many turns a loop takes, if constants say so."""
    if trips is None or trips.array is None or going_now.array is None:
        return None
    if condition is not None and condition.array is None:
        return None
    starts = condition is None or bool(np.asarray(condition.array).reshape(()))
    count = max(int(np.asarray(trips.array).reshape(())), 0) if starts else 0
    return count if bool(going_now.array.reshape(())) else min(count, 1)


def _first(var: Var) -> Index:
    return (0,) * len(shape_of(var))


def _below(at: Expressions, turn: Value, trips: Var | None, going: Value) -> Value:
    if trips is None:
        return going
    limit = at.value(trips, _first(trips))
    return Apply("and", (going, Apply("lt", (turn, limit), bool_)), bool_)


def _go_on(
    scheduler: Scheduler,
    body: Scheduler,
    turn: Storage,
    going: Storage,
    trips: Var | None,
    going_now: Var,
) -> None:
    at = body.expressions()
    after = Local("turn", int64)
    step = Apply("add", (Load(at.buffer(turn), 0), Constant(1, int64)), int64)
    again = _below(at, after, trips, at.value(going_now, _first(going_now)))
    statements: list[Statement] = [
        Let("turn", step),
        Store(at.buffer(going), 0, again),
        Store(at.buffer(turn), 0, after),
    ]
    body.step(at, statements, [turn, going], 1)


def _stack(body: Scheduler, var: Var, storage: Storage, turn: Storage) -> None:
    """Store an item at its turn."""
    at = body.expressions()
    shape: Shape = shape_of(var)
    limit: Dim = storage.shape[0]
    at.ranges["@turn"] = limit
    at.lookups.append(Lookup("@turn", Load(at.buffer(turn), 0), limit))
    index = tuple(0 if size == 1 else at.variable(size) for size in shape)
    loops = [(str(each), size) for each, size in zip(index, shape, strict=True) if each != 0]
    place = at.place(storage, (symbol("@turn"), *index))
    value = as_stored(at.value(var, index), dtype_of(var))
    store = Store(at.buffer(storage), place, value)
    work: Dim = 1
    for size in shape:
        work = work * size
    body.step(at, nest(merge(loops, [store], at)), [storage], work)


def _carry(body: Scheduler, results: Sequence[Var], carried: Sequence[Storage]) -> None:
    """Put the new values in the place of the old ones, after all of them are there."""
    places: list[tuple[Var, Storage, Storage]] = []
    for var, storage in zip(results, carried, strict=True):
        source = body.in_memory(var)
        if source is storage:
            continue
        if source in carried:  # another's place, which will be overwritten
            source = Storage(storage.dtype, storage.shape)
            _copy(body, var, source)
        places.append((var, source, storage))
    for var, source, storage in places:
        fill(
            body,
            storage,
            shape_of(var),
            lambda at, index, source=source: at.load(source, index),  # type: ignore[misc]
        )


def _give(scheduler: Scheduler, var: Var, storage: Storage) -> None:
    """The last carried value is the loop's result; one that leaves the segment is copied out."""
    if var not in scheduler.outputs:
        scheduler.memory[var] = storage
        return
    target = scheduler.allocate(var)
    fill(scheduler, target, shape_of(var), lambda at, index: at.load(storage, index))
