"""Pools: what lies under a window that moves over the last axes."""

from __future__ import annotations

from burnx.fusion.expressions import as_stored, dtype_of, shape_of
from burnx.fusion.rows import FOLDS
from burnx.fusion.scheduler import Scheduler, writer
from burnx.kernels.ir import (
    Accumulator,
    Constant,
    Fold,
    Inside,
    Local,
    Loop,
    Statement,
    Store,
    Value,
)
from burnx.primitives.reduction import REDUCERS
from burnx.program import Instruction, Var
from burnx.shape import Dim, product


def looks_up(scheduler: Scheduler, var: Var) -> bool:
    """Whether working out an element takes indices that are read from memory."""
    at = scheduler.expressions()
    at.value(var, tuple(0 if size == 1 else at.variable(size) for size in shape_of(var)))
    return bool(at.lookups)


@writer("window_reduce")
def write_window(scheduler: Scheduler, instruction: Instruction) -> None:
    """For each place of the window a fold over its taps; those in the padding are neutral."""
    source, (var,) = instruction.inputs[0], instruction.outputs
    assert source is not None
    given, shape = instruction.attributes, shape_of(source)
    window, lead = given["window"], len(shape) - len(given["window"])
    if any(low > 0 or high > 0 for low, high in given["pads"]) and looks_up(scheduler, source):
        scheduler.in_memory(source)  # an index cannot be looked up in the padding
    at = scheduler.expressions()
    storage = scheduler.allocate(var)
    out = [0 if size == 1 else at.variable(size) for size in shape_of(var)]
    taps = [0 if size == 1 else at.variable(size) for size in window]
    index: list[Dim] = list(out[:lead])
    checks: list[tuple[Dim, Dim, Dim]] = []
    for axis in range(len(window)):
        low, high = given["pads"][axis]
        spot = (
            out[lead + axis] * given["strides"][axis] + taps[axis] * given["dilations"][axis] - low
        )
        index.append(spot)
        if low > 0 or high > 0:
            checks.append((0, spot, shape[lead + axis]))
    function = given["function"]
    value = at.value(source, tuple(index))
    neutral = Constant(REDUCERS[function].neutral(value.dtype), value.dtype)
    inside: Value = Inside(tuple(checks), value, neutral) if checks else value
    name = at.name("f")
    loops = [(str(tap), size) for tap, size in zip(taps, window, strict=True) if size != 1]
    fold = Fold(
        (Accumulator(name, FOLDS[function], inside),), tuple(loops) or ((str(at.variable(1)), 1),)
    )
    store = Store(
        at.buffer(storage),
        at.place(storage, tuple(out)),
        as_stored(Local(name, value.dtype), dtype_of(var)),
    )
    body: list[Statement] = [fold, store]
    axes = [axis for axis in storage.order if out[axis] != 0]
    for depth, axis in enumerate(reversed(axes)):
        lanes, alone = depth == 0, len(axes) == 1
        body = [Loop(str(out[axis]), shape_of(var)[axis], tuple(body), not lanes or alone, lanes)]
    work = product((*shape_of(var), *window)) * 2
    scheduler.step(at, body, [storage], work)
