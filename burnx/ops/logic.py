"""Comparisons, logic and choice."""

from __future__ import annotations

from burnx import waist
from burnx.ops.kinds import Bool, T
from burnx.ops.operator import operator


@operator("Equal", since=(1, 7, 11, 13, 19))
def equal(a: T, b: T) -> Bool:
    """a == b, broadcast.  Source: ONNX Equal-19"""
    return waist.map("eq", a, b)


@operator("Less", since=(1, 7, 9, 13))
def less(a: T, b: T) -> Bool:
    """a < b, broadcast.  Source: ONNX Less-13"""
    return waist.map("lt", a, b)


@operator("LessOrEqual", since=(12, 16))
def less_or_equal(a: T, b: T) -> Bool:
    """a <= b, broadcast.  Source: ONNX LessOrEqual-16"""
    return waist.map("le", a, b)


@operator("Greater", since=(1, 7, 9, 13))
def greater(a: T, b: T) -> Bool:
    """a > b, broadcast.  Source: ONNX Greater-13"""
    return waist.map("lt", b, a)


@operator("GreaterOrEqual", since=(12, 16))
def greater_or_equal(a: T, b: T) -> Bool:
    """a >= b, broadcast.  Source: ONNX GreaterOrEqual-16"""
    return waist.map("le", b, a)


@operator("And", since=(1, 7))
def and_(a: Bool, b: Bool) -> Bool:
    """Whether both hold, broadcast.  Source: ONNX And-7"""
    return waist.map("and", a, b)


@operator("Or", since=(1, 7))
def or_(a: Bool, b: Bool) -> Bool:
    """Whether either holds, broadcast.  Source: ONNX Or-7"""
    return waist.map("or", a, b)


@operator("Xor", since=(1, 7))
def xor(a: Bool, b: Bool) -> Bool:
    """Whether exactly one holds, broadcast.  Source: ONNX Xor-7"""
    return waist.map("xor", a, b)


@operator("Not", since=(1,))
def not_(x: Bool) -> Bool:
    """Whether it does not hold.  Source: ONNX Not-1"""
    return waist.map("not", x)


@operator("Where", since=(9, 16))
def where(condition: Bool, x: T, y: T) -> T:
    """x where the condition holds, else y; broadcast.  Source: ONNX Where-16"""
    return waist.map("select", condition, x, y)
