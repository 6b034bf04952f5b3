"""Threads that fold for several neighbouring elements each, on a CUDA device: windows of a depthwise convolution or of pooling.

The innermost loop steps through everything that is stored, and through what is loaded or not at all; what is loaded in a turn
of a fold is moved in as few words as it fills.  Work without folds is ``vectors.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from burnx.gpu.dtypes import memory_type
from burnx.gpu.neighbours import Run, certain_loads, count_neighbours, is_run, loads_in, moves
from burnx.gpu.ranges import values_in
from burnx.gpu.tiles_frame import unrolled
from burnx.gpu.writer import Writer
from burnx.kernels.clike import Loops
from burnx.kernels.ir import Fold, Let, Load, Statement, Store, Value, walk
from burnx.shape import Dim, symbols

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """Loops that are divided, the innermost one last, and what is inside: folds, and then names and stores."""

    loops: Loops
    folds: tuple[Fold, ...]
    rest: tuple[Let | Store, ...]

    @property
    def column(self) -> str:
        return self.loops[-1][0]

    @property
    def variables(self) -> list[tuple[str, Dim]]:
        return [*self.loops, *(loop for fold in self.folds for loop in fold.loops)]


def nest_of(loops: Loops, inside: Sequence[Statement]) -> Nest | None:
    """A nest of folds whose innermost loop steps through all that is stored or loaded by it; None for other work."""
    folds = [each for each in inside if isinstance(each, Fold)]
    rest = [each for each in inside if isinstance(each, (Let, Store))]
    stores = [each for each in rest if isinstance(each, Store)]
    if (
        not loops
        or not folds
        or not stores
        or list(inside) != [*folds, *rest]
        or _reads_what_it_stores(inside)
    ):
        return None
    nest = Nest(loops, tuple(folds), tuple(rest))
    extents = {name for _, extent in nest.variables for name in symbols(extent)}
    if extents & {name for name, _ in nest.variables} or any(fold.body for fold in folds):
        return None
    if any(each.combine or not _is_run(nest, each.index) for each in stores):
        return None
    loads = loads_in(_values_of([*folds, *rest]))
    apart = any(
        nest.column in symbols(each.index) and not _is_run(nest, each.index) for each in loads
    )
    return None if apart else nest


def _reads_what_it_stores(inside: Sequence[Statement]) -> bool:
    statements = list(walk(tuple(inside)))
    stored = {id(each.buffer) for each in statements if isinstance(each, Store)}
    return any(id(each.buffer) in stored for each in loads_in(_values_of(statements)))


def _is_run(nest: Nest, index: Dim) -> bool:
    return is_run(index, nest.variables, nest.column)


def _runs_in(nest: Nest, values: Sequence[Value]) -> list[Load]:
    """The loads of neighbouring elements that happen whatever checks there are."""
    return [each for each in certain_loads(values) if _is_run(nest, each.index)]


def _values_of(statements: Sequence[Statement]) -> list[Value]:
    return [value for each in statements for value in values_in(each)]


def neighbours_of(nest: Nest, sizes: Sizes) -> int:
    """How many neighbouring elements a thread may take."""
    stores = [each for each in nest.rest if isinstance(each, Store)]
    runs: list[Run] = [*stores, *_runs_in(nest, _values_of([*nest.folds, *nest.rest]))]
    column = nest.loops[-1]
    others = tuple(each for each in nest.variables if each[0] != column[0])
    return count_neighbours(runs, others, column, sizes)


# --- the text -------------------------------------------------------------------------------------------------------


def write_run(writer: Writer, nest: Nest, together: int) -> None:
    """The work of a thread whose innermost variable counts runs."""
    first = writer.fresh("i")
    writer.line(f"const {writer.index_type} {first} = {writer.called(nest.column)} * {together};")
    for fold in nest.folds:
        _write_fold(writer, nest, fold, first, together)
    stores = [each for each in nest.rest if isinstance(each, Store)]
    with _loaded(writer, nest, _values_of(nest.rest), first, together):
        names = [_declare(writer, each, together) for each in stores]
        with _each(writer, nest, first, together):
            writer.body(nest.rest)
        writer.names[nest.column] = first
        for name, store in zip(names, stores, strict=True):
            _write_move(writer, name, store, together)


def _write_fold(writer: Writer, nest: Nest, fold: Fold, first: str, together: int) -> None:
    names = []
    for each in fold.accumulators:
        dtype = each.value.dtype
        names.append(writer.declare(each.name, "v"))
        writer.line(f"{writer.type_of(dtype)} {names[-1]}[{together}];")
        with unrolled(writer, f"for (i32 each = 0; each < {together}; each++)"):
            writer.line(f"{names[-1]}[each] = {writer.neutral(each.function, dtype)};")
        writer.names[each.name] = f"{names[-1]}[each]"
    values = [each.value for each in fold.accumulators]
    with (
        writer.loops(fold.loops),
        _loaded(writer, nest, values, first, together),
        _each(writer, nest, first, together),
        writer.sharing((), values),
    ):
        texts = writer.values(values)
        for each, name, text in zip(fold.accumulators, names, texts, strict=True):
            place, dtype = f"{name}[each]", each.value.dtype
            writer.line(writer.combined(each.function, place, text, dtype))


@contextmanager
def _loaded(
    writer: Writer, nest: Nest, values: Sequence[Value], first: str, together: int
) -> Iterator[None]:
    """Load the runs of some values; inside, these values find their elements there."""
    writer.names[nest.column] = first
    names: dict[tuple[int, str], str] = {}
    for load in _runs_in(nest, values):
        key = (id(load.buffer), str(load.index))
        if key not in names:
            names[key] = _declare(writer, load, together)
            _write_move(writer, names[key], load, together)
        writer.given[id(load)] = f"{names[key]}[each]"
    yield
    writer.given.clear()


def _declare(writer: Writer, run: Run, together: int) -> str:
    """Room for a run; a store puts its elements there."""
    name = writer.fresh("run")
    writer.line(f"ALIGNED {memory_type(run.buffer.dtype)} {name}[{together}];")
    if isinstance(run, Store):
        writer.given[id(run)] = f"{name}[each]"
    return name


@contextmanager
def _each(writer: Writer, nest: Nest, first: str, together: int) -> Iterator[None]:
    with unrolled(writer, f"for (i32 each = 0; each < {together}; each++)"):
        name = writer.declare(nest.column, "i")
        writer.line(f"const {writer.index_type} {name} = {first} + each;")
        yield


def _write_move(writer: Writer, name: str, run: Run, together: int) -> None:
    """Move a run from memory to registers, or back."""
    address = f"{writer.buffers[id(run.buffer)]} + {writer.factor(run.index)}"
    for line in moves(name, run, address, together):
        writer.line(line)
