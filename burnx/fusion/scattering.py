"""Writes at positions that a tensor gives: a copy of the data, then the updates one after the other."""

from __future__ import annotations

from burnx.fusion.elementwise import fill
from burnx.fusion.expressions import Expressions, as_stored, dtype_of, shape_of
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.storage import Storage
from burnx.kernels.ir import Store, in_loops
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape, product, symbol

COMBINE = {"none": "", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@writer("scatter_along")
def write_scatter_along(scheduler: Scheduler, instruction: Instruction) -> None:
    source, indices, updates = _operands(instruction)
    storage = _copy(scheduler, instruction, source)
    axis = instruction.attributes["axis"] % len(shape_of(source))
    at = scheduler.expressions()
    loops, index = _open(at, shape_of(indices))
    found = at.lookup(indices, index, shape_of(source)[axis])
    place = (*index[:axis], found, *index[axis + 1 :])
    _write(scheduler, at, instruction, storage, updates, (loops, index, place))


@writer("scatter_nd")
def write_scatter_nd(scheduler: Scheduler, instruction: Instruction) -> None:
    source, indices, updates = _operands(instruction)
    storage = _copy(scheduler, instruction, source)
    shape, depth = shape_of(indices), shape_of(indices)[-1]
    assert isinstance(depth, int)
    at = scheduler.expressions()
    loops, index = _open(at, shape_of(updates))
    lead = index[: len(shape) - 1]
    found = tuple(
        at.lookup(indices, (*lead, part), shape_of(source)[part]) for part in range(depth)
    )
    _write(
        scheduler, at, instruction, storage, updates, (loops, index, (*found, *index[len(lead) :]))
    )


def _operands(instruction: Instruction) -> tuple[Var, Var, Var]:
    source, indices, updates = instruction.inputs
    assert source is not None and indices is not None and updates is not None
    return source, indices, updates


def _copy(scheduler: Scheduler, instruction: Instruction, source: Var) -> Storage:
    storage = scheduler.allocate(instruction.outputs[0])
    dtype = dtype_of(source)
    fill(
        scheduler,
        storage,
        shape_of(source),
        lambda at, index: as_stored(at.value(source, index), dtype),
    )
    return storage


def _open(at: Expressions, shape: Shape) -> tuple[list[tuple[str, Dim]], tuple[Dim, ...]]:
    index = tuple(0 if size == 1 else at.variable(size) for size in shape)
    loops = [(str(each), size) for each, size in zip(index, shape, strict=True) if each != 0]
    return loops, index


Places = tuple[list[tuple[str, Dim]], tuple[Dim, ...], tuple[Dim, ...]]


def _write(
    scheduler: Scheduler,
    at: Expressions,
    instruction: Instruction,
    storage: Storage,
    updates: Var,
    places: Places,
) -> None:
    loops, index, place = places
    value = as_stored(at.value(updates, index), dtype_of(updates))
    combine = COMBINE[instruction.attributes["reduction"]]
    store = Store(at.buffer(storage), at.place(storage, place), value, combine)
    free = [each for each in loops if symbol(each[0]) in place] if scheduler.traits.spread else []
    serial = in_loops([each for each in loops if each not in free], [store])
    body = in_loops(free, serial, parallel=True)  # an axis that keeps its index meets no other
    work = product(shape_of(updates)) * 4
    scheduler.step(at, body, [storage], work)
