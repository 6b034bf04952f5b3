"""Convolutions and products of the scheduler in tiles, run on the CPU and compared with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import bfloat16, float16, float32
from burnx.fusion.scheduler import Traits
from burnx.gpu.code import Form
from burnx.gpu.forms import fit_threads
from burnx.gpu.tiles import fit_tiles
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.gpu import emulated
from tests.unit.gpu.stepping import Stepping
from tests.unit.gpu.test_tiles import H200, every_tile

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++"),
]
TRAITS = Traits(1, winograd=False, narrow=frozenset({float16, bfloat16}))


def program(build: Any) -> Program:
    builder = Builder(operators())
    with builder.ambient():
        outputs = build(builder)
    return builder.finish(list(outputs))


def weights(*shape: int, dtype: Any = float32) -> Any:
    random = np.random.default_rng(len(shape))
    return waist.constant(random.integers(-2, 3, shape).astype(dtype))


def check(
    made: Program, inputs: list[Any], sizes: dict[str, int], folder: Any, places: Any
) -> None:
    """Tiles at these places of the menu for all products, threads for the rest, against the reference."""
    stepping = Stepping(made, TRAITS, folder)
    wanted = Interpreter().run(made, inputs)
    for place in places:
        tiled = []

        def choose(kernel: Any, numbers: Any, place: int = place, tiled: Any = tiled) -> Form:
            found = every_tile(kernel, H200, numbers)
            if found:
                tiled.append(found[place % len(found)])
                return tiled[-1]
            return fit_threads(kernel, H200, numbers)[-1]

        results = stepping.run(inputs, sizes, choose)
        assert tiled
        for found, right in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found, right, err_msg=str(tiled))


def test_a_convolution_of_three_channels_and_one_behind_it(tmp_path):
    def build(builder: Any) -> Any:
        x = builder.input(TensorType(float32, (2, 3, 17, 15)))
        y = waist.conv(x, weights(40, 3, 5, 5), (2, 2), ((2, 2), (2, 1)), (1, 1))
        y = waist.map("max", y, waist.broadcast(waist.constant(np.float32(0)), (2, 40, 9, 7)))
        return [waist.conv(y, weights(24, 40, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))]

    x = np.random.default_rng(0).integers(-3, 4, (2, 3, 17, 15)).astype(np.float32)
    check(program(build), [x], {}, tmp_path, (0, 9, 20))


def test_a_dilated_convolution_in_groups_of_halves(tmp_path):
    def build(builder: Any) -> Any:
        x = builder.input(TensorType(float16, (1, 32, 12, 11)))
        kernel = weights(48, 16, 3, 3, dtype=np.float16)
        return [waist.conv(x, kernel, (1, 1), ((2, 2), (4, 4)), (2, 4), None, 2)]

    x = np.random.default_rng(0).integers(-2, 3, (1, 32, 12, 11)).astype(np.float16)
    check(program(build), [x], {}, tmp_path, (0, 4, 17))


def test_products_side_by_side_of_open_sizes(tmp_path):
    def build(builder: Any) -> Any:
        length = symbol("s")
        x = builder.input(TensorType(float32, (2, 3, length, 40)))
        y = builder.input(TensorType(float32, (2, 3, length, 40)))
        scores = waist.contract(x, y, ((0, 1), (0, 1)), ((3,), (3,)), float32)
        return [waist.contract(scores, y, ((0, 1), (0, 1)), ((3,), (2,)), float32)]

    random = np.random.default_rng(0)
    inputs = [random.integers(-2, 3, (2, 3, 37, 40)).astype(np.float32) for _ in range(2)]
    check(program(build), inputs, {"s": 37}, tmp_path, (0, 11))


def test_weights_on_the_left(tmp_path):
    def build(builder: Any) -> Any:
        x = builder.input(TensorType(float32, (3, 48, 33)))
        return [waist.contract(weights(20, 48), x, ((), ()), ((1,), (1,)), float32)]

    x = np.random.default_rng(0).integers(-2, 3, (3, 48, 33)).astype(np.float32)
    check(program(build), [x], {}, tmp_path, (0, 12, 25))


def test_small_products_are_left_to_others():
    from tests.unit.gpu.products import Case

    case = Case(1, 3, 4, 5)
    assert fit_tiles(case.kernel(), H200, case.numbers()) == []
