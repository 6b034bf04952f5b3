"""Casts between all dtypes, bit for bit as the primitive ``cast`` makes them; ``tiny.py`` has the floats of 8 bits and fewer."""

from __future__ import annotations

from burnx.dtype import (
    DType,
    bfloat16,
    bool_,
    dtype_name,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_float,
    is_integer,
    packed_bits,
)
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context
from burnx.llvm.dtypes import (
    is_signed,
    lanes_of,
    like,
    mangled,
    memory_type,
    register_type,
    scalar_type,
)
from burnx.llvm.literals import like_literal
from burnx.llvm.ranges import ANY, Range
from burnx.llvm.tiny import decode_tiny, encode_tiny, is_tiny_float
from burnx.llvm.writer import Ssa


def cast(
    context: Context,
    value: Ssa,
    source: DType,
    target: DType,
    saturate: bool = True,
    known: Range = ANY,
) -> Ssa:
    """The primitive ``cast``; ``known`` is where a float surely is."""
    if source == target and not is_tiny_float(source) and not _is_narrow(source):
        return value
    if is_float(source):
        wide, source = to_compute(context, value, source)
        if is_integer(target) and not _is_narrow(target):
            return _float_to_integer(context, wide, target, known)
        return _from_float(context, wide, source, target, saturate)
    if source == bool_:
        return _from_bool(context, value, target, saturate)
    return _from_integer(context, _read_narrow(context, value, source), source, target, saturate)


def to_compute(context: Context, value: Ssa, source: DType) -> tuple[Ssa, DType]:
    """A float of any dtype as float32 or float64."""
    writer = context.writer
    if source in (float32, float64):
        return value, source
    if source == float16:
        return writer.convert("fpext", value, like(value.type, "float")), float32
    if source == bfloat16:
        wide = writer.convert("zext", value, like(value.type, "i32"))
        moved = writer.binary("shl", wide, like_literal(16, wide))
        return writer.convert("bitcast", moved, like(value.type, "float")), float32
    return decode_tiny(context, value, source), float32


def _from_float(context: Context, value: Ssa, source: DType, target: DType, saturate: bool) -> Ssa:
    writer = context.writer
    if target == bool_:
        return writer.compare("fcmp une", value, like_literal(0.0, value))
    if not is_float(target):
        if _is_narrow(target):
            whole = _float_to_integer(context, value, int32)
            return _from_integer(context, whole, int32, target, saturate)
        return _float_to_integer(context, value, target)
    if target == float64:
        return _resize_float(context, value, "double")
    if target == float16:
        return writer.convert("fptrunc", _to_odd(context, value), like(value.type, "half"))
    single = _resize_float(context, value, "float")
    if target == float32:
        return single
    if target == bfloat16:
        return _to_bfloat16(context, single)
    return encode_tiny(context, single, target, saturate)


def _resize_float(context: Context, value: Ssa, scalar: str) -> Ssa:
    if scalar_type(value.type) == scalar:
        return value
    operation = "fpext" if scalar == "double" else "fptrunc"
    return context.writer.convert(operation, value, like(value.type, scalar))


def _float_to_integer(context: Context, value: Ssa, target: DType, known: Range = ANY) -> Ssa:
    """Too large ones become the largest, NaN 0.  Vectors are clipped first: LLVM would take them apart."""
    type_, signed = like(value.type, memory_type(target)), is_signed(target)
    operation = "fptosi" if signed else "fptoui"
    if not value.type.startswith("<"):
        name = f"llvm.{operation}.sat.{mangled(type_)}.{mangled(value.type)}"
        return context.writer.call(type_, name, value)
    calc, bits = Calculator(context.writer), target.itemsize * 8 - signed
    low, most = -float(1 << bits) if signed else 0.0, (1 << bits) - 1
    high = _largest_below(most, 24 if scalar_type(value.type) == "float" else 53)
    clipped = value if known.within(low, high) else calc.clip(value, low, high)
    number = calc.select(calc.compare("fcmp uno", value, value), 0.0, clipped)
    if target.itemsize < 4:
        wide = calc.convert("fptosi", number, "i32")
        return calc.convert("trunc", wide, memory_type(target))
    whole = calc.convert(operation, number, memory_type(target))
    if high == most or known.within(low, high):
        return whole
    return calc.select(calc.compare("fcmp ogt", value, high), most if signed else -1, whole)


def _largest_below(number: int, digits: int) -> float:
    """The largest float with so many binary digits that is not above a number of the form 2**n - 1."""
    dropped = max(number.bit_length() - digits, 0)
    return float(number >> dropped << dropped)


