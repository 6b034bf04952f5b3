"""Derivatives of the functions of numbers, and of conversions."""

from __future__ import annotations

import math
from collections.abc import Callable

from burnx import waist
from burnx.dtype import is_float
from burnx.gradients.rules import (
    Cotangents,
    Step,
    filled,
    negated,
    number,
    over,
    rule,
    times,
    where,
)
from burnx.tensor import Tensor


def _plus(x: Tensor, value: float) -> Tensor:
    return waist.map("add", x, number(value, x))


def _square(x: Tensor) -> Tensor:
    return waist.map("mul", x, x)


def _one_minus_square(x: Tensor) -> Tensor:
    return _plus(negated(_square(x)), 1)


# the derivative of a function of one number, from the number x and the result y
_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "neg": lambda x, y: filled(-1, x),
    "abs": lambda x, y: waist.map("sign", x),
    "sqrt": lambda x, y: over(number(0.5, y), y),
    "exp": lambda x, y: y,
    "expm1": lambda x, y: _plus(y, 1),
    "log": lambda x, y: over(number(1, x), x),
    "log1p": lambda x, y: over(number(1, x), _plus(x, 1)),
    "softplus": lambda x, y: negated(waist.map("expm1", negated(y))),
    "sin": lambda x, y: waist.map("cos", x),
    "cos": lambda x, y: negated(waist.map("sin", x)),
    "tan": lambda x, y: _plus(_square(y), 1),
    "asin": lambda x, y: over(number(1, x), waist.map("sqrt", _one_minus_square(x))),
    "acos": lambda x, y: over(number(-1, x), waist.map("sqrt", _one_minus_square(x))),
    "atan": lambda x, y: over(number(1, x), _plus(_square(x), 1)),
    "sinh": lambda x, y: waist.map("cosh", x),
    "cosh": lambda x, y: waist.map("sinh", x),
    "tanh": lambda x, y: _one_minus_square(y),
    "asinh": lambda x, y: over(number(1, x), waist.map("sqrt", _plus(_square(x), 1))),
    "acosh": lambda x, y: over(number(1, x), waist.map("sqrt", _plus(_square(x), -1))),
    "atanh": lambda x, y: over(number(1, x), _one_minus_square(x)),
    "erf": lambda x, y: times(
        number(2 / math.sqrt(math.pi), x), waist.map("exp", negated(_square(x)))
    ),
}
# constant wherever they have a derivative
_FLAT = frozenset({"sign", "floor", "ceil", "round", "trunc"})


@rule("map")
def map_rule(step: Step, by: Tensor) -> Cotangents:
    name = step.attributes["function"]
    if name in _SLOPES:
        (x,) = step.inputs
        return [times(by, _SLOPES[name](x, step.output))]
    if name in _FLAT:
        return [None] * len(step.inputs)
    if name not in _FUNCTIONS:
        raise step.refuse(f"the function {name}")
    return _FUNCTIONS[name](by, step.output, *step.inputs)


def _divide(by: Tensor, result: Tensor, left: Tensor, right: Tensor) -> Cotangents:
    by_left = over(by, right)
    return [by_left, negated(times(by_left, result))]


def _power(by: Tensor, result: Tensor, base: Tensor, exponent: Tensor) -> Cotangents:
    """An exponent of 0, and a base of 0 under a power, have a slope of 0, not 0 · inf."""
    zero = number(0, base)
    slope = times(exponent, waist.map("pow", base, _plus(exponent, -1)))
    by_base = times(by, where(waist.map("eq", exponent, zero), filled(0, slope), slope))
    is_zero = waist.map("eq", base, zero)
    log = waist.map("log", where(is_zero, filled(1, base), base))
    return [by_base, times(by, result, log)]


def _extreme(by: Tensor, result: Tensor, left: Tensor, right: Tensor) -> Cotangents:
    """To whichever was chosen, to equal ones by halves."""
    half = where(waist.map("eq", left, right), filled(0.5, by), filled(1, by))
    shared = times(by, half)
    zero = filled(0, by)
    return [where(waist.map("eq", each, result), shared, zero) for each in (left, right)]


def _remainder(rounding: str) -> Callable[..., Cotangents]:
    def back(by: Tensor, result: Tensor, left: Tensor, right: Tensor) -> Cotangents:
        return [by, negated(times(by, waist.map(rounding, over(left, right))))]

    return back


def _angle(by: Tensor, result: Tensor, up: Tensor, across: Tensor) -> Cotangents:
    share = over(by, waist.map("add", _square(up), _square(across)))
    return [times(share, across), negated(times(share, up))]


def _choice(by: Tensor, result: Tensor, condition: Tensor, yes: Tensor, no: Tensor) -> Cotangents:
    zero = filled(0, by)
    return [None, where(condition, by, zero), where(condition, zero, by)]


_FUNCTIONS: dict[str, Callable[..., Cotangents]] = {
    "add": lambda by, result, left, right: [by, by],
    "sub": lambda by, result, left, right: [by, negated(by)],
    "mul": lambda by, result, left, right: [times(by, right), times(by, left)],
    "div": _divide,
    "pow": _power,
    "min": _extreme,
    "max": _extreme,
    "floor_mod": _remainder("floor"),
    "trunc_mod": _remainder("trunc"),
    "atan2": _angle,
    "select": _choice,
}


@rule("cast")
def cast_rule(step: Step, by: Tensor) -> Cotangents:
    (x,) = step.inputs
    return [waist.cast_to(by, x.dtype) if is_float(x.dtype) else None]
