"""Lists whose modules are called one after the other and nowhere else: such a list is called as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from burnx.graph import Value
from burnx.structure.runs import inputs_of, takes_values
from burnx.structure.scopes import Path
from burnx.structure.tree import Call, Item, LayerCall, writes

Module = Call | LayerCall


def find_sequences(
    items: Sequence[Item], uses: Counter[Value], lists: Collection[Path], places: Collection[Path]
) -> tuple[list[Item], set[Path]]:
    """The items with one call in place of those of each such list, and the paths of these lists.

    ``lists`` are the paths of all lists, ``places`` those of all attributes.
    """
    found: set[Path] = set()
    left = list(items)
    for path in sorted(lists, key=len, reverse=True):
        size = sum(1 for each in places if each[:-1] == path)
        inside = [item for item in left if _is_element(item, path)]
        modules = _chain(inside, uses) if len(inside) == size else None
        if modules is None:
            continue
        first, last = modules[0], modules[-1]
        whole = Call(path, list(modules), last.order, inputs_of(first), writes(last))
        at = left.index(last)
        left = [whole if place == at else item for place, item in enumerate(left)]
        left = [item for item in left if item is whole or item not in modules]
        found.add(path)
    return left, found


def _is_element(item: Item, path: Path) -> bool:
    return isinstance(item, Call | LayerCall) and item.path[:-1] == path


def _chain(items: Sequence[Item], uses: Counter[Value]) -> list[Module] | None:
    """The modules in order, if each but the first takes just what the one before gives, which no other reads."""
    modules: list[Module] = []
    for item in items:
        if not takes_values(item) or len(inputs_of(item)) != 1 or len(writes(item)) != 1:
            return None
        if item.path[-1] != str(len(modules)) or (isinstance(item, Call) and item.gathers):
            return None
        if isinstance(item, LayerCall) and item.layer.outputs is not None:
            return None
        before = writes(modules[-1])[0] if modules else None
        if before is not None and (inputs_of(item)[0] is not before or uses[before] != 1):
            return None
        modules.append(item)
    return modules or None
