"""Threads that take several neighbouring elements each, which are read and written in as few words as they fill.

The innermost loop steps through everything that is stored, and through what is loaded or not at all.  What does not move
with it is worked out once for all neighbours; folds (windows of a convolution or of pooling, short rows) keep a sum for
each of them, and load a run in every turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from burnx.gpu.dtypes import memory_type
from burnx.gpu.neighbours import (
    Run,
    Sizes,
    certain_loads,
    count_neighbours,
    is_run,
    loads_in,
    moves,
)
from burnx.gpu.ranges import values_in
from burnx.gpu.tiles_frame import unrolled
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Loops
from burnx.kernels.ir import (
    Fold,
    Inside,
    Let,
    Load,
    Local,
    Lookup,
    Position,
    Statement,
    Store,
    Value,
)
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, symbols

_MOST_NODES = 256  # of all elements' values together: code that is worth compiling


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """What a thread does: ``before`` does not move with the column, the innermost loop's variable, the rest does."""

    loops: Loops
    before: tuple[Statement, ...]
    folds: tuple[Fold, ...]
    rest: tuple[Let | Store, ...]

    @property
    def column(self) -> str:
        return self.loops[-1][0]

    @property
    def inside(self) -> tuple[Statement, ...]:
        return (*self.folds, *self.rest)

    @property
    def stores(self) -> list[Store]:
        return [each for each in self.rest if isinstance(each, Store)]


def neighbours_of(loops: Loops, body: Sequence[Statement]) -> Neighbours | None:
    """The work of a body whose stores all lie side by side for the innermost loop; None for other work."""
    if not loops or not all(_is_simple(each) for each in body):
        return None
    before, inside = _divide(loops[-1][0], body)
    folds = tuple(each for each in inside if isinstance(each, Fold))
    rest = tuple(each for each in inside if isinstance(each, (Let, Store)))
    found = Neighbours(loops, before, folds, rest)
    ordered = found.inside == inside and bool(found.stores)
    return found if ordered and _lies_side_by_side(found, body) else None


def _is_simple(statement: Statement) -> bool:
    if isinstance(statement, Store):
        return not statement.combine
    plain = isinstance(statement, Fold) and not statement.body
    return plain or isinstance(statement, (Let, Lookup))


def _lies_side_by_side(work: Neighbours, body: Sequence[Statement]) -> bool:
    """Whether what moves is loaded and stored side by side, and nothing is read that is stored."""
    column, written = work.column, {id(each.buffer) for each in work.stores}
    read = loads_in(_values_of(body))
    moving = [each for each in read if column in symbols(each.index)]
    if any(id(each.buffer) in written for each in read):
        return False
    runs: list[Run] = [*moving, *work.stores]
    if not all(is_run(run.index, column) for run in runs):
        return False
    if any(column in symbols(extent) for fold in work.folds for _, extent in fold.loops):
        return False
    certain = {id(each) for each in certain_loads(_values_of(work.inside))}
    return bool(work.folds) or all(id(each) in certain for each in moving)


