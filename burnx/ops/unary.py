"""Elementwise functions of one number."""

from __future__ import annotations

from burnx import waist
from burnx.ops.kinds import T1, Bool, Flag, T
from burnx.ops.operator import operator
from burnx.ops.precision import map_float, number


@operator("Exp", since=(1, 6, 13))
def exp(input: T) -> T:
    """e to the power of x.  Source: ONNX Exp-13"""
    return waist.map("exp", input)


@operator("Log", since=(1, 6, 13))
def log(input: T) -> T:
    """The natural logarithm.  Source: ONNX Log-13"""
    return waist.map("log", input)


@operator("Sqrt", since=(1, 6, 13))
def sqrt(x: T) -> T:
    """The square root; NaN below 0.  Source: ONNX Sqrt-13"""
    return waist.map("sqrt", x)


@operator("Sin", since=(7, 22), meaning=7)
def sin(input: T) -> T:
    """The sine.  Source: ONNX Sin-22"""
    return waist.map("sin", input)


@operator("Cos", since=(7, 22), meaning=7)
def cos(input: T) -> T:
    """The cosine.  Source: ONNX Cos-22"""
    return waist.map("cos", input)


@operator("Tan", since=(7, 22), meaning=7)
def tan(input: T) -> T:
    """The tangent.  Source: ONNX Tan-22"""
    return waist.map("tan", input)


@operator("Asin", since=(7, 22), meaning=7)
def asin(input: T) -> T:
    """The angle of a sine.  Source: ONNX Asin-22"""
    return waist.map("asin", input)


@operator("Acos", since=(7, 22), meaning=7)
def acos(input: T) -> T:
    """The angle of a cosine.  Source: ONNX Acos-22"""
    return waist.map("acos", input)


@operator("Atan", since=(7, 22), meaning=7)
def atan(input: T) -> T:
    """The angle of a tangent.  Source: ONNX Atan-22"""
    return waist.map("atan", input)


@operator("Sinh", since=(9, 22), meaning=9)
def sinh(input: T) -> T:
    """The hyperbolic sine.  Source: ONNX Sinh-22"""
    return waist.map("sinh", input)


@operator("Cosh", since=(9, 22), meaning=9)
def cosh(input: T) -> T:
    """The hyperbolic cosine.  Source: ONNX Cosh-22"""
    return waist.map("cosh", input)


@operator("Asinh", since=(9, 22), meaning=9)
def asinh(input: T) -> T:
    """The inverse hyperbolic sine.  Source: ONNX Asinh-22"""
    return waist.map("asinh", input)


@operator("Acosh", since=(9, 22), meaning=9)
def acosh(input: T) -> T:
    """The inverse hyperbolic cosine.  Source: ONNX Acosh-22"""
    return waist.map("acosh", input)


@operator("Atanh", since=(9, 22), meaning=9)
def atanh(input: T) -> T:
    """The inverse hyperbolic tangent.  Source: ONNX Atanh-22"""
    return waist.map("atanh", input)


@operator("Floor", since=(1, 6, 13))
def floor(x: T) -> T:
    """The greatest whole number that is not above x.  Source: ONNX Floor-13"""
    return waist.map("floor", x)


@operator("Ceil", since=(1, 6, 13))
def ceil(x: T) -> T:
    """The least whole number that is not below x.  Source: ONNX Ceil-13"""
    return waist.map("ceil", x)


@operator("Round", since=(11, 22), meaning=11)
def round(x: T) -> T:
    """The nearest whole number, of two the even one.  Source: ONNX Round-22"""
    return waist.map("round", x)


@operator("Erf", since=(9, 13))
def erf(input: T) -> T:
    """The error function.  Source: ONNX Erf-13"""
    return map_float("erf", input)


@operator("IsNaN", since=(9, 13, 20))
def is_nan(x: T1) -> Bool:
    """Whether it is not a number.  Source: ONNX IsNaN-20"""
    return waist.map("is_nan", x)


@operator("IsInf", since=(10, 20), meaning=10)
def is_inf(x: T1, *, detect_negative: Flag = 1, detect_positive: Flag = 1) -> Bool:
    """Whether it is infinite, of the signs to detect.  Source: ONNX IsInf-20"""
    infinite = waist.map("is_inf", x)
    zero = waist.broadcast(number(0, x), x.shape)
    if not detect_negative:
        infinite = waist.map("and", infinite, waist.map("lt", zero, x))
    if not detect_positive:
        infinite = waist.map("and", infinite, waist.map("lt", x, zero))
    return infinite
