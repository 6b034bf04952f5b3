"""Copies that turn a matrix, in squares: all sizes around those of a square, dtypes, and what is left alone."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import DTYPES, float32
from burnx.kernels.ir import Buffer, Cast, Kernel, Load, Loop, Store
from burnx.llvm.emitter import emit
from burnx.llvm.target import describe
from burnx.runtime.devices.cpu.compile import compile_object
from burnx.runtime.devices.cpu.target import describe_named
from burnx.shape import symbol

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Compiled, apply, number

X, C = symbol("X"), symbol("C")


def turning(source, target):
    """out[g, x, c] = 2 in[g, c, x] + bias[c]; bool and half are only cast."""
    g, x, c = (symbol(name) for name in "gxc")
    a, bias, out = Buffer("a", DTYPES[source]), Buffer("b", float32), Buffer("o", DTYPES[target])
    value = Load(a, (g * C + c) * X + x)
    if source == target == "float32":
        value = apply("add", apply("mul", value, number(2.0)), Load(bias, c))
    elif source != target:
        value = Cast(value, DTYPES[target])
    inner = Loop("c", C, (Store(out, (g * X + x) * C + c, value),), lanes=True)
    outer = Loop("g", symbol("G"), (Loop("x", X, (inner,), parallel=True),), parallel=True)
    return Kernel((a, bias, out), ("G", "X", "C"), (outer,))


@cache
def compiled(source, target):
    return Compiled(turning(source, target))


def check(source, target, sizes, workers):
    groups, across, along = sizes
    random = np.random.default_rng(1)
    a = random.integers(0, 2 if source == "bool" else 100, (groups, along, across)).astype(
        DTYPES[source]
    )
    bias = random.normal(size=along).astype(np.float32)
    found = np.full((groups + 1, across, along), 1, DTYPES[target])
    found[groups] = 1
    compiled(source, target).run(a, bias, found, workers=workers, G=groups, X=across, C=along)
    expected = a.transpose(0, 2, 1).astype(DTYPES[target])
    if source == target == "float32":
        expected = expected * np.float32(2) + bias
    np.testing.assert_allclose(found[:groups], expected, rtol=1e-6)
    assert np.all(found[groups] == 1), "wrote past the end"


@pytest.mark.parametrize("across", [0, 1, 7, 8, 9, 16, 27])
@pytest.mark.parametrize("along", [0, 1, 3, 8, 13, 33])
@pytest.mark.parametrize("workers", [1, 3])
def test_squares_and_what_is_left(across, along, workers):
    check("float32", "float32", (2, across, along), workers)


PAIRS = [("float32", "float16"), ("float16", "float32"), ("int8", "int8"), ("float64", "float64")]
PAIRS += [("bool", "bool"), ("uint8", "float32"), ("float32", "int64")]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_dtypes(pair):
    for sizes in [(1, 40, 3), (2, 37, 50), (1, 5, 70)]:
        check(*pair, sizes, 2)


def test_a_square_is_turned_in_registers():
    text = emit(turning("float32", "float32"), describe("x86_64", "", {"avx2", "fma"}, ""))
    assert text.count("shufflevector <8 x float>") >= 24


TARGETS = {
    "avx512": describe_named("x86_64-unknown-linux-gnu", "icelake-server"),
    "sse2": describe("x86_64-unknown-linux-gnu", "x86-64", set(), ""),
    "neon": describe("aarch64-unknown-linux-gnu", "neoverse-n1", set(), ""),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_other_processors(target):
    assert len(compile_object(emit(turning("float32", "float32"), target), target)) > 500
