"""Loops: divided among workers, taken several turns at a time, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from burnx.dtype import bool_
from burnx.kernels.blocking import share_loads
from burnx.kernels.ir import (
    Carry,
    Constant,
    Contract,
    Fold,
    Inside,
    Let,
    Lookup,
    Loop,
    Statement,
    Store,
    Value,
    operands,
    walk,
)
from burnx.llvm.context import Context
from burnx.llvm.dtypes import size_bytes
from burnx.llvm.turning import emit_squares, find_turned
from burnx.llvm.uses import (
    free_names,
    may_repeat,
    nodes,
    read_buffers,
    statement_values,
    weight,
    written_buffers,
)
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Dim

CHUNK = 16  # elements: where a lanes loop may be divided among workers


def emit_loop(context: Context, loop: Loop, lanes: int) -> None:
    if loop.parallel and not context.divided:
        emit_parallel(context, loop)
    elif loop.lanes and lanes == 1:
        emit_lanes(context, loop, integer(0), context.index(loop.extent))
    else:
        emit_serial(context, loop, lanes)


def emit_serial(context: Context, loop: Loop, lanes: int) -> None:
    """One turn after the other, ``loop.unroll`` of them written side by side."""
    stop, side = context.index(loop.extent), max(loop.unroll, 1)
    enter(context, loop.body)

    def turns(many: int) -> Callable[[Ssa, list[Ssa]], list[Ssa]]:
        def run(index: Ssa, _: list[Ssa]) -> list[Ssa]:
            for turn in range(many):
                with context.scope():
                    context.bind(loop.variable, context.add(index, integer(turn)))
                    context.statements(loop.body, lanes)
            return []

        return run

    start, writer = integer(0), context.writer
    if side > 1:
        rest = writer.binary("srem", stop, integer(side))
        main = writer.binary("sub", stop, rest)
        writer.loop(start, main, integer(side), turns(side))
        start = main
    writer.loop(start, stop, integer(1), turns(1))


def enter(context: Context, body: Sequence[Statement]) -> None:
    """Before a loop's first turn: work out its indices, and forget loads that it may write over."""
    context.prepare(body)
    context.forget_values(written_buffers(tuple(body)))


# --- lanes ----------------------------------------------------------------------------------------------------------


