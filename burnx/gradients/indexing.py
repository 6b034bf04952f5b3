"""Derivatives of reading and writing at positions: what was read from a place is added up there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from burnx import waist
from burnx.dtype import int64
from burnx.gradients.rules import Cotangents, Step, filled, over, rule, times, where
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
    x, indices, updates = step.inputs
    axis = step.attributes["axis"]
    places = Places(
        lambda source: waist.take_along(source, indices, axis),
        lambda base, new, how: waist.scatter_along(base, indices, new, axis, how),
    )
    by_x, by_updates = _SCATTERS[step.attributes["reduction"]](places, by, step.output, x, updates)
    return [by_x, None, by_updates]


@rule("scatter_nd")
def scatter_nd_rule(step: Step, by: Tensor) -> Cotangents:
    x, indices, updates = step.inputs
    places = Places(
        lambda source: waist.gather_nd(source, indices),
        lambda base, new, how: waist.scatter_nd(base, indices, new, how),
    )
    by_x, by_updates = _SCATTERS[step.attributes["reduction"]](places, by, step.output, x, updates)
    return [by_x, None, by_updates]


@dataclass(frozen=True, slots=True)
class Places:
    """Where a scatter writes: ``read(x)`` takes what stands there, ``write(x, new, how)`` puts new things there."""

    read: Callable[[Tensor], Tensor]
    write: Callable[[Tensor, Tensor, str], Tensor]


Slopes: TypeAlias = tuple[Tensor, Tensor]


def _written(places: Places, by: Tensor, result: Tensor, x: Tensor, updates: Tensor) -> Slopes:
    return places.write(by, filled(0, updates), "none"), places.read(by)


def _added(places: Places, by: Tensor, result: Tensor, x: Tensor, updates: Tensor) -> Slopes:
    return by, places.read(by)


def _extreme(places: Places, by: Tensor, result: Tensor, x: Tensor, updates: Tensor) -> Slopes:
    """To whatever equals the result, in equal shares."""
    stays = waist.cast_to(waist.map("eq", x, result), x.dtype)
    wins = waist.cast_to(waist.map("eq", updates, places.read(result)), x.dtype)
    share = over(by, places.write(stays, wins, "add"))
    return times(share, stays), times(places.read(share), wins)


def _multiplied(places: Places, by: Tensor, result: Tensor, x: Tensor, updates: Tensor) -> Slopes:
    """By an update: the data times all other updates there, of which those that are 0 are counted apart."""
    zero, one = filled(0, updates), filled(1, updates)
    is_zero = waist.map("eq", updates, zero)
    factors = where(is_zero, one, updates)
    product = places.read(places.write(filled(1, x), factors, "mul"))
    zeros = places.read(places.write(filled(0, x), where(is_zero, one, zero), "add"))
    rest = where(is_zero, waist.map("sub", zeros, one), zeros)
    others = where(waist.map("eq", rest, zero), over(product, factors), zero)
    by_x = times(by, places.write(filled(1, x), updates, "mul"))
    return by_x, times(places.read(times(by, x)), others)


_SCATTERS: dict[str, Callable[..., Slopes]] = {
    "none": _written,
    "add": _added,
    "max": _extreme,
    "min": _extreme,
    "mul": _multiplied,
}
