"""Scalar functions, and ``map``, ``cast`` and ``bitcast``, which apply them to every element.

Numbers are the same on every device: integer division by zero gives 0 and never traps, MIN / -1 wraps, float to
integer saturates and NaN gives 0, float16 and bfloat16 compute in float32 and round once at the end, and minimum,
maximum keep NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from burnx.dtype import (
    DType,
    bool_,
    compute_dtype,
    dtype_name,
    is_complex,
    is_float,
    is_integer,
    is_low_precision,
    string,
)
from burnx.errors import DTypeError, ShapeError
from burnx.primitives.core import Array, primitive
from burnx.primitives.special import erf
from burnx.shape import maximum, minimum, same, shape_text
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of numbers: its NumPy meaning, the kinds of dtype it takes and whether it answers yes or no.

    ``kinds`` holds letters: f float, i integer, b bool, c complex, s string.  ``symbolic`` is its meaning on
    dimensions, where it has one.
    """

    name: str
    numpy: Callable[..., Any]
    kinds: str
    is_predicate: bool = False
    symbolic: Callable[..., Any] | None = None


def _divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return left / right
    quotient = _floor_divide(left, right)
    inexact = (quotient * right != left) & (right != 0)
    toward_zero = inexact & ((left < 0) != (right < 0))
    return (quotient + toward_zero.astype(left.dtype)).astype(left.dtype)


def _floor_divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.floor_divide(left, right)
    safe = np.where(right == 0, np.ones_like(right), right)
    return np.where(right == 0, np.zeros_like(left), np.floor_divide(left, safe))


