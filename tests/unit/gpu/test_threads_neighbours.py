"""Threads that take neighbouring elements together, run on the CPU and compared with the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burnx import waist
from burnx.dtype import bfloat16, float16, float32
from burnx.gpu.code import Form
from burnx.gpu.emitter import choose
from burnx.gpu.forms import fit_threads
from burnx.gpu.threads import divided_loops
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.gpu import emulated
from tests.unit.gpu.stepping import Stepping
from tests.unit.gpu.test_tiles import H200
from tests.unit.gpu.test_tiles_conv import TRAITS, program, weights

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")
FEW = replace(H200, units=1)  # a device that is soon busy


def check(build: Any, inputs: list[Any], sizes: dict[str, int], folder: Any) -> list[Form]:
    """The forms of threads that took neighbours together; their results are those of the reference."""
    made, taken = program(build), list[Form]()

    def pick(kernel: Any, numbers: Any) -> Form:
        form = choose(kernel, FEW, numbers)
        if form.kind != "threads":
            return fit_threads(kernel, FEW, numbers)[-1]
        forms = fit_threads(kernel, FEW, numbers)
        found = next((each for each in forms if each.tile[1:] > (1,)), forms[-1])
        if found.tile[1:] > (1,):  # groups are counted along one axis here
            found = replace(found, tile=(len(divided_loops(kernel)[0]), found.tile[1]))
            taken.append(found)
        return found

    results = Stepping(made, TRAITS, folder).run(inputs, sizes, pick)
    for found, right in zip(results, Interpreter().run(made, inputs), strict=True):
        np.testing.assert_array_equal(found, right, err_msg=str(taken))
    return taken


def some(dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32])
def test_a_depthwise_convolution(dtype, tmp_path):
    def build(builder: Any) -> Any:
        x = builder.input(TensorType(dtype, (2, 48, 17, 18)))
        x = waist.conv(x, weights(48, 48, 1, 1, dtype=dtype), (1, 1), ((0, 0), (0, 0)), (1, 1))
        around = ((1, 1), (1, 1))
        y = waist.conv(x, weights(48, 1, 3, 3, dtype=dtype), (2, 2), around, (1, 1), None, 48)
        y = waist.map("max", y, waist.broadcast(waist.constant(np.asarray(0, dtype)), y.shape))
        return [waist.conv(y, weights(8, 48, 1, 1, dtype=dtype), (1, 1), ((0, 0), (0, 0)), (1, 1))]

    taken = check(build, [some(dtype, 2, 48, 17, 18)], {}, tmp_path)
    assert {form.tile[1] for form in taken} >= {4 if dtype == float32 else 8}


def test_pooling_along_rows_of_an_open_size(tmp_path):
    def build(builder: Any) -> Any:
        length = symbol("n")
        x = builder.input(TensorType(float16, (length, 6, 32)))
        top = waist.reduce("max", x, (1,))
        return [waist.map("add", top, top)]

    taken = check(build, [some(float16, 140, 6, 32)], {"n": 140}, tmp_path)
    assert [form.tile[1] for form in taken] == [8]


def test_what_lies_apart_is_taken_one_by_one(tmp_path):
    def build(builder: Any) -> Any:
        x = builder.input(TensorType(float16, (40, 32, 6)))
        return [waist.reduce("max", x, (2,))]

    assert check(build, [some(float16, 40, 32, 6)], {}, tmp_path) == []
