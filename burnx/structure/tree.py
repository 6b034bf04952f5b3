"""The structure of the source: nodes as calls of operators, of layers, and of module classes.

Nodes of one scope become a class where they can be one call: no path leads out of them and back in.  Where they
cannot, or are too few to be worth a class, they stand in the class around them, under their full path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx

from burnx.graph import Graph, Node, Value, uses
from burnx.structure.layer_paths import LayerPaths, layer_paths
from burnx.structure.layer_reading import Layer
from burnx.structure.layers import find_layer
from burnx.structure.paths import is_place
from burnx.structure.scopes import Path, Scopes
from burnx.structure.sizes import leaves
from burnx.structure.standing import absorb, hoist

BRANCHING = frozenset({"If", "Loop", "Scan"})


@dataclass(slots=True, eq=False)
class Op:
    """A plain call of an operator; ``inside`` are the layers in its branches or its loop's body."""

    node: Node
    order: int
    inside: list[LayerCall] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LayerCall:
    """A call of a layer, which is the attribute at ``path``."""

    node: Node
    order: int
    layer: Layer
    path: Path


@dataclass(slots=True, eq=False)
class Call:
    """A call of a module of a class of its own, which is the attribute at ``path``.

    One that ``gathers`` joins all it is given before anything else, and takes any number.
    """

    path: Path
    items: list[Item]
    order: int
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    gathers: bool = False


Item = Op | LayerCall | Call


def only_joins(call: Call) -> bool:
    """Whether one Concat reads all that a module is given, in order, and nothing else does."""
    readers = [item for item in call.items if set(call.inputs) & set(reads(item))]
    if len(readers) != 1 or not isinstance(readers[0], Op):
        return False
    node = readers[0].node
    return node.operator == "Concat" and not node.domain and node.inputs == call.inputs


def nodes_of(item: Item) -> list[Node]:
    """Every node inside an item."""
    if isinstance(item, Call):
        return [node for inner in item.items for node in nodes_of(inner)]
    return [item.node]


def reads(item: Item) -> list[Value]:
    """The run-time values an item needs, in order of first use; tensors for their sizes."""
    if isinstance(item, Call):
        return item.inputs
    if isinstance(item, LayerCall):
        values = [value for value in item.layer.inputs if value is not None]
    else:
        values = list(uses(item.node))
    found = dict.fromkeys(leaf for value in values for leaf in leaves(value))
    return [value for value in found if not value.is_constant]


def writes(item: Item) -> list[Value]:
    return item.outputs if isinstance(item, Call) else item.node.outputs


def with_inside(items: Iterable[Item]) -> Iterator[Item]:
    """The items, and behind each the layers in its branches or loop."""
    for item in items:
        yield item
        if isinstance(item, Op):
            yield from item.inside


def inner_items(graph: Graph, layers: Sequence[LayerCall]) -> list[Item]:
    """The items of a branch or body; ``layers`` are those of all branches and bodies inside of one node."""
    known = {each.node: each for each in layers}
    found: list[Item] = []
    for order, node in enumerate(graph.nodes):
        layer = known.get(node)
        own = list(layers) if any(True for _ in node.subgraphs()) else []
        found.append(Op(node, order, own) if layer is None else replace(layer, order=order))
    return found


def build_tree(graph: Graph, scopes: Scopes, flat: bool = False) -> Call:
    """The graph as the body of the model's class."""
    items: list[Op | LayerCall] = []
    layers = {node: layer for node in graph.nodes if (layer := find_layer(node)) is not None}
    users = _users(graph)
    paths_of = layer_paths(graph.nodes, layers, scopes, users)
    for order, node in enumerate(graph.nodes):
        layer = layers.get(node)
        if layer is None:
            items.append(Op(node, order))
        else:
            items.append(LayerCall(node, order, layer, paths_of.find(node, layer)))
    places = [(item, () if flat else _group_path(item, scopes)) for item in items]
    if not flat:
        paths = {item.node: path for item, path in places}
        paths = absorb(graph.nodes, paths, set(layers))
        paths = hoist(graph.nodes, paths, set(layers), set(graph.outputs))
        places = [(item, paths[item.node]) for item, _ in places]
    grouper = _Grouper(users, set(graph.outputs))
    body = grouper.group(places, ())
    _find_inside(body, (), paths_of)
    return Call((), body, 0, list(graph.inputs), list(graph.outputs))


