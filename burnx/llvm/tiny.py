"""Floats of 8 bits and fewer: read through a table, written by arithmetic on the bits of a float32.

Source: ml_dtypes 0.5.4, whose conversions these are, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from burnx.dtype import DType, bfloat16, dtype_name, float16, is_low_precision
from burnx.llvm.context import Context
from burnx.llvm.dtypes import lanes_of, like, mangled
from burnx.llvm.literals import like_literal
from burnx.llvm.writer import Ssa, integer


def is_tiny_float(dtype: DType) -> bool:
    return is_low_precision(dtype) and dtype not in (float16, bfloat16)


def decode_tiny(context: Context, value: Ssa, dtype: DType) -> Ssa:
    """Codes (i8) as floats."""
    table = _table(context, dtype)
    lanes = lanes_of(value.type)
    if lanes == 1:
        return _look_up(context, table, value)
    result = Ssa("poison", f"<{lanes} x float>")
    for lane in range(lanes):
        number = _look_up(context, table, context.pick(value, integer(lane)))
        result = context.writer.value(result.type, f"insertelement {result}, {number}, i64 {lane}")
    return result


def _look_up(context: Context, table: Ssa, code: Ssa) -> Ssa:
    writer = context.writer
    place = writer.pointer(table, writer.convert("zext", code, "i64"), "i32")
    return writer.load("float", place, 4)


def _table(context: Context, dtype: DType) -> Ssa:
    """A constant with the number of every code, as bits."""
    name = f"codes.{dtype_name(dtype)}"
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    listed = ", ".join(f"i32 {bits}" for bits in numbers.view(np.uint32))
    context.writer.declarations[name] = f"@{name} = private constant [256 x i32] [{listed}]"
    return Ssa(f"@{name}", "ptr")


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Format:
    """``special`` is the code of what is too large, ``nans`` those of NaN and of NaN with a sign."""

    mantissa: int
    bias: int
    sign: int
    largest: float
    largest_code: int
    special: int
    nans: tuple[int, int]
    has_negative_zero: bool


def _format(dtype: DType) -> _Format:
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]

    def code(number: float) -> int:
        with np.errstate(all="ignore"):
            return int(np.asarray(number, np.float32).astype(dtype).view(np.uint8))

    largest, nan = float(info.max), float("nan")
    sign = 1 << (int(info.bits) - 1)
    special = code(float("inf"))
    return _Format(
        mantissa=int(info.nmant),
        bias=1 - int(info.minexp),
        sign=sign,
        largest=largest,
        largest_code=code(largest),
        special=special,
        nans=(code(nan), code(-nan)),
        has_negative_zero=code(-0.0) == sign,
    )


def encode_tiny(context: Context, value: Ssa, dtype: DType, saturate: bool) -> Ssa:
    """Floats as codes (i8), rounded to nearest, ties to even."""
    writer, form = context.writer, _format(dtype)
    if saturate or dtype_name(dtype).startswith(("float4", "float6")):
        value = _clip(context, value, form.largest)
    bits = writer.convert("bitcast", value, like(value.type, "i32"))
    if dtype_name(dtype) == "float8_e8m0fnu":
        code = _encode_exponent(context, value, bits)
    else:
        code = _encode_signed(context, value, bits, form)
    return writer.convert("trunc", code, like(value.type, "i8"))


def _clip(context: Context, value: Ssa, largest: float) -> Ssa:
    writer, top, low = context.writer, like_literal(largest, value), like_literal(-largest, value)
    value = writer.select(writer.compare("fcmp ogt", value, top), top, value)
    return writer.select(writer.compare("fcmp olt", value, low), low, value)


def _encode_signed(context: Context, value: Ssa, bits: Ssa, form: _Format) -> Ssa:
    writer = context.writer
    negative = writer.compare("icmp slt", bits, like_literal(0, bits))
    size = writer.binary("and", bits, like_literal(0x7FFFFFFF, bits))
    code = _encode_size(context, value, size, form)
    above = writer.compare("icmp sgt", code, like_literal(form.largest_code, bits))
    signed = writer.binary("or", code, like_literal(form.sign, bits))
    if not form.has_negative_zero:
        zero = writer.compare("icmp eq", code, like_literal(0, bits))
        signed = writer.select(zero, code, signed)
    result = writer.select(negative, signed, code)
    special = like_literal(form.special, bits)
    if form.has_negative_zero:
        other = writer.binary("or", special, like_literal(form.sign, bits))
        special = writer.select(negative, other, special)
    result = writer.select(above, special, result)
    nan, signed_nan = (like_literal(each, bits) for each in form.nans)
    is_nan = writer.compare("fcmp uno", value, value)
    return writer.select(is_nan, writer.select(negative, signed_nan, nan), result)


def _encode_size(context: Context, value: Ssa, size: Ssa, form: _Format) -> Ssa:
    """The code of |value|: normal numbers by rounding the bits, small ones by adding a number that aligns them."""
    writer, dropped = context.writer, 23 - form.mantissa
    last = writer.binary(
        "and", writer.binary("lshr", size, like_literal(dropped, size)), like_literal(1, size)
    )
    rounding = writer.binary("add", last, like_literal((1 << (dropped - 1)) - 1, size))
    shifted = writer.binary(
        "lshr", writer.binary("add", size, rounding), like_literal(dropped, size)
    )
    normal = writer.binary("sub", shifted, like_literal((127 - form.bias) << form.mantissa, size))
    magnitude = writer.call(value.type, f"llvm.fabs.{mangled(value.type)}", value)
    aligning = 2.0 ** (1 - form.bias - form.mantissa + 23)
    aligned = writer.binary("fadd", magnitude, like_literal(aligning, value))
    raw = writer.convert("bitcast", aligned, size.type)
    start = int(np.float32(aligning).view(np.uint32))
    small = writer.binary("sub", raw, like_literal(start, size))
    is_small = writer.compare("fcmp olt", magnitude, like_literal(2.0 ** (1 - form.bias), value))
    return writer.select(is_small, small, normal)


def _encode_exponent(context: Context, value: Ssa, bits: Ssa) -> Ssa:
    """float8_e8m0fnu: the nearest power of two, from the middle upwards; 255 for what has none."""
    writer = context.writer
    half = writer.binary("add", bits, like_literal(0x400000, bits))
    rounded = writer.binary("lshr", half, like_literal(23, bits))
    least = writer.compare("icmp sge", bits, like_literal(0x400001, bits))
    small = writer.convert("zext", least, bits.type)
    is_small = writer.compare("icmp slt", bits, like_literal(0x800000, bits))
    code = writer.select(is_small, small, rounded)
    positive = writer.compare("fcmp ogt", value, like_literal(0.0, value))
    return writer.select(positive, code, like_literal(255, bits))
