"""Views: what chains of Reshape, Transpose, Squeeze, Unsqueeze and Expand do, as one order of axes.

    x.reshape(batch, seq, 12, 64).transpose(0, 2, 1, 3)

is a view of ``x`` (batch, seq, 768): its last axis is two axes (12 and 64), and the result has the four in another
order.  An axis of one element is none; an axis that Expand made is not among those of the base.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from burnx.graph import Array, Node, Value, constant_value
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match
from burnx.shape import Dim, Expr, Shape, floordiv, mod, product, symbol, symbol_name, symbols
from burnx.types import TensorType

MOVING = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Expand"})


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """An axis of the base, or a part of one; compared by identity."""

    size: Dim
    is_spread: bool = False


Group: TypeAlias = tuple[Axis, ...]
Groups: TypeAlias = tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class View:
    """``groups`` are the axes of each dimension of the value, ``order`` those of the base as they lie there.

    ``factor`` is what the values were multiplied with on the way, ``nodes`` is the way, from the value up.
    """

    base: Value
    order: Group
    groups: Groups
    factor: float = 1.0
    nodes: tuple[Node, ...] = ()


def shape_of(value: Value | None) -> Shape | None:
    kind = None if value is None else value.type
    return kind.shape if isinstance(kind, TensorType) else None


def perm_of(node: Node) -> list[int] | None:
    """The order of axes that a Transpose gives."""
    given = node.attributes.get("perm")
    if given is not None:
        return [int(axis) for axis in given]
    shape = shape_of(node.outputs[0])
    return None if shape is None else list(range(len(shape)))[::-1]


Enter: TypeAlias = Callable[[Value], Node | None]


def view_of(value: Value, enter: Enter, *, is_scaled: bool = False) -> View | None:
    """The value as a view of what it was made from; ``is_scaled`` passes products with numbers too."""
    way: list[tuple[Node, float]] = []
    base = value
    while (node := enter(base)) is not None:
        step = _step(node, is_scaled)
        if step is None:
            break
        base, times = step
        way.append((node, times))
    while True:  # a step that cannot be followed is where the way begins
        nodes = tuple(node for node, _ in way)
        found = _follow(base, nodes)
        if found is not None:
            return View(base, *found, math.prod(times for _, times in way), nodes)
        if not way:
            return None
        base = way.pop()[0].outputs[0]


def _step(node: Node, is_scaled: bool) -> tuple[Value, float] | None:
    """The value that a node moves, and what it multiplies it with."""
    if node.operator in MOVING and not node.domain:
        source = node.inputs[0]
        return None if source is None else (source, 1.0)
    return scaled_by(node) if is_scaled else None


def scaled_by(node: Node) -> tuple[Value, float] | None:
    """x and c where a node is x * c or x / c."""
    if node.domain or node.operator not in ("Mul", "Div"):
        return None
    places = (0, 1) if node.operator == "Mul" else (0,)
    for place in places:
        x, number = node.inputs[place], scalar(node.inputs[1 - place])
        if x is None or number is None or x.type != node.outputs[0].type:
            continue
        if node.operator == "Mul":
            return x, number
        if number != 0:
            return x, 1 / number
    return None


def _follow(base: Value, way: Sequence[Node]) -> tuple[Group, Groups] | None:
    shape = shape_of(base)
    if shape is None or any(dim == 0 for dim in shape):
        return None
    state = _State([Axis(dim) for dim in shape if dim != 1], [])
    axes = iter(state.order)
    state.groups = [() if dim == 1 else (next(axes),) for dim in shape]
    for node in reversed(way):
        if not state.take(node):
            return None
    return tuple(state.order), tuple(state.groups)


@dataclass(slots=True)
class _State:
    order: list[Axis]
    groups: list[Group] = field(default_factory=list)

    def take(self, node: Node) -> bool:
        """Apply a node; whether it could be."""
        if node.operator not in MOVING:
            return True
        shape = shape_of(node.outputs[0])
        if shape is None:
            return False
        if node.operator == "Transpose":
            perm = perm_of(node) or []
            self.groups = [self.groups[axis] for axis in perm]
            return True
        return self._spread(shape) if node.operator == "Expand" else self._regroup(shape)

    def _spread(self, shape: Shape) -> bool:
        groups: list[Group] = [*[()] * (len(shape) - len(self.groups)), *self.groups]
        for place, dim in enumerate(shape):
            own = product(axis.size for axis in groups[place])
            if own == dim:
                continue
            if groups[place]:
                return False
            groups[place] = (Axis(dim, is_spread=True),)
        self.groups = groups
        return True

    def _regroup(self, shape: Shape) -> bool:
        waiting = [axis for group in self.groups for axis in group][::-1]
        groups: list[Group] = []
        for dim in shape:
            group: list[Axis] = []
            rest = dim
            while rest != 1:
                if not waiting:
                    return False
                axis = waiting.pop()
                if not _is_multiple(rest, axis.size):
                    if not _is_multiple(axis.size, rest):
                        return False
                    axis, other = self._split(axis, rest)
                    waiting.append(other)
                group.append(axis)
                rest = floordiv(rest, axis.size)
            groups.append(tuple(group))
        self.groups = groups
        return not waiting

    def _split(self, axis: Axis, size: Dim) -> tuple[Axis, Axis]:
        first = Axis(size, axis.is_spread)
        second = Axis(floordiv(axis.size, size), axis.is_spread)
        if axis in self.order:
            place = self.order.index(axis)
            self.order[place : place + 1] = [first, second]
        return first, second


def _is_multiple(dim: Dim, by: Dim) -> bool:
    if isinstance(by, int) and by == 0 or isinstance(dim, int) and dim <= 0:
        return False
    return bool(dim == by) or mod(dim, by) == 0


# ------------------------------------------------------------------------------- making one
def group_sizes(groups: Groups) -> Shape:
    return tuple(product(axis.size for axis in group) for group in groups)


def flat(groups: Groups) -> Group:
    return tuple(axis for group in groups for axis in group)


def base_groups(view: View) -> Groups | None:
    """The axes that make up each dimension of the base."""
    axes, groups = list(view.order), []
    for dim in shape_of(view.base) or ():
        own: list[Axis] = []
        while product(axis.size for axis in own) != dim:
            if not axes:
                return None
            own.append(axes.pop(0))
        groups.append(tuple(own))
    return tuple(groups)


def arrange(match: Match, view: View, groups: Groups) -> Value | None:
    """The axes of the base of a view, all of them, in these groups."""
    wanted = flat(groups)
    if set(wanted) != set(view.order) or len(wanted) != len(view.order):
        return None
    if wanted == view.order:
        return reshaped(match, view.base, group_sizes(groups))
    runs = _runs(view.order, wanted)
    in_base = sorted(runs, key=lambda run: view.order.index(run[0]))
    parted = reshaped(match, view.base, group_sizes(tuple(in_base)))
    if parted is None:
        return None
    perm = [in_base.index(run) for run in runs]
    turned = match.put("Transpose", parted, perm=perm)
    return None if turned is None else reshaped(match, turned, group_sizes(groups))


def _runs(order: Group, wanted: Group) -> list[Group]:
    """The wanted axes, those together that are neighbours in both orders."""
    runs: list[list[Axis]] = []
    for axis in wanted:
        if runs and order.index(axis) == order.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return [tuple(run) for run in runs]


def reshaped(match: Match, value: Value, dims: Shape) -> Value | None:
    """The value under another shape, itself if that is its own."""
    shape = shape_of(value)
    if shape == dims:
        return value
    if value.array is not None:
        numbers = [int(dim) for dim in dims if isinstance(dim, int)]
        return constant_value(value.array.reshape(numbers), value.name)
    target = sizes_value(match, dims, [value])
    if sum(not isinstance(dim, int) for dim in dims) > 1:
        placed = _placed(match, value, dims)
        if placed is not None:
            return placed
    made = None if target is None else match.put("Reshape", value, target)
    if made is None:
        return None
    if shape_of(made) != dims:  # -1 stands for a size that is known
        assert isinstance(made.type, TensorType)
        made.type = TensorType(made.type.dtype, dims)
    return made


def _placed(match: Match, value: Value, dims: Shape) -> Value | None:
    """The value under a shape that has axes of one element more than its own, or less."""
    shape = shape_of(value) or ()
    operator = "Squeeze" if len(dims) < len(shape) else "Unsqueeze"
    larger, smaller = (shape, dims) if operator == "Squeeze" else (dims, shape)
    axes = added_axes(larger, smaller)
    return None if axes is None else match.put(operator, value, constant_value(axes))


def added_axes(larger: Shape, smaller: Shape) -> Array | None:
    """Where a shape has axes of one element that the other has not, if that is all."""
    axes: list[int] = []
    rest = list(smaller)
    for axis, dim in enumerate(larger):
        if rest and rest[0] == dim and (dim != 1 or len(larger) - axis == len(rest)):
            rest.pop(0)
        elif dim == 1:
            axes.append(axis)
        else:
            return None
    return np.array(axes, np.int64) if axes and not rest else None


def sizes_value(
    match: Match, dims: Shape, sources: Sequence[Value], *, may_infer: bool = True
) -> Value | None:
    """A vector of sizes: numbers, -1 for one that is none if that ``may_infer``, else read from ``sources``."""
    unknown = [place for place, dim in enumerate(dims) if not isinstance(dim, int)]
    if len(unknown) <= may_infer and all(dim != 0 for dim in dims):
        return constant_value(
            np.array([-1 if place in unknown else dim for place, dim in enumerate(dims)], np.int64)
        )
    places = dict(_readable(sources))
    used: list[int] = []
    found: dict[str, str] = {}
    written: list[Dim] = []
    for dim in dims:
        if isinstance(dim, Expr) and dim in places:  # a long one is a symbol of its own
            name = symbol_name(dim) or f"#{len(found)}"
            homes = {name: places[dim]}
            written.append(symbol(name))
        else:
            homes = {name: places[symbol(name)] for name in symbols(dim) if symbol(name) in places}
            written.append(dim)
        if len(homes) < len(symbols(written[-1])):
            return None
        for name, (place, axis) in sorted(homes.items()):
            if place not in used:
                used.append(place)
            found[name] = f"{used.index(place)}.{axis}"
    inputs = [sources[place] for place in used]
    return match.put("Sizes", *inputs, domain="burnx", dims=tuple(written), sources=found)


def _readable(sources: Sequence[Value]) -> Iterator[tuple[Dim, tuple[int, int]]]:
    """Each size that is none but that of an axis, and where it is read."""
    for place, value in enumerate(sources):
        for axis, dim in enumerate(shape_of(value) or ()):
            if isinstance(dim, Expr):
                yield dim, (place, axis)
