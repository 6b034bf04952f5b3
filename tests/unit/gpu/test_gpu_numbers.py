"""Scalar functions, casts and bitcasts on OpenCL against the primitives; the same kernels compiled as CUDA C++."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from burnx.dtype import DTYPES, DType, bool_, float32, is_float, packed_bits
from burnx.gpu.code import Form
from burnx.kernels.ir import Apply, Buffer, Cast, Kernel, Load, Loop, Store, Value
from burnx.primitives.scalar import FUNCTIONS, evaluate_bitcast, evaluate_cast, evaluate_map
from burnx.shape import symbol
from tests.unit.cpu.test_numbers import _CASES, _KNOWN, assert_same, operands, samples
from tests.unit.gpu.opencl_bench import Array, Built

Make = Callable[[Sequence[Value]], Value]
FORM = Form("threads", 64)


def many(sources: Sequence[DType], makes: Sequence[tuple[Make, DType]]) -> Kernel:
    """out_k[i] = make_k(a[i], b[i], …) for i < n: one kernel takes as long to build as another."""
    i = symbol("i")
    buffers = [Buffer(f"in{place}", dtype) for place, dtype in enumerate(sources)]
    outs = [Buffer(f"out{place}", dtype) for place, (_, dtype) in enumerate(makes)]
    loads = [Load(buffer, i) for buffer in buffers]
    stores = [Store(out, i, make(loads)) for out, (make, _) in zip(outs, makes, strict=True)]
    loop = Loop("i", symbol("n"), tuple(stores), parallel=True, lanes=True)
    return Kernel((*buffers, *outs), ("n",), (loop,))


def run_many(sources: Sequence[Array], makes: Sequence[tuple[Make, DType]]) -> list[Array]:
    count = len(sources[0])
    found: list[Array] = []
    for start in range(0, len(makes), 24):  # more arguments than that a device need not take
        part = makes[start : start + 24]
        outs = [np.zeros(count, dtype) for _, dtype in part]
        kernel = many([x.dtype for x in sources], part)
        Built([(kernel, FORM)]).run(0, [*sources, *outs], {"n": count})
        found += outs
    return found


def every(dtype: DType) -> Array:
    """All bit patterns of small dtypes; of others edges, usual numbers and random bits."""
    bits = packed_bits(dtype)
    if dtype == bool_:
        return np.array([False, True] * 4)
    if bits <= 16:
        return np.arange(1 << bits, dtype=f"u{dtype.itemsize}").view(dtype)
    chosen = samples(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = [info.min, info.max, *(1 << k for k in range(bits - 1)), *range(9)]
        return np.concatenate([np.array(edges, dtype), chosen])
    halves = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        near = [halves.view(DTYPES[name]).astype(dtype) for name in ("float16", "bfloat16")]
        ties = [(x + np.nextafter(x, dtype.type(np.inf))) / 2 for x in near]
        exact = np.concatenate(
            [near[0][:-1] / 2 + near[0][1:] / 2, near[1][:-1] / 2 + near[1][1:] / 2]
        )
    return np.concatenate([chosen, *near, *ties, exact])


@pytest.mark.parametrize("name", _KNOWN)
def test_casts_are_those_of_the_primitive(name: str) -> None:
    source = every(DTYPES[name])
    pairs = [
        (DTYPES[target], saturate)
        for target in _KNOWN
        for saturate in ((True, False) if target.startswith("float8") else (True,))
    ]
    makes = [
        (lambda loads, to=to, saturate=saturate: Cast(loads[0], to, saturate), to)
        for to, saturate in pairs
    ]
    for (to, saturate), found in zip(pairs, run_many([source], makes), strict=True):
        try:
            assert_same(found, evaluate_cast(source, dtype=to, saturate=saturate))
        except AssertionError as error:
            raise AssertionError(f"{name} to {to}, saturate {saturate}: {error}") from error


def test_bits_read_as_another_dtype() -> None:
    pairs = "float32 int32,int64 float64,float16 uint16,bfloat16 int16,float8_e5m2 int8,bool uint8"
    for pair in pairs.split(","):
        one, other = (DTYPES[name] for name in pair.split())
        for source_dtype, target in ((one, other), (other, one)):
            source = samples(source_dtype)
            if target == bool_:
                source = (source & 1).astype(source_dtype)
            make = (lambda loads, to=target: Cast(loads[0], to, bits=True), target)
            (found,) = run_many([source], [make])
            assert found.tobytes() == evaluate_bitcast(source, dtype=target).tobytes()


@pytest.mark.parametrize("name", sorted({name for _, name in _CASES}))
def test_functions_are_those_of_the_primitive(name: str) -> None:
    dtype = DTYPES[name]
    for arity in (1, 2, 3):
        functions = [f for f, other in _CASES if other == name and len(operands(f, dtype)) == arity]
        if not functions:
            continue
        arguments = [operands(function, dtype) for function in functions]
        for given in arguments:
            assert all(
                np.array_equal(a.view(np.uint8), b.view(np.uint8))
                for a, b in zip(given, arguments[0], strict=True)
            )
        makes = [
            (lambda loads, f=f: Apply(f, tuple(loads), _result(f, dtype)), _result(f, dtype))
            for f in functions
        ]
        for function, found in zip(functions, run_many(arguments[0], makes), strict=True):
            exact = evaluate_map(*arguments[0], function=function)
            _compare(function, found, exact)


def _result(function: str, dtype: DType) -> DType:
    return bool_ if FUNCTIONS[function].is_predicate else dtype


def _compare(function: str, found: Array, exact: Array) -> None:
    if is_float(exact.dtype):
        relative, least = (4e-6, 1e-44) if exact.dtype == float32 else (5e-15, 5e-324)
        np.testing.assert_allclose(found, exact, relative, least, equal_nan=True, err_msg=function)
    else:
        np.testing.assert_array_equal(found, exact, function)
