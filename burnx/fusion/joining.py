"""Values made of parts: concatenations and padding, one step a part."""

from __future__ import annotations

from burnx.fusion.elementwise import Element, fill
from burnx.fusion.expressions import Expressions, Index, as_stored, dtype_of, shape_of
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.storage import Storage
from burnx.kernels.ir import Value
from burnx.program import Instruction, Var
from burnx.shape import Dim, maximum, minimum


@writer("concat")
def write_concat(scheduler: Scheduler, instruction: Instruction) -> None:
    """Each operand is stored at its place."""
    (var,) = instruction.outputs
    storage = scheduler.memory.get(var) or scheduler.allocate(var)
    axis = instruction.attributes["axis"] % len(shape_of(var))
    start: Dim = 0
    for operand in instruction.inputs:
        assert operand is not None
        shape = shape_of(operand)
        shift = tuple(start if place == axis else 0 for place in range(len(shape)))
        start = start + shape[axis]
        if not scheduler.is_virtual(operand) and _is_there(
            scheduler.in_memory(operand), storage, shift
        ):
            continue
        fill(scheduler, storage, shape, _copied(operand), shift)


def _is_there(part: Storage, whole: Storage, start: Index) -> bool:
    """Whether a part of a concatenation was made at its place."""
    return part.root is whole.root and part.offset() == _place(whole, start)


def _place(whole: Storage, start: Index) -> Dim:
    total = whole.offset()
    for each, stride in zip(start, whole.strides(), strict=True):
        total = total + each * stride
    return total


def _copied(operand: Var, shift: Index = ()) -> Element:
    def element(at: Expressions, index: Index) -> Value:
        place = tuple(a + b for a, b in zip(index, shift, strict=True)) if shift else index
        return as_stored(at.value(operand, place), dtype_of(operand))

    return element


@writer("pad")
def write_pad(scheduler: Scheduler, instruction: Instruction) -> None:
    """All of it is filled with the value, then the operand is stored inside; negative widths cut off."""
    source, value = instruction.inputs
    (var,) = instruction.outputs
    assert source is not None and value is not None
    storage = scheduler.allocate(var)
    low, high = instruction.attributes["low"], instruction.attributes["high"]
    rank = len(shape_of(value))
    fill(
        scheduler,
        storage,
        shape_of(var),
        lambda at, index: as_stored(at.value(value, (0,) * rank), dtype_of(var)),
    )
    cut = tuple(maximum(-before, 0) for before in low)
    ends = tuple(maximum(-after, 0) for after in high)
    kept = tuple(
        maximum(size - a - b, 0) for size, a, b in zip(shape_of(source), cut, ends, strict=True)
    )
    shift = tuple(maximum(before, 0) for before in low)
    inside = tuple(minimum(a, b) for a, b in zip(kept, shape_of(var), strict=True))
    fill(scheduler, storage, inside, _copied(source, cut), shift)
