"""Sorting on an OpenCL device, and of short rows on the cpu: values and places are the reference's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import DTYPES, is_float
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.sorting import COUNTED_MOST
from burnx.fusion.storage import steps_in
from burnx.kernels.ir import Lookup, walk
from burnx.kernels.text import kernel_text
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.devices.cpu import prepare
from burnx.runtime.devices.gpu import name_foreign
from burnx.runtime.devices.gpu.runner import Runner
from burnx.runtime.devices.opencl.driver import find_driver
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import Dim, symbol
from burnx.types import TensorType

pytest.importorskip("pyopencl", reason="pyopencl is not installed")
Array = np.ndarray[Any, Any]
NAMES = [
    *("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "bool"),
    *("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "int4", "uint4"),
]
SHAPES = [((5, 32), 1), ((3, 33, 2), 1), ((2, 513), 1)]


def program_of(name: str, shape: tuple[Dim, ...], axis: int, descending: bool) -> Program:
    builder = Builder(operators())
    x = builder.input(TensorType(DTYPES[name], shape))
    with builder.ambient():
        return builder.finish(list(waist.sort(x, axis, descending)))


def numbers(name: str, shape: tuple[int, ...], seed: int) -> Array:
    """Many equal ones; of floats NaN, infinities and both zeros."""
    random, dtype = np.random.default_rng(seed), DTYPES[name]
    few = random.integers(-4, 4, shape) if is_float(dtype) or dtype.kind == "i" else None
    x = random.integers(0, 2 if name == "bool" else 8, shape) if few is None else few
    x = x.astype(np.float32 if is_float(dtype) else np.int64).astype(dtype)
    if is_float(dtype):
        special = np.array([np.nan, -np.nan, 0.0, -0.0, 448, -448, np.inf, -np.inf], np.float32)
        mixed = random.random(shape) < 0.3
        x[mixed] = random.choice(special, shape).astype(dtype)[mixed]
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        x[random.random(shape) < 0.1] = info.max
        x[random.random(shape) < 0.1] = info.min
    return x


def check(runner: Interpreter, program: Program, x: Array) -> None:
    found, expected = runner.run(program, [x]), Interpreter().run(program, [x])
    np.testing.assert_array_equal(found[1], expected[1])
    assert found[0].dtype == expected[0].dtype
    assert found[0].tobytes() == expected[0].tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype(name: str) -> None:
    """Either order, the one of long rows the other one for every second dtype."""
    runner, turned = Runner(driver=find_driver("opencl:0")), NAMES.index(name) % 2 == 1
    for place, (shape, axis) in enumerate(SHAPES):
        program = program_of(name, shape, axis, (place % 2 == 1) != turned)
        assert not list(name_foreign(program))
        check(runner, program, numbers(name, shape, len(shape)))


@pytest.mark.parametrize("descending", [False, True])
def test_sizes_that_are_only_known_in_a_call(descending: bool) -> None:
    """One program for rows that are shorter than a block, that end anywhere, and that take many merges."""
    program = program_of("float32", (symbol("a"), symbol("b")), 1, descending)
    runner = Runner(driver=find_driver("opencl:0"))
    for shape in (
        (2, 0),
        (0, 5),
        (1, 1),
        (3, 31),
        (2, 32),
        (2, 33),
        (1, 129),
        (3, 1000),
        (1, 70_001),
    ):
        check(runner, program, numbers("float32", shape, 0))


@pytest.mark.parametrize("which", [0, 1])
def test_only_one_output_is_read(which: int) -> None:
    builder = Builder(operators())
    x = builder.input(TensorType(DTYPES["float32"], (3, 100)))
    with builder.ambient():
        both = waist.sort(waist.map("neg", x), 1)
        program = builder.finish([both[which]])
    runner, given = Runner(driver=find_driver("opencl:0")), numbers("float32", (3, 100), 5)
    (found,), (expected,) = (each.run(program, [given]) for each in (runner, Interpreter()))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("descending", [False, True])
def test_short_rows_on_the_cpu(name: str, descending: bool) -> None:
    for shape, axis in (
        ((1,), 0),
        ((5, 8), 1),
        ((3, COUNTED_MOST, 2), 1),
        ((17, 3), 0),
        ((0, 4), 1),
    ):
        program = program_of(name, shape, axis, descending)
        assert all(isinstance(unit, Segment) for unit in cut(program).units)
        check(prepare(program, {}), program, numbers(name, shape, 7))


def test_long_rows_on_the_cpu_are_left_to_others() -> None:
    for length in (COUNTED_MOST + 1, symbol("n")):
        (unit,) = cut(program_of("float32", (length,), 0, False)).units
        assert not isinstance(unit, Segment)


def test_merges_share_a_kernel_and_look_for_no_error() -> None:
    """However long the rows are: only the first level's and the last levels' sizes differ."""
    program = program_of("float32", (symbol("n"),), 0, False)
    (segment,) = cut(program, spread=True).units
    assert isinstance(segment, Segment)
    kept = frozenset(segment.outputs)
    steps = list(steps_in(schedule(segment.instructions, kept, kept, Traits(1, spread=True)).steps))
    assert len(steps) > 20
    assert len({kernel_text(step.kernel) for step in steps}) <= 6
    lookups = [s for step in steps for s in walk(step.kernel.body) if isinstance(s, Lookup)]
    assert lookups and all(each.sure for each in lookups)
