"""Derivatives of what combines many elements into one."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import int64
from burnx.gradients.rules import Cotangents, Step, filled, number, over, rule, times, where
from burnx.shape import Dim, product
from burnx.tensor import Tensor


def _spread_over(x: Tensor, shape: Sequence[Dim], axes: Sequence[int]) -> Tensor:
    """A reduced tensor repeated along the axes that disappeared."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return waist.broadcast(waist.reshape(x, kept), tuple(shape))


@rule("reduce")
def reduce_rule(step: Step, by: Tensor) -> Cotangents:
    (x,) = step.inputs
    axes, name = step.attributes["axes"], step.attributes["function"]
    wide = _spread_over(by, x.shape, axes)
    if name == "sum":
        return [wide]
    if name == "prod":
        return [times(wide, _others(x, axes))]
    if name not in ("max", "min"):
        raise step.refuse(f"the reduction {name}")
    chosen = waist.map("eq", x, _spread_over(step.output, x.shape, axes))
    ones = waist.cast_to(chosen, x.dtype)
    share = over(wide, _spread_over(waist.reduce("sum", ones, axes), x.shape, axes))
    return [where(chosen, share, filled(0, share))]


def _others(x: Tensor, axes: Sequence[int]) -> Tensor:
    """For every element the product of all others along the axes: those before it times those behind it."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*rest, *axes]
    turned = waist.transpose(x, order)
    sizes = [x.shape[axis] for axis in rest]
    flat = waist.reshape(turned, (*sizes, product(tuple(x.shape[axis] for axis in axes))))
    last = flat.ndim - 1
    sides = [
        waist.cumulate("prod", flat, last, reverse, exclusive=True) for reverse in (False, True)
    ]
    back = waist.reshape(times(*sides), turned.shape)
    return waist.transpose(back, [order.index(axis) for axis in range(x.ndim)])


@rule("cumulate")
def cumulate_rule(step: Step, by: Tensor) -> Cotangents:
    (x,) = step.inputs
    name, axis, reverse, exclusive = (
        step.attributes[key] for key in ("function", "axis", "reverse", "exclusive")
    )
    if name == "sum":
        return [waist.cumulate("sum", by, axis, not reverse, exclusive)]
    return [_running_products(x, by, axis, reverse, exclusive)]


def _running_products(x: Tensor, by: Tensor, axis: int, reverse: bool, exclusive: bool) -> Tensor:
    """The products again with one factor left out, for each factor: right where factors are 0, too.

    Row ``i`` of a square beside each line holds the line with element ``i`` as 1.
    """
    count = x.shape[axis]
    order = [*(place for place in range(x.ndim) if place != axis), axis]
    lines, by_lines = (waist.transpose(each, order) for each in (x, by))
    lead = lines.shape[:-1]
    square = waist.broadcast(waist.reshape(lines, (*lead, 1, count)), (*lead, count, count))
    places = waist.iota(count, int64)
    row, column = (waist.reshape(places, shape) for shape in ((count, 1), (1, count)))
    without = where(waist.map("eq", row, column), number(1, x), square)
    products = waist.cumulate("prod", without, square.ndim - 1, reverse, exclusive)
    before, behind = (column, row) if reverse else (row, column)
    holds = waist.map("lt" if exclusive else "le", before, behind)
    weighted = times(waist.reshape(by_lines, (*lead, 1, count)), products)
    kept = where(holds, weighted, number(0, x))
    total = waist.reduce("sum", kept, [square.ndim - 1])
    return waist.transpose(total, [order.index(place) for place in range(x.ndim)])


@rule("sort")
def sort_rule(step: Step, by: Tensor | None, by_order: Tensor | None) -> Cotangents:
    (x,) = step.inputs
    axis, order = step.attributes["axis"], step.outputs[1]
    assert by is not None
    return [waist.scatter_along(filled(0, x), order, by, axis, "add")]
