"""Attention that exporters spell out: softmax(scale q k^T + mask) v.

It is lifted where queries, keys and values have axes of their own for heads; ``heads.py`` then takes in what splits
and joins them.  Numbers differ from the decomposition's by rounding alone, with two exceptions that the exporters
brought in: where they put 0 for NaN after the softmax, attention keeps a NaN that queries or keys had; and float16
scores beyond 65504 do not overflow, since attention computes in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from burnx.dtype import bool_, code_of_dtype, float32
from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.grids import narrow_masks
from burnx.passes.heads import absorb_past, join_heads, merge_masks
from burnx.passes.masks import (
    FAR,
    dtype_of,
    is_causal,
    is_exact_in,
    is_lower,
    may_hide_rows,
)
from burnx.passes.patterns import Number, OneOf, Op, Operand, scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.stacks import split_stack
from burnx.passes.views import Groups, View, arrange, scaled_by, shape_of, view_of
from burnx.shape import Shape
from burnx.types import TensorType

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Scores that a fill takes the place of: where ``condition`` does not hold, or does if ``is_turned``."""

    condition: Value
    fill: float
    is_turned: bool


@dataclass(frozen=True, slots=True)
class Scores:
    """factor * left @ right, and what hides some of it; ``nodes`` are those between."""

    left: Value
    right: Value
    factor: float = 1.0
    biases: tuple[Value, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    nodes: tuple[Node, ...] = ()

    @property
    def is_plain(self) -> bool:
        return not self.biases and not self.hidden


def read_scores(match: Match, value: Value | None) -> Scores | None:
    """How a value is the scores of an attention."""
    node = None if value is None else match.enter(value)
    if node is None or node.domain or node.operator not in _READERS:
        return None
    found = _READERS[node.operator](match, node)
    return None if found is None else replace(found, nodes=(*found.nodes, node))


def _product(match: Match, node: Node) -> Scores | None:
    left, right = node.inputs
    return None if left is None or right is None else Scores(left, right)


def _scaled(match: Match, node: Node) -> Scores | None:
    step = scaled_by(node)
    found = None if step is None else read_scores(match, step[0])
    if step is None or found is None or not found.is_plain:
        return None
    return replace(found, factor=found.factor * step[1])


def _biased(match: Match, node: Node) -> Scores | None:
    for place in (0, 1):
        found, bias = read_scores(match, node.inputs[place]), node.inputs[1 - place]
        if found is not None and bias is not None and _keeps_shape(node, place):
            return replace(found, biases=(*found.biases, bias))
    return None


def _filled(match: Match, node: Node) -> Scores | None:
    condition = node.inputs[0]
    for place in (1, 2):
        fill = scalar(node.inputs[3 - place])
        found = read_scores(match, node.inputs[place]) if fill is not None else None
        if found is None or fill is None or condition is None or not _keeps_shape(node, place):
            continue
        return replace(found, hidden=(*found.hidden, Hidden(condition, fill, place == 2)))
    return None


def _widened(match: Match, node: Node) -> Scores | None:
    """Scores in float32 for the softmax."""
    found = read_scores(match, node.inputs[0])
    return found if dtype_of(node.outputs[0]) == float32 else None


def _keeps_shape(node: Node, place: int) -> bool:
    return node.inputs[place] is not None and node.inputs[place].type == node.outputs[0].type  # type: ignore[union-attr]


_READERS: Mapping[str, Callable[[Match, Node], Scores | None]] = {
    "MatMul": _product,
    "Mul": _scaled,
    "Div": _scaled,
    "Add": _biased,
    "Where": _filled,
    "Cast": _widened,
}

# ------------------------------------------------------------------------------- softmax
SOFTMAX = Op("Softmax", Operand("scores"), name="softmax")
GUARDED = OneOf(
    Op("Where", Op("IsNaN", SOFTMAX, name="guard"), Number(0.0), SOFTMAX),
    Op(
        "Where",
        Op(
            "Equal",
            Op("ReduceMax", Operand("scores"), name="rows"),
            Number(-INFINITY),
            name="guard",
        ),
        Number(0.0),
        SOFTMAX,
    ),
)
ROWS = OneOf(SOFTMAX, GUARDED)
WEIGHTS = OneOf(ROWS, Op("Cast", ROWS, name="narrowed"))
ATTENTION = Op("MatMul", WEIGHTS, Operand("v"))


@dataclass(frozen=True, slots=True)
class Parts:
    """An attention as it was found; ``is_guarded`` if rows without a visible key give zeros."""

    scores: Scores
    rows: Shape
    v: Value
    is_guarded: bool
    precision: int | None


def _parts(match: Match) -> Parts | None:
    found = match.find(ATTENTION)
    if found is None or not _is_over_keys(found.named["softmax"]):
        return None
    rows = found.named.get("rows")
    if rows is not None and not _is_over_keys(rows):
        return None
    value = found.values["scores"]
    scores = read_scores(match, value)
    shape = shape_of(value)
    if scores is None or shape is None or len(shape) not in (3, 4):
        return None
    if not match.is_inner((*found.nodes, *scores.nodes)):
        return None
    widened = "narrowed" in found.named
    if (dtype_of(value) != dtype_of(scores.left)) != widened:
        return None
    precision = code_of_dtype(float32) if widened else None
    return Parts(scores, shape, found.values["v"], "guard" in found.named, precision)


def _is_over_keys(node: Node) -> bool:
    """Whether a node works along the last axis."""
    shape = shape_of(node.inputs[0])
    if shape is None:
        return False
    last = len(shape) - 1
    if node.operator == "Softmax":
        return int(node.attributes.get("axis", -1)) in (-1, last)
    axes = node.inputs[1].array if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return axes is not None and axes.reshape(-1).tolist() in ([-1], [last])


# ------------------------------------------------------------------------------- operands
@dataclass(frozen=True, slots=True)
class Operands:
    q: Value
    k: Value
    v: Value
    factor: float
    options: Mapping[str, Any]


def _operands(match: Match, parts: Parts) -> Operands | None:
    """Queries, keys and values with axes for heads, as many of these as each has."""
    scores = parts.scores
    shapes = [shape_of(each) for each in (scores.left, scores.right, parts.v)]
    rank = len(parts.rows)
    if any(
        shape is None or len(shape) != rank or shape[:-2] != parts.rows[:-2] for shape in shapes
    ):
        return None
    q, times = _unscaled(match, scores.left, turned=False)
    views = [
        view_of(each, match.enter, is_scaled=each is scores.right)
        for each in (scores.right, parts.v)
    ]
    k, v, by = None, None, 1.0
    if rank == 4 and views[0] is not None and views[1] is not None:
        k, v, by = _grouped(match, views[0], views[1])
    if k is None or v is None:
        (k, by), v = _unscaled(match, scores.right, turned=True), parts.v
    if k is None or q is None:
        return None
    options = {"q_num_heads": 1, "kv_num_heads": 1} if rank == 3 else {}
    return Operands(q, k, v, scores.factor * times * by, options)


def _swapped(groups: Groups) -> Groups:
    return (*groups[:-2], groups[-1], groups[-2])


def _unscaled(match: Match, value: Value, *, turned: bool) -> tuple[Value | None, float]:
    """A factor without the numbers it was multiplied with, its last two axes ``turned``, and these numbers."""
    view = view_of(value, match.enter, is_scaled=True)
    if view is not None and (turned or any(scaled_by(node) for node in view.nodes)):
        made = arrange(match, view, _swapped(view.groups) if turned else view.groups)
        if made is not None:
            return made, view.factor
    if not turned:
        return value, 1.0
    rank = len(shape_of(value) or ())
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return match.put("Transpose", value, perm=perm), 1.0


def _grouped(match: Match, k: View, v: View) -> tuple[Value | None, Value | None, float]:
    """Keys and values without the copies of heads that Expand made, if both have as many."""
    copies = [
        each.groups[1][-1] if each.groups[1] and each.groups[1][-1].is_spread else None
        for each in (k, v)
    ]
    if copies[0] is None or copies[1] is None or copies[0].size != copies[1].size:
        return None, None, 1.0
    k_groups, v_groups = (
        (each.groups[0], each.groups[1][:-1], *each.groups[2:]) for each in (k, v)
    )
    return arrange(match, k, _swapped(k_groups)), arrange(match, v, v_groups), k.factor


# ------------------------------------------------------------------------------- mask
@dataclass(frozen=True, slots=True)
class Mask:
    value: Value | None = None
    is_causal: bool = False


def _mask(match: Match, parts: Parts) -> Mask | None:
    """What hides scores as one mask; None where attention would not say the same with it."""
    scores = parts.scores
    dtype = scores.left.type.dtype if isinstance(scores.left.type, TensorType) else float32
    if scores.is_plain:
        return Mask()
    if not scores.biases and len(scores.hidden) == 1 and scores.hidden[0].fill == -INFINITY:
        visible = _visible(match, scores.hidden[0])
        if visible is None:
            return None
        if is_lower(visible):
            return Mask(is_causal=True)
        return _checked(parts, visible, dtype)
    terms: list[Value] = []
    for hidden in scores.hidden:
        if hidden.fill > FAR or np.dtype(dtype).itemsize < 4:
            return None
        terms.append(_added(match, hidden, dtype))
    terms = [*terms, *scores.biases]
    if len(terms) == 1 and is_causal(
        terms[0], lambda fill: fill <= (-6e4 if np.dtype(dtype).itemsize < 4 else FAR)
    ):
        return Mask(is_causal=True)
    total = terms[0]
    for term in terms[1:]:
        made = match.put("Add", total, term)
        if made is None:
            return None
        total = made
    return _checked(parts, total, dtype)


def _visible(match: Match, hidden: Hidden) -> Value | None:
    if not hidden.is_turned:
        return hidden.condition
    node = match.enter(hidden.condition)
    if node is not None and node.operator == "Not" and not node.domain:
        return node.inputs[0]
    return match.put("Not", hidden.condition)


def _added(match: Match, hidden: Hidden, dtype: Any) -> Value:
    zero, fill = (constant_value(np.array(each, dtype)) for each in (0, hidden.fill))
    options = (fill, zero) if hidden.is_turned else (zero, fill)
    made = match.put("Where", hidden.condition, *options)
    assert made is not None
    return made


def _checked(parts: Parts, mask: Value, dtype: Any) -> Mask | None:
    """The mask, if it has a number for each key and hides no whole row unless that gives zeros."""
    shape = shape_of(mask)
    if shape is None or not shape or len(shape) > 4 or shape[-1] != parts.rows[-1]:
        return None
    wanted = parts.rows[-len(shape) :] if len(shape) <= len(parts.rows) else None
    if wanted is None or any(dim not in (1, own) for dim, own in zip(shape, wanted, strict=True)):
        return None
    if len(parts.rows) == 3 and len(shape) == 3 and shape[0] != 1:
        return None  # its first axis would be that of heads
    if not parts.is_guarded and may_hide_rows(mask):
        return None
    if dtype_of(mask) != bool_ and parts.precision is None and not is_exact_in(dtype, mask):
        return None
    return Mask(mask)


# ------------------------------------------------------------------------------- the rule
@rewrite("MatMul")
def _attention(node: Node, match: Match) -> Value | None:
    """softmax(scale q k^T + mask) v = attention(q, k, v, mask)"""
    parts = _parts(match)
    if parts is None or parts.rows[-2:] == (1, 1):
        return None
    mask = _mask(match, parts)
    operands = _operands(match, parts) if mask is not None else None
    if mask is None or operands is None:
        return None
    given = [operands.q, operands.k, operands.v]
    if mask.value is not None:
        given.append(mask.value)
    options: dict[str, Any] = {**operands.options, **_scale(operands)}
    if mask.is_causal:
        options["is_causal"] = 1
    if parts.precision is not None:
        options["softmax_precision"] = parts.precision
    return match.make("Attention", *given, **options)


def _scale(operands: Operands) -> dict[str, float]:
    """The attribute, where it is not the usual 1 / sqrt(size)."""
    shape, kind = shape_of(operands.q), operands.q.type
    assert shape is not None and isinstance(kind, TensorType)
    if isinstance(shape[-1], int) and shape[-1] > 0:
        usual = shape[-1] ** -0.5
        step = float(ml_dtypes.finfo(kind.dtype).eps)  # type: ignore[no-untyped-call]
        if abs(operands.factor - usual) <= max(2 * step, 1e-7) * usual:
            return {}
    return {"scale": float(np.float32(operands.factor))}


def lift_attention(graph: Graph) -> int:
    changes = rewrite_graph(graph, merge_masks)
    lifted = rewrite_graph(graph, _attention)
    if lifted:
        changes += rewrite_graph(graph, split_stack)
        changes += rewrite_graph(graph, absorb_past)
        changes += rewrite_graph(graph, join_heads) + narrow_masks(graph)
    return changes + lifted
