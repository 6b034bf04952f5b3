"""The form "threads": each thread takes its own elements or rows, and works on them alone.

``tile`` is (how many of the innermost divided loops are spread along x, the elements that a thread takes at once); the
others are along y.  () spreads all along x, one element each.
"""

from __future__ import annotations

from collections.abc import Sequence

from burnx.gpu.code import Code, Form
from burnx.gpu.dialects import Dialect
from burnx.gpu.frame import (
    GROUP_X,
    GROUP_Y,
    GROUPS_X,
    GROUPS_Y,
    THREAD,
    blocks_of,
    close_kernel,
    extent_of,
    in_turns,
    is_independent,
    is_parallel,
    open_kernel,
    spread_of,
    uses_worker,
)
from burnx.gpu.ranges import values_in
from burnx.gpu.threads_neighbours import neighbours_of, write_neighbours
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Loops, write_sum
from burnx.kernels.ir import Contract, Kernel, Load, Loop, Statement, Store, walk
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, maximum, minimum

MOST_Y = 65535
_SERIAL_GROUPS = 64  # that share the elements of a serial kernel


def write_threads(kernel: Kernel, dialect: Dialect, form: Form) -> Code:
    """The kernel as a function whose threads each take elements of their own."""
    writer = open_kernel(kernel, dialect, form)
    scratch = uses_worker(kernel)
    _name_thread(writer, scratch)
    loops, inside = divided_loops(kernel)
    if not loops:
        write_shared(writer, kernel.body)
        return close_kernel(writer, (_grid_of_parts(kernel, form.group), 1, 1), scratch)
    if scratch:
        with in_turns(writer, "worker", "workers", loops):
            _write_inside(writer, loops, inside)
        return close_kernel(writer, (blocks_of(extent_of(loops), form.group), 1, 1), True)
    inner, width = form.tile or (len(loops), 1)
    y_loops, x_loops = loops[: len(loops) - inner], loops[len(loops) - inner :]
    if width > 1:
        x_loops[-1] = (x_loops[-1][0], blocks_of(x_loops[-1][1], width))
    groups_y: Dim = minimum(extent_of(y_loops), MOST_Y) if y_loops else 1
    grid = (blocks_of(extent_of(x_loops), form.group), groups_y, 1)
    ids = dialect.ids
    place = f"{_wide(writer, ids[GROUP_X])} * {form.group} + {ids[THREAD]}"
    with in_turns(writer, place, "", x_loops, once=True):
        if not y_loops:
            _write_inside(writer, loops, inside, width)
        else:
            with in_turns(writer, ids[GROUP_Y], ids[GROUPS_Y], y_loops):
                _write_inside(writer, loops, inside, width)
    return close_kernel(writer, grid)


def divided_loops(kernel: Kernel) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """The loops whose turns are divided among threads, and what is inside; none where there are several nests."""
    if len(kernel.body) != 1 or not is_parallel(kernel.body[0]):
        return [], kernel.body
    return _divided(kernel.body)


def _divided(
    body: Sequence[Statement],
) -> tuple[list[tuple[str, Dim]], tuple[Statement, ...]]:
    """Nested loops, with the rows and columns of a product that is alone in them."""
    loops, inside = spread_of(body)
    if len(inside) == 1 and isinstance(inside[0], Contract):
        both = [*loops, *inside[0].rows, inside[0].column]
        return (both if is_independent(both) else loops), inside
    return loops, inside


def _write_inside(
    writer: Writer, loops: Loops, inside: Sequence[Statement], width: int = 1
) -> None:
    work = neighbours_of(loops, inside) if width > 1 else None
    if work is not None:
        write_neighbours(writer, work, width)
        return
    alone = inside[0] if len(inside) == 1 else None
    if isinstance(alone, Contract) and alone.column in loops:
        write_sum(writer, alone)
    else:
        writer.body(inside)


def _wide(writer: Writer, text: str) -> str:
    return f"(i64){text}" if writer.form.wide else text


def _name_thread(writer: Writer, scratch: bool) -> None:
    ids, group = writer.dialect.ids, writer.form.group
    if scratch:
        writer.line(f"const i64 worker = (i64){ids[GROUP_X]} * {group} + {ids[THREAD]};")
        writer.line(f"const i64 workers = (i64){ids[GROUPS_X]} * {group};")


# --- several nests, and serial ones ---------------------------------------------------------------------------------


def write_shared(writer: Writer, body: Sequence[Statement]) -> None:
    """Statements that all threads meet: parallel ones are divided, what only stores is one thread's, or shared."""
    if not any(is_parallel(statement) for statement in body):
        _write_serial(writer, body)
        return
    for statement in body:
        if isinstance(statement, (Loop, Contract)) and statement.parallel:
            _write_divided(writer, statement)
        elif isinstance(statement, Loop) and is_parallel(statement):
            with writer.loops([(statement.variable, statement.extent)]):
                write_shared(writer, statement.body)
        elif any(isinstance(each, (Store, Contract)) for each in walk((statement,))):
            write_shared(writer, (statement,))
        else:
            writer.body((statement,))


def _first_and_step(writer: Writer) -> tuple[str, str]:
    ids, group = writer.dialect.ids, writer.form.group
    first = f"{_wide(writer, ids[GROUP_X])} * {group} + {ids[THREAD]}"
    return first, f"{_wide(writer, ids[GROUPS_X])} * {group}"


def _write_divided(writer: Writer, statement: Statement) -> None:
    loops, inside = _divided((statement,))
    with in_turns(writer, *_first_and_step(writer), loops):
        _write_inside(writer, loops, inside)


def shares_stores(body: Sequence[Statement]) -> bool:
    """Whether a serial nest only stores what it never loads: then each thread may care for some of the elements."""
    statements = list(walk(tuple(body)))
    stores = [each for each in statements if isinstance(each, Store)]
    if not stores or not any(isinstance(each, Loop) for each in body):
        return False
    if any(isinstance(each, Contract) for each in statements):
        return False
    values = [value for each in statements for value in values_in(each)]
    loaded = {id(node.buffer) for node in every_node(values) if isinstance(node, Load)}
    return loaded.isdisjoint(id(each.buffer) for each in stores)


def _write_serial(writer: Writer, body: Sequence[Statement]) -> None:
    """One thread runs it; or all do, and each stores the elements that are its own, in the given order."""
    first, step = _first_and_step(writer)
    if not shares_stores(body):
        with writer.block(f"if ({first} == 0)"):
            writer.body(body)
        return
    writer.line(f"const {writer.index_type} own = {first}, owners = {step};")
    writer.owns = True
    writer.body(body)
    writer.owns = False


def _grid_of_parts(kernel: Kernel, group: int) -> Dim:
    """Enough groups for the largest part; one at least."""
    parts: list[Dim] = [1]
    for statement in kernel.body:
        loops, _ = _divided((statement,))
        if is_parallel(statement) and loops:
            parts.append(minimum(blocks_of(extent_of(loops), group), 4096))
    if len(parts) == 1 and shares_stores(kernel.body):
        return _SERIAL_GROUPS
    total = parts[0]
    for part in parts[1:]:
        total = maximum(total, part)
    return total
