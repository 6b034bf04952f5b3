"""com.microsoft: activations, products and normalizations that onnxruntime fuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnx import waist
from burnx.dtype import compute_dtype, int32
from burnx.ops.kinds import T1, Flag, Float32, Int32, T
from burnx.ops.operator import operator, table
from burnx.tensor import Tensor

MICROSOFT = "com.microsoft"


def find(op_type: str) -> Callable[..., Any]:
    """An operator of the standard."""
    return table()["", op_type]


def plus(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("add", left, right)


def times(left: Tensor, right: Tensor) -> Tensor:
    return waist.map("mul", left, right)


def scalar(value: float, like: Tensor) -> Tensor:
    return waist.constant(value, like.dtype)


def widened(*tensors: Tensor | None) -> list[Any]:
    """Floats as at least float32."""
    return [x if x is None else waist.cast_to(x, compute_dtype(x.dtype)) for x in tensors]


def _sum(x: Tensor, *others: Tensor | None) -> Tensor:
    for other in others:
        if other is not None:
            x = plus(x, other)
    return x


# ---------------------------------------------------------------------------------------- activations
def gelu_of(x: Tensor) -> Tensor:
    """x (1 + erf(x / sqrt 2)) / 2"""
    tail = waist.map("erf", times(x, scalar(0.5**0.5, x)))
    return times(times(x, scalar(0.5, x)), plus(tail, scalar(1, x)))


@operator("Gelu", since=(1,), domain=MICROSOFT)
def contrib_gelu(x: T) -> T:
    """x times the normal distribution of x.  Source: onnxruntime com.microsoft Gelu-1"""
    (wide,) = widened(x)
    return waist.cast_to(gelu_of(wide), x.dtype)


@operator("BiasGelu", since=(1,), domain=MICROSOFT)
def bias_gelu(a: T, b: T) -> T:
    """gelu(a + b).  Source: onnxruntime com.microsoft BiasGelu-1"""
    wide, bias = widened(a, b)
    return waist.cast_to(gelu_of(plus(wide, bias)), a.dtype)


@operator("FastGelu", since=(1,), domain=MICROSOFT)
def fast_gelu(x: T, bias: T | None = None) -> T:
    """gelu(x + bias) by way of tanh.  Source: onnxruntime com.microsoft FastGelu-1"""
    wide, extra = widened(x, bias)
    wide = _sum(wide, extra)
    cube = times(wide, times(wide, wide))
    inner = times(plus(wide, times(cube, scalar(0.044715, wide))), scalar(0.7978845608, wide))
    result = times(times(wide, scalar(0.5, wide)), plus(waist.map("tanh", inner), scalar(1, wide)))
    return waist.cast_to(result, x.dtype)


@operator("QuickGelu", since=(1,), domain=MICROSOFT)
def quick_gelu(x: T, *, alpha: float = 1.702) -> T:
    """x sigmoid(alpha x).  Source: onnxruntime com.microsoft QuickGelu-1"""
    (wide,) = widened(x)
    powers = waist.map("exp", times(wide, scalar(-alpha, wide)))
    return waist.cast_to(waist.map("div", wide, plus(powers, scalar(1, wide))), x.dtype)


# ---------------------------------------------------------------------------------------- products
def _swapped(x: Tensor) -> Tensor:
    rank = x.ndim
    return waist.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else x


def _first_behind_batch(x: Tensor) -> Tensor:
    """Shapes: (m, *batch, k) -> (*batch, m, k)"""
    rank = x.ndim
    return waist.transpose(x, [*range(1, rank - 1), 0, rank - 1]) if rank > 2 else x


@operator("FusedMatMul", since=(1,), domain=MICROSOFT)
def fused_mat_mul(
    a: T,
    b: T,
    *,
    alpha: float = 1.0,
    transA: Flag = 0,
    transB: Flag = 0,
    transBatchA: Flag = 0,
    transBatchB: Flag = 0,
) -> T:
    """alpha a b, either matrix transposed first; with transBatch its first axis stands before the batch.

    Source: onnxruntime com.microsoft FusedMatMul-1
    """
    a, b = (
        _first_behind_batch(x) if flag else x for x, flag in ((a, transBatchA), (b, transBatchB))
    )
    left, right = (_swapped(x) if flag else x for x, flag in ((a, transA), (b, transB)))
    product: Tensor = find("MatMul")(left, right)
    return product if alpha == 1 else times(product, scalar(alpha, product))


# ---------------------------------------------------------------------------------------- normalizations
def _mean(x: Tensor) -> Tensor:
    """Shapes: (*s, n) -> (*s, 1)"""
    axis = x.ndim - 1
    total = waist.reshape(waist.reduce("sum", x, [axis]), (*x.shape[:-1], 1))
    count = waist.cast_to(waist.reshape(waist.sizes(x.shape[-1]), ()), x.dtype)
    return waist.map("div", total, count)


def _normalized(
    x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalized rows, their means and what they were multiplied by."""
    mean = _mean(x)
    moved = waist.map("sub", x, mean) if centred else x
    spread = plus(_mean(times(moved, moved)), scalar(epsilon, x))
    factor = waist.map("div", scalar(1, x), waist.map("sqrt", spread))
    return _sum(times(times(moved, factor), gamma), beta), mean, factor


