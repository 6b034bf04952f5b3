"""Targets: the shapes that values are brought to, as one would write them.

A number stands where the size is known, and -1 where it is a long formula beside numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.nearby import read_nearby
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import shape_of
from burnx.shape import Dim, Expr, Shape, symbol, symbol_name, symbols

KEPT = "#kept"  # followed by the axis whose size stays


@rewrite("Reshape")
def _settle_target(node: Node, match: Match) -> Value | None:
    """reshape(x, t) = reshape(x, shape of the result)"""
    x, target, dims = node.inputs[0], node.inputs[1], shape_of(node.outputs[0])
    if x is None or target is None or dims is None:
        return None
    if target.array is not None and _is_flat(shape_of(x), dims):
        return match.make("Flatten", x)
    if node.attributes.get("allowzero"):
        return None
    if target.array is not None:
        return _settled_constant(match, x, target, dims)
    sizes = target.producer
    if sizes is None or (sizes.domain, sizes.operator) != ("burnx", "Sizes"):
        return None
    given = sizes.attributes["dims"]
    wanted = _written(given, dims)
    if wanted is None or wanted == given:
        return None
    made = _sizes(match, sizes, wanted, x)
    return None if made is None else _reshape(match, x, made, node)


def _is_flat(before: Shape | None, after: Shape) -> bool:
    """Whether all axes but the first become one: what is said so holds for any size of the first."""
    if before is None or len(after) != 2 or len(before) < 3:
        return False
    return bool(
        before[0] == after[0] != 0 and all(isinstance(dim, int) for dim in (*before, *after))
    )


def _settled_constant(match: Match, x: Value, target: Value, dims: Shape) -> Value | None:
    numbers = [dim for dim in dims if isinstance(dim, int)]
    assert target.array is not None
    if len(numbers) != len(dims) or 0 in numbers or target.array.tolist() == numbers:
        return None
    return match.make("Reshape", x, constant_value(np.array(numbers, np.int64)))


def _written(given: Shape, dims: Shape) -> Shape | None:
    """The sizes with numbers where they are known, and -1 for the one that is none and no symbol either."""
    if len(given) != len(dims) or 0 in dims:
        return None
    long = [place for place, dim in enumerate(dims) if _is_long(dim)]
    wanted: list[Dim] = [
        dim if isinstance(dim, int) else own for own, dim in zip(given, dims, strict=True)
    ]
    kept = [place for place, dim in enumerate(wanted) if dim == 0]
    wanted = [
        symbol(f"{KEPT}{place}") if place in kept else dim for place, dim in enumerate(wanted)
    ]
    rest = [dim for place, dim in enumerate(dims) if place not in long]
    if len(long) == 1 and -1 not in wanted and all(isinstance(dim, int) for dim in rest):
        wanted[long[0]] = -1
    return tuple(wanted)


def _is_long(dim: Dim) -> bool:
    return isinstance(dim, Expr) and symbol_name(dim) is None


def _sizes(match: Match, sizes: Node, dims: Shape, x: Value) -> Value | None:
    """A vector of sizes that reads no more values than it needs."""
    names = {name for dim in dims for name in symbols(dim)}
    if not names:
        return constant_value(np.array(dims, np.int64))
    used: list[Value | None] = []
    sources: dict[str, Any] = {}
    places = [
        (name, sizes.inputs[int(place.split(".")[0])], place.split(".")[1])
        for name, place in sizes.attributes["sources"].items()
    ]
    kept = [(name, x, name.removeprefix(KEPT)) for name in sorted(names) if KEPT in name]
    for name, value, axis in (*places, *kept):
        if name in names:
            if value not in used:
                used.append(value)
            sources[name] = f"{used.index(value)}.{axis}"
    return match.put("Sizes", *used, domain="burnx", like=sizes, dims=dims, sources=sources)


def _reshape(match: Match, x: Value, target: Value, node: Node) -> Value | None:
    made = match.put("Reshape", x, target)
    if made is not None and shape_of(made) is not None:
        made.type = node.outputs[0].type  # -1 stands for a size that is known
    return made


def settle_targets(graph: Graph) -> int:
    return rewrite_graph(graph, _settle_target) + read_nearby(graph)
