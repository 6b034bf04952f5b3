"""Around attention: the splitting and joining of heads, the cache of keys and values, and masks of windows."""

from __future__ import annotations

from burnx.graph import Node, Value
from burnx.passes.rewriting import Match, rewrite
from burnx.passes.views import (
    Axis,
    Group,
    Groups,
    View,
    arrange,
    base_groups,
    flat,
    reshaped,
    shape_of,
    view_of,
)
from burnx.shape import Dim, Shape, product


# ------------------------------------------------------------------------------- masks of windows
@rewrite("Reshape")
def merge_masks(node: Node, match: Match) -> Value | None:
    """reshape(reshape(s, t) + mask, shape of s) = s + reshape(mask), where the mask fits the axes of s"""
    total = match.inner(node.inputs[0], "Add")
    for place in (0, 1):
        parted = None if total is None else _inner(match, total, place)
        if total is None or parted is None:
            continue
        source, mask = parted.inputs[0], total.inputs[1 - place]
        if source is None or mask is None or source.type != node.outputs[0].type:
            continue
        view = view_of(parted.outputs[0], {parted.outputs[0]: parted}.get)
        dims = None if view is None else _mask_sizes(view, shape_of(mask))
        made = None if dims is None else reshaped(match, mask, dims)
        if made is not None:
            return match.make("Add", source, made)
    return None


def _inner(match: Match, total: Node, place: int) -> Node | None:
    """The Reshape that gives an operand to a sum alone."""
    value = total.inputs[place]
    node = None if value is None else match.enter(value)
    if node is None or node.domain or node.operator != "Reshape":
        return None
    return node if match.editor.is_only_used_by(node.outputs[0], {total}) else None


def _mask_sizes(view: View, mask: Shape | None) -> Shape | None:
    """The shape of a mask over the axes of the base of a view, given that over its dimensions."""
    shape = shape_of(view.base)
    if mask is None or shape is None or len(mask) > len(view.groups):
        return None
    padded = (*[1] * (len(view.groups) - len(mask)), *mask)
    kept: set[Axis] = set()
    for dim, group in zip(padded, view.groups, strict=True):
        if dim != 1 and dim != product(axis.size for axis in group):
            return None
        if dim != 1:
            kept |= set(group)
    sizes: list[Dim] = []
    for dim, own in zip(shape, base_groups(view) or (), strict=True):
        if kept & set(own) and not set(own) <= kept:
            return None
        sizes.append(dim if kept & set(own) else 1)
    return tuple(sizes)


# ------------------------------------------------------------------------------- past
@rewrite("Attention")
def absorb_past(node: Node, match: Match) -> Value | None:
    """attention(q, concat(past_k, k), concat(past_v, v), mask) = attention(q, k, v, mask, past_k, past_v)"""
    if len(node.inputs) > 4 or len(node.outputs) > 1 or node.attributes.get("is_causal"):
        return None
    if "q_num_heads" in node.attributes:
        return None
    joined = [_joined(match, value) for value in node.inputs[1:3]]
    if joined[0] is None or joined[1] is None:
        return None
    (past_k, k), (past_v, v) = (each.inputs for each in joined if each is not None)
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    outputs = match.put_all(
        "Attention", node.inputs[0], k, v, mask, past_k, past_v, outputs=3, **node.attributes
    )
    concats = [each.outputs[0] for each in joined if each is not None]
    if not outputs or any(
        old.type != new.type for old, new in zip(concats, outputs[1:], strict=True)
    ):
        return None
    for old, new in zip(concats, outputs[1:], strict=True):
        match.editor.replace(old, new)
    return outputs[0]


def _joined(match: Match, value: Value | None) -> Node | None:
    """The Concat of two along the keys that gives a value to this node, and else only to the outputs of the graph."""
    node = None if value is None else match.enter(value)
    if node is None or value is None or node.domain or node.operator != "Concat":
        return None
    if len(node.inputs) != 2 or int(node.attributes["axis"]) not in (2, -2):
        return None
    graph = match.editor.owner[match.node]
    results = match.editor.results.get(value, [])
    is_own = set(match.editor.users.get(value, {})) == {match.node}
    return node if is_own and all(each is graph for each in results) else None


# ------------------------------------------------------------------------------- heads
@rewrite("Transpose", "Reshape")
def join_heads(node: Node, match: Match) -> Value | None:
    """join(attention(split(q), split(k), split(v))) = attention(q, k, v, q_num_heads)"""
    view = view_of(node.outputs[0], match.enter)
    inner = None if view is None else view.base.producer
    if view is None or inner is None or inner.domain or inner.operator != "Attention":
        return None
    if "q_num_heads" in inner.attributes or view.base is not inner.outputs[0]:
        return None
    between = {*view.nodes[1:], inner}
    if not all(match.editor.is_only_used_by(each.outputs[0], set(view.nodes)) for each in between):
        return None
    heads = base_groups(view)
    if (
        heads is None
        or len(heads) != 4
        or flat(view.groups) != (*heads[0], *heads[2], *heads[1], *heads[3])
    ):
        return None
    packed = [_packed(match, value) for value in inner.inputs[:3]]
    shapes = [shape_of(value) for value in inner.inputs[:2]]
    if any(value is None for value in packed) or shapes[0] is None or shapes[1] is None:
        return None
    q_heads, kv_heads = shapes[0][1], shapes[1][1]
    if not isinstance(q_heads, int) or not isinstance(kv_heads, int):
        return None
    outputs = match.put_all(
        "Attention",
        *packed,
        *inner.inputs[3:],
        outputs=len(inner.outputs),
        q_num_heads=q_heads,
        kv_num_heads=kv_heads,
        **inner.attributes,
    )
    if not outputs or any(
        a.type != b.type for a, b in zip(outputs[1:], inner.outputs[1:], strict=True)
    ):
        return None
    result = reshaped(match, outputs[0], shape_of(node.outputs[0]) or ())
    if result is None or result.type != node.outputs[0].type:
        return None
    for old, new in zip(inner.outputs[1:], outputs[1:], strict=True):
        match.editor.replace(old, new)
    return result


def _packed(match: Match, value: Value | None) -> Value | None:
    view = None if value is None else view_of(value, match.enter)
    if view is None or not view.nodes or len(view.groups) != 4:
        return None
    return packed(match, view, view.groups)


def packed(match: Match, view: View, groups: Groups) -> Value | None:
    """(batch, seq, heads * size) of what was split into (batch, heads, seq, size)"""
    batch, heads, seq, size = groups
    features = (*heads, *size)
    places = [view.order.index(axis) for axis in features if axis in view.order]
    if not places or len(places) != len(features):
        return None
    if places != list(range(places[0], places[0] + len(places))):
        return None
    return arrange(match, view, (batch, seq, features))


def unfolded(view: View, *, is_turned: bool) -> Groups | None:
    """(batch, heads, seq, size) of what is (batch * heads, seq, size), or with the last two turned."""
    if len(view.groups) != 3:
        return None
    folded, seq, size = view.groups
    if is_turned:
        seq, size = size, seq
    if not size or any(axis.is_spread for axis in (*folded, *seq, *size)):
        return None
    heads = _before(view, size[0])
    if not heads or heads != folded[-len(heads) :]:
        return None
    return folded[: -len(heads)], heads, seq, size


def _before(view: View, axis: Axis) -> Group:
    """The axes before one in its dimension of the base, or all of the dimension before that."""
    previous: Group = ()
    for group in base_groups(view) or ():
        if axis in group:
            return group[: group.index(axis)] or previous
        previous = group
    return ()
