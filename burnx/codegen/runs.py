"""Blocks that follow each other: the calls of a whole ``ModuleList`` in order, which read as a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from burnx.codegen.scopes import Path
from burnx.codegen.tree import Call, Item
from burnx.graph import Value


@dataclass(slots=True, eq=False)
class Run:
    """Calls of modules of the list at ``path``, from ``first`` on; argument ``place`` of each is what the one before
    gave.  ``is_last`` tells that the list ends with them.
    """

    path: Path
    calls: list[Call]
    place: int
    first: int
    is_last: bool


def find_runs(
    items: Sequence[Item],
    uses: Counter[Value],
    classes: Mapping[Path, str],
    lists: Mapping[Path, int],
) -> list[Item | Run]:
    """The items, with each run in place of its calls.  ``lists`` are the sizes of the module lists."""
    found: list[Item | Run] = []
    place = 0
    while place < len(items):
        run = _run_at(items, place, uses, classes, lists)
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
    classes: Mapping[Path, str],
    lists: Mapping[Path, int],
) -> Run | None:
    first = items[start]
    if not isinstance(first, Call) or first.path[:-1] not in lists:
        return None
    begin = int(first.path[-1])
    calls, carried = [first], -1
    for item in items[start + 1 :]:
        before = calls[-1]
        if not isinstance(item, Call) or not _follows(
            before, item, begin + len(calls), uses, classes
        ):
            break
        place = item.inputs.index(before.outputs[0])
        if carried not in (-1, place) or not _agree(first, item, place):
            break
        carried = place
        calls.append(item)
    if len(calls) < 2:
        return None
    path = first.path[:-1]
    return Run(path, calls, carried, begin, lists[path] == begin + len(calls))


def values_of(parts: Sequence[Item | Run]) -> set[Value]:
    """What the calls of the runs give."""
    return {
        value
        for part in parts
        if isinstance(part, Run)
        for call in part.calls
        for value in call.outputs
    }


def _follows(
    before: Call, item: Call, number: int, uses: Counter[Value], classes: Mapping[Path, str]
) -> bool:
    return (
        item.path == (*before.path[:-1], str(number))
        and classes[item.path] == classes[before.path]
        and len(before.outputs) == len(item.outputs) == 1
        and uses[before.outputs[0]] == 1
        and before.outputs[0] in item.inputs
        and len(before.inputs) == len(item.inputs)
    )


def _agree(first: Call, item: Call, carried: int) -> bool:
    pairs = enumerate(zip(first.inputs, item.inputs, strict=True))
    return all(a is b for place, (a, b) in pairs if place != carried)
