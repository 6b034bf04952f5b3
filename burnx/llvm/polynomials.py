"""float32 exp, log and what is made of them, for scalars and vectors alike, without calls.

Bounds are in units in the last place of float32, measured over all exponents against float64.
NaN stays NaN, infinities and denormal numbers are exact cases, and -0 keeps its sign where the function is odd.
Source: the coefficients are least-maximum fits made for this file; range reduction after Cody and Waite 1980.
"""

from __future__ import annotations

from burnx.llvm.calculator import Calculator
from burnx.llvm.literals import like_literal
from burnx.llvm.writer import Ssa

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = (
    0.693115234375,
    3.194618329871446e-05,
)  # the first has 12 bits: n * it is exact
_ROUNDER, _ROUNDER_BITS = 12582912.0, 0x4B400000  # 1.5 * 2**23: adding it rounds to a whole number
_HALF_ROOT_BITS = 0x3F3504F3  # sqrt(1 / 2)
_INFINITY, _NAN = float("inf"), float("nan")

# (exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2
_EXP = (0.5, 0.166665181517601, 0.04166620597243309, 0.008368954062461853, 0.0013950599823147058)
# (log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1/2) - 1 <= f <= sqrt(2) - 1
_LOG = (
    0.3333331346511841,
    -0.25000008940696716,
    0.20002123713493347,
    -0.16668005287647247,
    0.14219450950622559,
    -0.12405342608690262,
    0.11888708919286728,
    -0.11677505075931549,
    0.06747692078351974,
)
# erf(x) / x - 1 in x**2 for |x| <= 0.9, and log(1 - erf(x)) in x for 0.9 <= x <= 4
_ERF = (
    0.12837916709551256,
    -0.37612634897232056,
    0.11283715069293976,
    -0.02686050906777382,
    0.005203858949244022,
    -0.0008175639086402953,
    8.513102511642501e-05,
)
_LOG_ERFC = (
    0.0001692051300778985,
    -1.1294883489608765,
    -0.6334008574485779,
    -0.10822038352489471,
    0.025080615654587746,
    -0.004156254697591066,
    0.0004313935642130673,
    -2.0828618289669976e-05,
)


def _reduce(calc: Calculator, x: Ssa) -> tuple[Ssa, Ssa]:
    """n and r with x = n * ln(2) + r; n as an i32 of which only the low 9 bits are right."""
    shifted = calc.fma(x, _LOG2_E, _ROUNDER)
    whole = calc.sub(shifted, _ROUNDER)
    rest = calc.fma(whole, -_LN2_LOW, calc.fma(whole, -_LN2_HIGH, x))
    return calc.bits(shifted), rest


def _power_of_two(calc: Calculator, n: Ssa, less: int = 0) -> Ssa:
    """2**(n - less) as a float, if that is not denormal; of n it needs the low 9 bits."""
    return calc.floats(calc.do("shl", calc.do("add", n, 127 - less), 23))


def _exp_part(calc: Calculator, rest: Ssa) -> Ssa:
    """exp(rest) - 1 for |rest| <= ln(2) / 2."""
    return calc.fma(calc.mul(rest, rest), calc.polynomial(rest, _EXP), rest)


def exp(calc: Calculator, x: Ssa) -> Ssa:
    """Within 1.1 units in the last place, 2 where the result is denormal.  2**n is multiplied in two parts."""
    n, rest = _reduce(calc, calc.clip(x, -104.0, 89.0))
    part = calc.add(_exp_part(calc, rest), 1.0)
    half = calc.do("ashr", calc.do("sub", n, _ROUNDER_BITS), 1)
    scaled = calc.mul(part, _power_of_two(calc, half))
    return calc.mul(scaled, _power_of_two(calc, calc.do("sub", n, half)))


def exp_near(calc: Calculator, x: Ssa) -> Ssa:
    """``exp`` for -80 < x < 80 only."""
    n, rest = _reduce(calc, x)
    scale = _power_of_two(calc, n)
    return calc.fma(_exp_part(calc, rest), scale, scale)


def exp_plus_one(calc: Calculator, x: Ssa) -> Ssa:
    """exp(x) + 1 within 1.1 units in the last place: what is too small to be scaled at once is lost beside the 1."""
    n, rest = _reduce(calc, calc.clip(x, -86.0, 89.0))
    scale = _power_of_two(calc, n, 1)  # half of 2**n, which may be too large itself
    halved = calc.fma(_exp_part(calc, rest), scale, scale)
    return calc.fma(halved, 2.0, 1.0)


def expm1(calc: Calculator, x: Ssa) -> Ssa:
    """Within 2 units in the last place."""
    return calc.binary("copysign", _expm1_near(calc, calc.clip(x, -25.0, 89.0)), x)


