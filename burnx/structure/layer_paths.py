"""Which attribute each layer is: by the names of its weights, else by the scope of its node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnx.graph import Node, Value, uses
from burnx.structure.layer_reading import Layer
from burnx.structure.layer_roles import layer_roles
from burnx.structure.layers import layer_word
from burnx.structure.paths import is_place, snake_case, split_weight
from burnx.structure.rounding_roles import rounding_roles
from burnx.structure.scopes import Path, Scopes, common_path

# what tools that quantize append to the name of a weight
_STORED = re.compile(r"_(q|quantized|scales?|zero_points?|Q\d|qweight)$")
_MANNER = re.compile(r"^(Dynamic)?Quant|^QLinear|^Integer|NBits$")


@dataclass(slots=True)
class LayerPaths:
    """The paths of the layers of a graph as they are found; ``users`` says which nodes read a value.

    ``crowds`` counts the layers of each scope, ``inside`` all nodes in it and below it; ``doors`` are layers that round
    what a block of a list takes, as all of its list do, and the blocks; ``lodgers`` layers that had lost their scope;
    ``roles`` what layers are for, as far as the graph tells.
    """

    scopes: Scopes
    users: Mapping[Value, set[Node]]
    crowds: Counter[Path] = field(default_factory=Counter)
    inside: Counter[Path] = field(default_factory=Counter)
    doors: dict[Node, Path] = field(default_factory=dict)
    lodgers: set[Node] = field(default_factory=set)
    roles: Mapping[Node, str] = field(default_factory=dict)
    made: dict[Node, Path] = field(default_factory=dict)
    taken: dict[Path, tuple[object, ...]] = field(default_factory=dict)
    above: set[Path] = field(default_factory=set)

    def find(self, node: Node, layer: Layer) -> Path:
        """The path of the next layer, in the order of the graph."""
        path = self._free(layer, self._wanted(node, layer))
        self.made[node] = path
        return path

    def find_inside(self, node: Node, layer: Layer, owner: Path) -> Path:
        """The path of a layer in a branch or loop of the class at ``owner``: its nodes have no scopes."""
        wanted = self.by_weights(layer, ()) or self._by_prefix(layer)
        if len(wanted) <= len(owner) or wanted[: len(owner)] != owner:
            wanted = (*owner, layer.word or layer_base(layer.kind))
        path = self._free(layer, wanted)
        self.made[node] = path
        return path

    def _by_prefix(self, layer: Layer) -> Path:
        """The module that a weight's name says, whatever the weight is called there."""
        weight = layer.fields.get("weight")
        if weight is None or "::" in weight.name or "/" in weight.name:
            return ()
        prefix, leaf = self.scopes.split(weight.name)
        part = leaf.removeprefix("weight_")
        is_part = prefix and part != leaf and "recurrence" not in layer.fields
        return (*prefix, part) if is_part else prefix

    def _wanted(self, node: Node, layer: Layer) -> Path:
        scope = self.scopes.of(node)
        if layer.word:
            return scope if self.is_alone(node, layer) else self._within(node, layer)
        named = self.by_weights(layer, scope)
        if named:
            return named
        base = self.roles.get(node) or layer_base(layer.kind)
        if not scope:
            return (base,)
        is_own = self.crowds[scope] == 1 and node not in self.lodgers
        return scope if is_own else (*scope, base)

    def is_alone(self, node: Node, layer: Layer) -> bool:
        """Whether a layer without a name is all there is in its scope."""
        scope = self.scopes.of(node)
        return bool(scope) and self.inside[scope] == 1 and layer.kind != "FakeQuantize"

    def _within(self, node: Node, layer: Layer) -> Path:
        """In its scope, by its own word; what rounds the result of another layer stands beside that one."""
        value, scope = layer.inputs[0], self.scopes.of(node)
        giver = None if value is None else value.producer
        if layer.kind != "FakeQuantize":
            return (*scope, layer.word)
        if node in self.roles:
            return (*scope, self.roles[node])
        if giver is None:
            return (layer.word,)
        if node in self.doors:
            return (*self.doors[node], layer.word)
        path = self.made.get(giver)
        if path is not None:
            return (*path[:-1], f"{path[-1]}_{layer.word}")
        return (*scope, f"{snake_case(giver.operator)}_{layer.word}")

    def by_weights(self, layer: Layer, scope: Path) -> Path:
        """What the name of a weight says that is this layer's alone; () if it says nothing."""
        names = [
            self.scopes.split(value.name)
            for value in layer.fields.values()
            if "::" not in value.name and (not scope or len(self.users.get(value, ())) <= 1)
        ]
        for prefix, leaf in names:
            is_plain = "/" not in prefix[0] if prefix else False
            bare = _STORED.sub("", leaf) if is_plain else leaf
            if prefix and bare in layer.fields:
                return prefix
        weight = layer.fields.get("weight")
        is_own = weight is not None and (not scope or len(self.users.get(weight, ())) <= 1)
        return (
            self.scopes.settle(split_weight(weight.name)) if weight is not None and is_own else ()
        )

    def _free(self, layer: Layer, wanted: Path) -> Path:
        """The wanted path, or one like it that no other layer has; equal layers are one."""
        identity = (layer.kind, layer.args, str(layer.options), *layer.fields.values())
        if wanted in self.above:  # it holds other layers
            wanted = (*wanted, layer_base(layer.kind))
        for length in range(1, len(wanted)):
            if wanted[:length] in self.taken:  # a layer holds no other
                wanted = (*wanted[: length - 1], "_".join(wanted[length - 1 :]))
                break
        path, number = wanted, 1
        while self.taken.get(path, identity) != identity or self._is_blocked(path):
            number += 1
            path = (*wanted[:-1], f"{wanted[-1]}_{number}")
            if number > len(self.taken) + 2:
                path = (f"{'_'.join(wanted)}_{number}",)
        self.taken[path] = identity
        self.above.update(path[:length] for length in range(1, len(path)))
        return path

    def _is_blocked(self, path: Path) -> bool:
        """Whether a path lies below a layer, or above one."""
        below = any(path[:length] in self.taken for length in range(1, len(path)))
        return below or path in self.above


