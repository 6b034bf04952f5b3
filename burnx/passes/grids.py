"""Grids: values that are taken at every place in order, which is what they are already.

    mask.gather_nd(concat(arange(batch)[:, None, None, None, None], arange(seq)[None, None, None, :, None]))

is ``mask[:, None, None, :]``.  Exporters write so what an author broadcast inside of a function over single elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from burnx.dtype import bool_
from burnx.graph import Array, Graph, Node, Value
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import flat, reshaped, shape_of, sizes_value, view_of
from burnx.shape import Dim, Expr, Shape, product


@dataclass(frozen=True, slots=True)
class Grid:
    """Integers that are the sum of ``steps`` times the place along axes, counted from the last one back (-1)."""

    steps: Mapping[int, Dim]
    counter: Value | None = None  # the Range along the axis, if there is one alone


def grid_of(value: Value | None) -> Grid | None:
    """How a value is a grid."""
    shape = shape_of(value)
    if value is None or shape is None:
        return None
    if value.array is not None:
        return _constant_grid(value.array)
    node = value.producer
    if node is None or node.domain:
        return None
    if node.operator == "Add":
        return _sum(grid_of(node.inputs[0]), grid_of(node.inputs[1]))
    if node.operator == "Mul":
        for place in (0, 1):
            size, grid = _size(node.inputs[1 - place]), grid_of(node.inputs[place])
            if size is not None and grid is not None:
                return Grid({axis: step * size for axis, step in grid.steps.items()})
        return None
    return _counted(value, shape)


def _sum(one: Grid | None, two: Grid | None) -> Grid | None:
    if one is None or two is None:
        return None
    steps = dict(one.steps)
    for axis, step in two.steps.items():
        steps[axis] = steps.get(axis, 0) + step
    return Grid(steps)


def _size(value: Value | None) -> Dim | None:
    """The size that a value of one element holds."""
    known = None if value is None else value.known
    if known is None or known.size != 1:
        return None
    item = known.reshape(-1)[0]
    return item if isinstance(item, Expr) else int(item)


def _constant_grid(array: Array) -> Grid | None:
    if array.dtype.kind not in "iu" or array.size == 0:
        return None
    steps = {}
    expected = np.zeros(array.shape, np.int64)
    for axis, size in enumerate(array.shape):
        if size > 1:
            place = [0] * array.ndim
            place[axis] = 1
            step = int(array[tuple(place)])
            if step:
                steps[axis - array.ndim] = step
            along = np.arange(size) * step
            expected += along.reshape([-1 if each == axis else 1 for each in range(array.ndim)])
    return Grid(steps) if (array == expected).all() else None


def _counted(value: Value, shape: Shape) -> Grid | None:
    """0, 1, 2 … along one axis."""
    view = view_of(value, lambda each: each.producer)
    node = None if view is None else view.base.producer
    if view is None or node is None or node.operator != "Range" or node.domain:
        return None
    if scalar(node.inputs[0]) != 0 or scalar(node.inputs[2]) != 1:
        return None
    steps = {}
    for place, group in enumerate(view.groups):
        own = [axis for axis in group if not axis.is_spread]
        if own and (len(group) > 1 or own[0].size != (shape_of(view.base) or ())[0]):
            return None
        if own:
            steps[place - len(shape)] = 1
    return Grid(steps, view.base)


# ------------------------------------------------------------------------------- lookups
@rewrite("GatherND")
def _all_elements(node: Node, match: Match) -> Value | None:
    """gather_nd(x, the places of x in order) = x with new axes"""
    x, indices, result = node.inputs[0], node.inputs[1], shape_of(node.outputs[0])
    shape, parts = shape_of(x), _parts(match, indices)
    if x is None or result is None or shape is None or parts is None:
        return None
    if node.attributes.get("batch_dims", 0) or len(parts) != len(shape):
        return None
    last = -len(result) - 1
    for axis, grid in enumerate(parts):
        steps = {place + 1: step for place, step in grid.steps.items()}
        if not steps and shape[axis] == 1:
            continue
        (place, step), *more = steps.items() or [(0, 0)]
        if more or step != 1 or place <= last or place >= 0:
            return None
        last = place
        if result[place] != shape[axis]:
            if grid.counter is None:
                return None
            x = match.put("Gather", x, grid.counter, axis=axis)
            if x is None:
                return None
    return _placed(match, x, result)


def _placed(match: Match, x: Value, result: Shape) -> Value | None:
    """x with axes of one element, if the result has no more elements than it."""
    own = shape_of(x) or ()
    if [dim for dim in own if dim != 1] != [dim for dim in result if dim != 1]:
        return None
    return reshaped(match, x, result)


def _parts(match: Match, indices: Value | None) -> list[Grid] | None:
    """The grid of each coordinate; their last axis has one element."""
    if indices is None:
        return None
    if indices.array is not None:
        slices = [indices.array[..., place : place + 1] for place in range(indices.array.shape[-1])]
        grids = [_constant_grid(each) for each in slices]
    else:
        node = match.enter(indices)
        rank = len(shape_of(indices) or ())
        if node is None or node.operator != "Concat" or node.domain:
            return None
        if int(node.attributes["axis"]) not in (-1, rank - 1):
            return None
        if any((shape_of(each) or (0,))[-1] != 1 for each in node.inputs):
            return None
        grids = [grid_of(each) for each in node.inputs]
    found = [grid for grid in grids if grid is not None]
    return found if len(found) == len(grids) else None


@rewrite("Gather")
def _all_rows(node: Node, match: Match) -> Value | None:
    """gather(flatten(x), the numbers of its elements in order) = x with new axes"""
    rows, indices, result = node.inputs[0], node.inputs[1], shape_of(node.outputs[0])
    view, grid = (
        None if rows is None else view_of(rows, match.enter),
        None if int(node.attributes.get("axis", 0)) else grid_of(indices),
    )
    rank, own = len(shape_of(indices) or ()), shape_of(indices)
    if view is None or not view.nodes or grid is None or result is None or own is None:
        return None
    if view.groups[0] != view.order or flat(view.groups) != view.order or len(view.order) < 2:
        return None
    sizes = [axis.size for axis in view.order]
    wanted = [product(sizes[place + 1 :]) for place in range(len(sizes))]
    places = sorted(grid.steps)
    if [grid.steps[place] for place in places] != wanted:
        return None
    if [own[place + rank] for place in places] != sizes:
        return None
    return _placed(match, view.base, result)


# ------------------------------------------------------------------------------- what is always true
def _is_true(value: Value | None) -> bool:
    """Whether all of a value is true, whatever it was made from."""
    if value is None:
        return False
    if value.array is not None:
        return bool(value.array.dtype == bool_ and value.array.all())
    node = value.producer
    if node is None or node.domain or node.operator != "GreaterOrEqual":
        return False
    grid = grid_of(node.inputs[0])
    is_counted = grid is not None and all(
        isinstance(step, int) and step >= 0 for step in grid.steps.values()
    )
    return is_counted and scalar(node.inputs[1]) == 0


@rewrite("And")
def _and_true(node: Node, match: Match) -> Value | None:
    """x and true = x"""
    first, second = node.inputs
    pairs = [(x, flags) for x, flags in ((first, second), (second, first)) if _is_true(flags)]
    for x, _ in pairs:
        if x is not None and x.type == node.outputs[0].type:
            return x
    for x, flags in pairs:
        dims = shape_of(flags)
        if x is None or flags is None or dims is None or x.is_constant:
            continue
        sizes = sizes_value(match, dims, [flags], may_infer=False)
        return None if sizes is None else match.make("Expand", x, sizes)
    return None


@rewrite("Attention")
def _narrow_mask(node: Node, match: Match) -> Value | None:
    """attention(q, k, v, expand(mask)) = attention(q, k, v, mask), which spreads the mask itself"""
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    maker = None if mask is None else match.enter(mask)
    if mask is None or maker is None or maker.domain or len(node.outputs) > 1:
        return None
    if maker.operator == "Expand":
        narrow = maker.inputs[0]
    elif maker.operator == "Where" and not any(shape_of(each) for each in maker.inputs[1:]):
        spread = match.enter(maker.inputs[0]) if maker.inputs[0] is not None else None
        if spread is None or spread.operator != "Expand" or spread.domain:
            return None
        narrow = match.put("Where", spread.inputs[0], *maker.inputs[1:], like=maker)
    else:
        return None
    if narrow is None or (shape_of(narrow) or (0,))[-1] != (shape_of(mask) or (1,))[-1]:
        return None
    inputs = [narrow if each is mask else each for each in node.inputs]
    return match.make("Attention", *inputs, **node.attributes)


def resolve_grids(graph: Graph) -> int:
    return rewrite_graph(graph, _all_elements, _all_rows, _and_true)


def narrow_masks(graph: Graph) -> int:
    return rewrite_graph(graph, _narrow_mask)
