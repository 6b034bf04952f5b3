"""Shape arithmetic: chains of Shape, Gather, Concat and their kin become the sizes they stand for."""

from __future__ import annotations

import numpy as np

from burnx.dtype import int64
from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.cleaning import scope_of
from burnx.passes.editing import Editor, edit
from burnx.shape import Expr, Shape, symbol, symbol_name, symbols
from burnx.types import TensorType

Home = tuple[Value, int]
Homes = dict[str, Home]


def resolve_shapes(graph: Graph) -> int:
    """Replace what shape arithmetic gives to other nodes by Sizes nodes; how many values that were."""
    editor = edit(graph)
    return _resolve(editor, graph, {})


def _resolve(editor: Editor, graph: Graph, around: Homes) -> int:
    """Go through a graph in order, so that a size is only read where it is there already."""
    homes = dict(around)
    for value in graph.inputs:
        _settle(value, homes)
    changes, kept = 0, []
    for node in graph.nodes:
        if node in editor.removed:
            continue
        changes += sum(_resolve(editor, inner, homes) for inner in node.subgraphs())
        for value in node.outputs if node.operator != "Sizes" else ():
            if _is_wanted(value, node, editor):
                changes += _spell(value, node, editor, homes)
        kept.extend(editor.made)
        editor.made.clear()
        kept.append(node)
        for value in node.outputs:
            _settle(value, homes)
    graph.nodes = [node for node in kept if node not in editor.removed]
    return changes


def _settle(value: Value, homes: Homes) -> None:
    """Remember where the sizes of a value can be read."""
    if isinstance(value.type, TensorType):
        for axis, dim in enumerate(value.type.shape or ()):
            name = symbol_name(dim)
            if name is not None:
                homes.setdefault(name, (value, axis))


def dims_of(value: Value) -> Shape | None:
    """The sizes that an int64 scalar or vector holds, if some of them are symbolic."""
    known, kind = value.known, value.type
    if known is None or known.dtype != object or known.ndim > 1:
        return None
    if not isinstance(kind, TensorType) or kind.dtype != int64:
        return None
    dims: Shape = tuple(item if isinstance(item, Expr) else int(item) for item in known.flat)
    return dims if any(isinstance(dim, Expr) for dim in dims) else None


def _is_arithmetic(node: Node) -> bool:
    """Whether all that a node gives are sizes, so that the node goes when its readers do."""
    return all(dims_of(value) is not None for value in node.outputs)


def _is_wanted(value: Value, node: Node, editor: Editor) -> bool:
    """Whether a value ends a chain of shape arithmetic."""
    if dims_of(value) is None:
        return False
    if any(not _is_arithmetic(reader) for reader in editor.users.get(value, {})):
        return True
    return bool(editor.results.get(value)) and node.operator != "Shape"


def _spell(value: Value, node: Node, editor: Editor, homes: Homes) -> int:
    """Put a Sizes node in the place of a value for each module that reads it, if every symbol can be read somewhere."""
    dims = dims_of(value)
    assert dims is not None
    names = {name for dim in dims for name in symbols(dim)}
    if not names <= homes.keys():
        return 0
    readers: dict[str, list[Node]] = {}
    for reader in editor.users.get(value, {}):
        readers.setdefault(scope_of(reader), []).append(reader)
    graph = editor.owner[node]
    changes = 0
    for group in readers.values():
        own = [reader for reader in group if editor.owner[reader] is graph]
        made = _sizes(value, own[0] if own else node, editor, _reading(dims, homes))
        if made is not None:
            editor.redirect(value, made, group)
            changes = 1
    if editor.results.get(value):
        made = _sizes(value, node, editor, _reading(dims, homes))
        if made is not None:
            editor.replace(value, made)
            changes = 1
    editor.remove(node)
    return changes


def _sizes(value: Value, like: Node, editor: Editor, reading: Reading) -> Value | None:
    """What a Sizes node gives for a value, as a scalar if the value is one."""
    assert value.known is not None
    made = editor.make("Sizes", *reading, like, "burnx")
    if made is None:
        return None
    result = made.outputs[0]
    if value.known.ndim == 0:
        axes = constant_value(np.array([0], np.int64))
        squeezed = editor.make("Squeeze", [result, axes], {}, like)
        if squeezed is None:
            return None
        result = squeezed.outputs[0]
    result.type, result.known = value.type, value.known
    return result


Reading = tuple[list[Value | None], dict[str, object]]


def _reading(dims: Shape, homes: Homes) -> Reading:
    """The inputs and attributes of the Sizes node for some dimensions."""
    places: dict[Value, int] = {}
    sources: dict[str, str] = {}
    for name in sorted({name for dim in dims for name in symbols(dim)}):
        value, axis = homes[name]
        place = places.setdefault(value, len(places))
        sources[name] = str(symbol(f"{place}.{axis}"))
    return list(places), {"dims": dims, "sources": sources}
