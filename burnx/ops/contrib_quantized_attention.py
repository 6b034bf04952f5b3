"""com.microsoft: attention and embeddings of quantized weights."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype, int32
from burnx.errors import ModelError, ShapeError
from burnx.ops.attention_parts import (
    join_heads,
    number,
    places,
    row_softmax,
    scaled,
    scores_of,
    size_scalar,
    split_heads,
    weighted,
)
from burnx.ops.contrib_fused import MICROSOFT, find, plus, scalar
from burnx.ops.contrib_quantized import mat_mul_integer_to_float
from burnx.ops.contrib_quantized_elementwise import real_of
from burnx.ops.kinds import T1, T2, T3, T4, Count, Flag, T
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor
from burnx.types import TensorType


@operator(
    "QAttention",
    since=(1,),
    domain=MICROSOFT,
    outputs=1,
    ranks={"input": 3, "weight": 2, "bias": 1, "past": 5},
)
def q_attention(
    input: T1,
    weight: T2,
    bias: T3,
    input_scale: T3,
    weight_scale: T3,
    mask_index: T4 | None = None,
    input_zero_point: T1 | None = None,
    weight_zero_point: T2 | None = None,
    past: T3 | None = None,
    *,
    do_rotary: Flag = 0,
    mask_filter_value: float = -10000.0,
    num_heads: Count = REQUIRED,  # type: ignore[assignment]
    past_present_share_buffer: Flag = 0,
    scale: float | None = None,
    unidirectional: Flag = 0,
) -> tuple[T3, T3]:
    """Attention whose queries, keys and values are one product of quantized matrices; also keys and values so far.

    ``mask_index`` is a mask of keys or of pairs, 0 for what is not seen, or the ends of the sequences in a vector,
    after them perhaps their beginnings.
    Shapes: input (batch, seq, in), weight (in, 3 hidden) -> (batch, seq, hidden), (2, batch, heads, keys, size).
    Source: onnxruntime com.microsoft QAttention-1
    """
    if do_rotary or past_present_share_buffer:
        raise ModelError(
            "QAttention has neither do_rotary nor past_present_share_buffer: here they are "
            f"{do_rotary} and {past_present_share_buffer}"
        )
    dtype, wide = bias.dtype, compute_dtype(bias.dtype)
    mixed = mat_mul_integer_to_float(
        input, weight, input_scale, weight_scale, input_zero_point, weight_zero_point, bias
    )
    hidden = mixed.shape[2] // 3
    q, k, v = (
        split_heads(waist.slice_axis(mixed, 2, hidden * part, hidden), num_heads)
        for part in range(3)
    )
    before: Dim = 0
    if past is not None:
        before = past.shape[3]
        old = (waist.reshape(_half(past, half), past.shape[1:]) for half in range(2))
        k, v = (waist.concat([each, new], 2) for each, new in zip(old, (k, v), strict=True))
    present = waist.concat([waist.reshape(each, (1, *each.shape)) for each in (k, v)], 0)
    query, key, value = (waist.cast_to(each, wide) for each in (q, k, v))
    scores = scores_of(scaled(query, scale), key)
    if mask_index is not None:
        scores = _masked(scores, mask_index, mask_filter_value)
    if unidirectional:
        scores = _causal(scores, before)
    result = weighted(row_softmax(scores), value)
    return waist.cast_to(join_heads(result), dtype), present


q_attention.limit(
    "do_rotary, past_present_share_buffer: onnxruntime's kernels take neither",
    tests="qattention.*(rotary|share_buffer)",
)


@q_attention.infer
def _q_attention_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    x, bias, past = inputs[0], inputs[2], inputs[8] if len(inputs) > 8 else None
    known = [each for each in (x, bias, past) if each is not None]
    if any(each.shape is None for each in known):
        return [TensorType(bias.dtype, None)] * 2
    batch, seq, _ = x.shape
    heads, hidden = attributes["num_heads"], bias.shape[0] // 3
    keys = seq if past is None else past.shape[3] + seq
    present = (2, batch, heads, keys, hidden // heads)
    return [TensorType(bias.dtype, (batch, seq, hidden)), TensorType(bias.dtype, present)]


def _half(past: Tensor, index: int) -> Tensor:
    return waist.slice_axis(past, 0, index, 1)


def _causal(scores: Tensor, before: Dim) -> Tensor:
    """A query sees what stands before it and itself."""
    seq, keys = scores.shape[2:]
    here = waist.map("add", places(seq, (seq, 1)), size_scalar(before))
    seen = waist.map("le", places(keys, (1, keys)), here)
    lowest = number(-float("inf"), scores)
    return waist.map("select", waist.broadcast(seen, scores.shape), scores, lowest)


def _masked(scores: Tensor, mask: Tensor, filling: float) -> Tensor:
    """Scores, to which ``filling`` is added where the mask says so."""
    seq, keys = scores.shape[2:]
    if mask.ndim == 1:
        seen = _between(mask, scores)
    elif mask.ndim == 2 and not _equal(mask.shape[1], keys, mask, scores):
        if mask.shape[1] != 1:
            raise ShapeError(f"a mask is for {keys} keys or for all, not {mask.shape[1]}")
        return scores
    elif mask.ndim == 2:
        seen = waist.reshape(_positive(mask), (mask.shape[0], 1, 1, keys))
    elif mask.ndim == 3:
        seen = waist.reshape(_positive(mask), (mask.shape[0], 1, seq, keys))
    else:
        raise ModelError(f"QAttention takes a mask of 1 to 3 axes, not {shape_text(mask.shape)}")
    zero, low = (number(value, scores) for value in (0, filling))
    return plus(scores, waist.map("select", seen, zero, low))


def _positive(mask: Tensor) -> Tensor:
    return waist.map("lt", scalar(0, mask), mask)


def _equal(left: Dim, right: Dim, *tensors: Tensor) -> bool:
    """Whether two dimensions of tensors are one number.  Raises: Undetermined while that is not known."""
    if left == right:
        return True
    if not (isinstance(left, int) and isinstance(right, int)):
        for each in tensors:
            waist.static_shape(each)
    return False


def _between(ends: Tensor, scores: Tensor) -> Tensor:
    """Which keys lie before the ends, and from the starts on if they follow in the vector.

    Shapes: -> (batch, 1, 1, keys)
    """
    batch, keys = scores.shape[0], scores.shape[3]
    place = waist.cast_to(places(keys, (1, 1, 1, keys)), int32)
    last = waist.reshape(waist.slice_axis(ends, 0, 0, batch), (batch, 1, 1, 1))
    seen = waist.map("lt", place, last)
    if _equal(ends.shape[0], batch, ends, scores):
        return seen
    if not _equal(ends.shape[0], batch * 2, ends, scores):
        raise ShapeError(
            f"a vector as a mask has as many or twice as many elements as the batch, {batch}: "
            f"found {ends.shape[0]}"
        )
    first = waist.reshape(waist.slice_axis(ends, 0, batch, batch), (batch, 1, 1, 1))
    return waist.map("and", seen, waist.map("le", first, place))


@operator(
    "QEmbedLayerNormalization",
    since=(1,),
    domain=MICROSOFT,
    ranks={
        "input_ids": 2,
        "segment_ids": 2,
        "word_embedding_quant": 2,
        "position_embedding_quant": 2,
        "segment_embedding": 2,
        "gamma_quant": 1,
        "beta_quant": 1,
    },
)
def q_embed_layer_normalization(
    input_ids: T1,
    segment_ids: T1 | None,
    word_embedding_quant: T2,
    position_embedding_quant: T2,
    segment_embedding: T2 | None,
    gamma_quant: T2,
    beta_quant: T2,
    mask: T1 | None,
    word_embedding_scale: T,
    position_embedding_scale: T,
    segment_embedding_scale: T | None,
    gamma_scale: T,
    beta_scale: T,
    word_embedding_zero_point: T2,
    position_embedding_zero_point: T2,
    segment_embedding_zero_point: T2 | None,
    gamma_zero_point: T2,
    beta_zero_point: T2,
    *,
    epsilon: float = 1e-12,
) -> tuple[T, T1]:
    """Embeddings added and normalized, all of them quantized; and how many ones each row of the mask has.

    Source: onnxruntime com.microsoft QEmbedLayerNormalization-1
    """
    segments = (
        segment_ids,
        segment_embedding,
        segment_embedding_scale,
        segment_embedding_zero_point,
    )
    given = [each is not None for each in segments]
    if any(given) and not all(given):
        raise ModelError("QEmbedLayerNormalization takes all of its four segment inputs or none")
    batch, seq = input_ids.shape
    tables = [
        (waist.iota(seq), position_embedding_quant, position_embedding_scale),
        (input_ids, word_embedding_quant, word_embedding_scale),
    ]
    zeros: list[Tensor | None] = [position_embedding_zero_point, word_embedding_zero_point]
    total = None
    if all(given):
        tables.append((segment_ids, segment_embedding, segment_embedding_scale))  # type: ignore[arg-type]
        zeros.append(segment_embedding_zero_point)
    for (places_, table_, scale), zero in zip(tables, zeros, strict=True):
        part = real_of(waist.take(table_, places_, 0), scale, zero)
        total = part if total is None else plus(total, part)
    gamma = real_of(gamma_quant, gamma_scale, gamma_zero_point)
    beta = real_of(beta_quant, beta_scale, beta_zero_point)
    result = find("LayerNormalization")(total, gamma, beta, axis=-1, epsilon=epsilon)
    result = result[0] if isinstance(result, tuple) else result
    if mask is None:
        return result, waist.broadcast(waist.constant(0, int32), (batch,))
    ones = waist.cast_to(waist.map("eq", mask, scalar(1, mask)), int32)
    return result, waist.reduce("sum", ones, [1])
