"""Attention that exporters spell out: softmax(scale q k^T + mask) v.

It is lifted where queries, keys and values have axes of their own for heads; ``heads.py`` then takes in what splits
and joins them.  Numbers differ from the decomposition's by rounding alone, with two exceptions that the exporters
brought in: where they put 0 for NaN after the softmax, attention keeps a NaN that came of NaN or infinite scores; and
scores beyond 65504 do not overflow in float16, since attention computes in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from burnx.dtype import code_of_dtype, float32
from burnx.graph import Graph, Node, Value
from burnx.passes.einsums import read_product
from burnx.passes.grids import narrow_masks
from burnx.passes.heads import absorb_past, join_heads, merge_masks, unfolded
from burnx.passes.masks import dtype_of
from burnx.passes.patterns import Number, OneOf, Op, Operand
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.scores import INFINITY, Scores, mask_of, read_scores
from burnx.passes.stacks import split_stack
from burnx.passes.views import Groups, View, arrange, reshaped, scaled_by, shape_of, view_of
from burnx.shape import Dim, Shape
from burnx.types import TensorType

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
ATTENTION = OneOf(
    Op("MatMul", WEIGHTS, Operand("v")),
    Op("Einsum", WEIGHTS, Operand("v")),
    Op("Einsum", Operand("v"), WEIGHTS),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """An attention as it was found; ``is_guarded`` if rows without a visible key give zeros.

    ``order`` are the axes of the result, where they are not (batch, heads, seq, size).
    """

    scores: Scores
    rows: Shape
    v: Value
    is_guarded: bool
    precision: int | None
    order: tuple[int, ...] = ()


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
    weights = next((each for each in match.node.inputs if each is not found.values["v"]), None)
    summed = None if weights is None else read_product(match, match.node, weights)
    if summed is None:
        return None
    return Parts(scores, shape, summed.right, "guard" in found.named, precision, summed.order)


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
    if rank == 3:
        found = _unfolded(match, scores, parts.v)
        if found is not None:
            return found
    k, v, by = None, None, 1.0
    if rank == 4 and views[0] is not None and views[1] is not None:
        k, v, by = _grouped(match, views[0], views[1])
    if k is None or v is None:
        (k, by), v = _unscaled(match, scores.right, turned=True), parts.v
    if k is None or q is None:
        return None
    options = {"q_num_heads": 1, "kv_num_heads": 1} if rank == 3 else {}
    return Operands(q, k, v, scores.factor * times * by, options)


def _unfolded(match: Match, scores: Scores, v: Value) -> Operands | None:
    """Operands with axes for batch and heads where both were made one."""
    parted: list[tuple[Value, Dim, float]] = []
    for value, is_turned in ((scores.left, False), (scores.right, True), (v, False)):
        view = view_of(value, match.enter, is_scaled=value is not v)
        groups = None if view is None else unfolded(view, is_turned=is_turned)
        made = None if view is None or groups is None else arrange(match, view, groups)
        if made is None or view is None:
            return None
        parted.append((made, (shape_of(made) or (0, 0))[1], view.factor))
    (q, heads, by), (k, *_, by_k), (v4, *_) = parted
    if any(each[1] != heads for each in parted) or shape_of(q)[:2] != shape_of(v4)[:2]:  # type: ignore[index]
        return None
    return Operands(q, k, v4, scores.factor * by * by_k, {})


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


# ------------------------------------------------------------------------------- the rule
@rewrite("MatMul", "Einsum")
def _attention(node: Node, match: Match) -> Value | None:
    """softmax(scale q k^T + mask) v = attention(q, k, v, mask)"""
    parts = _parts(match)
    if parts is None or parts.v.is_constant or parts.scores.right.is_constant:
        return None
    operands = _operands(match, parts)
    if operands is None:
        return None
    is_folded = len(parts.rows) == 3 and not operands.options
    shape = (*(shape_of(operands.q) or ())[:2], *parts.rows[-2:]) if is_folded else parts.rows
    mask = mask_of(match, parts.scores, shape, is_guarded=parts.is_guarded)
    if mask is None:
        return None
    given = [operands.q, operands.k, operands.v]
    if mask.value is not None:
        given.append(mask.value)
    scale = _scale(operands)
    if scale is None:
        return None
    options: dict[str, Any] = {**operands.options, **scale}
    if mask.is_causal:
        options["is_causal"] = 1
    if parts.precision is not None:
        options["softmax_precision"] = parts.precision
    made = match.put("Attention", *given, **options)
    if made is not None and parts.order not in ((), (0, 1, 2, 3)):
        made = match.put("Transpose", made, perm=list(parts.order))
    if made is not None and is_folded:
        made = reshaped(match, made, shape_of(node.outputs[0]) or ())
    return made if made is not None and made.type == node.outputs[0].type else None


def _scale(operands: Operands) -> dict[str, float] | None:
    """The attribute, where it is not the usual 1 / sqrt(size); None if it cannot say the number, being a float32."""
    shape, kind = shape_of(operands.q), operands.q.type
    assert shape is not None and isinstance(kind, TensorType)
    step = 2 * float(ml_dtypes.finfo(kind.dtype).eps)  # type: ignore[no-untyped-call]
    if isinstance(shape[-1], int) and shape[-1] > 0:
        usual = shape[-1] ** -0.5
        if abs(operands.factor - usual) <= step * usual:
            return {}
    given = float(np.float32(operands.factor))
    if abs(given - operands.factor) > step * abs(operands.factor):
        return None
    return {"scale": given}


def lift_attention(graph: Graph) -> int:
    changes = rewrite_graph(graph, merge_masks)
    lifted = rewrite_graph(graph, _attention)
    if lifted:
        changes += rewrite_graph(graph, split_stack)
        changes += rewrite_graph(graph, absorb_past)
        changes += rewrite_graph(graph, join_heads) + narrow_masks(graph)
    return changes + lifted
