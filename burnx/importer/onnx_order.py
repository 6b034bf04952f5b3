"""The nodes of a graph in an order in which they can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from burnx.errors import ModelError
from burnx.importer.onnx_gradient import is_gradient, target_name


def in_order(proto: Any, find: Callable[[str], Any]) -> list[Any]:
    """The nodes as they are where that order works, else sorted so that producers come first.

    Raises: ModelError if nodes wait for each other, or two give the same value.
    """
    producers: dict[str, int] = {}
    for place, node in enumerate(proto.node):
        for name in node.output:
            if name and name in producers:
                raise ModelError(f'two nodes give the value "{name}"')
            if name:
                producers[name] = place
    waits = [_waits_for(node, producers) for node in proto.node]
    if all(before < place for place, each in enumerate(waits) for before in each):
        return list(proto.node)
    return [proto.node[place] for place in _sorted(waits, proto.node)]


def _waits_for(node: Any, producers: dict[str, int]) -> list[int]:
    return [producers[name] for name in used_names(node) if name in producers]


def used_names(node: Any) -> Iterator[str]:
    """The names a node reads, those that its subgraphs take from outside included."""
    yield from (name for name in node.input if name)
    if is_gradient(node):
        yield target_name(node)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs]:
            own = {value.name for value in (*graph.input, *graph.initializer)}
            own |= {name for inner in graph.node for name in inner.output}
            for inner in graph.node:
                yield from (name for name in used_names(inner) if name not in own)
            yield from (value.name for value in graph.output if value.name not in own)


def _sorted(waits: list[list[int]], nodes: Any) -> list[int]:
    """Depth-first, in the file's order where that is free."""
    done: dict[int, None] = {}
    open_: set[int] = set()
    stack = [(place, False) for place in reversed(range(len(waits)))]
    while stack:
        place, is_ready = stack.pop()
        if is_ready:
            open_.discard(place)
            done.setdefault(place)
            continue
        if place in done:
            continue
        if place in open_:
            raise ModelError(
                f'nodes wait for each other, among them "{nodes[place].name or nodes[place].op_type}"'
            )
        open_.add(place)
        stack.append((place, True))
        stack.extend((before, False) for before in reversed(waits[place]) if before not in done)
    return list(done)
