"""Derivatives of reading and writing at positions: what was read from a place is added up there."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import int64
from burnx.gradients.rules import Cotangents, Step, filled, rule
from burnx.tensor import Tensor


@rule("take")
def take_rule(step: Step, by: Tensor) -> Cotangents:
    x, indices = step.inputs
    axis = step.attributes["axis"]
    taken = list(range(axis, axis + indices.ndim))
    rest = [place for place in range(by.ndim) if place not in taken]
    order = [axis, *(place for place in range(x.ndim) if place != axis)]
    base = waist.transpose(filled(0, x), order)
    places = waist.reshape(indices, (*indices.shape, 1))
    total = waist.scatter_nd(base, places, waist.transpose(by, [*taken, *rest]), "add")
    return [waist.transpose(total, [order.index(place) for place in range(x.ndim)]), None]


@rule("take_along")
def take_along_rule(step: Step, by: Tensor) -> Cotangents:
    x, indices = step.inputs
    return [waist.scatter_along(filled(0, x), indices, by, step.attributes["axis"], "add"), None]


@rule("gather_nd")
def gather_nd_rule(step: Step, by: Tensor) -> Cotangents:
    x, indices = step.inputs
    batch = step.attributes["batch"]
    wide = waist.cast_to(indices, int64)
    columns = []
    for axis in range(batch):
        line = [1] * indices.ndim
        line[axis] = -1
        shape = tuple(x.shape[axis] if size == -1 else 1 for size in line)
        column = waist.reshape(waist.iota(x.shape[axis]), shape)
        columns.append(waist.broadcast(column, (*indices.shape[:-1], 1)))
    places = waist.concat([*columns, wide], indices.ndim - 1)
    return [waist.scatter_nd(filled(0, x), places, by, "add"), None]


@rule("scatter_along")
def scatter_along_rule(step: Step, by: Tensor) -> Cotangents:
    _, indices, updates = step.inputs
    axis, reduction = step.attributes["axis"], step.attributes["reduction"]
    by_updates = waist.take_along(by, indices, axis)
    if reduction == "add":
        return [by, None, by_updates]
    if reduction != "none":
        raise step.refuse(f"a scatter that combines by {reduction}")
    rest = waist.scatter_along(by, indices, filled(0, updates), axis, "none")
    return [rest, None, by_updates]


@rule("scatter_nd")
def scatter_nd_rule(step: Step, by: Tensor) -> Cotangents:
    _, indices, updates = step.inputs
    reduction = step.attributes["reduction"]
    by_updates = waist.gather_nd(by, indices)
    if reduction == "add":
        return [by, None, by_updates]
    if reduction != "none":
        raise step.refuse(f"a scatter that combines by {reduction}")
    return [waist.scatter_nd(by, indices, filled(0, updates), "none"), None, by_updates]
