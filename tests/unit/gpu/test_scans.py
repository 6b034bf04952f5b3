"""Running sums and products on an OpenCL device: blocks of blocks, from either end, with and without the element itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import DTYPES
from burnx.fusion.scan_blocks import is_worth_blocks
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.devices.gpu.runner import Runner
from burnx.runtime.devices.opencl.driver import find_driver
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import Dim, symbol
from burnx.types import TensorType

pytest.importorskip("pyopencl", reason="pyopencl is not installed")
Array = np.ndarray[Any, Any]


def program_of(name: str, shape: tuple[Dim, ...], **attributes: Any) -> Program:
    builder = Builder(operators())
    x = builder.input(TensorType(DTYPES[name], shape))
    with builder.ambient():
        return builder.finish([waist.cumulate(x=x, **attributes)])


def runner() -> Runner:
    return Runner(driver=find_driver("opencl:0"))


@pytest.mark.parametrize("length", [0, 129, 4097, 20_000])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("reverse", "exclusive"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_integers_add_up_exactly(length: int, known: bool, reverse: int, exclusive: int) -> None:
    for shape, axis in (((length,), 0), ((2, length, 3), 1)):
        sizes = shape if known else tuple(symbol(f"d{place}") for place in range(len(shape)))
        given = {"axis": axis, "reverse": bool(reverse), "exclusive": bool(exclusive)}
        program = program_of("int64", sizes, function="sum", **given)
        x = np.random.default_rng(length).integers(-(1 << 40), 1 << 40, shape)
        (found,), (expected,) = (each.run(program, [x]) for each in (runner(), Interpreter()))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "uint8", "int32"])
@pytest.mark.parametrize("function", ["sum", "prod"])
def test_other_dtypes(name: str, function: str) -> None:
    """Floats of which the sums and products are exact, so that their order does not matter."""
    random = np.random.default_rng(0)
    x = random.integers(-1, 2, 1000) if function == "sum" else random.choice([-1, 1], 1000)
    x = x.astype(DTYPES[name])
    program = program_of(name, (1000,), function=function, axis=0, reverse=False, exclusive=False)
    (found,), (expected,) = (each.run(program, [x]) for each in (runner(), Interpreter()))
    np.testing.assert_array_equal(found, expected)


def test_results_are_the_same_every_time() -> None:
    x = np.random.default_rng(1).standard_normal(9000).astype(np.float32)
    program = program_of("float32", (9000,), function="sum", axis=0, reverse=False, exclusive=False)
    one, two = (runner().run(program, [x])[0] for _ in range(2))
    assert one.tobytes() == two.tobytes()
    np.testing.assert_allclose(one, np.cumsum(x.astype(np.float64)), atol=2e-4)


def test_blocks_are_for_long_rows_of_which_there_are_few() -> None:
    n = symbol("n")
    assert is_worth_blocks((1000,), 0) and is_worth_blocks((4, n), 1)
    assert not is_worth_blocks((100,), 0)
    assert not is_worth_blocks((1 << 16, 500), 1) and is_worth_blocks((1 << 16, 500), 0)
