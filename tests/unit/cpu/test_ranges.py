"""Floats as integers in vectors: what was clipped before, what was not, and NaN."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import DTYPES, float32, float64
from burnx.kernels.ir import Buffer, Cast, Load
from burnx.llvm.emitter import emit
from burnx.llvm.ranges import ANY, Range, range_of
from burnx.runtime.devices.cpu.target import find_target

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Compiled, apply, elementwise, number

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
EDGES = [0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 127.4, 128.0, -128.9, -129.0, 255.9, 256.0, 3e4, -4e4]
EDGES += [7e4, 2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**31 - 1, 2.0**32, 2.0**32 - 256, 2.0**63]
EDGES += [2.0**53, -(2.0**63), 2.0**64, -(2.0**64), 1e30, -1e30, np.inf, -np.inf, np.nan, -np.nan]


def saturated(values, dtype):
    """What Python's whole numbers say."""
    info = np.iinfo(dtype)
    whole = [
        0 if x != x else int(info.min if x <= info.min else info.max if x >= info.max else int(x))
        for x in values.tolist()
    ]
    return np.array(whole, dtype)


@pytest.mark.parametrize("source", [float32, float64], ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_vectors_saturate(source, name):
    compiled = Compiled(elementwise(lambda x: Cast(x, DTYPES[name]), [source], DTYPES[name]))
    values = np.array(EDGES * 3, source)
    found = np.zeros(len(values), DTYPES[name])
    compiled.run(values, found, n=len(values))
    np.testing.assert_array_equal(found, saturated(values, DTYPES[name]))


@pytest.mark.parametrize("name", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("limits", [(-128.0, 127.0), (0.0, 255.0), (-1000.0, 70000.0)])
def test_clipped_numbers(name, limits):
    low, high = limits

    def make(x):
        return Cast(apply("min", apply("max", x, number(low)), number(high)), DTYPES[name])

    compiled = Compiled(elementwise(make, [float32], DTYPES[name]))
    values = np.array(EDGES * 3, np.float32)
    found = np.zeros(len(values), DTYPES[name])
    compiled.run(values, found, n=len(values))
    clipped = np.minimum(np.maximum(values, np.float32(low)), np.float32(high))
    np.testing.assert_array_equal(found, saturated(clipped, DTYPES[name]))


def test_ranges_of_expressions():
    x = Load(Buffer("x", float32), 0)
    clipped = apply("min", apply("max", x, number(-3.0)), number(5.0))
    assert range_of(x) == ANY
    assert range_of(clipped) == range_of(apply("round", clipped)) == Range(-3.0, 5.0)
    assert range_of(apply("max", x, number(0.5))) == ANY
    assert range_of(apply("add", clipped, number(1.0))) == ANY
    assert not ANY.within(-128, 127) and Range(0.0, 255.0).within(0, 255)


def test_vectors_are_not_taken_apart():
    kernel = elementwise(lambda x: Cast(x, DTYPES["int32"]), [float32], DTYPES["int32"])
    assert "fptosi.sat.v" not in emit(kernel, find_target())
