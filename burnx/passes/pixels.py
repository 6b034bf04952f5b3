"""Pixels: channels that are spread over the places of an image, as sub-pixel convolution does it."""

from __future__ import annotations

from typing import Any

from burnx.graph import Graph, Node, Value
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import Group, shape_of, view_of
from burnx.shape import Shape


@rewrite("Reshape")
def _pixel_shuffle(node: Node, match: Match) -> Value | None:
    """x (b, c r r, h, w) as (b, c, r, r, h, w), moved to (b, c, h r, w r) = depth_to_space(x, r)"""
    view = view_of(node.outputs[0], match.enter)
    if view is None or len(view.nodes) < 3 or len(view.groups) != 4:
        return None
    if not match.is_inner(view.nodes):
        return None
    source, result = shape_of(view.base), shape_of(node.outputs[0])
    if source is None or result is None or len(source) != 4:
        return None
    batch, channels, rows, columns = view.groups
    if not rows or not columns or rows[-1].size != columns[-1].size:
        return None
    size = rows[-1].size
    if not isinstance(size, int) or size < 2 or (source[2] == 1) != (len(rows) == 1):
        return None
    places = {"CRD": (*channels, rows[-1], columns[-1]), "DCR": (rows[-1], columns[-1], *channels)}
    for mode, depth in places.items():
        wanted: Group = (*batch, *depth, *rows[:-1], *columns[:-1])
        if view.order == wanted and _fits(source, result, size):
            given: dict[str, Any] = {} if mode == "DCR" else {"mode": mode}
            return match.make("DepthToSpace", view.base, blocksize=size, **given)
    return None


def _fits(source: Shape, result: Shape, size: int) -> bool:
    """Whether each side grows by ``size``."""
    grown = [dim * size for dim in source[2:]]
    return source[0] == result[0] and grown == list(result[2:])


def lift_pixel_shuffle(graph: Graph) -> int:
    return rewrite_graph(graph, _pixel_shuffle)
