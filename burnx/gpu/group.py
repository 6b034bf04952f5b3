"""The form "group": a group of threads takes each turn of the parallel loops, and all statements are its common work.

``tile`` (1,): a loop of lanes that follows the parallel ones is among those that are divided among groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burnx.gpu.code import Code, Form
from burnx.gpu.dialects import Dialect
from burnx.gpu.frame import (
    GROUP_X,
    GROUPS_X,
    THREAD,
    chain_of,
    close_kernel,
    extent_of,
    in_turns,
    name_turns,
    open_kernel,
    spread_of,
    uses_worker,
)
from burnx.gpu.ranges import values_in
from burnx.gpu.reductions import combine_name, room
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Loops, write_carry, write_sum, write_totals, write_turn
from burnx.kernels.ir import (
    Carry,
    Contract,
    Fold,
    Kernel,
    Let,
    Load,
    Lookup,
    Loop,
    Statement,
    Store,
    walk,
)
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, symbols


def group_loops(kernel: Kernel, form: Form) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """The loops whose turns are divided among groups, and the work of a group."""
    return spread_of(kernel.body) if form.tile else chain_of(kernel.body)


def write_group(kernel: Kernel, dialect: Dialect, form: Form) -> Code:
    """The kernel as a function whose groups each take turns of the parallel loops."""
    writer = open_kernel(kernel, dialect, form)
    scratch = uses_worker(kernel)
    loops, inside = group_loops(kernel, form)
    writer.line(f"const i32 thread = {dialect.ids[THREAD]};")
    if any(isinstance(each, Fold) for each in walk(inside)):
        word = "__local" if dialect.name == "opencl" else "__shared__"
        writer.line(f"{word} u64 room[{room(form.group, dialect)}];")
    if scratch:
        writer.line(
            f"const i64 worker = {dialect.ids[GROUP_X]}, workers = {dialect.ids[GROUPS_X]};"
        )
    shared = _shared_buffers(kernel)
    if scratch and loops:
        place, step = f"({writer.index_type})worker", f"({writer.index_type})workers"
        with in_turns(writer, place, step, loops):
            write_together(writer, inside, shared)
    elif loops:
        name_turns(writer, dialect.ids[GROUP_X], loops)  # there are as many groups as turns
        write_together(writer, inside, shared)
    else:
        write_together(writer, inside, shared)
    return close_kernel(writer, (extent_of(loops), 1, 1), scratch)


def _shared_buffers(kernel: Kernel) -> frozenset[int]:
    """The buffers that a kernel both stores to and loads from."""
    stored = {id(each.buffer) for each in walk(kernel.body) if isinstance(each, Store)}
    return frozenset(stored & _loaded(kernel.body))


def _loaded(body: Sequence[Statement]) -> set[int]:
    values = [value for each in walk(tuple(body)) for value in values_in(each)]
    return {id(node.buffer) for node in every_node(values) if isinstance(node, Load)}


def write_together(writer: Writer, body: Sequence[Statement], shared: frozenset[int]) -> None:
    """Statements as the common work of a group; all threads know what they name.

    A barrier stands behind each that touches memory through which threads tell each other something.
    """
    for statement in body:
        _TOGETHER[type(statement)](writer, statement, shared)
        if not isinstance(statement, (Let, Lookup)) and _touches(statement, shared):
            writer.line("BARRIER;")


def _touches(statement: Statement, shared: frozenset[int]) -> bool:
    stored = {id(each.buffer) for each in walk((statement,)) if isinstance(each, Store)}
    return bool(shared & (stored | _loaded((statement,))))


def _alone(writer: Writer, statement: Statement, shared: frozenset[int]) -> None:
    """Each thread does the same."""
    writer.body((statement,))


def _store(writer: Writer, statement: Store, shared: frozenset[int]) -> None:
    with writer.block("if (thread == 0)"):
        writer.body((statement,))


def _loop(writer: Writer, loop: Loop, shared: frozenset[int]) -> None:
    loops, body = spread_nest(loop)
    if loops:
        with in_turns(writer, "thread", str(writer.form.group), loops):
            writer.body(body)
        return
    if not any(isinstance(each, (Fold, Carry, Contract)) for each in walk(loop.body)) and not any(
        isinstance(each, Loop) and spread_nest(each)[0] for each in walk(loop.body)
    ):
        with writer.block("if (thread == 0)"):
            writer.body((loop,))
        return
    with writer.loops([(loop.variable, loop.extent)]):
        write_together(writer, loop.body, shared)


def spread_nest(loop: Loop) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """The nested loops whose turns may be spread over the threads of a group, and what is inside; none if it is serial."""
    if loop.lanes:
        return [(loop.variable, loop.extent)], loop.body
    loops: list[tuple[str, Dim]] = []
    inside: tuple[Statement, ...] = (loop,)
    while len(inside) == 1 and isinstance(inside[0], Loop):
        if any(symbols(inside[0].extent) & {name} for name, _ in loops):
            return [], ()
        loops.append((inside[0].variable, inside[0].extent))
        if inside[0].lanes:
            return (loops, inside[0].body) if _is_free(loops, inside[0].body) else ([], ())
        inside = inside[0].body
    return [], ()


def _is_free(loops: Loops, body: tuple[Statement, ...]) -> bool:
    """Whether turns of all these loops may run in any order: each stores an element of its own, and loads none of them."""
    stores = [each for each in body if isinstance(each, Store)]
    if not all(isinstance(each, (Store, Let)) for each in body):
        return False
    own = all(
        not each.combine and all(name in symbols(each.index) for name, _ in loops)
        for each in stores
    )
    return own and _loaded(body).isdisjoint(id(each.buffer) for each in stores)


def _fold(writer: Writer, fold: Fold, shared: frozenset[int]) -> None:
    names = write_totals(writer, fold)
    if not fold.loops:
        write_turn(writer, fold, names)
        return
    with in_turns(writer, "thread", str(writer.form.group), fold.loops):
        write_turn(writer, fold, names)
    for each, name in zip(fold.accumulators, names, strict=True):
        combine = combine_name(each.function, each.value.dtype)
        writer.needs.add(combine)
        writer.line(f"{name} = {combine}({name}, room, thread, {writer.form.group});")


def _carry(writer: Writer, carry: Carry, shared: frozenset[int]) -> None:
    write_carry(writer, carry, lambda body: write_together(writer, body, shared))


def _contract(writer: Writer, contract: Contract, shared: frozenset[int]) -> None:
    loops = [*contract.rows, contract.column]
    with in_turns(writer, "thread", str(writer.form.group), loops):
        write_sum(writer, contract)


_TOGETHER: dict[type, Callable[..., None]] = {
    Store: _store,
    Let: _alone,
    Lookup: _alone,
    Loop: _loop,
    Fold: _fold,
    Carry: _carry,
    Contract: _contract,
}
