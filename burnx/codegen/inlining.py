"""Which values are written in place of a variable: those used once, close by, and short enough to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from burnx.codegen.constants import FLOW
from burnx.graph import Node, Value
from burnx.ops import find
from burnx.structure.sizes import is_size, is_sizes, leaves
from burnx.structure.tree import Call, Item, LayerCall, Op, reads, writes

NEAR = 2
DEPTH = 3
LENGTH = 60
MANY = 3  # so many operands at most tell how long a call reads, so that blocks with more and more of them are alike


def arguments(item: Item) -> list[Value]:
    """What an item reads, once for each time it stands there; sizes by the tensors they are sizes of."""
    if isinstance(item, Op) and item.node.operator not in FLOW:
        values = [value for value in item.node.inputs if value is not None]
    elif isinstance(item, LayerCall):
        values = [value for value in item.layer.inputs if value is not None]
    elif isinstance(item, Call):
        values = item.inputs
    else:
        values = reads(item)
    return [leaf for value in values for leaf in leaves(value)]


def count_uses(items: Sequence[Item], results: Sequence[Value]) -> Counter[Value]:
    """How often each value is read."""
    uses: Counter[Value] = Counter()
    for item in items:
        if not is_macro(item):
            uses.update(arguments(item))
    for value in results:
        uses.update(leaves(value))
    return uses


def is_macro(item: Item) -> bool:
    """Whether an item is no statement of its own, but written wherever its result is used."""
    return isinstance(item, Op) and (is_sizes(item.node) or is_size(item.node))


def inlined(
    items: Sequence[Item], uses: Counter[Value], results: Sequence[Value], looped: set[Value]
) -> dict[Value, Item]:
    """The values that are written in place, with the item that gives each; never those of loops."""
    plain = [item for item in items if not is_macro(item)]
    consumer = {value: place for place, item in enumerate(plain) for value in _places(item)}
    found: dict[Value, Item] = {}
    depth: dict[Value, int] = {}
    length: dict[Value, int] = {}
    last = len(plain)
    for place, item in enumerate(plain):
        outputs = writes(item)
        is_flow = isinstance(item, Op) and item.node.operator in FLOW
        if (
            is_flow
            or len(outputs) != 1
            or outputs[0] in looped
            or (isinstance(item, Op) and _gives_tuple(item.node))
        ):
            continue
        (value,) = outputs
        inside = [each for each in arguments(item) if each in found]
        deep = 1 + max((depth[each] for each in inside), default=0)
        long = _length(item) + sum(length[each] for each in inside)
        near = consumer.get(value, last if value in results else -1)
        if uses[value] == 1 and 0 < near - place <= NEAR and deep <= DEPTH and long <= LENGTH:
            found[value], depth[value], length[value] = item, deep, long
    return found


def _places(item: Item) -> list[Value]:
    """What an item reads where an expression may stand: graphs inside of it see variables only."""
    if not (isinstance(item, Op) and item.node.operator in FLOW):
        return arguments(item)
    given = [value for value in item.node.inputs if value is not None]
    captured = {value for graph in item.node.subgraphs() for value in graph.captures()}
    return [value for value in given if value not in captured and given.count(value) == 1]


def _gives_tuple(node: Node) -> bool:
    """Whether the call of an operator gives a tuple even of one."""
    return find(node.domain, node.operator).is_variadic


def _length(item: Item) -> int:
    """About how many characters an item takes without what is written in place inside it."""
    if isinstance(item, Call):
        return 7 + sum(len(part) + 1 for part in item.path[-2:]) + 6 * len(item.inputs)
    if isinstance(item, LayerCall):
        return 7 + sum(len(part) + 1 for part in item.path[-2:])
    given = min(sum(1 for value in item.node.inputs if value is not None), MANY)
    return len(item.node.operator) + 5 + 6 * given + 14 * len(item.node.attributes)
