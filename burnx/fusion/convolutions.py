"""Convolutions, channels-last: a product over window and channels, or lanes of channels where they do not mix."""

from __future__ import annotations

import numpy as np

from burnx.dtype import DType
from burnx.fusion.behind import write_behind
from burnx.fusion.clusters import Cluster
from burnx.fusion.elementwise import fill, steps_as_one
from burnx.fusion.expressions import Expressions, as_stored, dtype_of
from burnx.fusion.geometry import Geometry, Pads, geometry, parts
from burnx.fusion.narrow import BYTES
from burnx.fusion.orders import channels_last
from burnx.fusion.products import accumulating, at_least_one, copied, loops_of, variables
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.storage import Storage
from burnx.fusion.weights import lay_out_convolution
from burnx.fusion.winograd import write_winograd
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Cast,
    Constant,
    Contract,
    Fold,
    Load,
    Local,
    Loop,
    Statement,
    Value,
    in_loops,
)
from burnx.program import Instruction, Var
from burnx.shape import Dim, product, substitute


@writer("conv")
def write_conv(scheduler: Scheduler, seed: Instruction) -> None:
    """The step of a convolution with what its cluster does behind it."""
    cluster = scheduler.owners[seed]
    made = geometry(seed)
    x = seed.inputs[0]
    assert x is not None
    sums = accumulating(dtype_of(x), seed.attributes["dtype"])
    as_it_is = dtype_of(x) in BYTES or dtype_of(x) in scheduler.traits.narrow
    source = _source(scheduler, x, made, dtype_of(x) if as_it_is else sums)
    write = _write_depthwise if made.is_depthwise else _write_product
    if all(step == 1 for step in made.every):
        if not write_winograd(scheduler, cluster, made, source, sums):
            write(scheduler, cluster, made, source, sums)
        return
    for part in parts(seed, made):
        (write if 0 not in part.kernel else _write_zeros)(scheduler, cluster, part, source, sums)


def _source(scheduler: Scheduler, x: Var, made: Geometry, dtype: DType) -> Storage:
    """The data with what is around and between, channels innermost."""
    wanted = made.margin
    found = None if scheduler.is_virtual(x) else scheduler.in_memory(x)
    if found is not None and not made.is_spread and _serves(found, wanted, dtype, made):
        return found
    key = (x, (dtype, wanted, made.fill, made.spread))
    kept = scheduler.copies.get(key)
    if kept is not None:
        return kept
    apart = (1, 1, *made.spread) if made.is_spread else ()
    margin = wanted if any(map(any, wanted)) else ()
    order = channels_last(len(made.source))
    storage = Storage(dtype, made.source, order=order, margin=margin, fill=made.fill, apart=apart)

    def element(at: Expressions, index: tuple[Dim, ...]) -> Value:
        value = at.value(x, index)
        return as_stored(value if value.dtype == dtype else Cast(value, dtype), dtype)

    fill(scheduler, storage, made.source, element)
    scheduler.copies[key] = storage
    return storage


def _serves(found: Storage, wanted: Pads, dtype: DType, made: Geometry) -> bool:
    margin = found.margin or ((0, 0),) * len(wanted)
    right = found.fill == made.fill or not any(map(any, wanted))
    enough = right and all(a <= c and b <= d for (a, b), (c, d) in zip(wanted, margin, strict=True))
    solid = [axis for axis in found.order if made.source[axis] != 1]
    last = not solid or solid[-1] == 1 or made.source[1] == 1
    return (
        found.dtype == dtype
        and enough
        and (
            last
            or made.groups == 1
            and not any(map(any, wanted))
            and made.source[1] in (1, 2, 3, 4)
        )
    )


def _window(
    at: Expressions,
    source: Storage,
    made: Geometry,
    batch: Dim,
    place: list[Dim],
    tap: list[Dim],
    channel: Dim,
) -> Load:
    """The element of the data under a tap of the kernel."""
    spots = [
        out * stride + inside * gap - low
        for out, stride, inside, gap, (low, _) in zip(
            place, made.strides, tap, made.dilations, made.pads, strict=True
        )
    ]
    strides = list(source.strides())
    apart = source.apart or (1,) * len(strides)
    total = source.offset() + batch * strides[0] + channel * strides[1]
    for axis, spot in enumerate(spots, 2):
        total = total + spot * _plain(strides[axis], apart[axis])
    return Load(at.buffer(source), total)


def _plain(stride: Dim, apart: int) -> Dim:
    return stride // apart if apart > 1 else stride


def _write_product(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, source: Storage, sums: DType
) -> None:
    at = scheduler.expressions(cluster.members)
    outs, each = made.weight[0] // made.groups, made.weight[1]
    group = at.variable(made.groups) if made.groups > 1 else 0
    rows = variables(at, made.result, (0, *range(2, len(made.result))))
    column = at.variable(outs)
    inner = variables(at, (*made.kernel, each), tuple(range(len(made.kernel) + 1)))
    left = _window(at, source, made, rows[0], rows[1:], inner[:-1], group * each + inner[-1])
    weights = dtype_of(made.weights) if source.dtype != sums else sums
    columns = outs if isinstance(outs, int) else 64
    packing = scheduler.traits.packing(source.dtype, weights, sums, columns)
    right, packing = _weights(scheduler, at, made, packing, weights, (group, column, inner))
    name = at.name("p")
    channel = group * outs + (0 if outs == 1 else column)
    behind = write_behind(
        scheduler,
        at,
        cluster,
        Local(name, sums),
        (rows[0], channel, *made.place(rows[1:])),
        channels_last(len(made.result)),
    )
    loops = loops_of(at, inner)
    if packing:
        loops, left = _joined(loops, left)
    statement = Contract(
        name,
        at_least_one(at, loops_of(at, rows)),
        (str(column), outs),
        at_least_one(at, loops),
        left,
        right,
        sums,
        tuple(behind.body),
        packing,
        parallel=made.groups == 1,
    )
    body: list[Statement] = [statement]
    if made.groups > 1:
        body = [Loop(str(group), made.groups, tuple(body), parallel=True)]
    work = product((*made.result, *made.weight[1:]))
    scheduler.step(at, body, behind.writes, work)


