"""What the attention operators of com.microsoft share: the core, padding masks, and states of earlier steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx import waist
from burnx.dtype import compute_dtype, float16, int64
from burnx.errors import ModelError, ShapeError
from burnx.ops.attention_parts import (
    as_int64,
    masked,
    number,
    places,
    row_softmax,
    scaled,
    scores_of,
    size_scalar,
    softcapped,
    weighted,
)
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor

HIDDEN = -10000.0  # what is added to the score of a key that a padding mask hides


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, and keys and values that may have fewer heads.  Shapes: (batch, heads, seq, size) each"""

    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True, slots=True)
class Scoring:
    """How scores become probabilities; ``sink`` is a score of no key, (heads,), ``hidden`` the score of no key seen.

    ``biases`` are added, ``visible`` keys are seen; both broadcast to (batch, heads, seq, keys).
    """

    scale: float | None = None
    softcap: float = 0.0
    biases: Sequence[Tensor | None] = ()
    visible: Tensor | None = None
    sink: Tensor | None = None


def attend(heads: Heads, how: Scoring) -> tuple[Tensor, Tensor, Tensor]:
    """The weighted sums, and the scores before and after softmax; all in the compute dtype.

    Shapes: -> (batch, heads, seq, value size), twice (batch, heads, seq, keys)
    """
    wide = compute_dtype(heads.q.dtype)
    q, k, v = (waist.cast_to(each, wide) for each in (heads.q, heads.k, heads.v))
    scores = softcapped(scores_of(scaled(q, how.scale or None), k), how.softcap)
    for bias in how.biases:
        if bias is not None:
            bias = waist.broadcast(waist.cast_to(bias, wide), scores.shape)
            scores = waist.map("add", scores, bias)
    scores = masked(scores, how.visible, None)
    probabilities = row_softmax(scores) if how.sink is None else _with_sink(scores, how.sink)
    return weighted(probabilities, v), scores, probabilities


def _with_sink(scores: Tensor, sink: Tensor) -> Tensor:
    """Softmax over the last axis and one score more, which belongs to no key."""
    axis = scores.ndim - 1
    column = (*scores.shape[:-1], 1)
    extra = waist.reshape(waist.cast_to(sink, scores.dtype), (1, sink.shape[0], 1, 1))
    greatest = waist.reshape(waist.reduce("max", scores, [axis]), column)
    greatest = waist.map("max", greatest, waist.broadcast(extra, column))
    powers = waist.map("exp", waist.map("sub", scores, greatest))
    total = waist.reshape(waist.reduce("sum", powers, [axis]), column)
    total = waist.map("add", total, waist.map("exp", waist.map("sub", extra, greatest)))
    return waist.map("div", powers, total)


# ---------------------------------------------------------------------------------------- masks
def causal_mask(seq: Dim, keys: Dim, past: Dim) -> Tensor:
    """Which keys are not after their query.  Shapes: -> (seq, keys)"""
    here = waist.map("add", places(seq, (seq, 1)), size_scalar(past))
    return waist.map("le", places(keys, (1, keys)), here)


def padding_bias(
    mask: Tensor | None, like: Tensor, span: tuple[Dim, Dim], value: float
) -> Tensor | None:
    """``value`` where a padding mask hides a key, else 0; ``span`` is how many keys there are, and how many before.

    A mask is 1 where a key is seen, for (batch, keys), (batch, seq, keys) or (batch, 1, longest, longest); or says
    where the keys of each end, (batch,), with (2 * batch,) also where they begin, or stands for packed
    sequences, (3 * batch + 2,), whose first numbers are the lengths.
    """
    if mask is None:
        return None
    keys, _ = span
    seen = _seen(mask, like.shape[0], keys) if mask.ndim == 1 else _as_heads(mask, like, span)
    dtype = compute_dtype(like.dtype)
    if like.dtype == float16:
        value = max(value, -65504.0)
    return waist.map("select", seen, waist.constant(0, dtype), waist.constant(value, dtype))