def _floor_mod(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.mod(left, right)
    return (left - _floor_divide(left, right) * right).astype(left.dtype)


def _truncate_mod(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.fmod(left, right)
    return (left - _divide(left, right) * right).astype(left.dtype)


def _power(base: Array, exponent: Array) -> Array:
    if base.dtype.kind not in "iu":
        return np.power(base, exponent)
    negative = exponent < 0
    whole = np.power(base, np.where(negative, np.zeros_like(exponent), exponent))
    unit = np.where(base == 1, 1, np.where(base == -1, 1 - 2 * (exponent % 2), 0))
    return np.where(negative, unit, whole).astype(base.dtype)


def _sign(x: Array) -> Array:
    return np.sign(x)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    def shift(x: Array, count: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        inside = (count >= 0) & (count < bits)
        moved = function(x, np.where(inside, count, 0).astype(x.dtype))
        return np.where(inside, moved, np.zeros_like(x)).astype(x.dtype)

    return shift


def _select(condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition, yes, no)


def _logaddexp1(x: Array) -> Array:
    return np.logaddexp(x.dtype.type(0), x)


FUNCTIONS: dict[str, ScalarFunction] = {
    function.name: function
    for function in (
        ScalarFunction("add", operator.add, "ifcs", symbolic=operator.add),
        ScalarFunction("sub", operator.sub, "ifc", symbolic=operator.sub),
        ScalarFunction("mul", operator.mul, "ifc", symbolic=operator.mul),
        ScalarFunction("div", _divide, "ifc", symbolic=operator.floordiv),
        ScalarFunction("floor_mod", _floor_mod, "if", symbolic=operator.mod),
        ScalarFunction("trunc_mod", _truncate_mod, "if", symbolic=operator.mod),
        ScalarFunction("pow", _power, "ifc"),
        ScalarFunction("min", np.minimum, "if", symbolic=minimum),
        ScalarFunction("max", np.maximum, "if", symbolic=maximum),
        ScalarFunction("atan2", np.arctan2, "f"),
        ScalarFunction("neg", operator.neg, "ifc", symbolic=operator.neg),
        ScalarFunction("abs", np.abs, "if"),
        ScalarFunction("sign", _sign, "if"),
        ScalarFunction("floor", np.floor, "f"),
        ScalarFunction("ceil", np.ceil, "f"),
        ScalarFunction("round", np.rint, "f"),
        ScalarFunction("trunc", np.trunc, "f"),
        ScalarFunction("sqrt", np.sqrt, "fc"),
        ScalarFunction("exp", np.exp, "fc"),
        ScalarFunction("expm1", np.expm1, "fc"),
        ScalarFunction("log", np.log, "fc"),
        ScalarFunction("log1p", np.log1p, "fc"),
        ScalarFunction("softplus", _logaddexp1, "f"),
        ScalarFunction("sin", np.sin, "f"),
        ScalarFunction("cos", np.cos, "f"),
        ScalarFunction("tan", np.tan, "f"),
        ScalarFunction("asin", np.arcsin, "f"),
        ScalarFunction("acos", np.arccos, "f"),
        ScalarFunction("atan", np.arctan, "f"),
        ScalarFunction("sinh", np.sinh, "f"),
        ScalarFunction("cosh", np.cosh, "f"),
        ScalarFunction("tanh", np.tanh, "f"),
        ScalarFunction("asinh", np.arcsinh, "f"),
        ScalarFunction("acosh", np.arccosh, "f"),
        ScalarFunction("atanh", np.arctanh, "f"),
        ScalarFunction("erf", erf, "f"),
        ScalarFunction("is_nan", np.isnan, "f", True),
        ScalarFunction("is_inf", np.isinf, "f", True),
        ScalarFunction("eq", operator.eq, "ifcbs", True, symbolic=same),
        ScalarFunction("lt", operator.lt, "ifs", True, symbolic=operator.lt),
        ScalarFunction("le", operator.le, "ifs", True, symbolic=operator.le),
        ScalarFunction("and", np.logical_and, "b"),
        ScalarFunction("or", np.logical_or, "b"),
        ScalarFunction("xor", np.logical_xor, "b"),
        ScalarFunction("not", np.logical_not, "b"),
        ScalarFunction("bit_and", np.bitwise_and, "i"),
        ScalarFunction("bit_or", np.bitwise_or, "i"),
        ScalarFunction("bit_xor", np.bitwise_xor, "i"),
        ScalarFunction("bit_not", np.bitwise_not, "i"),
        ScalarFunction("shift_left", _shift(np.left_shift), "i"),
        ScalarFunction("shift_right", _shift(np.right_shift), "i"),
        ScalarFunction("select", _select, "ifcbs", symbolic=lambda c, y, n: y if c else n),
    )
}


def _kind(dtype: DType) -> str:
    if dtype == bool_:
        return "b"
    if dtype == string:
        return "s"
    return (
        "f" if is_float(dtype) else "i" if is_integer(dtype) else "c" if is_complex(dtype) else "?"
    )


def _infer_map(*types: TensorType, function: str) -> TensorType:
    entry = FUNCTIONS[function]
    operands = types[1:] if function == "select" else types
    dtype, shape = operands[0].dtype, types[0].shape
    if any(other.dtype != dtype for other in operands):
        found = " and ".join(dtype_name(other.dtype) for other in operands)
        raise DTypeError(f"{function} takes operands of one dtype, not {found}")
    if function == "select" and types[0].dtype != bool_:
        raise DTypeError(f"select chooses by bool, not {dtype_name(types[0].dtype)}")
    if _kind(dtype) not in entry.kinds:
        raise DTypeError(f"{function} is not defined for {dtype_name(dtype)}")
    if any(other.shape != shape for other in types):
        found = " and ".join(shape_text(other.shape) for other in types)
        raise ShapeError(f"{function} takes operands of one shape, not {found}")
    return TensorType(bool_ if entry.is_predicate else dtype, shape)


@primitive("map", _infer_map, symbolic=True)
def evaluate_map(*arrays: Array, function: str) -> Array:
    """Apply a scalar function to every element.

    Shapes: (*s), ... -> (*s).
    """
    entry = FUNCTIONS[function]
    dtype = arrays[-1].dtype
    if any(_holds_sizes(x) for x in arrays):
        return _evaluate_symbolic(entry, arrays)
    computed = compute_dtype(dtype)
    if function == "select":
        return np.asarray(np.where(*arrays))
    if is_integer(dtype) and dtype.kind == "V":
        computed = np.dtype(np.int32)
    operands = [x.astype(computed, copy=False) for x in arrays]
    with np.errstate(all="ignore"):
        result = np.asarray(entry.numpy(*operands))
    return result.astype(bool_ if entry.is_predicate else dtype, copy=False)


def _holds_sizes(x: Array) -> bool:
    return x.dtype == object and any(not isinstance(item, str) for item in x.flat)


def _evaluate_symbolic(entry: ScalarFunction, arrays: tuple[Array, ...]) -> Array:
    if entry.symbolic is None:
        raise TypeError(f"{entry.name} has no meaning for sizes")
    items = zip(*(x.reshape(-1).tolist() for x in arrays), strict=True)
    results = [entry.symbolic(*each) for each in items]
    result = np.empty(arrays[0].shape, bool_ if entry.is_predicate else object)
    result.reshape(-1)[:] = results if results else []
    return result


def _infer_cast(x: TensorType, *, dtype: DType, saturate: bool = True) -> TensorType:
    return TensorType(dtype, x.shape)


@primitive("cast", _infer_cast, symbolic=True)
def evaluate_cast(x: Array, *, dtype: DType, saturate: bool = True) -> Array:
    """Convert to ``dtype``: floats truncate towards zero and saturate, NaN gives 0, integers wrap.

    A float becomes a 2- or 4-bit integer by way of int32, so there it wraps.

    ``saturate`` concerns conversions to float8: whether too large a number becomes the greatest finite one.
    """
    if x.dtype == object and dtype != string:
        if x.size and not isinstance(x.flat[0], str):
            return _cast_symbolic(x, dtype)
        return _parse_strings(x, dtype)
    if dtype == string:
        return _format_strings(x)
    with np.errstate(all="ignore"):
        if is_float(x.dtype) and is_integer(dtype):
            return _saturate_to_integer(x, dtype)
        if is_integer(x.dtype) and is_integer(dtype) and (dtype.kind == "V" or x.dtype.kind == "V"):
            return _wrap_low_bits(x, dtype)
        return _cast_float(x, dtype, saturate)


def _cast_symbolic(x: Array, dtype: DType) -> Array:
    if dtype.name not in ("int64", "int32"):
        raise TypeError("only whole numbers can be sizes")
    return x


def _saturate_to_integer(x: Array, dtype: DType) -> Array:
    if dtype.kind == "V":  # ONNX converts to 2 and 4 bits by way of a wider integer
        return _wrap_low_bits(_saturate_to_integer(x, np.dtype(np.int32)), dtype)
    info = np.iinfo(dtype)
    wide = x.astype(np.float64)
    low, high = float(info.min), float(info.max)
    inside = np.where(np.isnan(wide), 0.0, np.clip(np.trunc(wide), low, high))
    if dtype.itemsize < 8:
        return inside.astype(np.int64).astype(dtype)
    top = inside >= high
    result = np.where(top, 0.0, inside).astype(dtype)
    return np.where(top, np.asarray(info.max, dtype), result).astype(dtype)


def _ml_iinfo(dtype: DType) -> Any:
    return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]


def _wrap_low_bits(x: Array, dtype: DType) -> Array:
    wide = x.astype(np.int64)
    if dtype.kind != "V":
        return wide.astype(dtype)
    info = _ml_iinfo(dtype)
    span = int(info.max) - int(info.min) + 1
    return ((wide - int(info.min)) % span + int(info.min)).astype(np.int8).astype(dtype)


def _cast_float(x: Array, dtype: DType, saturate: bool) -> Array:
    if is_complex(x.dtype) and not is_complex(dtype):
        raise DTypeError(f"a complex number cannot be cast to {dtype_name(dtype)}")
    if dtype == bool_:
        return (x.astype(np.float32) if is_low_precision(x.dtype) else x) != 0
    if not is_float(dtype) or not is_low_precision(dtype) or dtype.name in ("float16", "bfloat16"):
        wide = x.astype(np.float32) if is_low_precision(x.dtype) and x.dtype.kind == "V" else x
        return wide.astype(dtype)
    return _to_tiny_float(x, dtype, saturate)


def _to_tiny_float(x: Array, dtype: DType, saturate: bool) -> Array:
    wide = x.astype(np.float32)
    result = wide.astype(dtype)
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    top = float(info.max)
    if saturate or "float4" in dtype.name or "float6" in dtype.name:
        finite = np.where(np.isnan(wide), wide, np.clip(wide, -top, top))
        return finite.astype(dtype)
    return result


def _parse_strings(x: Array, dtype: DType) -> Array:
    flat = x.reshape(-1)
    if dtype == bool_ or is_integer(dtype):
        wide = np.array(
            [
                int(float(text)) if "." in text or "e" in text.lower() else int(text)
                for text in flat
            ],
            np.uint64 if dtype.name == "uint64" else np.int64,
        )
        return wide.reshape(x.shape).astype(dtype)
    wide = np.array([float(text) for text in flat], np.float64)
    return wide.reshape(x.shape).astype(dtype)


def _format_strings(x: Array) -> Array:
    if x.dtype == object:
        return x
    result = np.empty(x.shape, object)
    flat = x.reshape(-1)
    result.reshape(-1)[:] = [_format_number(item) for item in flat]
    return result


def _format_number(item: Any) -> str:
    if isinstance(item, (bool, np.bool_)):
        return str(int(item))
    if isinstance(item, (int, np.integer)):
        return str(int(item))
    number = float(item)
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "INF" if number > 0 else "-INF"
    exact = item if isinstance(item, (np.float16, np.float64)) else np.float32(number)
    return str(np.format_float_positional(exact, trim="0"))


def _infer_bitcast(x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(dtype, x.shape)


@primitive("bitcast", _infer_bitcast)
def evaluate_bitcast(x: Array, *, dtype: DType) -> Array:
    """The same bits read as another dtype of the same size."""
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)
