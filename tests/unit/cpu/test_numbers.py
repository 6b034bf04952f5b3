"""Casts, scalar functions and polynomials of compiled kernels against the primitives and NumPy in float64."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import DTYPES, DType, bool_, dtype_name, float32, int32, packed_bits
from burnx.kernels.ir import Apply, Cast
from burnx.primitives.scalar import FUNCTIONS, evaluate_bitcast, evaluate_cast, evaluate_map

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Array, Compiled, apply, elementwise, ulps

_COUNT = 700
_KNOWN = [name for name in DTYPES if name != "string" and not name.startswith("complex")]
_EDGES = [
    0, -0.0, np.inf, -np.inf, np.nan, 1.5, 2.5, -1.5, 1e5, -1e5, 3e9, 2.0**31, 2.0**32, 2.0**63,
    2.0**64, -(2.0**63), -1, 255.5, 448, 464, 465, 480, 57344, 61440, 61439, 6, 7, 0.25, 0.75,
    1.25, 3.5, 28, 30, 1 + 2**-11 + 2**-40, 5.9e-39, 5.8e-39, 1e-45,
]  # fmt: skip


def samples(dtype: DType, seed: int = 0) -> Array:
    """Numbers of a dtype: all bit patterns, and for floats the edges of others."""
    random = np.random.default_rng(seed)
    if dtype == bool_:
        return random.integers(0, 2, _COUNT).astype(bool)
    raw = random.integers(0, 256, _COUNT * dtype.itemsize).astype(np.uint8)
    if packed_bits(dtype) < 8:
        return (raw & ((1 << packed_bits(dtype)) - 1)).view(dtype)
    numbers = raw.view(dtype)
    if dtype_name(dtype) in ("float32", "float64", "float16", "bfloat16"):
        with np.errstate(all="ignore"):
            edges = np.array(_EDGES).astype(dtype)
            middle = (random.normal(size=300) * np.exp2(random.integers(-20, 20, 300))).astype(
                dtype
            )
        numbers = np.concatenate([edges, middle, numbers])[:_COUNT]
    return numbers


def assert_same(found: Array, exact: Array) -> None:
    """The same bits, except that any NaN is as good as another of its sign or not."""
    dtype = exact.dtype
    if dtype_name(dtype) in ("float32", "float64", "float16", "bfloat16"):
        with np.errstate(all="ignore"):
            nan = np.isnan(found.astype(np.float64)) & np.isnan(exact.astype(np.float64))
        found, exact = found[~nan], exact[~nan]
    np.testing.assert_array_equal(found.view(np.uint8), exact.view(np.uint8))


@pytest.mark.parametrize("target", _KNOWN)
def test_casts_are_those_of_the_primitive(target: str) -> None:
    for name in _KNOWN:
        for saturate in (True, False) if target.startswith("float8") else (True,):
            source, dtype = samples(DTYPES[name]), DTYPES[target]
            kernel = elementwise(
                lambda a, to=dtype, s=saturate: Cast(a, to, s), [source.dtype], dtype
            )
            out = np.zeros(_COUNT, dtype)
            Compiled(kernel).run(source, out, n=_COUNT)
            assert_same(out, evaluate_cast(source, dtype=dtype, saturate=saturate))


@pytest.mark.parametrize(
    "pair",
    ["float32 int32", "int64 float64", "float16 uint16", "bfloat16 int16", "float8_e5m2 int8"],
)
def test_bits_read_as_another_dtype(pair: str) -> None:
    one, other = (DTYPES[name] for name in pair.split())
    for source_dtype, target in ((one, other), (other, one)):
        source, out = samples(source_dtype), np.zeros(_COUNT, target)
        kernel = elementwise(lambda a, to=target: Cast(a, to, bits=True), [source_dtype], target)
        Compiled(kernel).run(source, out, n=_COUNT)
        assert out.tobytes() == evaluate_bitcast(source, dtype=target).tobytes()


_BINARY = "add sub mul div floor_mod trunc_mod pow min max atan2 eq lt le and or xor"
_BINARY += " bit_and bit_or bit_xor shift_left shift_right"
_DTYPES = [
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]
_CASES = [
    (function.name, name)
    for function in FUNCTIONS.values()
    for name in _DTYPES
    if {"f": "f", "b": "b"}.get(name[0], "i") in function.kinds
]


def operands(function: str, dtype: DType) -> list[Array]:
    """Arguments with every edge that division, shifts and powers have."""
    many = 3 if function == "select" else 2 if function in _BINARY.split() else 1
    result = [samples(dtype, seed) for seed in range(many)]
    random = np.random.default_rng(9)
    if dtype.kind in "iu":
        small = random.integers(-4 if dtype.kind == "i" else 0, 70, (many, _COUNT)).astype(dtype)
        result = [np.where(random.random(_COUNT) < 0.4, s, x) for s, x in zip(small, result)]
        result[0][:4] = np.iinfo(dtype).min
        result[-1][:4] = np.array([-1, 0, 1, 2]).astype(dtype)
    if dtype.kind == "f":
        edges = random.choice([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5], (many, _COUNT))
        result = [
            np.where(random.random(_COUNT) < 0.3, e, x).astype(dtype) for e, x in zip(edges, result)
        ]
    return [samples(bool_), *result[1:]] if function == "select" else result


@pytest.mark.parametrize(("function", "name"), _CASES)
def test_functions_are_those_of_the_primitive(function: str, name: str) -> None:
    dtype = DTYPES[name]
    arguments = operands(function, dtype)
    result = bool_ if FUNCTIONS[function].is_predicate else dtype
    kernel = elementwise(
        lambda *values: Apply(function, values, result), [x.dtype for x in arguments], result
    )
    out = np.zeros(_COUNT, result)
    Compiled(kernel).run(*arguments, out, n=_COUNT)
    exact = evaluate_map(*arguments, function=function)
    if result.kind == "f":
        relative, least = (2e-6, 1e-44) if dtype == float32 else (5e-15, 5e-324)
        np.testing.assert_allclose(out, exact, rtol=relative, atol=least, equal_nan=True)
    else:
        np.testing.assert_array_equal(out, exact)


# --- polynomials ----------------------------------------------------------------------------------------------------

_ERF = np.vectorize(math.erf, otypes=[np.float64])
_BOUNDS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1.1),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "tanh": (np.tanh, 3.0),
    "erf": (_ERF, 2.0),
    "softplus": (lambda x: np.logaddexp(0.0, x), 2.0),
    "sin": (np.sin, 2.0),
    "cos": (np.cos, 2.0),
}


def dense() -> Array:
    """All exponents, the ranges in which the formulas change, and huge numbers."""
    random = np.random.default_rng(0)
    parts = [
        random.integers(0, 2**32, 60_000, dtype=np.uint64).astype(np.uint32).view(np.float32),
        np.linspace(-110, 95, 40_001),
        np.linspace(-5, 5, 60_001),
        np.linspace(-10_050, 10_050, 30_001),
        np.linspace(0.5, 2.0, 30_001),
        np.logspace(-45, 38, 20_001),
        -np.logspace(-45, 38, 20_001),
        np.arange(-400, 400) * (np.pi / 2),
        [0, -0.0, np.inf, -np.inf, np.nan, 88.72, 88.73, -103.97, -104, 0.9, 4, -4, 1e-45],
    ]
    with np.errstate(all="ignore"):
        return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("function", list(_BOUNDS))
def test_polynomials_keep_their_bounds(function: str) -> None:
    exact_function, bound = _BOUNDS[function]
    x = dense()
    out = np.zeros_like(x)
    Compiled(elementwise(lambda a: apply(function, a), [float32], float32)).run(x, out, n=x.size)
    with np.errstate(all="ignore"):
        exact = exact_function(x.astype(np.float64))
    distance = ulps(out, exact)
    worst = int(np.argmax(distance))
    assert distance[worst] <= bound, f"{function}({x[worst]!r}) gave {out[worst]!r}"
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(out[zero]), np.signbit(exact[zero].astype(np.float32)))


def test_one_more_than_exp_keeps_its_bound() -> None:
    from kernels import number

    x = dense()
    out = np.zeros_like(x)
    kernel = elementwise(lambda a: apply("add", apply("exp", a), number(1.0)), [float32], float32)
    Compiled(kernel).run(x, out, n=x.size)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64)) + 1
    assert ulps(out, exact).max() <= 1.1


def test_powers_keep_their_bound() -> None:
    random = np.random.default_rng(1)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 3, 1e-45, 1e38])
    base = np.concatenate(
        [np.repeat(edges, edges.size), random.uniform(0, 50, 50_000), -random.integers(1, 9, 500)]
    ).astype(np.float32)
    exponent = np.concatenate(
        [np.tile(edges, edges.size), random.uniform(-20, 20, 50_000), random.integers(-9, 9, 500)]
    ).astype(np.float32)
    out = np.zeros_like(base)
    compiled = Compiled(elementwise(lambda a, b: apply("pow", a, b), [float32] * 2, float32))
    compiled.run(base, exponent, out, n=base.size)
    with np.errstate(all="ignore"):
        exact = np.power(base.astype(np.float64), exponent.astype(np.float64))
    assert ulps(out, exact).max() <= 0.6
    number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(out[number]), np.signbit(exact[number]))


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -0.5, -1.0, 1.0])
def test_powers_with_a_short_way(exponent: float) -> None:
    from kernels import number

    x = np.concatenate([samples(float32), np.linspace(0, 9, 99)]).astype(np.float32)
    out = np.zeros_like(x)
    kernel = elementwise(lambda a: apply("pow", a, number(exponent)), [float32], float32)
    Compiled(kernel).run(x, out, n=x.size)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), np.full(x.size, exponent))
    assert ulps(out, exact).max() <= 1.5


def test_one_element_gives_the_bits_that_a_vector_gives() -> None:
    """What is left over of a row is worked out alone."""
    x = dense()[::997].copy()
    for function in _BOUNDS:
        compiled = Compiled(elementwise(lambda a, f=function: apply(f, a), [float32], float32))
        together, alone = np.zeros_like(x), np.zeros_like(x)
        compiled.run(x, together, n=x.size)
        for place in range(x.size):
            compiled.run(x[place : place + 1], alone[place : place + 1], n=1)
        np.testing.assert_array_equal(alone, together)


def test_casts_inside_of_longer_expressions() -> None:
    kernel = elementwise(
        lambda a, b: Cast(apply("mul", Cast(a, float32), Cast(b, float32)), int32),
        [DTYPES["float16"], DTYPES["uint8"]],
        int32,
    )
    a, b = samples(DTYPES["float16"]), samples(DTYPES["uint8"])
    out = np.zeros(_COUNT, np.int32)
    Compiled(kernel).run(a, b, out, n=_COUNT)
    with np.errstate(all="ignore"):
        exact = evaluate_cast(a.astype(np.float32) * b.astype(np.float32), dtype=int32)
    np.testing.assert_array_equal(out, exact)
