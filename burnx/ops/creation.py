"""Operators that make tensors from sizes and numbers: Constant, ConstantOfShape and Range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import float64, int64, is_float, string
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, T
from burnx.ops.operator import operator
from burnx.shape import Dim, Expr, maximum
from burnx.tensor import Tensor
from burnx.types import TensorType

Array = np.ndarray[Any, Any]


@operator("Constant", since=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25))
def constant(
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> T:
    """The value of the one attribute that is given.  Source: ONNX Constant-25"""
    typed = (
        (value, None),
        (sparse_value, None),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_string, object),
        (value_strings, object),
    )
    given = [(each, dtype) for each, dtype in typed if each is not None]
    if len(given) != 1:
        raise ModelError(f"a Constant has exactly one value, not {len(given)}")
    ((found, dtype),) = given
    return waist.constant(found, None if dtype is None else np.dtype(dtype))


@operator("ConstantOfShape", since=(9, 20, 21, 23, 24, 25), ranks={"input": 1})
def constant_of_shape(input: T1, *, value: Array | None = None) -> T2:
    """A tensor of the shape that the input holds, filled with one value.  Source: ONNX ConstantOfShape-25"""
    filling = _filling(value)
    return waist.broadcast(waist.constant(filling), waist.dims(input))


def _filling(value: Array | None) -> Array:
    if value is None:
        return np.zeros((), np.float32)
    array = np.asarray(value)
    if array.size != 1:
        raise ModelError(f"ConstantOfShape fills with one value, not {array.size}")
    return array.reshape(())


@constant_of_shape.infer
def _constant_of_shape_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    dtype = _filling(attributes.get("value")).dtype
    return [TensorType(string if dtype.kind == "O" else dtype, None)]


@operator("Range", since=(11, 27))
def range(start: T, limit: T, delta: T, *, stash_type: int = 1) -> T:
    """start, start + delta, … up to but without the limit.  Source: ONNX Range-27"""
    if stash_type not in (1, 11):
        raise ModelError(f"Range adds up in float (1) or double (11), not {stash_type}")
    scalars = [waist.reshape(each, ()) for each in (start, limit, delta)]
    count = _known_count(*scalars)
    if count is None:
        count = waist.dims(waist.reshape(_count(*scalars), (1,)))[0]
    first, _, step = scalars
    dtype = start.dtype
    if is_float(dtype):
        first, step = waist.cast_to(first, float64), waist.cast_to(step, float64)
    steps = waist.map("mul", waist.cast_to(waist.iota(count), first.dtype), step)
    return waist.cast_to(waist.map("add", first, steps), dtype)


def _known_count(start: Tensor, limit: Tensor, delta: Tensor) -> Dim | None:
    """How many steps there are, where that follows from numbers and sizes."""
    if is_float(start.dtype):
        return None
    known = [waist.known_dims(each) for each in (start, limit, delta)]
    if any(each is None for each in known):
        return None
    (first,), (last,), (step,) = known  # type: ignore[misc]
    if isinstance(step, Expr):
        return None
    if step == 0:
        raise ModelError("Range needs a delta other than 0")
    return maximum(-((first - last) // step), 0)


def _count(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """max(ceil((limit - start) / delta), 0), while running."""
    wide = float64 if is_float(start.dtype) else int64
    start, limit, delta = (waist.cast_to(each, wide) for each in (start, limit, delta))
    distance = waist.map("sub", limit, start)
    if wide == float64:
        steps = waist.map("ceil", waist.map("div", distance, delta))
    else:
        whole = waist.map("div", distance, delta)
        rest = waist.map("sub", distance, waist.map("mul", whole, delta))
        zero = waist.constant(0, int64)
        ahead = waist.map("eq", waist.map("lt", rest, zero), waist.map("lt", delta, zero))
        more = waist.map("and", waist.map("not", waist.map("eq", rest, zero)), ahead)
        steps = waist.map("add", whole, waist.cast_to(more, int64))
    return waist.cast_to(waist.map("max", steps, waist.constant(0, wide)), int64)
