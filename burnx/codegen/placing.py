"""Where every constant stands: which attribute of which module it is, and what it is called there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from burnx.codegen.attributes import kept_attributes
from burnx.codegen.names import Names
from burnx.graph import Graph, Node, Value
from burnx.structure.layers import layer_word
from burnx.structure.paths import is_place
from burnx.structure.scopes import Path, Scopes, common_path
from burnx.structure.tree import Call, Item, LayerCall, Op, with_inside

_NUMBERED = re.compile(r"^(val|tmp|const|constant|t|v)?_?\d+$|_output_\d+$", re.IGNORECASE)
# what modules have already, and may not be called
RESERVED = frozenset(
    {
        "append",
        "children",
        "forward",
        "inputs",
        "load",
        "load_weights",
        "named_modules",
        "named_parameters",
        "outputs",
        "parameters",
        "save_weights",
        "to",
    }
)


@dataclass(slots=True)
class Places:
    """The attribute path of every constant, by the model's own words and as legal names.

    ``attributes`` gives the legal name of each path; digits stay, as an index into a ``ModuleList``.  ``ties`` are
    further paths of constants that several layers share.
    """

    constants: dict[Value, Path] = field(default_factory=dict)
    ties: dict[Path, Value] = field(default_factory=dict)
    attributes: dict[Path, str] = field(default_factory=dict)
    lists: set[Path] = field(default_factory=set)

    def legal(self, path: Path) -> tuple[str, ...]:
        """A path in legal attribute names."""
        return tuple(self.attributes[path[: length + 1]] for length in range(len(path)))


def constants_of(node: Node) -> Iterator[Value]:
    """The constants a node reads, those that its subgraphs read included."""
    for value in node.inputs:
        if value is not None and value.is_constant:
            yield value
    yield from (value for _, value in kept_attributes(node))
    for graph in node.subgraphs():
        yield from _inside(graph)


def _inside(graph: Graph) -> Iterator[Value]:
    for node in graph.nodes:
        yield from constants_of(node)
    yield from (value for value in graph.outputs if value.is_constant)


def place_constants(
    root: Call, kept: set[Value], scopes: Scopes, extra: Iterable[Value] = ()
) -> Places:
    """Give each constant of ``kept`` a place: in its layer, else near those who use it.

    ``extra`` are constants that the model's own class needs.
    """
    places = Places()
    users: dict[Value, list[Path]] = {value: [()] for value in extra}
    taken: dict[Path, object] = {}
    for item, owner in _walk(root, ()):
        if isinstance(item, LayerCall):
            for name, value in item.layer.fields.items():
                path = (*item.path, name)
                if places.constants.setdefault(value, path) != path:
                    places.ties[path] = value
                taken[path] = value
            taken.setdefault(item.path, item)
            for given in item.layer.inputs:
                if given is not None and given.is_constant:
                    users.setdefault(given, []).append(owner)
        elif isinstance(item, Call):
            taken.setdefault(item.path, item)
        else:
            for value in constants_of(item.node):
                users.setdefault(value, []).append(owner)
    for value, owners in users.items():
        if value in kept and value not in places.constants:
            path = _free(_wanted(value, common_path(owners), scopes), taken)
            places.constants[value] = path
            taken[path] = value
    _name(places, root)
    return places


def _walk(call: Call, owner: Path) -> Iterator[tuple[Item, Path]]:
    for item in with_inside(call.items):
        yield item, owner
        if isinstance(item, Call):
            yield from _walk(item, item.path)


def _wanted(value: Value, owner: Path, scopes: Scopes) -> Path:
    prefix, leaf = scopes.split(value.name) if not _is_made_up(value.name) else ((), "")
    if prefix and prefix[: len(owner)] == owner:
        return (*prefix, leaf)
    return (*owner, leaf or "constant")


def _is_made_up(name: str) -> bool:
    """Whether a constant has no name of its own, but one that an exporter made of a node's."""
    return "::" in name or "/" in name or _NUMBERED.search(name) is not None


def _free(path: Path, taken: dict[Path, object]) -> Path:
    """``path``, or one like it that is no attribute yet and lies below none that holds no others."""
    for length in range(1, len(path)):
        if isinstance(taken.get(path[:length]), (Value, LayerCall)):
            path = (*path[: length - 1], "_".join(path[length - 1 :]))
            break
    found, number = path, 1
    while found in taken:
        number += 1
        found = (*path[:-1], f"{path[-1]}_{number}")
    return found


def _name(places: Places, root: Call) -> None:
    """Choose the legal name of every attribute."""
    paths = [*places.constants.values(), *places.ties]
    paths += [item.path for item, _ in _walk(root, ()) if not isinstance(item, Op)]
    children: dict[Path, dict[str, None]] = {}
    for path in paths:
        for length in range(len(path)):
            children.setdefault(path[:length], {}).setdefault(path[length])
    kinds = {
        item.path: layer_word(item.layer.kind)
        for item, _ in _walk(root, ())
        if isinstance(item, LayerCall)
    }
    classes = {item.path for item, _ in _walk(root, ()) if isinstance(item, Call)} | {()}
    for parent, names in children.items():
        if parent not in classes and all(is_place(name) for name in names):
            places.lists.add(parent)
            places.attributes |= {(*parent, name): name for name in names}
            continue
        scope = Names(RESERVED)
        for name in names:
            word = name
            if is_place(name[:1]):
                kind = kinds.get((*parent, name))
                word = f"{kind or 'part'}_{name}" if kind is None or not is_place(name) else kind
            places.attributes[*parent, name] = scope.fresh(word)
