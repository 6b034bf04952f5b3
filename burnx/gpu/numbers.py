"""Casts between all dtypes, bit for bit as the primitive ``cast`` makes them; and numbers read as other bits."""

from __future__ import annotations

import numpy as np

from burnx.dtype import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    dtype_name,
    float16,
    float32,
    float64,
    is_float,
    is_integer,
    is_low_precision,
    packed_bits,
)
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import is_narrow, is_signed, literal, type_name
from burnx.gpu.pieces import Piece, maker
from burnx.gpu.small_floats import decoding, encoding
from burnx.kernels.clike import bare

Needs = set[str]


def is_tiny_float(dtype: DType) -> bool:
    return is_low_precision(dtype) and dtype not in (float16, bfloat16)


def cast(needs: Needs, text: str, source: DType, target: DType, saturate: bool = True) -> str:
    """The primitive ``cast`` of a value's text; the functions that it calls are added to ``needs``."""
    if source == target and not is_tiny_float(source) and not is_narrow(source):
        return text
    if is_float(source):
        if source not in (float32, float64):
            text, source = _call(needs, f"{dtype_name(source)}_to_f32", text), float32
        return _from_float(needs, text, source, target, saturate)
    if is_narrow(source):
        text = _call(needs, f"read_{dtype_name(source)}", text)
    return _from_integer(needs, text, target, saturate)


def _call(needs: Needs, name: str, text: str) -> str:
    needs.add(name)
    return f"{name}({bare(text)})"


def _from_float(needs: Needs, text: str, source: DType, target: DType, saturate: bool) -> str:
    if target == source:
        return text
    if target == bool_:
        return f"({text} != 0)"
    if target in (float32, float64):
        return f"({type_name(target)}){text}"
    if is_narrow(target):
        whole = _call(needs, f"{type_name(source)}_to_i32", text)
        return _from_integer(needs, whole, target, saturate)
    if is_integer(target):
        return _call(needs, f"{type_name(source)}_to_{type_name(target)}", text)
    if target == float16:
        return _call(needs, f"{type_name(source)}_to_float16", text)
    single = f"(f32){text}" if source == float64 else text
    clipped = saturate and is_tiny_float(target)
    return _call(needs, f"f32_to_{dtype_name(target)}{'_saturated' if clipped else ''}", single)


def _from_integer(needs: Needs, text: str, target: DType, saturate: bool) -> str:
    """Integers and bool.  A float16 by way of a float32: what is not exact there is infinite here."""
    if target == bool_:
        return f"({text} != 0)"
    if is_narrow(target):
        return f"({type_name(target)})({text} & {(1 << packed_bits(target)) - 1})"
    if is_float(target) and target not in (float32, float64):
        return _from_float(needs, f"(f32){text}", float32, target, saturate)
    return f"({type_name(target)}){text}"


def reinterpret(needs: Needs, text: str, source: DType, target: DType) -> str:
    """The primitive ``bitcast``."""
    if target == bool_:
        return f"({text} != 0)"
    for wide in (float32, float64):
        name, bits = type_name(wide), f"u{8 * wide.itemsize}"
        if source == wide and target != wide:
            return f"({type_name(target)})bits_of_{name}({bare(text)})"
        if target == wide and source != wide:
            return f"{name}_of_bits(({bits}){text})"
    return f"({type_name(target)}){text}"


# --- the functions --------------------------------------------------------------------------------------------------


@maker
def _make(dialect: Dialect, name: str) -> Piece | None:
    if name.startswith("read_"):
        return Piece(_reading(DTYPES[name.removeprefix("read_")]))
    if "_to_" not in name:
        return None
    source, target = name.split("_to_")
    saturated = target.endswith("_saturated")
    target = target.removesuffix("_saturated")
    if source in DTYPES:
        return Piece(_HALF[dialect.name] if source == "float16" else decoding(DTYPES[source]))
    if target in DTYPES:
        if target == "float16":
            return _TO_HALF[source, dialect.name]
        return Piece(encoding(DTYPES[target], saturated, dialect))
    return Piece(_saturating(source, target, dialect))


def _reading(dtype: DType) -> str:
    bits, type_ = packed_bits(dtype), type_name(dtype)
    shift = 32 - bits
    result = (
        f"x & {(1 << bits) - 1}" if not is_signed(dtype) else f"(i32)((u32)x << {shift}) >> {shift}"
    )
    return (
        f"FUNCTION {type_} read_{dtype_name(dtype)}({type_} x) {{ return ({type_})({result}); }}\n"
    )


def _saturating(source: str, target: str, dialect: Dialect) -> str:
    """Too large ones become the largest, NaN 0."""
    dtype = np.dtype(("i" if target[0] == "i" else "u") + str(int(target[1:]) // 8))
    info = np.iinfo(dtype)
    low, high = (literal(number, dtype, dialect) for number in (info.min, info.max))
    end = "f" if source == "f32" else ""
    least, past = f"{float(info.min)!r}{end}", f"{float(int(info.max) + 1)!r}{end}"
    return f"""\
FUNCTION {target} {source}_to_{target}({source} x)
{{
    return x != x ? 0 : x <= {least} ? {low} : x >= {past} ? {high} : ({target})x;
}}
"""


# --- float16 --------------------------------------------------------------------------------------------------------

_HALF = {
    "opencl": """\
FUNCTION f32 float16_to_f32(u16 x)
{
    // not vload_half: PoCL loses what private pointers point to where there are barriers
    const u32 size = x & 0x7fffu;
    const u32 normal = (size << 13) + (size < 0x7c00u ? 0x38000000u : 0x70000000u);
    const u32 bits = size < 0x400u ? bits_of_f32((f32)size * 5.9604644775390625e-8f) : normal;
    return f32_of_bits(bits | (u32)(x & 0x8000u) << 16);
}
""",
    "cuda": """\
FUNCTION f32 float16_to_f32(u16 x)
{
    f32 result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x));
    return result;
}
""",
}
_ODD = """\
FUNCTION u16 f64_to_float16(f64 x)
{
    // as a float that rounds as the double would: an inexact one gets an odd last bit
    f32 single = (f32)x;
    const u32 bits = bits_of_f32(single);
    if ((f64)single != x && x == x) {
        const bool above = fabs((f64)single) > fabs(x);
        single = f32_of_bits((above ? bits - 1 : bits) | 1u);
    }
    return f32_to_float16(single);
}
"""
_TO_HALF = {
    ("f32", "opencl"): Piece(
        """\
FUNCTION u16 f32_to_float16(f32 x)
{
    const u32 bits = bits_of_f32(x), size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (size > 0x7f800000u) return (u16)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (u16)(sign | 0x7c00u);
    const u32 small = bits_of_f32(f32_of_bits(size) + 0.5f) - 0x3f000000u;
    const u32 normal = ((size + (size >> 13 & 1u) + 0xfffu) >> 13) - 0x1c000u;
    return (u16)(sign | (size < 0x38800000u ? small : normal));
}
"""
    ),
    ("f32", "cuda"): Piece(
        """\
FUNCTION u16 f32_to_float16(f32 x)
{
    u16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result) : "f"(x));
    return result;
}
"""
    ),
    ("f64", "opencl"): Piece(_ODD, ("f32_to_float16",)),
    ("f64", "cuda"): Piece(_ODD, ("f32_to_float16",)),
}
