"""Operators that draw random numbers; a ``seed`` makes every call draw the same."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import DType, compute_dtype, dtype_of_code, float32, float64, int64
from burnx.errors import ModelError, ShapeError
from burnx.ops import drawing
from burnx.ops.kinds import T1, T2, Count, T
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Shape
from burnx.tensor import Tensor
from burnx.types import TensorType


def _dtype(code: int | None, otherwise: DType) -> DType:
    return otherwise if code is None else dtype_of_code(code)


def _sizes(shape: Sequence[int]) -> Shape:
    if any(size < 0 for size in shape):
        raise ModelError(f"the sizes of a shape are at least 0, not {list(shape)}")
    return tuple(shape)


def _normal(shape: Shape, moments: tuple[float, float], seed: float | None, dtype: DType) -> Tensor:
    if not moments[1] >= 0:
        raise ModelError(f"scale, a deviation, is at least 0, not {moments[1]}")
    return drawing.normal(shape, moments, seed, dtype)


def _uniform(shape: Shape, ends: tuple[float, float], seed: float | None, dtype: DType) -> Tensor:
    if not ends[0] <= ends[1]:
        raise ModelError(f"low is at most high, not {ends[0]} and {ends[1]}")
    return drawing.uniform(shape, ends, seed, dtype)


@operator("RandomNormal", since=(1, 22))
def random_normal(
    *,
    shape: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    mean: float = 0.0,
    scale: float = 1.0,
    dtype: int = 1,
    seed: float | None = None,
) -> T:
    """Normal numbers of a mean and deviation.  Source: ONNX RandomNormal-22"""
    return _normal(_sizes(shape), (mean, scale), seed, dtype_of_code(dtype))


@operator("RandomUniform", since=(1, 22))
def random_uniform(
    *,
    shape: Sequence[int] = REQUIRED,  # type: ignore[assignment]
    low: float = 0.0,
    high: float = 1.0,
    dtype: int = 1,
    seed: float | None = None,
) -> T:
    """Numbers from low up to high.  Source: ONNX RandomUniform-22"""
    return _uniform(_sizes(shape), (low, high), seed, dtype_of_code(dtype))


@operator("RandomNormalLike", since=(1, 22))
def random_normal_like(
    input: T1,
    *,
    mean: float = 0.0,
    scale: float = 1.0,
    dtype: int | None = None,
    seed: float | None = None,
) -> T2:
    """RandomNormal with the shape, and unless given the dtype, of the input.  Source: ONNX RandomNormalLike-22"""
    return _normal(input.shape, (mean, scale), seed, _dtype(dtype, input.dtype))


@operator("RandomUniformLike", since=(1, 22))
def random_uniform_like(
    input: T1,
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: int | None = None,
    seed: float | None = None,
) -> T2:
    """RandomUniform with the shape, and unless given the dtype, of the input.  Source: ONNX RandomUniformLike-22"""
    return _uniform(input.shape, (low, high), seed, _dtype(dtype, input.dtype))


@operator("Bernoulli", since=(15, 22))
def bernoulli(input: T1, *, dtype: int | None = None, seed: float | None = None) -> T2:
    """1 with the probability that the input says, else 0.  Source: ONNX Bernoulli-22"""
    wide = compute_dtype(input.dtype)
    drawn = drawing.uniform(input.shape, (0.0, 1.0), seed, wide)
    hit = waist.map("lt", drawn, waist.cast_to(input, wide))
    return waist.cast_to(hit, _dtype(dtype, input.dtype))


@operator("Multinomial", since=(7, 22), ranks={"input": 2})
def multinomial(
    input: T1, *, sample_size: Count = 1, dtype: int = 6, seed: float | None = None
) -> T2:
    """Classes drawn by their unnormalized log-probabilities.

    Shapes: (batch, class) -> (batch, sample_size).
    Source: ONNX Multinomial-22
    """
    if input.ndim != 2:
        raise ShapeError(f"Multinomial takes (batch, class), not rank {input.ndim}")
    batch, classes = input.shape
    logits = waist.cast_to(input, float64)
    top = waist.reshape(waist.reduce("max", logits, [1]), (batch, 1))
    weights = waist.map("exp", waist.map("sub", logits, top))
    steps = waist.cumulate("sum", weights, 1)
    total = waist.slice_axis(steps, 1, classes - 1, 1)
    drawn = drawing.uniform((batch, sample_size), (0.0, 1.0), seed, float32)
    mark = waist.map("mul", waist.cast_to(drawn, float64), total)
    passed = waist.map(
        "le",
        waist.reshape(steps, (batch, 1, classes)),
        waist.reshape(mark, (batch, sample_size, 1)),
    )
    found = waist.reduce("sum", waist.cast_to(passed, int64), [2])
    last = waist.reshape(waist.sizes(classes - 1), ())
    return waist.cast_to(waist.map("min", found, last), dtype_of_code(dtype))


def _typed_like(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """The dtype that an attribute names, else that of the input."""
    return [TensorType(_dtype(attributes.get("dtype"), inputs[0].dtype), None)]


for _operator in (random_normal_like, random_uniform_like, bernoulli):
    _operator.infer(_typed_like)


@multinomial.infer
def _multinomial_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(dtype_of_code(attributes.get("dtype", 6)), None)]