def _expm1_near(calc: Calculator, x: Ssa) -> Ssa:
    """``expm1`` for -25 <= x <= 89, but for the sign of 0."""
    n, rest = _reduce(calc, x)
    scale = _power_of_two(calc, n, 1)  # half of 2**n, which may be too large itself
    halved = calc.fma(_exp_part(calc, rest), scale, calc.sub(scale, 0.5))
    return calc.add(halved, halved)


def _log_parts(calc: Calculator, x: Ssa) -> tuple[Ssa, Ssa]:
    """e as a float and f with x = 2**e * (1 + f), for x above 0."""
    tiny = calc.compare("fcmp olt", x, 2.0**-126)
    bits = calc.bits(calc.select(tiny, calc.mul(x, 2.0**23), x))
    moved = calc.do("sub", bits, _HALF_ROOT_BITS)
    exponent = calc.do("ashr", moved, 23)
    exponent = calc.do("sub", exponent, calc.select(tiny, like_literal(23, exponent), 0))
    mantissa = calc.do("add", calc.do("and", moved, 0x7FFFFF), _HALF_ROOT_BITS)
    whole = calc.convert("sitofp", exponent, "float")
    return whole, calc.sub(calc.floats(mantissa), 1.0)


def _log_sum(calc: Calculator, whole: Ssa, part: Ssa, correction: Ssa | float) -> Ssa:
    """whole * ln(2) + log(1 + part) + correction, small terms first."""
    square = calc.mul(part, part)
    tail = calc.mul(calc.mul(square, part), calc.polynomial(part, _LOG))
    tail = calc.add(calc.fma(whole, _LN2_LOW, tail), correction)
    return calc.fma(whole, _LN2_HIGH, calc.add(part, calc.fma(square, -0.5, tail)))


def log(calc: Calculator, x: Ssa) -> Ssa:
    """Within 1 unit in the last place."""
    whole, part = _log_parts(calc, x)
    result = _log_sum(calc, whole, part, 0.0)
    return _log_limits(calc, x, result, 0.0)


def _log_limits(calc: Calculator, x: Ssa, result: Ssa, zero: float) -> Ssa:
    """log at ``zero`` is -inf, below NaN, at inf inf."""
    result = calc.select(calc.compare("fcmp ueq", x, _INFINITY), x, result)
    result = calc.select(calc.compare("fcmp olt", x, zero), _NAN, result)
    return calc.select(calc.compare("fcmp oeq", x, zero), -_INFINITY, result)


def log1p(calc: Calculator, x: Ssa) -> Ssa:
    """Within 2 units in the last place."""
    sum_ = calc.add(x, 1.0)
    whole, part = _log_parts(calc, sum_)
    near = calc.compare("fcmp oeq", whole, 0.0)
    part = calc.select(near, x, part)
    lost = calc.select(
        calc.compare("fcmp ogt", x, 1.0),
        calc.sub(1.0, calc.sub(sum_, x)),
        calc.sub(x, calc.sub(sum_, 1.0)),
    )
    correction = calc.select(near, 0.0, calc.div(lost, sum_))
    result = _log_limits(calc, x, _log_sum(calc, whole, part, correction), -1.0)
    return calc.select(calc.compare("fcmp oeq", x, 0.0), x, result)


def softplus(calc: Calculator, x: Ssa) -> Ssa:
    """log(1 + exp(x)), within 3 units in the last place."""
    size = calc.unary("fabs", x)
    positive = calc.select(calc.compare("fcmp olt", x, 0.0), 0.0, x)
    return calc.add(positive, log1p(calc, exp(calc, calc.sub(0.0, size))))


def tanh(calc: Calculator, x: Ssa) -> Ssa:
    """Within 3 units in the last place."""
    size = calc.cap(calc.unary("fabs", x), 10.0)
    grown = _expm1_near(calc, calc.add(size, size))
    return calc.binary("copysign", calc.div(grown, calc.add(grown, 2.0)), x)


def erf(calc: Calculator, x: Ssa) -> Ssa:
    """Within 2 units in the last place."""
    size = calc.cap(calc.unary("fabs", x), 4.0)
    small = calc.fma(size, calc.polynomial(calc.mul(size, size), _ERF), size)
    large = calc.sub(1.0, exp_near(calc, calc.polynomial(size, _LOG_ERFC)))
    result = calc.select(calc.compare("fcmp olt", size, 0.9), small, large)
    return calc.binary("copysign", result, x)


# --- sin and cos ----------------------------------------------------------------------------------------------------

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_SIN = (-0.1666666716337204, 0.008333329111337662, -0.000198393187019974, 2.7181627046957146e-06)
_COS = (0.0416666679084301, -0.0013888883404433727, 2.479950308043044e-05, -2.720885561302566e-07)
REDUCIBLE = 10000.0  # above it three parts of pi / 2 are not enough


