"""Normalizations: of layers, groups, instances, channels and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, compute_dtype, dtype_of_code
from burnx.errors import ModelError, ShapeError
from burnx.ops.arithmetic import div
from burnx.ops.kinds import Count, T, U, V
from burnx.ops.logic import where
from burnx.ops.movement import (
    concat,
    expand,
    has_rank,
    normal_axes,
    normal_axis,
    reshape,
    shape,
    unsqueeze,
)
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.precision import number, widen
from burnx.ops.reduction import Axes, fold_axes, mean_along
from burnx.shape import product
from burnx.tensor import Tensor
from burnx.types import TensorType


def centred(x: Tensor, axes: Axes) -> tuple[Tensor, Tensor, Tensor]:
    """x less its mean along ``axes``, the mean, and the population variance."""
    mean = mean_along(x, axes)
    distance = x - mean
    return distance, mean, mean_along(distance * distance, axes)


def per_channel(values: Tensor, rank: int) -> Tensor:
    """A vector with one number for each channel, shaped so that it broadcasts along axis 1 of ``rank`` axes."""
    return waist.reshape(values, [values.shape[0], *[1] * (rank - 2)])


def scaled(x: Tensor, scale: Tensor, bias: Tensor | None, dtype: DType) -> Tensor:
    """x * scale + bias, computed in the compute dtype of ``dtype`` and rounded to it."""
    wide = compute_dtype(dtype)
    result = waist.cast_to(x, wide) * waist.cast_to(scale, wide)
    if bias is not None:
        result = result + waist.cast_to(bias, wide)
    return waist.cast_to(result, dtype)


def _trailing_axes(x: Tensor, axis: int) -> Axes:
    return tuple(range(normal_axis(axis, x.ndim), x.ndim))


@operator("LayerNormalization", since=(17,), outputs=1)
def layer_normalization(
    x: T,
    scale: T,
    b: T | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[T, U, U]:
    """(x - mean) / sqrt(variance + epsilon) * scale + b over the axes from ``axis`` on, with the statistics.

    Source: ONNX LayerNormalization-17
    """
    wide = waist.cast_to(x, dtype_of_code(stash_type))
    distance, mean, variance = centred(wide, _trailing_axes(x, axis))
    inverse = 1.0 / waist.map("sqrt", variance + epsilon)
    return scaled(distance * inverse, scale, b, x.dtype), mean, inverse


@layer_normalization.infer
def _layer_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    statistics = TensorType(dtype_of_code(attributes.get("stash_type", 1)), None)
    return [TensorType(inputs[0].dtype, None), statistics, statistics]


def _rms(x: Tensor, axis: int, epsilon: float, stash_type: int) -> tuple[Tensor, Tensor]:
    """x over its root mean square from ``axis`` on, and the inverse of that root."""
    wide = waist.cast_to(x, dtype_of_code(stash_type))
    mean_square = mean_along(wide * wide, _trailing_axes(x, axis))
    inverse = 1.0 / waist.map("sqrt", mean_square + epsilon)
    return wide * inverse, inverse


@operator("RMSNormalization", since=(23,))
def rms_normalization(
    x: T, scale: V, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> V:
    """x / sqrt(mean(x * x) + epsilon) * scale over the axes from ``axis`` on.  Source: ONNX RMSNormalization-23"""
    return scaled(_rms(x, axis, epsilon, stash_type)[0], scale, None, scale.dtype)


@operator("SimplifiedLayerNormalization", since=(1,), outputs=1)
def simplified_layer_normalization(
    x: T, scale: V, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[V, U]:
    """RMSNormalization as onnxruntime wrote it before the standard had it, with the inverse of the root.

    Source: onnxruntime, contrib_defs.cc
    """
    result, inverse = _rms(x, axis, epsilon, stash_type)
    return scaled(result, scale, None, scale.dtype), inverse


@operator("GroupNormalization", since=(18, 21), meaning=21, ranks={"x": -2, "scale": 1, "bias": 1})
def group_normalization(
    x: T,
    scale: T,
    bias: T,
    *,
    num_groups: Count = REQUIRED,  # type: ignore[assignment]
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> T:
    """Normalize each group of channels of each sample; scale and bias have one number for each channel.

    Source: ONNX GroupNormalization-21
    """
    channels = x.shape[1]
    if num_groups < 1 or (isinstance(channels, int) and channels % num_groups):
        raise ShapeError(f"the channels are a multiple of the groups: {channels} and {num_groups}")
    rest = (channels // num_groups) * product(x.shape[2:])
    groups = waist.reshape(x, [x.shape[0], num_groups, rest])
    distance, _, variance = centred(waist.cast_to(groups, dtype_of_code(stash_type)), (2,))
    normal = waist.reshape(distance / waist.map("sqrt", variance + epsilon), x.shape)
    return scaled(normal, per_channel(scale, x.ndim), per_channel(bias, x.ndim), x.dtype)


@group_normalization.upgrade(from_version=20)
def group_normalization_18(
    x: T,
    scale: T,
    bias: T,
    *,
    num_groups: Count = REQUIRED,  # type: ignore[assignment]
    epsilon: float = 1e-5,
) -> T:
    """GroupNormalization with one scale and bias for each group."""
    channels = x.shape[1] if has_rank(x) else None
    if isinstance(channels, int):
        each: Any = np.array([num_groups, channels // num_groups], np.int64)
    else:
        counted = div(shape(x, start=1, end=2), np.int64(num_groups))
        each = concat(np.array([num_groups], np.int64), counted, axis=0)
    scale, bias = (reshape(expand(unsqueeze(vector, [1]), each), [-1]) for vector in (scale, bias))
    return group_normalization(x, scale, bias, num_groups=num_groups, epsilon=epsilon)


@operator(
    "InstanceNormalization", since=(1, 6, 22), meaning=6, ranks={"input": -2, "scale": 1, "b": 1}
)
def instance_normalization(input: T, scale: T, b: T, *, epsilon: float = 1e-5) -> T:
    """Normalize each channel of each sample.  Source: ONNX InstanceNormalization-22"""
    rank = input.ndim
    distance, _, variance = centred(widen(input), tuple(range(2, rank)))
    normal = distance / waist.map("sqrt", variance + epsilon)
    return scaled(normal, per_channel(scale, rank), per_channel(b, rank), input.dtype)


@operator("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalization(x: T, *, axes: Sequence[int] = (0, 2, 3)) -> T:
    """(x - mean) / (sqrt(variance) + 1e-9) along ``axes``.  Source: ONNX MeanVarianceNormalization-13"""
    distance, _, variance = centred(widen(x), normal_axes(axes, x.ndim))
    return waist.cast_to(distance / (waist.map("sqrt", variance) + 1e-9), x.dtype)


@operator("LpNormalization", since=(1, 22), meaning=1)
def lp_normalization(input: T, *, axis: int = -1, p: int = 2) -> T:
    """x over its norm along an axis; zeros stay zeros.  Source: ONNX LpNormalization-22"""
    if p not in (1, 2):
        raise ModelError(f"LpNormalization has p 1 or 2, not {p}")
    place, wide = (normal_axis(axis, input.ndim),), widen(input)
    if p == 1:
        norm = fold_axes("sum", waist.map("abs", wide), place)
    else:
        norm = waist.map("sqrt", fold_axes("sum", wide * wide, place))
    zero = number(0, wide)
    return waist.cast_to(where(waist.map("eq", norm, zero), zero, wide / norm), input.dtype)


@operator("LRN", since=(1, 13), ranks={"x": -2})
def lrn(
    x: T,
    *,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: Count = REQUIRED,  # type: ignore[assignment]
) -> T:
    """x / (bias + alpha / size * sum of squares over ``size`` channels around)^beta.  Source: ONNX LRN-13"""
    wide = widen(x)
    flat = [1] * (x.ndim - 2)
    around = [((size - 1) // 2, size // 2)] + [(0, 0)] * len(flat)
    ones = [1] * (len(flat) + 1)
    total = waist.window_reduce("sum", wide * wide, [size, *flat], ones, ones, around)
    divisor = waist.map("pow", total * (alpha / size) + bias, number(beta, wide))
    return waist.cast_to(wide / divisor, x.dtype)