def _find_inside(items: Iterable[Item], owner: Path, paths: LayerPaths) -> None:
    """Note the layers in branches and loops of the items of one class, which is at ``owner``."""
    for item in items:
        if isinstance(item, Call):
            _find_inside(item.items, item.path, paths)
        elif isinstance(item, Op):
            for node in _inner_nodes(item.node):
                layer = find_layer(node)
                if layer is not None:
                    path = paths.find_inside(node, layer, owner)
                    item.inside.append(LayerCall(node, item.order, layer, path))


def _inner_nodes(node: Node) -> Iterator[Node]:
    if node.operator in BRANCHING and not node.domain:
        for graph in node.subgraphs():
            for inner in graph.nodes:
                yield inner
                yield from _inner_nodes(inner)


def _users(graph: Graph) -> dict[Value, set[Node]]:
    users: dict[Value, set[Node]] = {}
    for node in graph.nodes:
        for value in uses(node):
            for each in leaves(value):
                users.setdefault(each, set()).add(node)
    return users


def _group_path(item: Op | LayerCall, scopes: Scopes) -> Path:
    return item.path[:-1] if isinstance(item, LayerCall) else scopes.of(item.node)


@dataclass(slots=True)
class _Grouper:
    users: dict[Value, set[Node]]
    results: set[Value]

    def group(self, places: Sequence[tuple[Op | LayerCall, Path]], prefix: Path) -> list[Item]:
        """The items below one path, with a ``Call`` for each class."""
        depth = len(prefix)
        own: list[Item] = []
        children: dict[str, list[tuple[Op | LayerCall, Path]]] = {}
        for item, path in places:
            if len(path) > depth:
                children.setdefault(path[depth], []).append((item, path))
            else:
                own.append(item)
        candidates: list[Call] = []
        for name, inside in children.items():
            path = (*prefix, name)
            items = self.group(inside, path)
            if _is_class(path, items):
                candidates.append(self._call(path, items))
            else:
                own += items
        return self._acyclic(own, candidates)

    def _call(self, path: Path, items: list[Item]) -> Call:
        given = {value for item in items for value in writes(item)}
        needed = dict.fromkeys(
            value for item in items for value in reads(item) if value not in given
        )
        inside = {node for item in items for node in nodes_of(item)}
        outputs = [
            value
            for item in items
            for value in writes(item)
            if value in self.results or self.users.get(value, set()) - inside
        ]
        order = min(item.order for item in items)
        return Call(path, items, order, list(needed), outputs)

    def _acyclic(self, own: list[Item], candidates: list[Call]) -> list[Item]:
        """All items in an order that works; a call that waits for itself is taken apart."""
        items: list[Item] = [*own, *candidates]
        while True:
            order, knotted = _order(items)
            if not knotted:
                return order
            items = [
                inner
                for item in items
                for inner in (item.items if isinstance(item, Call) and item in knotted else [item])
            ]


def _order(items: list[Item]) -> tuple[list[Item], set[Item]]:
    """Items sorted, by their place in the graph where that is free; and those that wait for each other."""
    givers = {value: item for item in items for value in writes(item)}
    links: nx.DiGraph = nx.DiGraph()
    links.add_nodes_from(items)
    for item in items:
        for value in reads(item):
            giver = givers.get(value)
            if giver is not None and giver is not item:
                links.add_edge(giver, item)
    knots = [part for part in nx.strongly_connected_components(links) if len(part) > 1]
    if knots:
        return [], set().union(*knots)
    return list(nx.lexicographical_topological_sort(links, key=lambda item: item.order)), set()


def _is_class(path: Path, items: Iterable[Item]) -> bool:
    """Whether the items of a scope are worth a class of their own."""
    items = list(items)
    if len(items) < 2 or not any(isinstance(item, (LayerCall, Call)) for item in items):
        return False
    if any(isinstance(item, Op) for item in items):
        return True
    names = {_below(item, path) for item in items}
    if all(is_place(name) for name in names):
        return False
    return len(items) > 2 or is_place(path[-1])


def _below(item: Item, path: Path) -> str:
    """The first attribute below ``path`` on the way to a layer or module."""
    return (
        item.path[len(path)]
        if isinstance(item, (LayerCall, Call)) and len(item.path) > len(path)
        else ""
    )