def layer_paths(
    nodes: Sequence[Node],
    layers: Mapping[Node, Layer],
    scopes: Scopes,
    users: Mapping[Value, set[Node]],
) -> LayerPaths:
    """What the paths of layers follow from; layers that lost their scope are given the block of a list around them."""
    roles = layer_roles(nodes, layers, users) | rounding_roles(nodes, users)
    found = LayerPaths(scopes, users, roles=roles)
    for node in nodes:
        layer = layers.get(node)
        if layer is None or layer.word or scopes.of(node) or found.by_weights(layer, ()):
            continue
        lodging = _between(node, layers, found)
        if any(map(is_place, lodging)):
            scopes.paths[node] = lodging
            found.lodgers.add(node)
    rounding = [node for node in nodes if node in layers and layers[node].kind == "FakeQuantize"]
    found.doors = _doors(rounding, nodes, found)
    found.crowds.update(scopes.of(node) for node, each in layers.items() if not each.word)
    for node in nodes:
        path = scopes.of(node)
        found.inside.update(path[:length] for length in range(1, len(path) + 1))
    return found


def _between(node: Node, layers: Mapping[Node, Layer], found: LayerPaths) -> Path:
    """The module that both what a node reads and what reads it belong to."""
    readers = {each for value in node.outputs for each in found.users.get(value, ())}
    givers = {value.producer for value in uses(node) if value.producer is not None}
    if not readers or not givers:
        return ()
    around: list[Path] = []
    for each in (*readers, *givers):
        scope = found.scopes.of(each)
        # the scope of a layer is the layer itself
        is_own = each in layers and each not in found.lodgers
        around += [scope[:-1] if is_own else scope] if scope else []
    return common_path(around) if around else ()


def _doors(rounding: Sequence[Node], nodes: Sequence[Node], found: LayerPaths) -> dict[Node, Path]:
    """What rounds the input of a block, where that happens to all blocks of a list: they are alike then."""
    entered: dict[Path, dict[Path, Node]] = {}
    for node in rounding:
        block = _entered(node, found)
        if block:
            entered.setdefault(block[:-1], {})[block] = node
    doors: dict[Node, Path] = {}
    for path, blocks in entered.items():
        scopes = (found.scopes.of(node)[: len(path) + 1] for node in nodes)
        every = {scope for scope in scopes if scope[:-1] == path and len(scope) > len(path)}
        if every == blocks.keys() and len(every) > 1:
            doors |= {node: block for block, node in blocks.items()}
    return doors


def _entered(node: Node, found: LayerPaths) -> Path:
    """The block of a list that all readers of a value are in, and what gives it is not; () if there is none."""
    readers = [each for value in node.outputs for each in found.users.get(value, ())]
    giver = node.inputs[0].producer if node.inputs[0] is not None else None
    if not readers or giver is None:
        return ()
    inside, outside = (
        common_path([found.scopes.of(each) for each in readers]),
        found.scopes.of(giver),
    )
    for length in range(1, len(inside) + 1):
        if is_place(inside[length - 1]) and inside[:length] != outside[:length]:
            return inside[:length]
    return ()


def layer_base(kind: str) -> str:
    """What a layer is called that nothing else names."""
    return layer_word(_MANNER.sub("", kind) or kind)
