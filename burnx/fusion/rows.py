"""Reductions and what goes with them: softmax, norms, means and sums, row by row in one kernel.

A row is what a reduction combines.  Values of one element a row are named once; a value of the whole row that is dear to
work out and read again is kept in a worker's scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from burnx.fusion.clusters import Cluster, row_shape
from burnx.fusion.elementwise import weight
from burnx.fusion.expressions import (
    Expressions,
    Index,
    as_stored,
    dtype_of,
    narrowed,
    shape_of,
    working_dtype,
)
from burnx.fusion.orders import natural_order
from burnx.fusion.scheduler import Scheduler, dissolve, writer
from burnx.fusion.storage import Storage
from burnx.kernels.ir import (
    Accumulator,
    Cast,
    Fold,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
    Value,
    in_loops,
)
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape, product

FOLDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}
DEAR = 9  # weight from which a value is kept rather than worked out again


@dataclass(slots=True)
class Rows:
    """A kernel over rows while it is written.

    ``given`` are values of rows by their index; ``kept`` says where values of elements lie in scratch memory.
    """

    scheduler: Scheduler
    cluster: Cluster
    at: Expressions
    full: Shape
    axes: tuple[int, ...]
    row: dict[int, Dim]  # kept axis -> index
    lanes_inside: bool
    body: list[Statement] = field(default_factory=list)
    kept: dict[Var, Callable[[Index], Load]] = field(default_factory=dict)
    writes: list[Storage] = field(default_factory=list)
    work: int = 1

    def element(self) -> tuple[list[tuple[str, Dim]], Index]:
        """New loops over the elements of a row, and the index that they give."""
        loops: list[tuple[str, Dim]] = []
        index: list[Dim] = [self.row.get(axis, 0) for axis in range(len(self.full))]
        for axis in self.axes:
            if self.full[axis] != 1:
                variable = self.at.variable(self.full[axis])
                loops.append((str(variable), self.full[axis]))
                index[axis] = variable
        place = tuple(index)
        for var, load in self.kept.items():
            self.at.given[(var, place)] = load(tuple(index[axis] for axis in self.axes))
        return loops, place

    def row_index(self, shape: Shape) -> Index:
        """The index of this row in a per-row value that keeps, or lacks, the reduced axes."""
        wanted = [axis for axis in range(len(self.full)) if axis not in self.axes]
        if len(shape) == len(wanted):
            return tuple(self.row[axis] if shape[k] != 1 else 0 for k, axis in enumerate(wanted))
        values = [self.row[axis] for axis in wanted if self.full[axis] != 1]
        found = iter(values)
        return tuple(0 if size == 1 else next(found) for size in shape)


@writer("reduce")
def write_rows(scheduler: Scheduler, seed: Instruction) -> None:
    """The step of a reduction and the instructions in its cluster."""
    cluster = scheduler.owners[seed]
    try:
        rows = _open(scheduler, cluster)
        exported = scheduler.exported(cluster)
        for member in cluster.members:
            write_member(rows, member, exported)
        _store_full(rows, [var for var in exported if shape_of(var) == rows.full and rows.axes])
    except KeyError:
        dissolve(cluster)
    work = product(rows.full) * max(rows.work, 1)
    scheduler.step(rows.at, _close(rows), rows.writes, work)


def _open(scheduler: Scheduler, cluster: Cluster) -> Rows:
    full, axes = row_shape(cluster.seed)
    source = cluster.seed.inputs[0]
    assert source is not None
    at = scheduler.expressions(cluster.members)
    order = natural_order(scheduler, source)
    solid = [axis for axis in order if full[axis] != 1]
    inside = not solid or solid[-1] in axes
    row: dict[int, Dim] = {}
    for axis in order:
        if axis not in axes:
            row[axis] = 0 if full[axis] == 1 else at.variable(full[axis])
    return Rows(scheduler, cluster, at, full, axes, row, inside)


def write_member(rows: Rows, member: Instruction, exported: list[Var]) -> None:
    (var,) = member.outputs
    if member.primitive == "reduce":
        _fold(rows, member)
    elif shape_of(var) != rows.full or not rows.axes:
        if member.primitive in ("map", "cast", "bitcast"):
            _name(rows, var)
    else:
        return
    if var in exported:
        storage = rows.scheduler.allocate(var)
        index = rows.row_index(shape_of(var))
        value = as_stored(rows.at.value(var, index), dtype_of(var))
        rows.body.append(Store(rows.at.buffer(storage), rows.at.place(storage, index), value))
        rows.writes.append(storage)


def _name(rows: Rows, var: Var) -> None:
    index = rows.row_index(shape_of(var))
    value = rows.at.value(var, index)
    name = rows.at.name("r")
    rows.body.append(Let(name, value))
    rows.at.given[(var, index)] = Local(name, value.dtype)


def _fold(rows: Rows, member: Instruction) -> None:
    source, (var,) = member.inputs[0], member.outputs
    assert source is not None
    loops, index = rows.element()
    value = rows.at.value(source, index)
    working = working_dtype(dtype_of(var))
    if value.dtype != working:
        value = Cast(value, working)
    name = rows.at.name("f")
    body: tuple[Statement, ...] = ()
    if loops:
        body = _keep(rows, source, value, index)
    rows.work += weight(value)
    if loops:
        function = FOLDS[member.attributes["function"]]
        fold = Fold((Accumulator(name, function, value),), tuple(loops), body, rows.lanes_inside)
        rows.body.append(fold)
    else:
        rows.body.append(Let(name, value))
    total = narrowed(Local(name, working), dtype_of(var))
    rows.at.given[(var, rows.row_index(shape_of(var)))] = total


def _keep(rows: Rows, source: Var, value: Value, index: Index) -> tuple[Statement, ...]:
    """Keep a row of a dear value that is read again."""
    readers = rows.scheduler.uses.readers.get(source, ())
    again = sum(1 for each in readers if each in rows.cluster.members) > 1
    exported = rows.scheduler.uses.read_outside(source, rows.cluster.members)
    if not rows.lanes_inside or source in rows.kept or weight(value) < DEAR:
        return ()
    maker = rows.scheduler.uses.makers.get(source)
    if not again and not (exported and maker in rows.cluster.members):
        return ()
    shape = tuple(rows.full[axis] for axis in rows.axes)
    storage = rows.scheduler.scratch(value.dtype, shape)
    inside = tuple(index[axis] for axis in rows.axes)
    rows.kept[source] = lambda place: rows.at.load(storage, place)
    return (Store(rows.at.buffer(storage), rows.at.place(storage, inside), value),)


def _store_full(rows: Rows, exported: list[Var]) -> None:
    if not exported:
        return
    loops, index = rows.element()
    stores: list[Statement] = []
    for var in exported:
        storage = rows.scheduler.allocate(var)
        value = as_stored(rows.at.value(var, index), dtype_of(var))
        rows.work += weight(value)
        stores.append(Store(rows.at.buffer(storage), rows.at.place(storage, index), value))
        rows.writes.append(storage)
    rows.body.extend(nested(loops, stores, rows.lanes_inside))


def nested(loops: list[tuple[str, Dim]], body: list[Statement], lanes: bool) -> list[Statement]:
    for place, (name, extent) in enumerate(reversed(loops)):
        body = [Loop(name, extent, tuple(body), lanes=lanes and place == 0)]
    return body


def _close(rows: Rows) -> list[Statement]:
    """The statements inside the loops over rows."""
    loops = [(str(row), rows.full[axis]) for axis, row in rows.row.items() if row != 0]
    body = rows.body
    if not rows.lanes_inside:
        name, extent = loops.pop()
        body = [Loop(name, extent, tuple(body), parallel=not loops, lanes=True)]
    return in_loops(loops, body, parallel=True)
