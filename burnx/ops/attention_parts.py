"""What attention operators share: heads, scores of grouped queries, positions and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import DType, bool_, int64
from burnx.errors import ModelError, ShapeError
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor


def number(value: float, like: Tensor) -> Tensor:
    return waist.constant(value, like.dtype)


def divided(total: Dim, count: Dim, what: str) -> Dim:
    """total / count.  Raises: ShapeError if that surely leaves a rest."""
    if isinstance(total, int) and isinstance(count, int) and (count < 1 or total % count):
        raise ShapeError(f"{what} is a multiple of {count}, not {total}")
    return total // count


def split_heads(x: Tensor, heads: int | None) -> Tensor:
    """Shapes: (batch, seq, heads * size) -> (batch, heads, seq, size)"""
    if not heads:
        raise ModelError(f"inputs of rank 3 need the number of heads, found {shape_text(x.shape)}")
    batch, seq, hidden = x.shape
    size = divided(hidden, heads, "the hidden size")
    return waist.transpose(waist.reshape(x, (batch, seq, heads, size)), (0, 2, 1, 3))


def join_heads(x: Tensor) -> Tensor:
    """Shapes: (batch, heads, seq, size) -> (batch, seq, heads * size)"""
    batch, heads, seq, size = x.shape
    return waist.reshape(waist.transpose(x, (0, 2, 1, 3)), (batch, seq, heads * size))


def grouped(x: Tensor, groups: Dim) -> Tensor:
    """The rows of all heads that a group serves, one after another.

    Shapes: (batch, heads, seq, size) -> (batch, groups, heads / groups * seq, size)
    """
    each = divided(x.shape[1], groups, "the number of query heads")
    return waist.reshape(x, (x.shape[0], groups, each * x.shape[2], x.shape[3]))


def ungrouped(x: Tensor, shape: Sequence[Dim]) -> Tensor:
    """Shapes: (batch, groups, heads / groups * seq, size), (batch, heads, seq) -> (batch, heads, seq, size)"""
    return waist.reshape(x, (*shape, x.shape[3]))


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    """q k^T, each key head serving the query heads of its group.

    Shapes: (batch, heads, seq, size), (batch, groups, keys, size) -> (batch, heads, seq, keys).
    """
    if q.shape[1] == k.shape[1]:
        return waist.contract(q, k, ((0, 1), (0, 1)), ((3,), (3,)))
    scores = waist.contract(grouped(q, k.shape[1]), k, ((0, 1), (0, 1)), ((3,), (3,)))
    return ungrouped(scores, q.shape[:3])


def weighted(probabilities: Tensor, v: Tensor) -> Tensor:
    """Shapes: (batch, heads, seq, keys), (batch, groups, keys, size) -> (batch, heads, seq, size)"""
    if probabilities.shape[1] == v.shape[1]:
        return waist.contract(probabilities, v, ((0, 1), (0, 1)), ((3,), (2,)))
    rows = grouped(probabilities, v.shape[1])
    mixed = waist.contract(rows, v, ((0, 1), (0, 1)), ((3,), (2,)))
    return ungrouped(mixed, probabilities.shape[:3])


def row_softmax(scores: Tensor) -> Tensor:
    """Softmax over the last axis; a row of nothing but -inf gives zeros."""
    axis = scores.ndim - 1
    column = (*scores.shape[:-1], 1)
    greatest = waist.reshape(waist.reduce("max", scores, [axis]), column)
    empty = waist.map("eq", greatest, number(-float("inf"), scores))
    zero = number(0, scores)
    powers = waist.map("exp", waist.map("sub", scores, waist.map("select", empty, zero, greatest)))
    total = waist.reshape(waist.reduce("sum", powers, [axis]), column)
    total = waist.map("select", empty, number(1, scores), total)
    return waist.map("div", powers, total)


def softcapped(scores: Tensor, cap: float) -> Tensor:
    """cap * tanh(scores / cap), or the scores where the cap is 0."""
    if cap == 0:
        return scores
    limit = number(cap, scores)
    return waist.map("mul", waist.map("tanh", waist.map("div", scores, limit)), limit)


def places(length: Dim, shape: Sequence[Dim]) -> Tensor:
    """0 … length - 1 under a shape."""
    return waist.reshape(waist.iota(length), shape)


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """What both masks let through."""
    if left is None or right is None:
        return left if right is None else right
    return waist.map("and", left, right)


def size_scalar(dim: Dim) -> Tensor:
    return waist.reshape(waist.sizes(dim), ())


def masked(scores: Tensor, visible: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scores plus bias, and -inf where a key is not visible or its bias is -inf."""
    hidden = number(-float("inf"), scores)
    if bias is not None:
        bias = waist.broadcast(bias, scores.shape)
        open_ = waist.map("not", waist.map("eq", bias, hidden))
        visible = both(None if visible is None else waist.broadcast(visible, scores.shape), open_)
        scores = waist.map("add", scores, bias)
    if visible is None:
        return scores
    return waist.map("select", waist.broadcast(visible, scores.shape), scores, hidden)


def fitted(mask: Tensor, keys: Dim) -> Tensor:
    """A mask whose last axis is filled up to ``keys`` with what lets nothing through."""
    missing = keys - mask.shape[-1]
    if missing == 0:
        return mask
    if isinstance(missing, int) and missing < 0:
        raise ShapeError(f"a mask is for at most {keys} keys, not {mask.shape[-1]}")
    closed = number(False if mask.dtype == bool_ else -float("inf"), mask)
    grown = waist.pad(mask, closed, [0] * mask.ndim, [*[0] * (mask.ndim - 1), missing])
    return waist.broadcast(grown, (*mask.shape[:-1], keys))


def as_int64(x: Tensor) -> Tensor:
    return waist.cast_to(x, int64)


def at_dtype(tensors: Sequence[Tensor], dtype: DType) -> list[Tensor]:
    return [waist.cast_to(each, dtype) for each in tensors]


def scaled(q: Tensor, scale: float | None) -> Tensor:
    """q times the scale, or times 1 / sqrt(size)."""
    if scale is not None:
        return waist.map("mul", q, number(scale, q))
    size = q.shape[-1]
    if isinstance(size, int):
        return waist.map("mul", q, number(max(size, 1) ** -0.5, q))
    return waist.map("div", q, waist.map("sqrt", waist.cast_to(size_scalar(size), q.dtype)))