def sin_cos(calc: Calculator, x: Ssa, quarter: int) -> Ssa:
    """sin(x + quarter * pi / 2), for |x| up to ``REDUCIBLE``, within 2 units in the last place."""
    shifted = calc.fma(x, _TWO_OVER_PI, _ROUNDER)
    whole = calc.sub(shifted, _ROUNDER)
    turns = calc.do("add", calc.bits(shifted), quarter)
    rest = x
    for part in _HALF_PI:
        rest = calc.fma(whole, -part, rest)
    square = calc.mul(rest, rest)
    sine = calc.fma(calc.mul(square, rest), calc.polynomial(square, _SIN), rest)
    cosine = calc.fma(
        calc.mul(square, square), calc.polynomial(square, _COS), calc.fma(square, -0.5, 1.0)
    )
    odd = calc.compare("icmp ne", calc.do("and", turns, 1), 0)
    result = calc.bits(calc.select(odd, cosine, sine))
    sign = calc.do("shl", calc.do("and", turns, 2), 30)
    result = calc.floats(calc.do("xor", result, sign))
    if quarter:
        return result
    return calc.select(calc.compare("fcmp oeq", x, 0.0), x, result)


# --- powers ---------------------------------------------------------------------------------------------------------

# (atanh(t) / t - 1) / t**2 in t**2 for |t| <= 0.1716, and 2**r for |r| <= 1 / 2
_ATANH = (0.33333332821816847, 0.20000167819831324, 0.14268638974204073, 0.11791384186993076)
_EXP2 = (
    0.9999999999616818,
    0.6931471807284535,
    0.24022651198156475,
    0.05550410353428182,
    0.009618027253795874,
    0.0013333922579638093,
    0.0001546929110691677,
    1.5201917868190584e-05,
)
_WIDE_ROUNDER = 6755399441055744.0  # 1.5 * 2**52


def power(calc: Calculator, base: Ssa, exponent: Ssa) -> Ssa:
    """Within 1 unit in the last place: worked out in float64, with the special cases of IEEE 754."""
    size = calc.unary("fabs", base)
    binary_log = _log2(calc, size)
    wide = calc.convert("fpext", exponent, "double")
    product = calc.mul(binary_log, wide)
    is_one = calc.compare("fcmp oeq", size, 1.0)
    endless = calc.compare("fcmp oeq", calc.unary("fabs", exponent), _INFINITY)
    product = calc.select(calc.both(is_one, endless), 0.0, product)
    result = calc.convert("fptrunc", _exp2(calc, product), "float")
    return _power_signs(calc, base, exponent, result)


def _power_signs(calc: Calculator, base: Ssa, exponent: Ssa, result: Ssa) -> Ssa:
    whole = calc.compare("fcmp oeq", calc.unary("floor", exponent), exponent)
    half = calc.mul(exponent, 0.5)
    odd = calc.both(whole, calc.compare("fcmp one", calc.unary("floor", half), half))
    negated = calc.binary("copysign", result, base)
    result = calc.select(odd, negated, result)
    finite_negative = calc.both(
        calc.compare("fcmp olt", base, 0.0), calc.compare("fcmp ogt", base, -_INFINITY)
    )
    broken = calc.compare("fcmp une", calc.unary("floor", exponent), exponent)
    result = calc.select(calc.both(finite_negative, broken), _NAN, result)
    unit = calc.either(calc.compare("fcmp oeq", base, 1.0), calc.compare("fcmp oeq", exponent, 0.0))
    return calc.select(unit, 1.0, result)


def _log2(calc: Calculator, x: Ssa) -> Ssa:
    """The binary logarithm of a float that is not negative, as a double."""
    whole, part = (calc.convert("fpext", each, "double") for each in _log_parts(calc, x))
    ratio = calc.div(part, calc.add(part, 2.0))
    square = calc.mul(ratio, ratio)
    series = calc.fma(calc.mul(ratio, square), calc.polynomial(square, _ATANH), ratio)
    result = calc.fma(series, 2.0 * _LOG2_E, whole)
    special = calc.either(calc.compare("fcmp oeq", x, 0.0), calc.compare("fcmp ueq", x, _INFINITY))
    ends = calc.select(calc.compare("fcmp oeq", x, 0.0), -_INFINITY, x)
    return calc.select(special, calc.convert("fpext", ends, "double"), result)


def _exp2(calc: Calculator, x: Ssa) -> Ssa:
    """2**x of a double, for results in the range of float."""
    x = calc.clip(x, -200.0, 200.0)
    shifted = calc.add(x, _WIDE_ROUNDER)
    rest = calc.sub(x, calc.sub(shifted, _WIDE_ROUNDER))
    bits = calc.do("add", calc.do("shl", calc.bits(shifted), 52), 1023 << 52)
    return calc.mul(calc.polynomial(rest, _EXP2), calc.floats(bits))
