"""Modules that follow each other: the calls of a ``ModuleList`` or a part of it in order, which read as a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from burnx.graph import Value
from burnx.structure.scopes import Path
from burnx.structure.tree import Call, Item, LayerCall, writes


@dataclass(slots=True, eq=False)
class Run:
    """Calls of modules of the list at ``path``, from ``first`` on; argument ``place`` of each is what the one before
    gave.  ``is_last`` tells that the list ends with them.
    """

    path: Path
    calls: list[Call | LayerCall]
    place: int
    first: int
    is_last: bool


@dataclass(slots=True, eq=False)
class Growth:
    """Calls of modules of the list at ``path``, each with all that was given to the one before and its result."""

    path: Path
    calls: list[Call]
    first: int
    is_last: bool


@dataclass(slots=True, eq=False)
class Round:
    """Calls of modules of the list at ``path`` that each take members of families of values, and give some.

    ``carried`` is the argument that the call before gave as its result number ``given``.
    """

    path: Path
    calls: list[Call]
    first: int
    is_last: bool
    carried: int
    given: int


def find_runs(
    items: Sequence[Item],
    uses: Counter[Value],
    lists: Mapping[Path, int],
) -> list[Item | Run | Growth | Round]:
    """The items, with each run in place of its calls.  ``lists`` are the sizes of the module lists."""
    found: list[Item | Run | Growth | Round] = []
    place = 0
    while place < len(items):
        run = (
            _run_at(items, place, uses, lists)
            or _growth_at(items, place, lists)
            or _round_at(items, place, uses, lists)
        )
        if run is not None:
            found.append(run)
            place += len(run.calls)
        else:
            found.append(items[place])
            place += 1
    return found


def _run_at(
    items: Sequence[Item],
    start: int,
    uses: Counter[Value],
    lists: Mapping[Path, int],
) -> Run | None:
    first = items[start]
    if not takes_values(first) or first.path[:-1] not in lists:
        return None
    begin = int(first.path[-1])
    calls: list[Call | LayerCall] = [first]
    carried = -1
    for item in items[start + 1 :]:
        before = calls[-1]
        if not takes_values(item) or not _follows(before, item, begin + len(calls), uses):
            break
        place = inputs_of(item).index(writes(before)[0])
        if carried not in (-1, place) or not _agree(first, item, place):
            break
        carried = place
        calls.append(item)
    if len(calls) < 2:
        return None
    path = first.path[:-1]
    return Run(path, calls, carried, begin, lists[path] == begin + len(calls))


def _growth_at(items: Sequence[Item], start: int, lists: Mapping[Path, int]) -> Growth | None:
    calls: list[Call] = []
    for item in items[start:]:
        if not isinstance(item, Call) or not item.gathers or len(item.outputs) != 1:
            break
        if calls and item.inputs != [*calls[-1].inputs, *calls[-1].outputs]:
            break
        if calls and item.path != (*calls[0].path[:-1], str(int(calls[-1].path[-1]) + 1)):
            break
        if item.path[:-1] not in lists:
            break
        calls.append(item)
    if len(calls) < 2:
        return None
    path, first = calls[0].path[:-1], int(calls[0].path[-1])
    return Growth(path, calls, first, lists[path] == first + len(calls))


def _round_at(
    items: Sequence[Item], start: int, uses: Counter[Value], lists: Mapping[Path, int]
) -> Round | None:
    first = items[start]
    if not isinstance(first, Call) or first.path[:-1] not in lists or first.gathers:
        return None
    calls, link = [first], (-1, -1)
    for item in items[start + 1 :]:
        before = calls[-1]
        if not isinstance(item, Call) or item.path != _after(before.path):
            break
        if len(item.inputs) != len(first.inputs) or len(item.outputs) != len(first.outputs):
            break
        links = [
            (item.inputs.index(value), number)
            for number, value in enumerate(before.outputs)
            if value in item.inputs and uses[value] == 1
        ]
        if len(links) != 1 or link not in ((-1, -1), links[0]):
            break
        link = links[0]
        calls.append(item)
    if len(calls) < 3 or len(first.outputs) < 2:
        return None
    path, begin = first.path[:-1], int(first.path[-1])
    return Round(path, calls, begin, lists[path] == begin + len(calls), *link)


def _after(path: Path) -> Path:
    return (*path[:-1], str(int(path[-1]) + 1))


def values_of(parts: Sequence[Item | Run | Growth | Round]) -> set[Value]:
    """What the calls of the runs give."""
    return {
        value
        for part in parts
        if isinstance(part, Run | Growth | Round)
        for call in part.calls
        for value in writes(call)
    }


def inputs_of(item: Call | LayerCall) -> list[Value]:
    """The arguments of a module's call; one that is left out is none."""
    if isinstance(item, Call):
        return item.inputs
    return [value for value in item.layer.inputs if value is not None]


def takes_values(item: Item) -> TypeGuard[Call | LayerCall]:
    """Whether an item is the call of a module with nothing but values of this function."""
    if isinstance(item, LayerCall):
        given = item.layer.inputs
        return not any(value is None or value.is_constant for value in given)
    return isinstance(item, Call)


def _follows(
    before: Call | LayerCall, item: Call | LayerCall, number: int, uses: Counter[Value]
) -> bool:
    return (
        item.path == (*before.path[:-1], str(number))
        and len(writes(before)) == len(writes(item)) == 1
        and uses[writes(before)[0]] == 1
        and writes(before)[0] in inputs_of(item)
        and len(inputs_of(before)) == len(inputs_of(item))
    )


def _agree(first: Call | LayerCall, item: Call | LayerCall, carried: int) -> bool:
    pairs = enumerate(zip(inputs_of(first), inputs_of(item), strict=True))
    return all(a is b for place, (a, b) in pairs if place != carried)
