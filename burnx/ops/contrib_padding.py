"""com.microsoft: padded sequences as one row of tokens, and back."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import int32, int64
from burnx.ops.contrib_fused import MICROSOFT, scalar
from burnx.ops.kinds import M, T
from burnx.ops.operator import operator
from burnx.shape import product
from burnx.tensor import Tensor


@operator("RemovePadding", since=(1,), domain=MICROSOFT)
def remove_padding(input: T, sequence_token_count: M) -> tuple[T, M, M, M]:
    """The tokens of all sequences; where each was, then where the padding was; where each begins; the longest.

    Shapes: (batch, seq, hidden), (batch) -> (tokens, hidden), (batch, seq), (batch + 1), (1).
    Source: onnxruntime com.microsoft RemovePadding-1
    """
    batch, seq, hidden = input.shape
    counts = sequence_token_count
    place = waist.reshape(waist.iota(seq, int32), (1, seq))
    is_padding = waist.map("le", waist.reshape(counts, (batch, 1)), place)
    flat = waist.reshape(waist.cast_to(is_padding, int32), (product((batch, seq)),))
    _, order = waist.sort(flat, 0)
    order = waist.cast_to(order, int32)
    sums = waist.cumulate("sum", counts, 0)
    total = waist.reduce("sum", waist.cast_to(counts, int64), [0])
    (tokens,) = waist.dims(waist.reshape(total, (1,)))
    rows = waist.reshape(input, (product((batch, seq)), hidden))
    kept = waist.take(rows, waist.slice_axis(order, 0, 0, tokens), 0)
    starts = waist.concat([waist.constant([0], int32), sums], 0)
    longest = waist.reshape(waist.reduce("max", counts, [0]), (1,))
    return kept, waist.reshape(order, (batch, seq)), starts, longest


@operator("RestorePadding", since=(1,), domain=MICROSOFT)
def restore_padding(input: T, token_offset: M) -> T:
    """Tokens back where they were, and zeros for the padding.

    Shapes: (tokens, hidden), (batch, seq) -> (batch, seq, hidden).
    Source: onnxruntime com.microsoft RestorePadding-1
    """
    tokens, hidden = input.shape
    places = product(token_offset.shape)
    order = waist.slice_axis(waist.reshape(token_offset, (places,)), 0, 0, tokens)
    empty: Tensor = waist.broadcast(scalar(0, input), (places, hidden))
    filled = waist.scatter_nd(empty, waist.reshape(order, (tokens, 1)), input)
    return waist.reshape(filled, (*token_offset.shape, hidden))
