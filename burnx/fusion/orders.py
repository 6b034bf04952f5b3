"""The order of axes in memory: values lie as whoever reads or makes them would have them.

A convolution makes its channels the innermost axis.  What follows keeps the order of its largest operand, so that
a network of convolutions runs channels-last inside and no step only moves data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnx.fusion.expressions import shape_of
from burnx.fusion.indices import matching_runs
from burnx.program import Instruction, Var
from burnx.shape import Shape

if TYPE_CHECKING:
    from burnx.fusion.scheduler import Scheduler
    from burnx.fusion.storage import Order


def channels_last(rank: int) -> Order:
    """(n, c, *s) with c innermost."""
    return (0, *range(2, rank), 1)


def natural_order(scheduler: Scheduler, var: Var) -> Order:
    """How a value would lie with nothing moved."""
    rank = len(shape_of(var))
    plain = tuple(range(rank))
    stored = scheduler.memory.get(var)
    if stored is not None:
        return stored.order
    maker = scheduler.uses.makers.get(var)
    if maker is None or var.array is not None or rank < 2:
        return plain
    if maker.primitive == "conv":
        return channels_last(rank)
    if maker.primitive in (
        "map",
        "cast",
        "bitcast",
        "window_reduce",
        "pad",
        "slice",
        "concat",
        "flip",
    ):
        return _of_operands(scheduler, maker, rank)
    operand = maker.inputs[0] if maker.inputs else None
    if operand is None:
        return plain
    if maker.primitive == "take" and len(shape_of(operand)) == rank:
        return natural_order(scheduler, operand)
    if maker.primitive == "transpose":
        perm = maker.attributes["perm"]
        place = {origin: axis for axis, origin in enumerate(perm)}
        return tuple(place[axis] for axis in natural_order(scheduler, operand))
    if maker.primitive == "reshape":
        order = natural_order(scheduler, operand)
        return reshaped_order(order, shape_of(operand), shape_of(var)) or plain
    return plain


def wanted_order(scheduler: Scheduler, var: Var) -> Order | None:
    """The order in which a transposed value needs no copy, where its innermost axis stays."""
    readers = scheduler.uses.readers.get(var, [])
    if len(readers) != 1 or readers[0].primitive != "transpose" or var in scheduler.uses.kept:
        return None
    perm: Order = readers[0].attributes["perm"]
    return perm if perm[-1] == len(perm) - 1 else None


def _of_operands(scheduler: Scheduler, maker: Instruction, rank: int) -> Order:
    """The order of the first operand that is not broadcast; if all are, of the first that may have this shape already."""
    widened = None
    for operand in maker.inputs:
        if operand is None or operand.array is not None or len(shape_of(operand)) != rank:
            continue
        source = scheduler.uses.makers.get(operand)
        if source is None or source.primitive != "broadcast":
            return natural_order(scheduler, operand)
        given = source.inputs[0]
        if widened is None and given is not None and _may_fill(given, operand):
            widened = given
    return tuple(range(rank)) if widened is None else natural_order(scheduler, widened)


def _may_fill(given: Var, wide: Var) -> bool:
    """Whether a value that is broadcast may turn out to have the shape that it is given."""
    shapes = shape_of(given), shape_of(wide)
    if given.array is not None or len(shapes[0]) != len(shapes[1]):
        return False
    return all(own == to or own != 1 for own, to in zip(*shapes, strict=True))


def reshaped_order(order: Order, source: Shape, target: Shape) -> Order | None:
    """The order of ``target``'s axes, where each run of reshaped axes lies together in memory."""
    if order == tuple(range(len(order))):
        return tuple(range(len(target)))
    keyed: list[tuple[float, int]] = []
    for (low, high), (start, stop) in matching_runs(source, target):
        axes = [axis for axis in range(low, high) if source[axis] != 1]
        places = [order.index(axis) for axis in axes]
        if places != list(range(places[0], places[0] + len(places))) if places else False:
            return None
        first = places[0] if places else -1
        keyed += [(first + 0.001 * (axis - start), axis) for axis in range(start, stop)]
    return tuple(axis for _, axis in sorted(keyed))