def lane_count(context: Context, body: Sequence[Statement]) -> int:
    """How many lanes: as many as elements of the widest dtype fit in a register."""
    values = [value for each in walk(tuple(body)) for value in statement_values(each)]
    sizes = [size_bytes(node.dtype) for node in nodes(values) if node.dtype != bool_]
    sizes += [
        size_bytes(each.buffer.dtype) for each in walk(tuple(body)) if isinstance(each, Store)
    ]
    return max(context.target.vector_bytes // max(sizes, default=4), 2)


def emit_lanes(context: Context, loop: Loop, start: Ssa, stop: Ssa) -> None:
    """Vectors as long as they are full, then one element after the other."""
    writer, count = context.writer, lane_count(context, loop.body)
    with writer.when(writer.compare("icmp slt", start, stop)), context.scope():
        enter(context, loop.body)
        _hoist(context, loop)
        values = [value for each in loop.body for value in statement_values(each)]
        first, repeats = start, weight(values) > _LIGHT and may_repeat(context, loop.body)

        def turn(lanes: int) -> Callable[[Ssa, list[Ssa]], list[Ssa]]:
            def run(index: Ssa, _: list[Ssa]) -> list[Ssa]:
                with context.lanes(loop.variable, index, lanes):
                    context.statements(loop.body, lanes)
                return []

            return run

        for lanes in sorted({count * _registers(loop.body), count, 1}, reverse=True):
            if lanes == count and repeats:
                start = overlapping(context, (start, stop), first, count, turn(count))[0]
                continue
            end = stop if lanes == 1 else last_full(context, start, stop, lanes)
            writer.loop(start, end, integer(lanes), turn(lanes))
            start = end


def overlapping(
    context: Context,
    ends: tuple[Ssa, Ssa],
    first: Ssa,
    count: int,
    turn: Callable[[Ssa, list[Ssa]], list[Ssa]],
    carried: Sequence[Ssa] = (),
) -> tuple[Ssa, list[Ssa]]:
    """Vectors of which the last reaches back over the one before; where there is not even one, none.

    Turns from ``first`` on may be run again; from ``ends[0]`` on they are still to be run.
    Returns: where the turns that are left to do begin; the values carried.  What a lane carries does not change in
    turns that are run again.
    """
    writer, (start, stop) = context.writer, ends
    last = writer.binary("sub", stop, integer(count))
    fits = writer.compare("icmp sge", last, first)
    end = writer.select(fits, stop, start)

    def run(index: Ssa, values: list[Ssa]) -> list[Ssa]:
        place = writer.call("i64", "llvm.smin.i64", index, last)
        after = turn(place, values)
        if not after:
            return []
        again = writer.convert("trunc", writer.binary("sub", index, place), "i32")
        lanes = ", ".join(f"i32 {lane}" for lane in range(count))
        many = writer.splat(again, count)
        new = writer.compare("icmp sle", many, Ssa(f"<{lanes}>", many.type))
        return [writer.select(new, one, old) for one, old in zip(after, values, strict=True)]

    return end, writer.loop(start, end, integer(count), run, carried)


def last_full(context: Context, start: Ssa, stop: Ssa, step: int) -> Ssa:
    """Where a loop with this step, a power of two, has less than a step left."""
    size = context.writer.binary("sub", stop, start)
    return context.add(start, context.writer.binary("and", size, integer(-step)))


_LONG, _LIGHT = 32, 16  # turns of a fold, and values in it
_HEAVY = 64  # instructions of a few windows and what follows them


def _registers(body: Sequence[Statement]) -> int:
    """How many registers the lanes fill: several around long folds, whose turns wait for each other."""
    folds = [each for each in walk(tuple(body)) if isinstance(each, Fold)]
    extents = [extent for fold in folds for _, extent in fold.loops]
    values = [value for each in walk(tuple(body)) for value in statement_values(each)]
    if folds and all(map(share_loads, folds)):  # they wait less than what is heavy behind them
        return 2 if weight(values) > _HEAVY else 1
    is_long = any(not isinstance(extent, int) or extent > _LONG for extent in extents)
    return 4 if is_long and len(nodes(values)) <= _LIGHT else 1


def _hoist(context: Context, loop: Loop) -> None:
    """Loads and what is made of them that are the same in every turn, ahead of the loop, which surely has turns."""
    written = written_buffers(loop.body)
    inner = {loop.variable} | _bound_names(loop.body)
    for statement in loop.body:
        if isinstance(statement, (Store, Let, Lookup)):
            _hoist_value(context, statement.value, inner, written)


def _bound_names(body: Sequence[Statement]) -> set[str]:
    names: set[str] = set()
    for each in walk(tuple(body)):
        match each:
            case Let() | Lookup() | Contract():
                names.add(each.name)
            case Loop():
                names.add(each.variable)
            case Fold():
                names |= {one.name for one in each.accumulators} | {name for name, _ in each.loops}
            case Carry():
                names |= {one[0] for one in each.carried} | {each.variable}
            case _:
                pass
    return names


def _hoist_value(context: Context, value: Value, inner: set[str], written: set[int]) -> None:
    todo, seen = [value], set[int]()
    while todo:
        current = todo.pop()
        if id(current) in seen or isinstance(current, Constant):
            continue
        seen.add(id(current))
        buffers = read_buffers(context, current)
        if not free_names(context, current) & inner and buffers.isdisjoint(written):
            if buffers:
                context.value(current, 1)
        elif not isinstance(current, Inside):
            todo.extend(operands(current))


# --- workers --------------------------------------------------------------------------------------------------------


def share(context: Context, turns: Ssa, worker: Ssa) -> tuple[Ssa, Ssa]:
    """A worker's part of the turns: the first, and the one after the last.  One turn is worker 0's."""

    def bound(worker: Ssa) -> Ssa:
        writer = context.writer
        scaled = writer.binary("mul", turns, worker)
        raised = writer.binary("add", scaled, writer.binary("sub", context.workers, integer(1)))
        return writer.binary("udiv", raised, context.workers)

    return bound(worker), bound(context.writer.binary("add", worker, integer(1)))


def is_parallel(statement: Statement) -> bool:
    return any(isinstance(each, (Loop, Contract)) and each.parallel for each in walk((statement,)))


def emit_parallel(context: Context, loop: Loop) -> None:
    """The chain of parallel loops as one loop, of which every worker takes a part."""
    chain: list[Loop] = []
    body: tuple[Statement, ...] = (loop,)
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].parallel and not body[0].lanes:
        chain.append(body[0])
        body = body[0].body
    tail = body[0] if len(body) == 1 else None
    context.divided = True
    if isinstance(tail, Loop) and tail.parallel and tail.lanes:
        _divide_lanes(context, chain, tail)
    else:
        _divide_turns(context, chain, body)
    context.divided = False