def _as_heads(mask: Tensor, like: Tensor, span: tuple[Dim, Dim]) -> Tensor:
    """Shapes: -> (batch, 1, 1 or seq, keys)"""
    keys, past = span
    if mask.ndim == 4:
        mask = waist.slice_axis(mask, 2, past, like.shape[2])
        mask = waist.slice_axis(mask, 3, 0, keys)
    elif mask.ndim == 3:
        mask = waist.reshape(mask, (mask.shape[0], 1, *mask.shape[1:]))
    elif mask.ndim == 2:
        mask = waist.reshape(mask, (mask.shape[0], 1, 1, mask.shape[1]))
    else:
        raise ModelError(f"a mask has 1 to 4 axes, not the shape {shape_text(mask.shape)}")
    width = mask.shape[3]
    if isinstance(width, int) and isinstance(keys, int) and width != keys:
        raise ShapeError(f"a mask is for all {keys} keys, not for {width}")
    return waist.map("lt", number(0, mask), mask)


def _seen(mask: Tensor, batch: Dim, keys: Dim) -> Tensor:
    """Which keys lie between the first and the last of their sequence.  Shapes: -> (batch, 1, 1, keys)"""
    mask = as_int64(mask)
    there = places(keys, (1, 1, 1, keys))

    def part(start: Dim) -> Tensor:
        return waist.reshape(waist.slice_axis(mask, 0, start, batch), (batch, 1, 1, 1))

    seen = waist.map("lt", there, part(0))
    count = mask.shape[0]
    if count == batch or count == 3 * batch + 2:
        return seen
    if count == 2 * batch:
        return waist.map("and", seen, waist.map("le", part(batch), there))
    if not isinstance(count, int):
        waist.static_shape(mask)
    if not isinstance(batch, int):
        raise ModelError(f"a mask of one axis is compared with the batch {batch}, which is open")
    raise ShapeError(f"a mask of {count} numbers is none for {batch} sequences")


# ---------------------------------------------------------------------------------------- earlier steps
def appended(past: Tensor | None, new: Tensor, length: Tensor | None) -> tuple[Tensor, Tensor, Dim]:
    """What is attended to, what is kept, and how many positions were there before.

    With ``length`` the past is a buffer that is that full and stays as long as it is.
    Shapes: (batch, heads, past, size), (batch, heads, seq, size) -> (batch, heads, past + seq, size), the same
    """
    if past is None:
        return new, new, 0
    past = waist.cast_to(past, new.dtype)
    if length is None:
        joined = waist.concat([past, new], 2)
        return joined, joined, past.shape[2]
    before = waist.dims(waist.reshape(length, (1,)))[0]
    joined = waist.concat([waist.slice_axis(past, 2, 0, before), new], 2)
    total = before + new.shape[2]
    rest = waist.slice_axis(past, 2, total, past.shape[2] - total)
    kept = waist.reshape(waist.concat([joined, rest], 2), past.shape)
    return joined, kept, before


def of_beams(joined: Tensor, beams: Tensor, before: Dim) -> Tensor:
    """Keys or values, those of the first ``before`` positions each from the beam that it came from.

    Shapes: (groups * width, heads, keys, size), beams (groups, width, longest) -> the shape of the keys
    """
    groups, width = beams.shape[:2]
    rows = waist.transpose(waist.slice_axis(joined, 2, 0, before), (0, 2, 1, 3))
    rows = waist.reshape(rows, (groups, width, *rows.shape[1:]))
    chosen = waist.cast_to(waist.slice_axis(beams, 2, 0, before), int64)
    there = waist.broadcast(places(before, (1, 1, before)), (groups, width, before))
    pairs = [waist.reshape(each, (groups, width, before, 1)) for each in (chosen, there)]
    found = waist.gather_nd(rows, waist.concat(pairs, 3), 1)
    found = waist.reshape(found, (joined.shape[0], before, *rows.shape[3:]))
    rest = waist.slice_axis(joined, 2, before, joined.shape[2] - before)
    parts = [waist.transpose(found, (0, 2, 1, 3)), rest]
    return waist.reshape(waist.concat(parts, 2), joined.shape)
