"""The scalar functions on integers of 8 to 64 bits: they wrap, and division never traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from burnx.llvm.calculator import Calculator
from burnx.llvm.dtypes import scalar_type
from burnx.llvm.literals import like_literal
from burnx.llvm.writer import Ssa, integer

Formula: TypeAlias = Callable[..., Ssa]


def _bits(x: Ssa) -> int:
    return int(scalar_type(x.type)[1:])


def _safe_divisor(calc: Calculator, signed: bool, left: Ssa, right: Ssa) -> Ssa:
    """1 in place of 0, and of -1 under the least number: MIN / 1 is what MIN / -1 wraps to."""
    bad = calc.compare("icmp eq", right, 0)
    if signed:
        least = calc.compare("icmp eq", left, -(1 << (_bits(left) - 1)))
        bad = calc.either(bad, calc.both(least, calc.compare("icmp eq", right, -1)))
    return calc.select(bad, 1, right)


def _divide(calc: Calculator, signed: bool, left: Ssa, right: Ssa) -> Ssa:
    by = _safe_divisor(calc, signed, left, right)
    quotient = calc.do("sdiv" if signed else "udiv", left, by)
    return calc.select(calc.compare("icmp eq", right, 0), 0, quotient)


def _rest(calc: Calculator, signed: bool, left: Ssa, right: Ssa) -> Ssa:
    by = _safe_divisor(calc, signed, left, right)
    rest = calc.do("srem" if signed else "urem", left, by)
    return calc.select(calc.compare("icmp eq", right, 0), left, rest)


def _floor_mod(calc: Calculator, signed: bool, left: Ssa, right: Ssa) -> Ssa:
    rest = _rest(calc, signed, left, right)
    if not signed:
        return rest
    opposite = calc.compare("icmp slt", calc.do("xor", rest, right), 0)
    some = calc.both(calc.compare("icmp ne", rest, 0), calc.compare("icmp ne", right, 0))
    return calc.select(calc.both(some, opposite), calc.do("add", rest, right), rest)


def _power(calc: Calculator, signed: bool, base: Ssa, exponent: Ssa) -> Ssa:
    """By squaring; a negative exponent leaves 0 but for the bases 1 and -1."""

    def turn(_: Ssa, values: list[Ssa]) -> list[Ssa]:
        result, square, rest = values
        odd = calc.compare("icmp ne", calc.do("and", rest, 1), 0)
        result = calc.select(odd, calc.do("mul", result, square), result)
        return [result, calc.do("mul", square, square), calc.do("lshr", rest, 1)]

    stop = integer(_bits(base))
    first = [like_literal(1, base), base, exponent]
    whole = calc.writer.loop(integer(0), stop, integer(1), turn, first)[0]
    if not signed:
        return whole
    odd = calc.compare("icmp ne", calc.do("and", exponent, 1), 0)
    unit = calc.select(calc.compare("icmp eq", base, 1), like_literal(1, base), 0)
    signs = calc.select(odd, like_literal(-1, base), 1)
    unit = calc.select(calc.compare("icmp eq", base, -1), signs, unit)
    return calc.select(calc.compare("icmp slt", exponent, 0), unit, whole)


def _extreme(name: str) -> Formula:
    return lambda calc, signed, left, right: calc.binary(
        ("s" if signed else "u") + name, left, right
    )


def _absolute(calc: Calculator, signed: bool, x: Ssa) -> Ssa:
    if not signed:
        return x
    return calc.select(calc.compare("icmp slt", x, 0), calc.do("sub", 0, x), x)


def _sign(calc: Calculator, signed: bool, x: Ssa) -> Ssa:
    positive = calc.select(calc.compare("icmp eq", x, 0), like_literal(0, x), 1)
    if not signed:
        return positive
    return calc.select(calc.compare("icmp slt", x, 0), -1, positive)


def _shift(signed_operation: str, operation: str) -> Formula:
    """A count outside of the bits gives 0."""

    def formula(calc: Calculator, signed: bool, x: Ssa, count: Ssa) -> Ssa:
        inside = calc.compare("icmp ult", count, _bits(x))
        safe = calc.select(inside, count, 0)
        moved = calc.do(signed_operation if signed else operation, x, safe)
        return calc.select(inside, moved, 0)

    return formula


def _operation(operation: str) -> Formula:
    return lambda calc, signed, left, right: calc.do(operation, left, right)


def _comparison(name: str) -> Formula:
    return lambda calc, signed, left, right: calc.compare(
        f"icmp {'s' if signed else 'u'}{name}", left, right
    )


FORMULAS: dict[str, Formula] = {
    "add": _operation("add"),
    "sub": _operation("sub"),
    "mul": _operation("mul"),
    "div": _divide,
    "floor_mod": _floor_mod,
    "trunc_mod": _rest,
    "pow": _power,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "neg": lambda calc, signed, x: calc.do("sub", 0, x),
    "abs": _absolute,
    "sign": _sign,
    "eq": lambda calc, signed, left, right: calc.compare("icmp eq", left, right),
    "lt": _comparison("lt"),
    "le": _comparison("le"),
    "bit_and": _operation("and"),
    "bit_or": _operation("or"),
    "bit_xor": _operation("xor"),
    "bit_not": lambda calc, signed, x: calc.do("xor", x, -1),
    "shift_left": _shift("shl", "shl"),
    "shift_right": _shift("ashr", "lshr"),
}
