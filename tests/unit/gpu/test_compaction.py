"""Where elements are that are not zero, found on an OpenCL device: the host reads how many there are, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

import burnx
from burnx import waist
from burnx.builder import Builder
from burnx.dtype import DTYPES, is_float
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.devices.gpu import name_foreign
from burnx.runtime.devices.gpu.runner import Runner
from burnx.runtime.devices.opencl.driver import OpenCL, find_driver
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import Dim, symbol
from burnx.types import TensorType

pytest.importorskip("pyopencl", reason="pyopencl is not installed")
NAMES = ["float32", "float64", "float16", "bool", "int8", "uint64", "int4", "float8_e5m2"]


def program_of(name: str, shape: tuple[Dim, ...]) -> Program:
    builder = Builder(operators())
    x = builder.input(TensorType(DTYPES[name], shape))
    with builder.ambient():
        return builder.finish([waist.nonzero(x)])


def check(program: Program, x: Any) -> None:
    runner = Runner(driver=find_driver("opencl:0"))
    (found,), (expected,) = (each.run(program, [x]) for each in (runner, Interpreter()))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype(name: str) -> None:
    """NaN is not zero, and -0 is."""
    dtype, random = DTYPES[name], np.random.default_rng(0)
    x = random.integers(0, 2, (3, 50)).astype(np.float32).astype(dtype)
    if is_float(dtype):
        x[0, :4] = np.array([np.nan, -0.0, 0.0, np.inf], np.float32).astype(dtype)
    check(program_of(name, (3, 50)), x)


@pytest.mark.parametrize("known", [True, False])
def test_shapes(known: bool) -> None:
    random = np.random.default_rng(1)
    for shape in ((1,), (0,), (5, 0), (7, 11, 13), (3, 1, 2000)):
        sizes = shape if known else tuple(symbol(f"d{axis}") for axis in range(len(shape)))
        program = program_of("float32", sizes)
        for chance in (0.0, 0.3, 1.0):
            check(program, (random.random(shape) < chance).astype(np.float32))


def test_a_scalar_is_left_to_python() -> None:
    program = program_of("float32", ())
    assert [name for name, _ in name_foreign(program)] == ["nonzero"]
    for value in (0, 2):
        check(program, np.array(value, np.float32))


def test_the_host_reads_the_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n, 40] x, bool[n] which) => (float[m, 40] y) {
        z = Relu (x) chosen = Compress <axis = 0> (z, which) y = Mul (chosen, chosen)
    }"""
    model = burnx.load(parser.parse_model(text), device="opencl:0")
    assert list(model.placement()) == ["size_of"]
    where, random = burnx.Device("opencl:0"), np.random.default_rng(2)
    x, which = random.standard_normal((300, 40)).astype(np.float32), random.random(300) < 0.2
    given = [where.put(x), where.put(which)]
    moved: list[int] = []
    download = OpenCL.download

    def counted(self: Any, place: Any, target: Any) -> None:
        moved.append(target.nbytes)
        download(self, place, target)

    monkeypatch.setattr(OpenCL, "download", counted)
    y = model(*given)
    y = y if not isinstance(y, tuple) else y[0]
    assert sorted(moved) in ([8], [4, 8])  # the count, and whether an index was outside of its axis
    monkeypatch.undo()
    expected = np.maximum(x, 0)[which] ** 2
    np.testing.assert_array_equal(y.numpy(), expected)