def _skip(
    given: Sequence[Tensor | None], epsilon: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = given[0].dtype  # type: ignore[union-attr]
    x, skip, gamma, beta, bias = widened(*given)
    total = _sum(x, skip, bias)
    result, mean, factor = _normalized(total, gamma, beta, epsilon, centred)
    return waist.cast_to(result, dtype), mean, factor, waist.cast_to(total, dtype)


@operator("SkipLayerNormalization", since=(1,), domain=MICROSOFT, outputs=1)
def skip_layer_normalization(
    input: T,
    skip: T,
    gamma: T,
    beta: T | None = None,
    bias: T | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[T, Float32, Float32, T]:
    """Layer normalization of input + skip + bias; also the mean, the inverse deviation and the sum.

    Source: onnxruntime com.microsoft SkipLayerNormalization-1
    """
    return _skip([input, skip, gamma, beta, bias], epsilon, True)


@operator("SkipSimplifiedLayerNormalization", since=(1,), domain=MICROSOFT, outputs=1)
def skip_simplified_layer_normalization(
    input: T, skip: T, gamma: T, bias: T | None = None, *, epsilon: float = 1e-12
) -> tuple[T, Float32, Float32, T]:
    """Root mean square normalization of input + skip + bias.

    Source: onnxruntime com.microsoft SkipSimplifiedLayerNormalization-1
    """
    return _skip([input, skip, gamma, None, bias], epsilon, False)


@operator(
    "EmbedLayerNormalization",
    since=(1,),
    domain=MICROSOFT,
    outputs=2,
    ranks={
        "input_ids": 2,
        "segment_ids": 2,
        "word_embedding": 2,
        "position_embedding": 2,
        "segment_embedding": 2,
        "gamma": 1,
        "beta": 1,
    },
)
def embed_layer_normalization(
    input_ids: T1,
    segment_ids: T1 | None,
    word_embedding: T,
    position_embedding: T,
    segment_embedding: T | None,
    gamma: T,
    beta: T,
    mask: T1 | None = None,
    position_ids: T1 | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[T, Int32, T]:
    """Word, position and segment embeddings added and normalized; how long each masked sequence is; the sum.

    Source: onnxruntime com.microsoft EmbedLayerNormalization-1
    """
    batch, seq = input_ids.shape
    places = waist.iota(seq) if position_ids is None else position_ids
    total = plus(
        waist.take(word_embedding, input_ids, 0), waist.take(position_embedding, places, 0)
    )
    if segment_ids is not None and segment_embedding is not None:
        total = plus(total, waist.take(segment_embedding, segment_ids, 0))
    wide, scale, shift = widened(total, gamma, beta)
    result, _, _ = _normalized(wide, scale, shift, epsilon, True)
    if mask is None:
        index = waist.broadcast(waist.constant(0, int32), (batch,))
    else:
        seen = waist.map("not", waist.map("eq", mask, scalar(0, mask)))
        index = waist.reduce("sum", waist.cast_to(seen, int32), [1])
    return waist.cast_to(result, total.dtype), index, total
