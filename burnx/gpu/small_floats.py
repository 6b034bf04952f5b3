"""Floats of 16 bits and fewer as functions on their bits: bfloat16, and those of 8 bits and less.

Source: ml_dtypes 0.5.4, whose conversions these are, bit for bit.
"""

from __future__ import annotations

from functools import lru_cache

import ml_dtypes
import numpy as np

from burnx.dtype import DTYPES, DType, bfloat16, dtype_name, float32
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import literal


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


def decoding(dtype: DType) -> str:
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
    endless = np.flatnonzero(np.isinf(numbers))
    lines += [f"if (size == {code}u) result = f32_of_bits(0x7f800000u);" for code in endless]
    nans = np.flatnonzero(np.isnan(numbers))
    if nans.size:
        lines.append(f"if (size >= {nans[0]}u) result = f32_of_bits(0x7fc00000u);")
    lines.append(f"result = (x & {form.sign}u) ? -result : result;")
    if not form.has_negative_zero and name.endswith("fnuz"):
        lines.append(f"if (x == {form.sign}u) result = f32_of_bits(0xffc00000u);")
    text = "\n".join(f"    {line}" for line in [*lines, "return result;"])
    return f"FUNCTION f32 {name}_to_f32(u8 x)\n{{\n{text}\n}}\n"


def encoding(dtype: DType, saturated: bool, dialect: Dialect) -> str:
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
        (
            f"u32 code = ((size + (size >> {dropped} & 1u) + {(1 << (dropped - 1)) - 1}u) >> {dropped})"
            f" - {(127 - form.bias) << form.mantissa}u;"
        ),
        (
            f"if (f32_of_bits(size) < {2.0 ** (1 - form.bias)!r}f)"
            f" code = bits_of_f32(f32_of_bits(size) + {aligning!r}f) - {start}u;"
        ),
        f"if ((i32)code > {form.largest_code}) return (u8)({special});",
        f"return (u8)({sign});",
    ]
