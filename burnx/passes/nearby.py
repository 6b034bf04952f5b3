"""Long formulas of sizes, read from a value of the same module that has just that size.

This comes after the lifts: a value whose sizes are read would look to them like one that others need.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from burnx.graph import Graph, Node, Value
from burnx.passes.cleaning import scope_of
from burnx.passes.editing import Editor, edit
from burnx.passes.views import shape_of
from burnx.shape import Dim, Expr, symbol, symbol_name, symbols

SIZES = ("burnx", "Sizes")


@dataclass(slots=True, eq=False)
class Homes:
    """Where each module has a size, and the values that are there already."""

    places: dict[tuple[str, Dim], list[tuple[Value, int]]] = field(default_factory=dict)
    given: set[Value] = field(default_factory=set)

    def of(self, scope: str, dim: Dim) -> tuple[Value, int] | None:
        """The first value of a module that has a size, among those that are there."""
        places = self.places.get((scope, dim), ())
        return next((place for place in places if place[0] in self.given), None)

    def settle(self, node: Node) -> None:
        """Note the long sizes of what a node reads and gives."""
        scope = scope_of(node)
        for value in (*node.inputs, *node.outputs):
            for axis, dim in enumerate(shape_of(value) or ()):
                if value is not None and isinstance(dim, Expr) and symbol_name(dim) is None:
                    self.places.setdefault((scope, dim), []).append((value, axis))


def read_nearby(graph: Graph) -> int:
    """Let Sizes nodes read long sizes where they are; how many that were."""
    return _read(edit(graph), graph, Homes())


def _read(editor: Editor, graph: Graph, homes: Homes) -> int:
    changes = 0
    kept: list[Node] = []
    homes.given.update(graph.inputs)
    for node in graph.nodes:
        if (node.domain, node.operator) != SIZES:
            homes.settle(node)
    for node in graph.nodes:
        changes += sum(_read(editor, inner, homes) for inner in node.subgraphs())
        if (node.domain, node.operator) == SIZES:
            changes += _reread(editor, node, homes)
            kept.extend(editor.made)
            editor.made.clear()
        kept.append(node)
        homes.given.update(node.outputs)
    homes.given.difference_update(*(node.outputs for node in graph.nodes), graph.inputs)
    graph.nodes = [node for node in kept if node not in editor.removed]
    return changes


def _reread(editor: Editor, node: Node, homes: Homes) -> int:
    """Put a Sizes node that reads from homes in the place of one that has long formulas."""
    dims = node.attributes["dims"]
    found = {dim: home for dim in dims if (home := homes.of(scope_of(node), dim)) is not None}
    if not found:
        return 0
    inputs: list[Value | None] = []
    sources: dict[str, str] = {}
    names: dict[Dim, Dim] = {}

    def add(name: str, value: Value | None, axis: int | str) -> None:
        if value not in inputs:
            inputs.append(value)
        sources[name] = f"{inputs.index(value)}.{axis}"

    for dim, (value, axis) in found.items():
        name = f"#near{len(names)}"
        names[dim] = symbol(name)
        add(name, value, axis)
    written = tuple(names.get(dim, dim) for dim in dims)
    needed = {name for dim in written for name in symbols(dim)}
    for name, place in node.attributes["sources"].items():
        if name in needed:
            number, own = place.split(".")
            add(name, node.inputs[int(number)], own)
    made = editor.make("Sizes", inputs, {"dims": written, "sources": sources}, node, "burnx")
    if made is None:
        return 0
    (result,), (old,) = made.outputs, node.outputs
    result.type, result.known = old.type, old.known
    editor.replace(old, result)
    editor.remove(node)
    return 1
