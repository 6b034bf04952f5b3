"""Casts between all dtypes, bit for bit as the primitive ``cast`` makes them; and numbers read as other bits."""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
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
        return Piece(_HALF[dialect.name] if source == "float16" else _decoding(DTYPES[source]))
    if target in DTYPES:
        if target == "float16":
            return _TO_HALF[source, dialect.name]
        return Piece(_encoding(DTYPES[target], saturated, dialect))
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
    "opencl": "FUNCTION f32 float16_to_f32(u16 x) { return vload_half(0, (const half *)&x); }\n",
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
    u16 result;
    vstore_half_rte(x, 0, (half *)&result);
    return result;
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

# --- bfloat16, and floats of 8 bits and fewer -----------------------------------------------------------------------


class _Format:
    """What a small float looks like; ml_dtypes knows, and its conversions are these."""

    def __init__(self, dtype: DType) -> None:
        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        self.mantissa, self.bias = int(info.nmant), 1 - int(info.minexp)
        self.sign = 1 << (int(info.bits) - 1)
        self.largest = float(info.max)
        self.largest_code = _code(self.largest, dtype)
        self.special = _code(float("inf"), dtype)
        self.nans = _code(float("nan"), dtype), _code(-float("nan"), dtype)
        self.has_negative_zero = _code(-0.0, dtype) == self.sign


def _code(number: float, dtype: DType) -> int:
    with np.errstate(all="ignore"):
        return int(np.asarray(number, np.float32).astype(dtype).view(np.uint8))


@lru_cache(maxsize=32)
def _format(name: str) -> _Format:
    return _Format(DTYPES[name])


def _decoding(dtype: DType) -> str:
    """A small float as a float32."""
    name = dtype_name(dtype)
    if dtype == bfloat16:
        return f"FUNCTION f32 {name}_to_f32(u16 x) {{ return f32_of_bits((u32)x << 16); }}\n"
    if name == "float8_e8m0fnu":
        special = "x == 255 ? 0x7fc00000u : x == 0 ? 0x400000u : (u32)x << 23"
        return f"FUNCTION f32 {name}_to_f32(u8 x) {{ return f32_of_bits({special}); }}\n"
    form = _format(name)
    shift, rebias = 23 - form.mantissa, 127 - form.bias
    unit = repr(2.0 ** (1 - form.bias - form.mantissa))
    lines = [
        f"const u32 size = x & {form.sign - 1}u;",
        f"const f32 small = (f32)size * {unit}f;",
        f"const f32 normal = f32_of_bits((size << {shift}) + {rebias << 23}u);",
        f"f32 result = size < {1 << form.mantissa}u ? small : normal;",
    ]
    numbers = np.arange(form.sign, dtype=np.uint8).view(dtype).astype(np.float32)
    for code in np.flatnonzero(np.isinf(numbers)):
        lines.append(f"if (size == {code}u) result = f32_of_bits(0x7f800000u);")
    nans = np.flatnonzero(np.isnan(numbers))
    if nans.size:
        lines.append(f"if (size >= {nans[0]}u) result = f32_of_bits(0x7fc00000u);")
    lines.append(f"result = (x & {form.sign}u) ? -result : result;")
    if not form.has_negative_zero and name.endswith("fnuz"):
        lines.append(f"if (x == {form.sign}u) result = f32_of_bits(0xffc00000u);")
    text = "\n".join(f"    {line}" for line in [*lines, "return result;"])
    return f"FUNCTION f32 {name}_to_f32(u8 x)\n{{\n{text}\n}}\n"


def _encoding(dtype: DType, saturated: bool, dialect: Dialect) -> str:
    """A float32 as a small float, rounded to nearest, ties to even."""
    name = dtype_name(dtype)
    if dtype == bfloat16:
        return _BFLOAT16
    form = _format(name)
    lines = []
    if saturated or name.startswith(("float4", "float6")):
        top = literal(form.largest, float32, dialect)
        lines += [f"if (x > {top}) x = {top};", f"if (x < -{top}) x = -{top};"]
    lines.append("const u32 bits = bits_of_f32(x);")
    lines += _exponent_lines() if name == "float8_e8m0fnu" else _signed_lines(form)
    text = "\n".join(f"    {line}" for line in lines)
    end = "_saturated" if saturated else ""
    return f"FUNCTION u8 f32_to_{name}{end}(f32 x)\n{{\n{text}\n}}\n"


_BFLOAT16 = """\
FUNCTION u16 f32_to_bfloat16(f32 x)
{
    const u32 bits = bits_of_f32(x);
    if (x != x) return (u16)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (u16)((bits + (bits >> 16 & 1u) + 0x7fffu) >> 16);
}
"""


def _exponent_lines() -> list[str]:
    """The nearest power of two, from the middle upwards; 255 for what has none."""
    return [
        "if (!(x > 0)) return 255;",
        "if (bits < 0x800000u) return bits >= 0x400001u;",
        "return (u8)((bits + 0x400000u) >> 23);",
    ]


def _signed_lines(form: _Format) -> list[str]:
    """Normal numbers by rounding the bits, small ones by adding a number that aligns them."""
    dropped = 23 - form.mantissa
    aligning = 2.0 ** (1 - form.bias - form.mantissa + 23)
    start = int(np.float32(aligning).view(np.uint32))
    nan, signed_nan = form.nans
    sign = f"negative ? code | {form.sign}u : code"
    if not form.has_negative_zero:
        sign = f"negative && code != 0 ? code | {form.sign}u : code"
    special = f"{form.special}u"
    if form.has_negative_zero:
        special = f"negative ? {form.special | form.sign}u : {form.special}u"
    return [
        "const bool negative = bits >> 31 != 0;",
        f"if (x != x) return negative ? {signed_nan} : {nan};",
        "const u32 size = bits & 0x7fffffffu;",
        f"u32 code = ((size + (size >> {dropped} & 1u) + {(1 << (dropped - 1)) - 1}u) >> {dropped})"
        f" - {(127 - form.bias) << form.mantissa}u;",
        f"if (f32_of_bits(size) < {2.0 ** (1 - form.bias)!r}f)"
        f" code = bits_of_f32(f32_of_bits(size) + {aligning!r}f) - {start}u;",
        f"if ((i32)code > {form.largest_code}) return (u8)({special});",
        f"return (u8)({sign});",
    ]