def _divide(
    variable: str, body: Sequence[Statement]
) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The statements that do not depend on a variable, which may be worked out once before, and the rest."""
    moving = {variable}
    before: list[Statement] = []
    inside: list[Statement] = []
    for each in body:
        if not isinstance(each, Store) and moving.isdisjoint(_names_in(each)):
            before.append(each)
            continue
        inside.append(each)
        if isinstance(each, Fold):
            moving |= {accumulator.name for accumulator in each.accumulators}
        elif isinstance(each, (Let, Lookup)):
            moving.add(each.name)
    return tuple(before), tuple(inside)


def _names_in(statement: Statement) -> set[str]:
    extents = statement.loops if isinstance(statement, Fold) else ()
    found = {name for _, extent in extents for name in symbols(extent)}
    for node in every_node(values_in(statement)):
        if isinstance(node, (Load, Position)):
            found |= symbols(node.index)
        elif isinstance(node, Inside):
            found |= {name for check in node.checks for dim in check for name in symbols(dim)}
        elif isinstance(node, Local):
            found.add(node.name)
    return found


def _values_of(statements: Sequence[Statement]) -> list[Value]:
    return [value for each in statements for value in values_in(each)]


def _runs_in(work: Neighbours, values: Sequence[Value]) -> list[Load]:
    """The loads of neighbouring elements that happen whatever checks there are."""
    return [each for each in certain_loads(values) if is_run(each.index, work.column)]


def width_of(work: Neighbours, sizes: Sizes, most_bytes: int) -> int:
    """How many neighbouring elements a thread may take; 1 if it is to take them one by one.

    Without folds each run is one word of ``most_bytes``; in a fold the narrowest one is, for each turn loads anew.
    """
    values = _values_of(work.inside)
    runs: list[Run] = [*work.stores, *_runs_in(work, values)]
    widths = [run.buffer.dtype.itemsize for run in runs]
    most = most_bytes // (min(widths) if work.folds else max(widths))
    if not work.folds:
        nodes = len(list(every_node(values)))
        while most > 1 and most * nodes > _MOST_NODES:
            most //= 2
    others = [*work.loops[:-1], *(loop for fold in work.folds for loop in fold.loops)]
    whole = [work.loops[-1][1]] if len(work.loops) > 1 else []  # a single loop may leave a rest
    return count_neighbours(runs, others, work.column, sizes, whole, most) if most > 1 else 1


# --- the text -------------------------------------------------------------------------------------------------------


def write_neighbours(writer: Writer, work: Neighbours, width: int) -> None:
    """The work of a thread whose innermost variable counts runs; what a single loop leaves is taken one by one."""
    column, extent = work.loops[-1]
    first = writer.fresh("i")
    writer.line(f"const {writer.index_type} {first} = {writer.called(column)} * {width};")
    writer.names[column] = first
    writer.body(work.before)
    if len(work.loops) > 1:
        _write_run(writer, work, first, width)
        return
    end = writer.dim(extent)
    with writer.block(f"if ({first} + {width} <= {end})"):
        _write_run(writer, work, first, width)
    one = writer.fresh("i")
    head = f"for ({writer.index_type} {one} = {first}; {one} < {end}; {one}++)"
    with writer.block("else"), writer.block(head):
        writer.names[column] = one
        writer.body(work.inside)


def _write_run(writer: Writer, work: Neighbours, first: str, width: int) -> None:
    for fold in work.folds:
        _write_fold(writer, work, fold, first, width)
    with _loaded(writer, work, _values_of(work.rest), first, width):
        names = [_declare(writer, each, width) for each in work.stores]
        with _each(writer, work.column, first, width):
            writer.body(work.rest)
        writer.names[work.column] = first
        for name, store in zip(names, work.stores, strict=True):
            _write_move(writer, name, store, width)


def _write_fold(writer: Writer, work: Neighbours, fold: Fold, first: str, width: int) -> None:
    names = []
    for each in fold.accumulators:
        dtype = each.value.dtype
        names.append(writer.declare(each.name, "v"))
        writer.line(f"{writer.type_of(dtype)} {names[-1]}[{width}];")
        with unrolled(writer, f"for (i32 each = 0; each < {width}; each++)"):
            writer.line(f"{names[-1]}[each] = {writer.neutral(each.function, dtype)};")
        writer.names[each.name] = f"{names[-1]}[each]"
    values = [each.value for each in fold.accumulators]
    with (
        writer.loops(fold.loops),
        _loaded(writer, work, values, first, width),
        _each(writer, work.column, first, width),
        writer.sharing((), values),
    ):
        texts = writer.values(values)
        for each, name, text in zip(fold.accumulators, names, texts, strict=True):
            place, dtype = f"{name}[each]", each.value.dtype
            writer.line(writer.combined(each.function, place, text, dtype))


@contextmanager
def _loaded(
    writer: Writer, work: Neighbours, values: Sequence[Value], first: str, width: int
) -> Iterator[None]:
    """Load the runs of some values; inside, these values find their elements there."""
    writer.names[work.column] = first
    names: dict[tuple[int, Dim], str] = {}
    for load in _runs_in(work, values):
        key = (id(load.buffer), load.index)
        if key not in names:
            names[key] = _declare(writer, load, width)
            _write_move(writer, names[key], load, width)
        writer.given[id(load)] = f"{names[key]}[each]"
    yield
    writer.given.clear()


def _declare(writer: Writer, run: Run, width: int) -> str:
    """Room for a run; a store puts its elements there."""
    name = writer.fresh("run")
    writer.line(f"ALIGNED {memory_type(run.buffer.dtype)} {name}[{width}];")
    if isinstance(run, Store):
        writer.given[id(run)] = f"{name}[each]"
    return name


@contextmanager
def _each(writer: Writer, column: str, first: str, width: int) -> Iterator[None]:
    with unrolled(writer, f"for (i32 each = 0; each < {width}; each++)"):
        name = writer.declare(column, "i")
        writer.line(f"const {writer.index_type} {name} = {first} + each;")
        yield


def _write_move(writer: Writer, name: str, run: Run, width: int) -> None:
    """Move a run from memory to registers, or back."""
    address = f"{writer.buffers[id(run.buffer)]} + {writer.factor(run.index)}"
    for line in moves(name, run, address, width):
        writer.line(line)
