"""Where operators stand that exporters put too deep or too high.

What a module shares with others is worked out once by the module around them, not by the first that needs it: a mask
made inside the first of twelve blocks and used in all would make that block unlike the others.  What lies between two
operators of a module belongs to it: a rewritten node often has lost its scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from burnx.graph import Node, Value, uses
from burnx.structure.paths import is_place
from burnx.structure.scopes import Path, common_path

DEEP = 8  # operators in a row that are moved out together


def hoist(
    nodes: Sequence[Node], paths: Mapping[Node, Path], fixed: set[Node], results: set[Value]
) -> dict[Node, Path]:
    """The path of each node, shorter where a module and others below the same one use its result.

    ``fixed`` nodes stay: they are layers.  Only what needs nothing of its module but such results moves out.
    """
    found, readers = dict(paths), _readers(nodes)
    for node in nodes:
        path = found[node]
        if node in fixed or not path or any(value in results for value in node.outputs):
            continue
        places = [found[each] for value in node.outputs for each in readers.get(value, ())]
        shared = common_path([path, *places])
        if len(shared) == len(path) or not places:
            continue
        while shared and is_place(path[len(shared)]):  # one of a list, which holds nothing else
            shared = shared[:-1]
        moved = _movable(node, path[: len(shared) + 1], found, fixed, DEEP)
        for each in moved or ():
            found[each] = shared
    return found


def absorb(nodes: Sequence[Node], paths: Mapping[Node, Path], fixed: set[Node]) -> dict[Node, Path]:
    """The path of each node, longer where it reads from and is read by one module only."""
    found, readers = dict(paths), _readers(nodes)
    for node in nodes:
        users = [found[each] for value in node.outputs for each in readers.get(value, ())]
        if node in fixed or not users:
            continue
        shared = common_path(users)
        givers = [found[value.producer] for value in uses(node) if value.producer is not None]
        for giver in givers:
            both = common_path([shared, giver])
            if len(both) > len(found[node]) and both[: len(found[node])] == found[node]:
                found[node] = both
    return found


def _readers(nodes: Sequence[Node]) -> dict[Value, list[Node]]:
    readers: dict[Value, list[Node]] = {}
    for node in nodes:
        for value in uses(node):
            readers.setdefault(value, []).append(node)
    return readers


def _movable(
    node: Node, inside: Path, paths: Mapping[Node, Path], fixed: set[Node], deep: int
) -> list[Node] | None:
    """The node and all it needs from within the module at ``inside``; None if a layer is among these."""
    if node in fixed or deep == 0:
        return None
    found = [node]
    for value in uses(node):
        giver = value.producer
        if giver is None or paths[giver][: len(inside)] != inside:
            continue
        needed = _movable(giver, inside, paths, fixed, deep - 1)
        if needed is None:
            return None
        found += needed
    return found