def _divide_turns(context: Context, chain: list[Loop], body: tuple[Statement, ...]) -> None:
    """Parallel loops around what is not: a turn after the other, or squares of them."""

    def work() -> None:
        context.statements(body, 1)

    run = work
    loops = [(each.variable, each.extent) for each in chain]
    tail = body[0] if len(body) == 1 else None
    turned = find_turned(context, chain, tail, lane_count(context, body))
    if turned is not None:
        loops[-1] = (turned.block, turned.blocks)
        run = partial(emit_squares, context, turned, work)
    if chain[0].around and len(loops) > 1:
        _divide_around(context, chain[0].around, loops, body, run)
        return
    first, last = context.share(_product(context, [extent for _, extent in loops]))
    _run_flat(context, first, last, loops, body, run)


def _divide_around(
    context: Context,
    plenty: int,
    loops: list[tuple[str, Dim]],
    body: Sequence[Statement],
    work: Callable[[], None],
) -> None:
    """A loop around others: every worker takes its part of the others in all turns, or of all turns together."""
    writer, (outer, *inner) = context.writer, loops
    turns, each = context.index(outer[1]), _product(context, [extent for _, extent in inner])
    needed = writer.binary("mul", turns, integer(plenty))
    inside = writer.compare("icmp sge", each, needed)
    divided = writer.select(inside, each, writer.binary("mul", turns, each))
    first, last = context.share(divided)

    def turn(index: Ssa, _: list[Ssa]) -> list[Ssa]:
        before = writer.select(inside, integer(0), writer.binary("mul", index, each))
        start, stop = (writer.binary("sub", bound, before) for bound in (first, last))
        start = writer.call("i64", "llvm.smax.i64", start, integer(0))
        stop = writer.call("i64", "llvm.smin.i64", stop, each)
        with context.scope():
            context.bind(outer[0], index)
            _run_flat(context, start, stop, inner, body, work)
        return []

    writer.loop(integer(0), turns, integer(1), turn)


def _product(context: Context, dims: Sequence[Dim]) -> Ssa:
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return context.index(total)


def _run_flat(
    context: Context,
    first: Ssa,
    last: Ssa,
    loops: list[tuple[str, Dim]],
    body: Sequence[Statement],
    work: Callable[[], None],
) -> None:
    """The turns first … last - 1 of nested loops.  Their variables are counted up, not divided out, in each turn."""
    writer = context.writer
    with writer.when(writer.compare("icmp slt", first, last)), context.scope():
        enter(context, body)
        sizes = [context.index(extent) for _, extent in loops]
        with context.scope():
            context.name_loops(first, loops)
            begin = [context.find(name) for name, _ in loops]

        def run(_: Ssa, counters: list[Ssa]) -> list[Ssa]:
            with context.scope():
                for (name, _extent), counter in zip(loops, counters, strict=True):
                    context.bind(name, counter)
                enter(context, body)
                work()
            return _count_up(context, counters, sizes)

        writer.loop(first, last, integer(1), run, begin)


def _count_up(context: Context, counters: list[Ssa], sizes: list[Ssa]) -> list[Ssa]:
    """The next turn's variables: the last one counts, and passes its carry on to the one before it."""
    writer, result = context.writer, list[Ssa]()
    carry = Ssa("true", "i1")
    for position in reversed(range(len(counters))):
        counter = counters[position]
        more = writer.binary("add", counter, writer.convert("zext", carry, "i64"))
        if position == 0:
            result.append(more)
            break
        full = writer.compare("icmp eq", more, sizes[position])
        result.append(writer.select(full, integer(0), more))
        carry = full
    return result[::-1]


def _divide_lanes(context: Context, chain: list[Loop], tail: Loop) -> None:
    """Parallel loops around a parallel lanes loop: its turns too are divided where the others are few."""
    writer = context.writer
    outer = _product(context, [each.extent for each in chain])
    extent = context.index(tail.extent)
    plenty = writer.compare("icmp sge", outer, writer.binary("mul", context.workers, integer(4)))
    pieces = writer.select(plenty, integer(1), context.workers)
    raised = writer.binary("add", extent, writer.binary("sub", pieces, integer(1)))
    size = writer.binary("udiv", raised, pieces)
    size = writer.binary("and", writer.binary("add", size, integer(CHUNK - 1)), integer(-CHUNK))
    pieces_name, piece = writer.fresh("pieces "), writer.fresh("piece ")
    context.bind(pieces_name, pieces)
    from burnx.shape import symbol

    loops = [*((each.variable, each.extent) for each in chain), (piece, symbol(pieces_name))]
    first, last = context.share(writer.binary("mul", outer, pieces))

    def work() -> None:
        start = writer.binary("mul", context.find(piece), size)
        stop = writer.call("i64", "llvm.smin.i64", writer.binary("add", start, size), extent)
        emit_lanes(context, tail, start, stop)

    _run_flat(context, first, last, loops, (), work)
