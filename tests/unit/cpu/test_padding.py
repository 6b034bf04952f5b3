"""Zeros that only convolutions read are left to their pads."""

from __future__ import annotations

import numpy as np
import pytest

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import float32
from burnx.fusion.clusters import Uses
from burnx.fusion.margins import without_padding
from burnx.ops import operators
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.cpu.compare_devices import Contest

NUMBERS = np.random.default_rng(0)


def kernel(outputs=5, channels=3):
    return waist.constant(NUMBERS.integers(-3, 4, (outputs, channels, 3, 3)).astype(np.float32))


def padded(x, low, high, value=0.0):
    return waist.pad(x, waist.constant(np.array(value, np.float32)), low, high)


def convolved(x, channels=3, pads=((0, 0), (0, 0)), strides=(1, 1)):
    return waist.conv(x, kernel(5, channels), strides, pads, (1, 1))


def relu(x):
    zero = waist.broadcast(waist.constant(np.array(0, np.float32)), x.shape)
    return waist.map("max", x, zero)


def plain(x):
    return [convolved(padded(relu(x), (0, 0, 1, 2), (0, 0, 0, 3)), strides=(2, 1))]


def read_twice(x):
    y = padded(x, (0, 0, 2, 1), (0, 0, 1, 2))
    return [convolved(y, pads=((1, -1), (-2, 0))), convolved(y)]


def one_after_the_other(x):
    y = convolved(padded(x, (0, 0, 1, 1), (0, 0, 1, 1)))
    return [convolved(padded(relu(y), (0, 0, 1, 1), (0, 0, 1, 1)), 5)]


def channels_innermost(x):
    y = padded(waist.transpose(x, (0, 2, 3, 1)), (0, 1, 2, 0), (0, 1, 0, 0))
    return [convolved(waist.transpose(y, (0, 3, 1, 2)))]


def axes_of_one(x):
    y = waist.reshape(waist.slice_axis(x, 1, 1, 1), (x.shape[0], *x.shape[2:], 1))
    n, height, width, _ = (y := padded(y, (0, 1, 0, 0), (0, 2, 1, 0))).shape
    return [convolved(waist.reshape(y, (n, 1, height, width)), 1)]


def of_channels(x):
    return [convolved(padded(x, (0, 1, 1, 1), (0, 0, 1, 1)), 4)]


def of_ones(x):
    return [convolved(padded(x, (0, 0, 1, 1), (0, 0, 1, 1), 1.0))]


def read_by_others(x):
    y = padded(x, (0, 0, 1, 1), (0, 0, 1, 1))
    return [convolved(y), relu(y)]


def kept(x):
    y = padded(x, (0, 0, 1, 1), (0, 0, 1, 1))
    return [convolved(y), y]


def cut(x):
    return [convolved(padded(x, (0, 0, -1, 1), (0, 0, 1, 1)))]


LEFT_OUT = (plain, read_twice, one_after_the_other, channels_innermost, axes_of_one)
LEFT = (of_channels, of_ones, read_by_others, kept, cut)


@pytest.mark.parametrize("make", LEFT_OUT + LEFT)
def test_padded_convolutions_agree_with_the_reference(make):
    builder = Builder(operators())
    x = builder.input(TensorType(float32, (symbol("n"), 3, symbol("h"), symbol("w"))))
    with builder.ambient():
        outputs = make(x)
    program = builder.finish(outputs)
    after = without_padding(Uses(program.instructions, frozenset(program.outputs)))
    assert any(each.primitive == "pad" for each in after) == (make in LEFT)
    contest = Contest(program, [True] * len(outputs))
    for shape in ((2, 3, 6, 5), (1, 3, 9, 4)):
        contest.check([NUMBERS.integers(-4, 5, shape).astype(np.float32)])
