"""Movement: chains of Reshape, Transpose and their kin as the fewest that do the same.

A linear layer works on the last axis alone, so what only regroups the axes before it may come after it as well, and
often goes together with what undoes it there.
"""

from __future__ import annotations

from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import MOVING, View, added_axes, arrange, flat, reshaped, shape_of, view_of

ROUNDS = 4  # a round may bring together what the next one merges
_PLACING = frozenset({"Squeeze", "Unsqueeze"})


@rewrite("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
def _merge_moves(node: Node, match: Match) -> Value | None:
    """a chain that moves axes = the shortest one that moves them alike"""
    view = view_of(node.outputs[0], match.enter)
    if view is None or any(axis.is_spread for axis in flat(view.groups)):
        return None
    between = view.nodes[1:]
    if not all(match.editor.is_only_used_by(each.outputs[0], set(view.nodes)) for each in between):
        return _unmoved(view, node)
    if len({each.operator for each in view.nodes}) == 1 and node.operator in _PLACING:
        return _merge_placing(view, node, match) if between else None
    is_still = flat(view.groups) == view.order
    if is_still and any(each.operator == "Transpose" for each in view.nodes):
        return _unmoved(view, node)  # blocks that move axes of other sizes stay alike
    before = len(match.editor.made)
    made = arrange(match, view, view.groups)
    moves = [each for each in match.editor.made[before:] if each.operator != "Sizes"]
    if made is None or len(moves) >= len(view.nodes) or made.type != node.outputs[0].type:
        return None
    return made


def _unmoved(view: View, node: Node) -> Value | None:
    """The base, if the chain gives what it began with."""
    is_same = flat(view.groups) == view.order and view.base.type == node.outputs[0].type
    return view.base if is_same else None


def _merge_placing(view: View, node: Node, match: Match) -> Value | None:
    """One Unsqueeze or Squeeze for several."""
    source, shape = shape_of(view.base), shape_of(node.outputs[0])
    larger, smaller = (shape, source) if node.operator == "Unsqueeze" else (source, shape)
    axes = None if larger is None or smaller is None else added_axes(larger, smaller)
    if axes is None:
        return None
    return match.make(node.operator, view.base, constant_value(axes))


@rewrite("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten")
def _delay_moves(node: Node, match: Match) -> Value | None:
    """move(linear(regroup(x))) = move(regroup(linear(x))), where little is left of both moves"""
    layer = match.inner(node.inputs[0], "Linear", "burnx")
    source = None if layer is None else layer.inputs[0]
    view = None if source is None else view_of(source, match.enter)
    if layer is None or source is None or view is None or not view.nodes:
        return None
    x, axes = view.base, shape_of(view.base)
    if not axes or flat(view.groups) != view.order or axes[-1] != (shape_of(source) or ())[-1]:
        return None
    if not match.editor.is_only_used_by(source, {layer}) or axes[-1] == 1:
        return None
    made = match.put_all("Linear", x, *layer.inputs[1:], domain="burnx", like=layer)
    if len(axes) != len(view.groups) and not _undoes(match, node, made):
        return None
    regrouped = reshaped(match, made[0], shape_of(layer.outputs[0]) or ()) if made else None
    if regrouped is None:
        return None
    return match.make(node.operator, regrouped, *node.inputs[1:], **node.attributes)


@rewrite("Reshape")
def _unflatten(node: Node, match: Match) -> Value | None:
    """reshape(softmax(flatten(x)), shape of x) = softmax(x), where all axes but the last were one"""
    inner = match.inner(node.inputs[0], "Softmax") or match.inner(node.inputs[0], "LogSoftmax")
    source = None if inner is None else inner.inputs[0]
    view = None if source is None else view_of(source, match.enter)
    if inner is None or view is None or not view.nodes or flat(view.groups) != view.order:
        return None
    rank, shape = len(view.groups), shape_of(view.base) or (1,)
    if int(inner.attributes.get("axis", -1)) not in (-1, rank - 1) or shape[-1] == 1:
        return None
    if len(view.groups[-1]) != 1 or view.groups[-1][0].size != shape[-1]:
        return None
    if view.base.type != node.outputs[0].type:
        return None
    return match.make(inner.operator, view.base, like=inner, axis=-1)


def _undoes(match: Match, node: Node, made: list[Value]) -> bool:
    """Whether moves from a node on give the shape of what a layer makes of axes that were not regrouped."""
    while made and node.outputs[0].type != made[0].type:
        readers = match.editor.users.get(node.outputs[0], {})
        if len(readers) != 1 or match.editor.results.get(node.outputs[0]):
            return False
        (node,) = readers
        if node.operator not in MOVING or node.domain:
            return False
    return bool(made)


def merge_moves(graph: Graph) -> int:
    total = 0
    for _ in range(ROUNDS):
        changes = rewrite_graph(graph, _delay_moves, _unflatten, _merge_moves)
        total += changes
        if not changes:
            break
    return total
