"""Dtypes as LLVM types: in registers, and in memory."""

from __future__ import annotations

from burnx.dtype import DType, bool_, dtype_name, float16, float32, float64, is_integer, packed_bits
from burnx.llvm.context import Unsupported

_FLOATS = {float32: "float", float64: "double", float16: "half"}


def register_type(dtype: DType, lanes: int = 1) -> str:
    """The type of a value: other small floats than float16 are kept as their bits, a bool as i1."""
    scalar = "i1" if dtype == bool_ else memory_type(dtype)
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def memory_type(dtype: DType) -> str:
    """The type of an element in memory; numbers of fewer than 8 bits take a byte."""
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    name = dtype_name(dtype)
    if name == "string" or name.startswith("complex"):
        raise Unsupported(f"kernels do not work on {name}")
    return f"i{max(packed_bits(dtype), 8) if name != 'bool' else 8}"


def size_bytes(dtype: DType) -> int:
    memory_type(dtype)
    return dtype.itemsize


def is_signed(dtype: DType) -> bool:
    return is_integer(dtype) and not dtype_name(dtype).startswith("uint")


def scalar_type(type_: str) -> str:
    """``float`` of ``<8 x float>`` and of ``float``."""
    return type_[1:-1].split(" x ")[1] if type_.startswith("<") else type_


def lanes_of(type_: str) -> int:
    return int(type_[1:].split(" ")[0]) if type_.startswith("<") else 1


def like(type_: str, scalar: str) -> str:
    """The type of ``scalar`` with as many lanes as ``type_``."""
    lanes = lanes_of(type_)
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def mangled(type_: str) -> str:
    """How an intrinsic's name says a type: ``f32``, ``v8f32``, ``i64``."""
    scalar = {"float": "f32", "double": "f64", "half": "f16"}.get(scalar_type(type_))
    scalar = scalar or scalar_type(type_)
    lanes = lanes_of(type_)
    return scalar if lanes == 1 else f"v{lanes}{scalar}"
