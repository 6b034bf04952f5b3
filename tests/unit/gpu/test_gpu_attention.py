"""Attention of the scheduler as one kernel, run on the CPU and compared with the reference."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import bfloat16, float16, float32
from burnx.gpu.attention import fit_attention
from burnx.gpu.code import Form
from burnx.gpu.forms import fit_threads
from burnx.ops import operators
from burnx.ops.attention_parts import row_softmax
from burnx.program import Program
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.gpu import emulated
from tests.unit.gpu.stepping import Stepping
from tests.unit.gpu.test_tiles import H200
from tests.unit.gpu.test_tiles_conv import TRAITS

pytestmark = pytest.mark.skipif(emulated.COMPILER is None, reason="there is no g++")


def attention(
    dtype: Any, rows: Any, keys: Any, deep: int, wide: int, masked: bool, guarded: bool = False
) -> Program:
    builder = Builder(operators())
    with builder.ambient():
        q = builder.input(TensorType(dtype, (2, 3, rows, deep)))
        k = builder.input(TensorType(dtype, (2, 3, keys, deep)))
        v = builder.input(TensorType(dtype, (2, 3, keys, wide)))
        shape = (2, 3, rows, keys)
        scores = waist.contract(q, k, ((0, 1), (0, 1)), ((3,), (3,)), dtype)
        scale = waist.broadcast(waist.constant(np.asarray(0.25).astype(dtype)), shape)
        scores = waist.map("mul", scores, scale)
        if masked:
            mask = builder.input(TensorType(dtype, (2, 1, rows, keys)))
            scores = waist.map("add", scores, waist.broadcast(mask, shape))
        weights = row_softmax(scores) if guarded else softmax(scores, shape)
        result = waist.contract(weights, v, ((0, 1), (0, 1)), ((3,), (2,)), dtype)
    return builder.finish([result])


def softmax(scores: Any, shape: Any) -> Any:
    def column(x: Any) -> Any:
        return waist.broadcast(waist.reshape(x, (*shape[:3], 1)), shape)

    top = waist.reduce("max", scores, (3,))
    powers = waist.map("exp", waist.map("sub", scores, column(top)))
    return waist.map("div", powers, column(waist.reduce("sum", powers, (3,))))


def inputs_of(dtype: Any, rows: int, keys: int, deep: int, wide: int, masked: bool) -> list[Any]:
    random = np.random.default_rng(rows)
    shapes = [(2, 3, rows, deep), (2, 3, keys, deep), (2, 3, keys, wide)]
    made = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    if masked:
        mask = np.where(random.random((2, 1, rows, keys)) < 0.4, -np.inf, 0.0)
        mask[0, 0, 1, :-1] = -np.inf  # only the last key is seen
        mask[1, 0, 0] = -np.inf  # none is
        mask[:, 0, 2, :-10] = float(ml_dtypes.finfo(dtype).min)  # padding in front
        made.append(mask.astype(dtype))
    return made


CASES = [(70, 70, 32, 32, True), (5, 130, 24, 40, False), (33, 47, 64, 16, True)]
PADDED = (6, 140, 32, 32, True)  # more keys than a tile has


@pytest.mark.parametrize(
    ("dtype", "extents", "guarded"),
    [
        *itertools.product((float32, float16), CASES, [False]),
        *((bfloat16, each, False) for each in (CASES[2], PADDED)),
        *((each, CASES[2], True) for each in (float32, float16)),
    ],
)
def test_attention(dtype, extents, guarded, tmp_path):
    """Every third form, a different one to begin with in each case; ``guarded``: rows that see nothing are zeros."""
    rows, keys, deep, wide, masked = extents
    opened = symbol("r"), symbol("k")
    made = attention(
        dtype, *(opened if rows != keys else opened[:1] * 2), deep, wide, masked, guarded
    )
    inputs = inputs_of(dtype, rows, keys, deep, wide, masked)
    stepping = Stepping(made, TRAITS, tmp_path)
    (wanted,) = Interpreter().run(made, inputs)
    assert np.isnan(wanted[1, 0, 0]).all() != (guarded or not masked)
    tolerance = {float32: 1e-5, float16: 4e-3, bfloat16: 3e-2}[dtype]
    places, place = 100, [*CASES, PADDED].index(extents) % 3
    while place < places:
        tried: list[Any] = []

        def choose(kernel: Any, numbers: Any, place: int = place, tried: Any = tried) -> Form:
            found = fit_attention(kernel, H200, numbers)
            if not found:
                return fit_threads(kernel, H200, numbers)[-1]
            tried += [found[place], len(found)]
            return found[place]

        (result,) = stepping.run(inputs, {"r": rows, "k": keys}, choose)
        _, places = tried
        np.testing.assert_allclose(
            result.astype(np.float32), wanted.astype(np.float32), tolerance, tolerance, str(tried)
        )
        place += 3
    assert places >= 5
