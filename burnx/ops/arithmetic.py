"""Elementwise arithmetic on numbers."""

from __future__ import annotations

from functools import reduce

from burnx import waist
from burnx.dtype import compute_dtype, is_float, is_integer
from burnx.errors import DTypeError
from burnx.ops.kinds import T1, Flag, T
from burnx.ops.operator import operator


@operator("Add", since=(1, 6, 7, 13, 14))
def add(a: T, b: T) -> T:
    """a + b, broadcast.  Source: ONNX Add-14"""
    return waist.map("add", a, b)


@operator("Sub", since=(1, 6, 7, 13, 14))
def sub(a: T, b: T) -> T:
    """a - b, broadcast.  Source: ONNX Sub-14"""
    return waist.map("sub", a, b)


@operator("Mul", since=(1, 6, 7, 13, 14))
def mul(a: T, b: T) -> T:
    """a * b, broadcast.  Source: ONNX Mul-14"""
    return waist.map("mul", a, b)


@operator("Div", since=(1, 6, 7, 13, 14))
def div(a: T, b: T) -> T:
    """a / b, broadcast; integers truncate towards zero and x / 0 is 0.  Source: ONNX Div-14"""
    return waist.map("div", a, b)


@operator("Mod", since=(10, 13, 28))
def mod(a: T, b: T, *, fmod: Flag = 0) -> T:
    """The remainder: with the sign of b (floored) or, if ``fmod``, with the sign of a (truncated).

    Source: ONNX Mod-28
    """
    return waist.map("trunc_mod" if fmod else "floor_mod", a, b)


@operator("Pow", since=(1, 7, 12, 13, 15))
def pow(x: T, y: T1) -> T:
    """x to the power of y, in the dtype of x.  Source: ONNX Pow-15"""
    if x.dtype == y.dtype:
        return waist.map("pow", x, y)
    if is_integer(x.dtype) and is_float(y.dtype):
        wide = compute_dtype(y.dtype)
        power = waist.map("pow", waist.cast_to(x, wide), waist.cast_to(y, wide))
        return waist.cast_to(power, x.dtype)
    return waist.map("pow", x, waist.cast_to(y, x.dtype))


@operator("Neg", since=(1, 6, 13))
def neg(x: T) -> T:
    """-x.  Source: ONNX Neg-13"""
    return waist.map("neg", x)


@operator("Abs", since=(1, 6, 13))
def abs(x: T) -> T:
    """|x|.  Source: ONNX Abs-13"""
    return waist.map("abs", x)


@operator("Sign", since=(9, 13))
def sign(input: T) -> T:
    """-1, 0 or 1.  Source: ONNX Sign-13"""
    return waist.map("sign", input)


@operator("Reciprocal", since=(1, 6, 13))
def reciprocal(x: T) -> T:
    """1 / x.  Source: ONNX Reciprocal-13"""
    return waist.map("div", waist.constant(1, x.dtype), x)


@operator("Sum", since=(1, 6, 8, 13))
def sum(*data_0: T) -> T:
    """The sum of all inputs, broadcast.  Source: ONNX Sum-13"""
    return reduce(lambda a, b: waist.map("add", a, b), data_0)


@operator("Mean", since=(1, 6, 8, 13))
def mean(*data_0: T) -> T:
    """The mean of all inputs, broadcast.  Source: ONNX Mean-13"""
    total = reduce(lambda a, b: waist.map("add", a, b), data_0)
    return waist.map("div", total, waist.constant(len(data_0), total.dtype))


@operator("Max", since=(1, 6, 8, 12, 13))
def max(*data_0: T) -> T:
    """The greatest of all inputs, broadcast; NaN wins.  Source: ONNX Max-13"""
    return reduce(lambda a, b: waist.map("max", a, b), data_0)


@operator("Min", since=(1, 6, 8, 12, 13))
def min(*data_0: T) -> T:
    """The least of all inputs, broadcast; NaN wins.  Source: ONNX Min-13"""
    return reduce(lambda a, b: waist.map("min", a, b), data_0)


@operator("Clip", since=(1, 6, 11, 12, 13))
def clip(input: T, min: T | None = None, max: T | None = None) -> T:
    """Min(max, Max(x, min)): NaN stays, and a min above max gives max.  Source: ONNX Clip-13"""
    x = input
    if min is not None:
        x = waist.map("max", x, waist.reshape(min, ()))
    if max is not None:
        x = waist.map("min", x, waist.reshape(max, ()))
    return x


@clip.upgrade(from_version=10)
def clip_6(
    input: T,
    *,
    max: float = 3.4028234663852886e38,
    min: float = -3.4028234663852886e38,
    consumed_inputs: object = None,
) -> T:
    """Clip with its bounds as attributes."""
    if not is_float(input.dtype):
        raise DTypeError("Clip before opset 12 takes floats")
    return clip(input, min, max)
