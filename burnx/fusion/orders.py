"""The order of axes in memory: values lie as whoever reads or makes them would have them.

A convolution makes its channels the innermost axis.  What follows keeps the order of its largest operand, so that
a network of convolutions runs channels-last inside and no step only moves data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnx.fusion.expressions import shape_of
from burnx.program import Instruction, Var
from burnx.shape import Shape
from burnx.shape.layouts import Layout, layout_of, order_of, reshaped, transposed

if TYPE_CHECKING:
    from burnx.fusion.scheduler import Scheduler
    from burnx.fusion.storage import Order


_ALIKE = frozenset(
    ("map", "cast", "bitcast", "window_reduce", "pad", "slice", "concat", "flip")
)  # they lie as an operand does


def channels_last(rank: int) -> Order:
    """(n, c, *s) with c innermost."""
    return (0, *range(2, rank), 1)


def natural_order(scheduler: Scheduler, var: Var) -> Order:
    """How a value would lie with nothing moved."""
    return order_of(_natural_layout(scheduler, var)) or tuple(range(len(shape_of(var))))


def _natural_layout(scheduler: Scheduler, var: Var) -> Layout:
    shape = shape_of(var)
    plain = layout_of(shape, tuple(range(len(shape))))
    stored = scheduler.memory.get(var)
    if stored is not None:
        return layout_of(shape, stored.order)
    maker = scheduler.uses.makers.get(var)
    if maker is None or var.array is not None or len(shape) < 2:
        return plain
    if maker.primitive == "conv":
        return layout_of(shape, channels_last(len(shape)))
    if maker.primitive in _ALIKE:
        return _like(scheduler, _leading(scheduler, maker, len(shape)), shape) or plain
    operand = maker.inputs[0] if maker.inputs else None
    if operand is None:
        return plain
    if maker.primitive == "take" and len(shape_of(operand)) == len(shape):
        return _like(scheduler, operand, shape) or plain
    if maker.primitive == "transpose":
        return transposed(_natural_layout(scheduler, operand), maker.attributes["perm"])
    if maker.primitive == "reshape":
        return reshaped(_natural_layout(scheduler, operand), shape) or plain
    return plain


def _like(scheduler: Scheduler, operand: Var | None, shape: Shape) -> Layout | None:
    """The layout of a value that lies as an operand of its rank does."""
    if operand is None:
        return None
    found = _natural_layout(scheduler, operand)
    if shape_of(operand) == shape:
        return found
    order = order_of(found)
    return None if order is None else layout_of(shape, order)


def wanted_order(scheduler: Scheduler, var: Var) -> Order | None:
    """The order in which a transposed value needs no copy, where its innermost axis stays."""
    readers = scheduler.uses.readers.get(var, [])
    if len(readers) != 1 or readers[0].primitive != "transpose" or var in scheduler.uses.kept:
        return None
    perm: Order = readers[0].attributes["perm"]
    return perm if perm[-1] == len(perm) - 1 else None


def _leading(scheduler: Scheduler, maker: Instruction, rank: int) -> Var | None:
    """The first operand that is not broadcast; if all are, the first that may have this shape already."""
    widened = None
    for operand in maker.inputs:
        if operand is None or operand.array is not None or len(shape_of(operand)) != rank:
            continue
        source = scheduler.uses.makers.get(operand)
        if source is None or source.primitive != "broadcast":
            return operand
        given = source.inputs[0]
        if widened is None and given is not None and _may_fill(given, operand):
            widened = given
    return widened


def _may_fill(given: Var, wide: Var) -> bool:
    """Whether a value that is broadcast may turn out to have the shape that it is given."""
    shapes = shape_of(given), shape_of(wide)
    if given.array is not None or len(shapes[0]) != len(shapes[1]):
        return False
    return all(own == to or own != 1 for own, to in zip(*shapes, strict=True))
