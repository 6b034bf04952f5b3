"""The scalar functions of ``burnx.primitives.scalar``, on values of float32, float64, integers and bool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from burnx.dtype import (
    DType,
    bool_,
    dtype_name,
    float32,
    float64,
    is_float,
    is_integer,
    packed_bits,
)
from burnx.llvm import integers, polynomials
from burnx.llvm.calculator import Calculator
from burnx.llvm.context import Context, Unsupported
from burnx.llvm.dtypes import is_signed, lanes_of, scalar_type
from burnx.llvm.literals import like_literal, widen
from burnx.llvm.writer import Ssa

Formula: TypeAlias = Callable[..., Ssa]


def apply(context: Context, function: str, arguments: list[Ssa], dtype: DType) -> Ssa:
    """A scalar function of values, all scalar or all vectors; ``dtype`` is that of the last one."""
    calc = Calculator(context.writer)
    if function == "select":
        return calc.writer.select(arguments[0], arguments[1], arguments[2])
    if dtype == bool_:
        return _pick(_BOOL, function, dtype)(calc, *arguments)
    if is_float(dtype):
        if dtype == float32 and function in _SINGLE:
            return _SINGLE[function](calc, *arguments)
        if function in _LIBRARY and dtype in (float32, float64):
            return call_library(calc, function, arguments)
        return _pick(_FLOAT if dtype in (float32, float64) else {}, function, dtype)(
            calc, *arguments
        )
    known = integers.FORMULAS if is_integer(dtype) and packed_bits(dtype) >= 8 else {}
    return _pick(known, function, dtype)(calc, is_signed(dtype), *arguments)


def _pick(formulas: dict[str, Formula], function: str, dtype: DType) -> Formula:
    if function not in formulas:
        raise Unsupported(f"kernels have no {function} of {dtype_name(dtype)}")
    return formulas[function]


def combine(context: Context, function: str, left: Ssa, right: Ssa, dtype: DType) -> Ssa:
    """A function of two values of one dtype, either of them scalar or vector."""
    lanes = max(lanes_of(left.type), lanes_of(right.type))
    both = [widen(context.writer, each, lanes) for each in (left, right)]
    return apply(context, function, both, dtype)


# --- floats ---------------------------------------------------------------------------------------------------------


def _operation(operation: str) -> Formula:
    return lambda calc, *arguments: calc.do(operation, *arguments)


def _comparison(operation: str) -> Formula:
    return lambda calc, left, right: calc.compare(operation, left, right)


def _intrinsic(name: str) -> Formula:
    return lambda calc, x: calc.unary(name, x)


def _extreme(calc: Calculator, comparison: str, left: Ssa, right: Ssa) -> Ssa:
    """One comparison gives the right one wherever there is a NaN, which a number then must not be."""
    if not left.name.startswith("%"):
        return calc.select(calc.compare(comparison, left, right), left, right)
    if not right.name.startswith("%"):
        return calc.select(calc.compare(comparison, right, left), right, left)
    chosen = calc.select(calc.compare(comparison, left, right), left, right)
    return calc.select(calc.compare("fcmp uno", left, left), left, chosen)


def _sign(calc: Calculator, x: Ssa) -> Ssa:
    one = calc.binary("copysign", 1.0, x)
    zero = calc.select(calc.compare("fcmp oeq", x, 0.0), 0.0, x)
    return calc.select(calc.compare("fcmp one", x, 0.0), one, zero)


def _is_infinite(calc: Calculator, x: Ssa) -> Ssa:
    return calc.compare("fcmp oeq", calc.unary("fabs", x), float("inf"))


def _floor_mod(calc: Calculator, left: Ssa, right: Ssa) -> Ssa:
    """The rest with the sign of the divisor, also where it is zero."""
    rest = calc.do("frem", left, right)
    opposite = calc.do(
        "xor", calc.compare("fcmp olt", right, 0.0), calc.compare("fcmp olt", rest, 0.0)
    )
    moved = calc.select(opposite, calc.add(rest, right), rest)
    zero = calc.binary("copysign", like_literal(0.0, right), right)
    is_zero = calc.compare("fcmp oeq", rest, 0.0)
    return calc.select(is_zero, zero, moved)


_FLOAT: dict[str, Formula] = {
    "add": _operation("fadd"),
    "sub": _operation("fsub"),
    "mul": _operation("fmul"),
    "div": _operation("fdiv"),
    "floor_mod": _floor_mod,
    "trunc_mod": _operation("frem"),
    "min": lambda calc, left, right: _extreme(calc, "fcmp olt", left, right),
    "max": lambda calc, left, right: _extreme(calc, "fcmp ogt", left, right),
    "neg": lambda calc, x: calc.writer.value(x.type, f"fneg {x}"),
    "abs": _intrinsic("fabs"),
    "sign": _sign,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round": _intrinsic("roundeven"),
    "trunc": _intrinsic("trunc"),
    "sqrt": _intrinsic("sqrt"),
    "is_nan": lambda calc, x: calc.compare("fcmp uno", x, x),
    "is_inf": _is_infinite,
    "eq": _comparison("fcmp oeq"),
    "lt": _comparison("fcmp olt"),
    "le": _comparison("fcmp ole"),
    "softplus": lambda calc, x: _wide_softplus(calc, x),
}


# --- functions of the C library, one lane after another -------------------------------------------------------------

_LIBRARY = {
    "pow": "pow",
    "atan2": "atan2",
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "sinh": "sinh",
    "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "erf": "erf",
}


def call_library(calc: Calculator, function: str, arguments: list[Ssa]) -> Ssa:
    """A function of the C library for every lane."""
    scalar, lanes = scalar_type(arguments[0].type), lanes_of(arguments[0].type)
    symbol = _LIBRARY[function] + ("f" if scalar == "float" else "")
    if lanes == 1:
        return calc.writer.call(scalar, symbol, *arguments)
    result = Ssa("poison", arguments[0].type)
    for lane in range(lanes):
        parts = [
            calc.writer.value(scalar, f"extractelement {each}, i64 {lane}") for each in arguments
        ]
        element = calc.writer.call(scalar, symbol, *parts)
        result = calc.writer.value(result.type, f"insertelement {result}, {element}, i64 {lane}")
    return result


def _wide_softplus(calc: Calculator, x: Ssa) -> Ssa:
    size = calc.unary("fabs", x)
    positive = calc.select(calc.compare("fcmp olt", x, 0.0), 0.0, x)
    tail = call_library(calc, "log1p", [call_library(calc, "exp", [calc.sub(0.0, size)])])
    return calc.add(positive, tail)


def _sin_cos(function: str, quarter: int) -> Formula:
    """The polynomial; lanes with a number that it cannot reduce are asked of the C library."""

    def formula(calc: Calculator, x: Ssa) -> Ssa:
        quick = polynomials.sin_cos(calc, x, quarter)
        far = calc.compare("fcmp uge", calc.unary("fabs", x), polynomials.REDUCIBLE)
        writer, before = calc.writer, calc.writer.block
        slow, after = writer.fresh("slow"), writer.fresh("after")
        writer.branch(calc.some(far), slow, after)
        writer.label(slow)
        exact = calc.select(far, call_library(calc, function, [x]), quick)
        last = writer.block
        writer.jump(after)
        writer.label(after)
        pair = f"[{quick.name}, %{before}], [{exact.name}, %{last}]"
        return writer.value(x.type, f"phi {x.type} {pair}")

    return formula


def _power(calc: Calculator, base: Ssa, exponent: Ssa) -> Ssa:
    """Frequent exponents have a short way."""
    for number, formula in _SHORT_POWERS.items():
        if exponent.name == like_literal(number, base).name:
            return formula(calc, base)
    return polynomials.power(calc, base, exponent)


def _root(calc: Calculator, x: Ssa) -> Ssa:
    endless = calc.compare("fcmp oeq", x, float("-inf"))
    return calc.select(endless, float("inf"), calc.unary("sqrt", calc.add(x, 0.0)))


_SHORT_POWERS: dict[float, Formula] = {
    1.0: lambda calc, x: x,
    2.0: lambda calc, x: calc.mul(x, x),
    3.0: lambda calc, x: calc.mul(calc.mul(x, x), x),
    0.5: _root,
    -1.0: lambda calc, x: calc.div(1.0, x),
    -0.5: lambda calc, x: calc.div(1.0, _root(calc, x)),
}

_SINGLE: dict[str, Formula] = {
    "exp": polynomials.exp,
    "expm1": polynomials.expm1,
    "log": polynomials.log,
    "log1p": polynomials.log1p,
    "softplus": polynomials.softplus,
    "tanh": polynomials.tanh,
    "erf": polynomials.erf,
    "sin": _sin_cos("sin", 0),
    "cos": _sin_cos("cos", 1),
    "pow": _power,
}

# --- bool -----------------------------------------------------------------------------------------------------------

_BOOL: dict[str, Formula] = {
    "and": _operation("and"),
    "or": _operation("or"),
    "xor": _operation("xor"),
    "not": lambda calc, x: calc.do("xor", x, 1),
    "eq": _comparison("icmp eq"),
    "lt": _comparison("icmp ult"),
    "le": _comparison("icmp ule"),
    "min": _operation("and"),
    "max": _operation("or"),
    "add": _operation("or"),
    "mul": _operation("and"),
}
