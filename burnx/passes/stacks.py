"""Stacks: queries, keys and values that one layer computes and that are then taken apart.

    x.reshape(batch, seq, 3, 12, 64).transpose(2, 0, 3, 1, 4) and then its parts 0, 1 and 2

are the thirds of the last axis of ``x``, each split into heads.
"""

from __future__ import annotations

from burnx.graph import Node, Value
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match, rewrite
from burnx.passes.views import (
    MOVING,
    Axis,
    View,
    arrange,
    base_groups,
    group_sizes,
    reshaped,
    shape_of,
    view_of,
)


@rewrite("Gather", "Squeeze")
def split_stack(node: Node, match: Match) -> Value | None:
    """moved(x)[0], moved(x)[1], … = moved(part) for part in split(x)"""
    taken = _taken(node)
    if taken is None:
        return None
    stack, axis, _ = taken
    view = view_of(stack, match.enter)
    if view is None or not view.nodes:
        return None
    parts = _parts(match, stack, axis)
    if parts is None or len(view.groups[axis]) != 1 or view.groups[axis][0].size != len(parts):
        return None
    if not all(_feeds_attention(match, part) for part in parts):
        return None
    pieces = _split(match, view, view.groups[axis][0])
    if pieces is None:
        return None
    order = tuple(each for each in view.order if each is not view.groups[axis][0])
    groups = tuple(group for place, group in enumerate(view.groups) if place != axis)
    made = [arrange(match, View(piece, order, groups), groups) for piece in pieces]
    if any(
        new is None or new.type != old.outputs[0].type for old, new in zip(parts, made, strict=True)
    ):
        return None
    for old, new in zip(parts, made, strict=True):
        if old is not node and new is not None:
            match.editor.replace(old.outputs[0], new)
            match.editor.remove(old)
    return made[parts.index(node)]


def _taken(node: Node) -> tuple[Value, int, int] | None:
    """The stack that a node takes one part of, its axis and the place of the part."""
    source, choice = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if source is None or node.domain or choice is None or choice.array is None:
        return None
    if node.operator == "Gather":
        rank = len(shape_of(source) or ())
        index = scalar(choice)
        if not rank or index is None or choice.array.ndim:
            return None
        return source, int(node.attributes.get("axis", 0)) % rank, int(index)
    part = source.producer
    if node.operator != "Squeeze" or part is None or part.operator != "Slice" or part.domain:
        return None
    stack, rank = part.inputs[0], len(shape_of(source) or ())
    numbers = [scalar(each) for each in part.inputs[1:]]
    if stack is None or len(numbers) < 3 or None in numbers or choice.array.size != 1:
        return None
    start, end, axis, *_ = (int(each) for each in numbers if each is not None)
    squeezed = int(choice.array.reshape(-1)[0]) % rank
    is_one = axis % rank == squeezed and (shape_of(source) or ())[squeezed] == 1
    return (stack, squeezed, start) if is_one and end == start + 1 else None


def _parts(match: Match, stack: Value, axis: int) -> list[Node] | None:
    """The nodes that take the parts of a stack, if they take each just once and nothing else reads it."""
    if match.editor.results.get(stack):
        return None
    found: dict[int, Node] = {}
    readers = list(match.editor.users.get(stack, {}))
    for reader in readers:
        if reader.operator == "Slice":
            after = match.editor.users.get(reader.outputs[0], {})
            if len(after) != 1 or match.editor.results.get(reader.outputs[0]):
                return None
            (reader,) = after
        taken = _taken(reader)
        if taken is None or taken[0] is not stack or taken[1] != axis:
            return None
        found[taken[2] % len(readers)] = reader
    return [found[place] for place in range(len(readers))] if len(found) == len(readers) else None


def _feeds_attention(match: Match, node: Node) -> bool:
    """Whether moves alone lead from a node to one attention."""
    while True:
        readers = match.editor.users.get(node.outputs[0], {})
        if len(readers) != 1 or match.editor.results.get(node.outputs[0]):
            return False
        (node,) = readers
        if node.operator == "Attention" and not node.domain:
            return True
        if node.operator not in MOVING or node.domain:
            return False


def _split(match: Match, view: View, stacked: Axis) -> list[Value] | None:
    """The base of a view in as many pieces as an axis has places."""
    base, place = view.base, view.order.index(stacked)
    dims = base_groups(view)
    if dims is None:
        return None
    at = next(number for number, group in enumerate(dims) if stacked in group)
    lead, rest = view.order[:place], dims[at][dims[at].index(stacked) :]
    own = tuple(axis for axis in dims[at] if axis in lead)
    if own:
        dims = (*dims[:at], own, rest, *dims[at + 1 :])
        at += 1
        found = reshaped(match, base, group_sizes(dims))
        if found is None:
            return None
        base = found
    count = int(stacked.size) if isinstance(stacked.size, int) else 0
    axis = at - len(dims) if at == len(dims) - 1 else at
    return match.put_all("Split", base, outputs=count, axis=axis) or None
