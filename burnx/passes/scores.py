"""Scores of an attention as exporters spell them: a product, its scale, and what hides some of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from burnx.dtype import DType, bool_, float16, float32
from burnx.graph import Node, Value, constant_value
from burnx.passes.einsums import read_product
from burnx.passes.masks import (
    FAR,
    HALF_FAR,
    dtype_of,
    is_causal,
    is_exact,
    is_lower,
    may_hide_rows,
)
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match
from burnx.passes.views import Groups, arrange, scaled_by, shape_of, view_of
from burnx.shape import Shape
from burnx.types import TensorType

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Scores that a fill takes the place of: where ``condition`` does not hold, or does if ``is_turned``."""

    condition: Value
    fill: float
    is_turned: bool
    dtype: DType


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
    found = read_product(match, node)
    if found is None or found.order not in ((), (0, 1, 2, 3)):
        return None
    return Scores(found.left, found.right)


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
        return replace(
            found, hidden=(*found.hidden, Hidden(condition, fill, place == 2, _dtype(node)))
        )
    return None


def _widened(match: Match, node: Node) -> Scores | None:
    """Scores in float32 for the softmax."""
    found = read_scores(match, node.inputs[0])
    return found if dtype_of(node.outputs[0]) == float32 else None


def _dtype(node: Node) -> DType:
    kind = node.outputs[0].type
    assert isinstance(kind, TensorType)
    return kind.dtype


def _keeps_shape(node: Node, place: int) -> bool:
    return node.inputs[place] is not None and node.inputs[place].type == node.outputs[0].type  # type: ignore[union-attr]


_READERS: Mapping[str, Callable[[Match, Node], Scores | None]] = {
    "MatMul": _product,
    "Einsum": _product,
    "Mul": _scaled,
    "Div": _scaled,
    "Add": _biased,
    "Where": _filled,
    "Cast": _widened,
}


# ------------------------------------------------------------------------------- mask
@dataclass(frozen=True, slots=True)
class Mask:
    value: Value | None = None
    is_causal: bool = False


def mask_of(match: Match, scores: Scores, shape: Shape, *, is_guarded: bool) -> Mask | None:
    """What hides scores of a shape as one mask; None where attention would not say the same with it.

    ``is_guarded`` if rows without a visible key give zeros.
    """
    if scores.is_plain:
        return Mask()
    if not scores.biases and len(scores.hidden) == 1 and scores.hidden[0].fill == -INFINITY:
        visible = _visible(match, scores.hidden[0])
        if visible is None:
            return None
        return (
            Mask(is_causal=True)
            if is_lower(visible)
            else _checked(match, visible, shape, is_guarded)
        )
    if not all(hidden.fill <= FAR for hidden in scores.hidden):
        return None
    terms = [*(_added(match, hidden) for hidden in scores.hidden), *scores.biases]
    total: Value | None = terms[0]
    for term in terms[1:]:
        total = None if total is None else match.put("Add", total, term)
    if total is None:
        return None
    return (
        Mask(is_causal=True)
        if is_causal(total, _hides(total))
        else _checked(match, total, shape, is_guarded)
    )


def _hides(mask: Value) -> Callable[[float], bool]:
    """Whether a number of a mask leaves nothing of a score beside one that is not hidden."""
    kind = mask.type
    is_float16 = isinstance(kind, TensorType) and kind.dtype == float16
    return lambda fill: fill <= (HALF_FAR if is_float16 else FAR)


def _visible(match: Match, hidden: Hidden) -> Value | None:
    if not hidden.is_turned:
        return hidden.condition
    node = match.enter(hidden.condition)
    if node is not None and node.operator == "Not" and not node.domain:
        return node.inputs[0]
    return match.put("Not", hidden.condition)


def _added(match: Match, hidden: Hidden) -> Value:
    zero, fill = (constant_value(np.array(each, hidden.dtype)) for each in (0, hidden.fill))
    options = (fill, zero) if hidden.is_turned else (zero, fill)
    made = match.put("Where", hidden.condition, *options)
    assert made is not None
    return made


def _checked(match: Match, mask: Value, full: Shape, is_guarded: bool) -> Mask | None:
    """The mask, if it has a number for each key and hides no whole row unless that gives zeros."""
    shape = shape_of(mask)
    if shape is None or not shape or shape[-1] != full[-1]:
        return None
    if len(full) == 4 and len(shape) == 3 and shape[0] != 1 and shape[0] != full[1]:
        narrow = _unspread(match, mask)
        return None if narrow is None else _checked(match, narrow, full, is_guarded)
    if len(full) == 3 and len(shape) == 3 and shape[0] != 1:
        return None  # its first axis would be that of heads
    wanted = full[-len(shape) :] if len(shape) <= len(full) else None
    if wanted is None or any(dim not in (1, own) for dim, own in zip(shape, wanted, strict=True)):
        return None
    if not is_guarded and may_hide_rows(mask):
        return None
    return Mask(mask) if dtype_of(mask) == bool_ or is_exact(mask) else None


def _unspread(match: Match, mask: Value) -> Value | None:
    """(batch, 1, seq, keys) of a mask that was repeated for each head."""
    view = view_of(mask, match.enter)
    if view is None or len(view.groups) != 3 or not view.groups[0]:
        return None
    *batch, heads = view.groups[0]
    kept: Groups = (tuple(batch), (), *view.groups[1:])
    return arrange(match, view, kept) if heads.is_spread else None
