"""Rotary embeddings that exporters spell out: pairs of features turned by the angles of their positions.

    x * cos + concat(-x[..., half:], x[..., :half]) * sin

where cosines and sines stand twice, once for each half.  The lifted operator reads them once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.heads import packed
from burnx.passes.patterns import Found, Number, OneOf, Op, Operand, Pattern
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.views import arrange, reshaped, scaled_by, shape_of, view_of
from burnx.shape import Shape
from burnx.types import TensorType

X, A, B, COS, SIN = (Operand(name) for name in ("x", "a", "b", "cos", "sin"))


def _minus(value: Pattern) -> Pattern:
    return OneOf(Op("Neg", value), Op("Mul", value, Number(-1.0)))


TURNED = Op("Concat", _minus(B), A, name="joined")
PAIRS = Op(
    "Reshape",
    Op("Concat", Op("Unsqueeze", _minus(B)), Op("Unsqueeze", A), name="joined"),
    name="flat",
)
WHOLE = Op("Add", Op("Mul", X, COS), Op("Mul", OneOf(TURNED, PAIRS), SIN))
PARTED = Op(
    "Concat",
    Op("Sub", Op("Mul", A, COS), Op("Mul", B, SIN)),
    Op("Add", Op("Mul", B, COS), Op("Mul", A, SIN)),
    name="joined",
)


@dataclass(slots=True)
class Angles:
    """The halves of cosines and sines, each made once."""

    halves: dict[Value, Value | None] = field(default_factory=dict)

    def half(self, match: Match, value: Value, interleaved: bool) -> Value | None:
        """One of each pair of equal numbers along the last axis."""
        known = self.halves.get(value)
        is_gone = known is not None and known.producer in match.editor.removed
        if value not in self.halves or is_gone:
            self.halves[value] = self._made(match, value, interleaved)
        return self.halves[value]

    def _made(self, match: Match, value: Value, interleaved: bool) -> Value | None:
        if value.array is not None:
            return _constant_half(value, interleaved)
        node = match.enter(value)
        if node is None or node.domain or not node.inputs or node.inputs[0] is None:
            return None
        if node.operator in ("Concat", "Reshape", "Expand"):
            return _doubled(node, match, interleaved)
        keeps = _KEEPING.get(node.operator)
        if keeps is None or not keeps(node):
            return None
        source = scaled_by(node)[0] if node.operator == "Mul" else node.inputs[0]  # type: ignore[index]
        half = self.half(match, source, interleaved)
        if half is None:
            return None
        inputs = [half if each is source else each for each in node.inputs]
        return match.put(node.operator, *inputs, like=node, **node.attributes)


def _constant_half(value: Value, interleaved: bool) -> Value | None:
    array = value.array
    if array is None or array.ndim == 0 or array.shape[-1] % 2:
        return None
    size = array.shape[-1] // 2
    first, second = (
        (array[..., ::2], array[..., 1::2])
        if interleaved
        else (array[..., :size], array[..., size:])
    )
    return constant_value(np.ascontiguousarray(first)) if (first == second).all() else None


def _doubled(node: Node, match: Match, interleaved: bool) -> Value | None:
    """f of concat(f, f), or of the f whose numbers stand twice in a row."""
    shape = shape_of(node.outputs[0]) or ()
    if not interleaved and node.operator == "Concat":
        axis = int(node.attributes["axis"])
        is_twice = len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
        return node.inputs[0] if is_twice and axis in (-1, len(shape) - 1) else None
    if not interleaved:
        return None
    view = view_of(node.outputs[0], match.enter)
    if view is None or not view.groups[-1] or not view.groups[-1][-1].is_spread:
        return None
    if view.groups[-1][-1].size != 2:
        return None
    return arrange(match, view, (*view.groups[:-1], view.groups[-1][:-1]))


def _is_row_choice(node: Node) -> bool:
    """Whether a Gather takes whole rows."""
    rank = len(shape_of(node.inputs[0]) or ())
    return rank > 1 and int(node.attributes.get("axis", 0)) % rank != rank - 1


def _is_row_slice(node: Node) -> bool:
    """Whether a Slice leaves the last axis alone."""
    before, after = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    axes = node.inputs[3].array if len(node.inputs) > 3 and node.inputs[3] is not None else None
    if before is None or after is None or axes is None:
        return False
    return all(int(axis) % len(before) != len(before) - 1 for axis in axes.reshape(-1))


def _is_new_axis_before(node: Node) -> bool:
    """Whether an Unsqueeze leaves the last axis the last."""
    shape = shape_of(node.outputs[0])
    axes = node.inputs[1].array if len(node.inputs) > 1 and node.inputs[1] is not None else None
    if shape is None or axes is None:
        return False
    return all(int(axis) % len(shape) != len(shape) - 1 for axis in axes.reshape(-1))


def _always(node: Node) -> bool:
    return True


# operators that do to each half what they do to the whole
_KEEPING: Mapping[str, Callable[[Node], bool]] = {
    "Cos": _always,
    "Sin": _always,
    "Cast": _always,
    "Identity": _always,
    "Mul": lambda node: scaled_by(node) is not None,
    "Gather": _is_row_choice,
    "Slice": _is_row_slice,
    "Unsqueeze": _is_new_axis_before,
}


# ------------------------------------------------------------------------------- the halves of x
def _half_of(value: Value) -> tuple[Value, int, bool] | None:
    """(x, 0 or 1, whether they alternate) where a value is a half of the last axis of x."""
    node = value.producer
    source = node.inputs[0] if node is not None and node.inputs else None
    shape = shape_of(source)
    if node is None or source is None or not shape or node.domain:
        return None
    size, own = shape[-1], (shape_of(value) or (0,))[-1]
    if not isinstance(size, int) or size % 2 or own != size // 2:
        return None
    if node.operator == "Split" and len(node.outputs) == 2:
        is_last = int(node.attributes.get("axis", 0)) in (-1, len(shape) - 1)
        return (source, node.outputs.index(value), False) if is_last else None
    return _sliced_half(node, source, size) if node.operator == "Slice" else None


def _sliced_half(node: Node, source: Value, size: int) -> tuple[Value, int, bool] | None:
    arrays = [None if each is None else each.array for each in node.inputs[1:]]
    rank = len(shape_of(source) or ())
    if any(array is None or array.size != 1 for array in arrays) or len(arrays) < 3:
        return None
    numbers = [int(array.reshape(())) for array in arrays if array is not None]
    start, _, axis, step = (*numbers, 1)[:4]
    if axis % rank != rank - 1:
        return None
    start = start + size if start < 0 else start
    if step == 2 and start in (0, 1):
        return source, start, True
    return (source, int(start > 0), False) if step == 1 and start in (0, size // 2) else None


# ------------------------------------------------------------------------------- the rule
def _turned(found: Found) -> tuple[Value, bool] | None:
    """What is turned, and whether its pairs are neighbours."""
    one, two = (_half_of(found.values[name]) for name in "ab")
    if one is None or two is None:
        return None
    (x, first, alternates), (other, second, too) = one, two
    if x is not other or (first, second) != (0, 1) or alternates != too:
        return None
    if found.values.get("x", x) is not x or ("flat" in found.named) != alternates:
        return None
    joined = found.named["joined"]
    rank = len(shape_of(joined.outputs[0]) or ())
    if int(joined.attributes["axis"]) not in (-1, rank - 1):
        return None
    if alternates and not _are_pairs(found, x):
        return None
    return x, alternates


def _are_pairs(found: Found, x: Value) -> bool:
    """Whether the joined halves get a last axis of 2, which is then flattened."""
    shape, pairs = shape_of(x), shape_of(found.named["joined"].outputs[0])
    if shape is None or not isinstance(shape[-1], int):
        return False
    flat = shape_of(found.named["flat"].outputs[0])
    return pairs == (*shape[:-1], shape[-1] // 2, 2) and flat == shape


def _cache(match: Match, half: Value | None, x: Value, seq_axis: int) -> Value | None:
    """Cosines or sines as (batch or 1, seq, size / 2)."""
    shape, own = shape_of(half), shape_of(x)
    if half is None or shape is None or own is None or half.type == x.type:
        return None
    padded: Shape = (*[1] * (4 - len(shape)), *shape)
    seq, other = own[seq_axis], 3 - seq_axis
    if len(padded) != 4 or padded[seq_axis] != seq or padded[other] != 1:
        return None
    if padded[0] not in (1, own[0]) or padded[3] * 2 != own[3]:
        return None
    if not isinstance(half.type, TensorType) or not isinstance(x.type, TensorType):
        return None
    if half.type.dtype != x.type.dtype:
        return None
    view = view_of(half, match.enter)
    sizes = (padded[0], seq, padded[3])
    if view is not None:
        groups = (*[()] * (4 - len(shape)), *view.groups)
        made = arrange(match, view, (groups[0], groups[seq_axis], groups[3]))
        if made is not None and shape_of(made) == sizes:
            return made
    return reshaped(match, half, sizes)


def _first(match: Match, angles: Angles, pattern: Pattern, is_parted: bool) -> Value | None:
    results = (_lift(match, angles, found, is_parted) for found in match.find_each(pattern))
    return next((result for result in results if result is not None), None)


def _lift(match: Match, angles: Angles, found: Found, is_parted: bool) -> Value | None:
    turned = _turned(found)
    if turned is None:
        return None
    x, interleaved = turned
    shape = shape_of(x)
    if shape is None or len(shape) != 4:
        return None
    halves = [found.values[name] for name in ("cos", "sin")]
    if not is_parted:
        made = [angles.half(match, value, interleaved) for value in halves]
        if made[0] is None or made[1] is None:
            return None
        halves = [each for each in made if each is not None]
    for seq_axis in (2, 1):
        caches = [_cache(match, half, x, seq_axis) for half in halves]
        if caches[0] is not None and caches[1] is not None:
            return _made(match, x, (caches[0], caches[1]), seq_axis, interleaved)
    return None


def _made(
    match: Match, x: Value, caches: tuple[Value, Value], seq_axis: int, interleaved: bool
) -> Value | None:
    """The operator on (batch, seq, heads * size) where x is a view of that, else on (batch, heads, seq, size)."""
    options: dict[str, Any] = {"interleaved": 1} if interleaved else {}
    shape = shape_of(x) or ()
    heads = shape[3 - seq_axis]
    view = view_of(x, match.enter)
    if view is not None and isinstance(heads, int):
        batch, seq, size = view.groups[0], view.groups[seq_axis], view.groups[3]
        source = packed(match, view, (batch, view.groups[3 - seq_axis], seq, size))
        turned = (
            None
            if source is None
            else match.put("RotaryEmbedding", source, *caches, num_heads=heads, **options)
        )
        again = None if turned is None else _split(match, turned, heads, seq_axis)
        if again is not None and again.type == match.node.outputs[0].type:
            return again
    if seq_axis == 1:
        return None
    return match.make("RotaryEmbedding", x, *caches, **options)


def _split(match: Match, value: Value, heads: int, seq_axis: int) -> Value | None:
    batch, seq, hidden = shape_of(value) or ()
    parted = reshaped(match, value, (batch, seq, heads, hidden // heads))
    if parted is None or seq_axis == 1:
        return parted
    return match.put("Transpose", parted, perm=[0, 2, 1, 3])


@rewrite("Concat")
def _partial(node: Node, match: Match) -> Value | None:
    """concat(rotate(x[..., :n]), x[..., n:]) = rotate(x, n)"""
    if len(node.inputs) != 2 or node.inputs[1] is None or node.inputs[0] is None:
        return None
    inner = match.inner(node.inputs[0], "RotaryEmbedding")
    rest = node.inputs[1].producer
    if inner is None or rest is None or "num_heads" in inner.attributes or len(inner.inputs) != 3:
        return None
    parts = [inner.inputs[0].producer if inner.inputs[0] is not None else None, rest]
    x = rest.inputs[0]
    if (
        x is None
        or x.type != node.outputs[0].type
        or any(
            each is None or each.operator != "Slice" or each.inputs[0] is not x for each in parts
        )
    ):
        return None
    shape, turned = shape_of(x), shape_of(inner.inputs[0])
    if shape is None or turned is None or turned[:-1] != shape[:-1]:
        return None
    size, whole = turned[-1], shape[-1]
    if not isinstance(size, int) or not isinstance(whole, int):
        return None
    if _start(parts[0]) != 0 or _start(rest) not in (size, size - whole):
        return None
    return match.make(
        "RotaryEmbedding", x, *inner.inputs[1:], rotary_embedding_dim=size, **inner.attributes
    )


def _start(node: Node | None) -> int | None:
    """Where a Slice by steps of one along the last axis begins."""
    if node is None or len(node.inputs) < 4 or not _is_last_slice(node):
        return None
    starts = node.inputs[1]
    return (
        int(starts.array.reshape(())) if starts is not None and starts.array is not None else None
    )


def _is_last_slice(node: Node) -> bool:
    arrays = [None if each is None else each.array for each in node.inputs[1:]]
    if any(array is None or array.size != 1 for array in arrays):
        return False
    axis = int(arrays[2].reshape(())) if arrays[2] is not None else 0
    step = int(arrays[3].reshape(())) if len(arrays) > 3 and arrays[3] is not None else 1
    return step == 1 and axis in (-1, len(shape_of(node.inputs[0]) or ()) - 1)


def lift_rotary(graph: Graph) -> int:
    angles = Angles()

    @rewrite("Add")
    def whole(node: Node, match: Match) -> Value | None:
        """x * cos + concat(-x[..., half:], x[..., :half]) * sin = rotary_embedding(x, cos, sin)"""
        return _first(match, angles, WHOLE, is_parted=False)

    @rewrite("Concat")
    def parted(node: Node, match: Match) -> Value | None:
        """concat(a * cos - b * sin, b * cos + a * sin) = rotary_embedding(concat(a, b), cos, sin)"""
        return _first(match, angles, PARTED, is_parted=True)

    return rewrite_graph(graph, whole, parted) + rewrite_graph(graph, _partial)
