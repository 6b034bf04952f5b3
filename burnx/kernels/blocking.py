"""Neighbouring places of a window worked out together: their sums do not wait for each other, and they share weights.

    loop x (parallel) { loop c (lanes) { fold over taps; store } }
becomes, for four x at a time and then one by one,
    loop x4 (parallel) { loop c (lanes) { fold with four accumulators; four stores } }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Buffer,
    Cast,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Position,
    Statement,
    Store,
    Value,
    operands,
    walk,
)
from burnx.shape import Dim, floordiv, maximum, minimum, substitute, symbol, symbols

SIDE = 4  # places at a time
SLICE = 64  # lanes that are taken through all places before the next ones
PLENTY = 8  # blocks of places for each slice: half as many places as lanes
WRITTEN_OUT = 32  # turns of a fold, times the values that it combines, with code of their own
TAPS = 64  # no longer windows: their sums do not wait long for each other


@dataclass(slots=True)
class Copy:
    """Rebuilds values for other values of index variables and other locals; what does not depend on them is shared."""

    places: Mapping[str, Dim]
    names: Mapping[str, str]
    done: dict[Value, Value] = field(default_factory=dict)
    loads: dict[tuple[Buffer, Dim], Value] = field(default_factory=dict)  # of one element, one

    def dim(self, dim: Dim) -> Dim:
        return substitute(dim, self.places) if symbols(dim) & self.places.keys() else dim

    def value(self, value: Value) -> Value:
        if value not in self.done:
            made = self._made(value)
            self.done[value] = value if made is None else made
        return self.done[value]

    def _made(self, value: Value) -> Value | None:
        """The value for the other place; None if it is the same there."""
        match value:
            case Load():
                index = self.dim(value.index)
                made = value if index == value.index else replace(value, index=index)
                return self.loads.setdefault((value.buffer, index), made)
            case Position():
                index = self.dim(value.index)
                return None if index == value.index else replace(value, index=index)
            case Apply():
                parts = tuple(map(self.value, value.arguments))
                same = all(a is b for a, b in zip(parts, value.arguments, strict=True))
                return None if same else replace(value, arguments=parts)
            case Cast():
                part = self.value(value.value)
                return None if part is value.value else replace(value, value=part)
            case Inside():
                checks = tuple(tuple(map(self.dim, check)) for check in value.checks)
                parts = self.value(value.value), self.value(value.otherwise)
                return Inside(checks, *parts)  # type: ignore[arg-type]
            case Local() if value.name in self.names:
                return Local(self.names[value.name], value.dtype)
        return None


def block_windows(kernel: Kernel) -> Kernel:
    """The kernel with its windows worked out several at a time, where it has such."""
    body = tuple(_in_slices(_blocked(each)) or each for each in kernel.body)
    return replace(kernel, body=body)


def _in_slices(statement: Statement | None) -> Loop | None:
    """Everything for some lanes, then for the next: the places around are still in cache when they are read again.

    Threads divide the places if these are plenty, as they do the rows of the products before and behind.
    """
    if not isinstance(statement, Loop):
        return None
    lanes = next(each for each in walk((statement,)) if isinstance(each, Loop) and each.lanes)
    part = f"{lanes.variable} slice"
    start = symbol(part) * SLICE
    slices = floordiv(lanes.extent + SLICE - 1, SLICE)
    sliced = _sliced(statement, start, minimum(lanes.extent - start, SLICE))
    return Loop(part, slices, (sliced,), parallel=True, around=PLENTY)


def _sliced(loop: Loop, start: Dim, extent: Dim) -> Loop:
    """The loops with those over lanes going from ``start`` over ``extent``."""
    if loop.lanes:
        copy = Copy({loop.variable: start + symbol(loop.variable)}, {})
        return replace(_copied(loop, copy), extent=extent)
    inner = tuple(_sliced(each, start, extent) for each in loop.body if isinstance(each, Loop))
    return replace(loop, body=inner)


def near_variables(body: tuple[Statement, ...]) -> frozenset[str]:
    """The variables of places and taps of which ``block_windows`` will make a fold that is written out."""
    found = [window for each in body if (window := _find_window(each)) is not None]
    return frozenset(name for places, lanes in found for name in _near(places, lanes))


def _near(places: Loop, lanes: Loop) -> tuple[str, ...]:
    fold = lanes.body[0]
    assert isinstance(fold, Fold)
    return (places.variable, fold.loops[-1][0]) if _is_short(fold, SIDE) else ()


def is_written_out(fold: Fold) -> bool:
    """Whether each turn of the innermost loop is worth code of its own: few turns of several values."""
    many = len(fold.accumulators)
    return many > 1 and not fold.body and _is_short(fold, many)


def _is_short(fold: Fold, many: int) -> bool:
    """Whether so many values have few turns in the innermost loop, and are loaded in all of them."""
    extent = fold.loops[-1][1] if fold.loops else None
    if not isinstance(extent, int) or extent * many > WRITTEN_OUT:
        return False
    todo, seen = [each.value for each in fold.accumulators], set[Value]()
    while todo:
        value = todo.pop()
        if isinstance(value, Inside):
            return False
        if value not in seen:
            seen.add(value)
            todo.extend(operands(value))
    return True


def _find_window(statement: Statement) -> tuple[Loop, Loop] | None:
    """A loop over places and that over lanes in it, if there are windows in them."""
    if not isinstance(statement, Loop) or statement.lanes or len(statement.body) != 1:
        return None
    inner = statement.body[0]
    if isinstance(inner, Loop) and inner.lanes and _is_window(inner):
        return statement, inner
    return _find_window(inner)


def _blocked(statement: Statement) -> Statement | None:
    """The statement in blocks; None if it is no loop around windows."""
    found = _find_window(statement)
    if found is None or not isinstance(statement, Loop):
        return None
    if found[0] is statement:
        return _in_blocks(*found)
    inner = _blocked(statement.body[0])
    return None if inner is None else replace(statement, body=(inner,))


def _is_window(lanes: Loop) -> bool:
    """Whether the body of a lanes loop is one fold over few taps and what becomes of it."""
    fold, *rest = lanes.body
    if not isinstance(fold, Fold) or fold.lanes or fold.body:
        return False
    taps = 1
    for _, extent in fold.loops:
        if not isinstance(extent, int):
            return False
        taps *= extent
    stores = all(isinstance(each, (Let, Store)) for each in rest)
    return stores and 1 < taps <= TAPS


def _in_blocks(places: Loop, lanes: Loop) -> Loop:
    """A loop over blocks of places; in it the whole block, or the places left over.

    The last block may reach back over the one before it and store the same again, if nothing that is stored is read.
    """
    block, variable, extent = f"{places.variable} block", places.variable, places.extent
    first = symbol(block) * SIDE
    full, few = minimum(floordiv(extent - first, SIDE), 1), minimum(extent - first, SIDE)
    if _may_repeat(lanes):
        first = minimum(first, maximum(extent - SIDE, 0))
        full = minimum(floordiv(extent, SIDE), 1)
    one, rest = f"{variable} full", f"{variable} rest"
    whole = Loop(one, full, (_together(lanes, variable, first),))
    single = _copied(lanes, Copy({variable: first + symbol(rest)}, {}))
    blocks = floordiv(extent + SIDE - 1, SIDE)
    body = (whole, Loop(rest, few * (1 - full), (single,)))
    return replace(places, variable=block, extent=blocks, body=body)


def _may_repeat(lanes: Loop) -> bool:
    """Whether it makes no difference to run the body for a place once more."""
    stores = [each for each in walk(lanes.body) if isinstance(each, Store)]
    written = {each.buffer for each in stores}
    todo = [each.value for each in walk(lanes.body) if isinstance(each, (Let, Store))]
    todo += [
        one.value for each in lanes.body if isinstance(each, Fold) for one in each.accumulators
    ]
    seen: set[Value] = set()
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        todo.extend(operands(value))
        if isinstance(value, Load) and value.buffer in written:
            return False
    return not any(each.combine for each in stores)


def written_out(fold: Fold) -> list[tuple[Accumulator, ...]]:
    """What the fold takes in each turn of its innermost loop; what is loaded several times is one value."""
    variable, extent = fold.loops[-1]
    loads: dict[tuple[Buffer, Dim], Value] = {}
    turns = []
    for turn in range(int(extent)):
        copy = Copy({variable: turn}, {}, loads=loads)
        turns.append(tuple(replace(e, value=copy.value(e.value)) for e in fold.accumulators))
    return turns


def share_loads(fold: Fold) -> bool:
    """Whether a fold that is written out has at least half of what it loads in several places in common."""
    if not is_written_out(fold):
        return False
    turns = written_out(fold)
    todo, loads = [each.value for turn in turns for each in turn], set[Load]()
    while todo:
        value = todo.pop()
        if isinstance(value, Load):
            loads.add(value)
        todo.extend(operands(value))
    return 2 * (len(loads) - len(turns)) <= len(turns) * len(fold.accumulators)


def _copied(lanes: Loop, copy: Copy) -> Loop:
    fold, *rest = lanes.body
    assert isinstance(fold, Fold)
    sums = tuple(replace(each, value=copy.value(each.value)) for each in fold.accumulators)
    body = (replace(fold, accumulators=sums), *(_statement(each, copy) for each in rest))
    return replace(lanes, body=body)


def _together(lanes: Loop, variable: str, first: Dim) -> Loop:
    """All places of a block in one body."""
    fold, *rest = lanes.body
    assert isinstance(fold, Fold)
    named = [each.name for each in fold.accumulators]
    named += [each.name for each in walk(tuple(rest)) if isinstance(each, Let)]
    sums: list[Accumulator] = []
    after: list[Statement] = []
    for place in range(SIDE):
        copy = Copy({variable: first + place}, {name: f"{name} {place}" for name in named})
        sums += [
            Accumulator(copy.names[each.name], each.function, copy.value(each.value))
            for each in fold.accumulators
        ]
        after += [_statement(each, copy) for each in rest]
    return replace(lanes, body=(replace(fold, accumulators=tuple(sums)), *after))


def _statement(statement: Statement, copy: Copy) -> Statement:
    if isinstance(statement, Let):
        name = copy.names.get(statement.name, statement.name)
        return Let(name, copy.value(statement.value))
    assert isinstance(statement, Store)
    return replace(statement, index=copy.dim(statement.index), value=copy.value(statement.value))