def _weights(
    scheduler: Scheduler,
    at: Expressions,
    made: Geometry,
    packing: str,
    dtype: DType,
    index: tuple[Dim, Dim, list[Dim]],
) -> tuple[Load, str]:
    """(the weights as matrices (kernel and channels, outputs), one a group, how they are packed if they are known)."""
    weight = made.weights
    group, column, inner = index
    outs = made.weight[0] // made.groups
    if weight.array is not None:
        storage, size, packing = lay_out_convolution(
            weight.array, made.groups, packing, dtype, scheduler.traits.derive
        )
        if packing:
            return Load(at.buffer(storage), group * size), packing
        place: Dim = 0
        for extent, each in zip((*made.kernel, made.weight[1]), inner, strict=True):
            place = place * extent + each
        return Load(at.buffer(storage), group * size + place * outs + column), ""
    storage = _weights_moved(scheduler, made, dtype)
    return at.load(storage, (group * outs + column, inner[-1], *inner[:-1])), ""


def _weights_moved(scheduler: Scheduler, made: Geometry, sums: DType) -> Storage:
    """Weights that are worked out at run time, outputs innermost."""
    rank = len(made.weight)
    storage = Storage(sums, made.weight, order=(*range(2, rank), 1, 0))

    def element(at: Expressions, index: tuple[Dim, ...]) -> Value:
        value = at.value(made.weights, index)
        return value if value.dtype == sums else Cast(value, sums)

    fill(scheduler, storage, made.weight, element)
    return storage


def _joined(loops: list[tuple[str, Dim]], left: Load) -> tuple[list[tuple[str, Dim]], Load]:
    """Inner loops that step through the data as one become one; the packed weights are in that order anyway."""
    joined = loops[:]
    place = len(joined) - 2
    while place >= 0:
        (outer, count), (inner, extent) = joined[place], joined[place + 1]
        if not steps_as_one(left.index, outer, inner, extent):
            break
        left = Load(left.buffer, substitute(left.index, {outer: 0}))
        joined[place : place + 2] = [(inner, count * extent)]
        place -= 1
    return joined, left


def _write_depthwise(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, source: Storage, sums: DType
) -> None:
    at = scheduler.expressions(cluster.members)
    rows = variables(at, made.result, (0, *range(2, len(made.result))))
    channel = at.variable(made.groups)
    taps = variables(at, made.kernel, tuple(range(len(made.kernel))))
    data = _window(at, source, made, rows[0], rows[1:], taps, channel)
    weights = _depthwise_weights(scheduler, made, sums)
    factor = at.load(weights, (channel, 0, *taps))
    name = at.name("f")
    number = data if data.dtype == sums else Cast(data, sums)
    value: Value = Apply("mul", (number, factor), sums)
    behind = write_behind(
        scheduler,
        at,
        cluster,
        Local(name, sums),
        (rows[0], channel, *made.place(rows[1:])),
        channels_last(len(made.result)),
    )
    fold = Fold((Accumulator(name, "add", value),), at_least_one(at, loops_of(at, taps)))
    body: list[Statement] = [Loop(str(channel), made.groups, (fold, *behind.body), lanes=True)]
    body = in_loops(loops_of(at, rows), body, parallel=True)
    work = product((*made.result, *made.weight[1:])) * 2
    scheduler.step(at, body, behind.writes, work)


def _depthwise_weights(scheduler: Scheduler, made: Geometry, sums: DType) -> Storage:
    weight, rank = made.weights, len(made.weight)
    order = (1, *range(2, rank), 0)
    if weight.array is None:
        return copied(scheduler, weight, sums)
    array = np.ascontiguousarray(weight.array.astype(sums, copy=False).transpose(order))
    return Storage(sums, made.weight, "constant", order=order, array=array)


def _write_zeros(
    scheduler: Scheduler, cluster: Cluster, made: Geometry, _: Storage, sums: DType
) -> None:
    """Results that no tap of a transposed convolution meets."""
    at = scheduler.expressions(cluster.members)
    rows = variables(at, made.result, (0, *range(2, len(made.result))))
    channel = at.variable(made.result[1])
    index = (rows[0], channel, *made.place(rows[1:]))
    order = channels_last(len(made.result))
    behind = write_behind(
        scheduler, at, cluster, Constant(np.zeros((), sums).item(), sums), index, order
    )
    body: list[Statement] = [Loop(str(channel), made.result[1], tuple(behind.body), lanes=True)]
    body = in_loops(loops_of(at, rows), body, parallel=True)
    scheduler.step(at, body, behind.writes, product(made.result))