def _to_odd(context: Context, value: Ssa) -> Ssa:
    """A double as a float that rounds to float16 as the double would: inexact ones get an odd last bit."""
    if scalar_type(value.type) != "double":
        return value
    writer = context.writer
    single = writer.convert("fptrunc", value, like(value.type, "float"))
    back = writer.convert("fpext", single, value.type)
    bits = writer.convert("bitcast", single, like(value.type, "i32"))
    size, back_size = (_absolute(context, each) for each in (value, back))
    above = writer.compare("fcmp ogt", back_size, size)
    lower = writer.binary("sub", bits, like_literal(1, bits))
    toward_zero = writer.select(above, lower, bits)
    odd = writer.binary("or", toward_zero, like_literal(1, bits))
    inexact = writer.compare("fcmp one", back, value)
    result = writer.select(inexact, odd, bits)
    return writer.convert("bitcast", result, single.type)


def _absolute(context: Context, value: Ssa) -> Ssa:
    return context.writer.call(value.type, f"llvm.fabs.{mangled(value.type)}", value)


def _to_bfloat16(context: Context, value: Ssa) -> Ssa:
    """Round to nearest, ties to even, on the bits; a NaN becomes the quiet one of its sign."""
    writer = context.writer
    bits = writer.convert("bitcast", value, like(value.type, "i32"))
    high = writer.binary("lshr", bits, like_literal(16, bits))
    last = writer.binary("and", high, like_literal(1, bits))
    rounding = writer.binary("add", last, like_literal(0x7FFF, bits))
    rounded = writer.binary("lshr", writer.binary("add", bits, rounding), like_literal(16, bits))
    sign = writer.binary("and", high, like_literal(0x8000, bits))
    quiet = writer.binary("or", sign, like_literal(0x7FC0, bits))
    is_nan = writer.compare("fcmp uno", value, value)
    result = writer.select(is_nan, quiet, rounded)
    return writer.convert("trunc", result, like(value.type, "i16"))


# --- integers -------------------------------------------------------------------------------------------------------


def _is_narrow(dtype: DType) -> bool:
    return dtype_name(dtype) in ("int4", "uint4", "int2", "uint2")


def _read_narrow(context: Context, value: Ssa, dtype: DType) -> Ssa:
    """A number of 2 or 4 bits, in a byte of which the other bits mean nothing, as an i8."""
    if not _is_narrow(dtype):
        return value
    writer, bits = context.writer, packed_bits(dtype)
    if not is_signed(dtype):
        return writer.binary("and", value, like_literal((1 << bits) - 1, value))
    rest = like_literal(8 - bits, value)
    return writer.binary("ashr", writer.binary("shl", value, rest), rest)


def _from_bool(context: Context, value: Ssa, target: DType, saturate: bool) -> Ssa:
    if is_float(target):
        byte = context.writer.convert("zext", value, like(value.type, "i8"))
        return _integer_to_float(context, byte, False, target, saturate)
    return context.writer.convert("zext", value, like(value.type, memory_type(target)))


def _from_integer(
    context: Context, value: Ssa, source: DType, target: DType, saturate: bool
) -> Ssa:
    writer = context.writer
    if target == bool_:
        return writer.compare("icmp ne", value, like_literal(0, value))
    if is_float(target):
        return _integer_to_float(context, value, is_signed(source), target, saturate)
    result = resize_integer(context, value, memory_type(target), is_signed(source))
    if _is_narrow(target):
        mask = like_literal((1 << packed_bits(target)) - 1, result)
        return writer.binary("and", result, mask)
    return result


def resize_integer(context: Context, value: Ssa, scalar: str, signed: bool) -> Ssa:
    before, after = int(scalar_type(value.type)[1:]), int(scalar[1:])
    if before == after:
        return value
    operation = "trunc" if after < before else "sext" if signed else "zext"
    return context.writer.convert(operation, value, like(value.type, scalar))


def _integer_to_float(
    context: Context, value: Ssa, signed: bool, target: DType, saturate: bool
) -> Ssa:
    scalar = "double" if target in (float64, float16) else "float"
    result = context.writer.convert(
        "sitofp" if signed else "uitofp", value, like(value.type, scalar)
    )
    if target in (float32, float64):
        return result
    return _from_float(
        context, result, float64 if scalar == "double" else float32, target, saturate
    )


def from_index(context: Context, value: Ssa, dtype: DType) -> Ssa:
    """An i64 as a number of a dtype."""
    return _from_integer(context, value, int64, dtype, True)


def reinterpret(context: Context, value: Ssa, source: DType, target: DType) -> Ssa:
    """The primitive ``bitcast``."""
    if source == bool_:
        value = context.writer.convert("zext", value, like(value.type, "i8"))
    if target == bool_:
        return context.writer.compare("icmp ne", value, like_literal(0, value))
    type_ = register_type(target, lanes_of(value.type))
    return value if value.type == type_ else context.writer.convert("bitcast", value, type_)
