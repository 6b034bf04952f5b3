"""Windows worked out several places at a time give what they gave one by one."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import float32
from burnx.kernels.blocking import SIDE, SLICE, block_windows
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Buffer,
    Constant,
    Fold,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Store,
    walk,
)
from burnx.shape import symbol

sys.path.insert(0, str(Path(__file__).parent))
from running import aligned, build, random, run

SIZES = ("height", "width", "channels", "wide", "step")
H, W, C, WIDE, STEP = (symbol(name) for name in SIZES)


def depthwise(in_place=False, taps=3, function="add", near=None, heavy=False):
    """y = relu(depthwise(x, w)) or, in place, y = y + depthwise(x, w); ``heavy``: the sigmoid of it.

    ``near``: the step and the channels, if they are numbers.
    """
    x, w, y = (Buffer(name, float32) for name in "xwy")
    i, j, c, u, v = (symbol(name) for name in "ijcuv")
    step, channels = near or (STEP, C)
    data = Load(x, ((i * STEP + u) * WIDE * C) + (j * step + v) * channels + c)
    value = Apply("mul", (data, Load(w, u * taps * C + v * channels + c)), float32)
    fold = Fold((Accumulator("sum", function, value),), (("u", taps), ("v", taps)))
    total = Local("sum", float32)
    place = i * W * C + j * channels + c
    other = Load(y, place) if in_place else Constant(0.0, float32)
    changed = Apply("add" if in_place else "max", (total, other), float32)
    if heavy:
        changed = sigmoid(total)
    body = (fold, Let("out", changed), Store(y, place, Local("out", float32)))
    lanes = Loop("c", C, body, lanes=True)
    rows = Loop("i", H, (Loop("j", W, (lanes,), parallel=True),), parallel=True)
    return Kernel((x, w, y), SIZES, (rows,))


def sigmoid(value):
    one = Constant(1.0, float32)
    power = Apply("exp", (Apply("neg", (value,), float32),), float32)
    return Apply("div", (one, Apply("add", (power, one), float32)), float32)


@cache
def both(**how):
    kernel = depthwise(**how)
    blocked = block_windows(kernel)
    assert len(list(walk(blocked.body))) > len(list(walk(kernel.body))), "nothing was blocked"
    return build(kernel), build(blocked)


@pytest.mark.parametrize("how", [{}, {"in_place": True}, {"taps": 5}, {"function": "max"}])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("width", range(2 * SIDE + 3))
def test_blocks_give_the_same(how, step, width):
    check_blocks(how, step, width, 21)


@pytest.mark.parametrize("how", [{}, {"taps": 5}, {"heavy": True}, {"function": "max"}])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("channels", [1, 8, 19, SLICE, SLICE + 7, 2 * SLICE + 16])
def test_neighbours_at_known_distances_share_what_they_load(how, step, channels):
    for width in (SIDE - 1, 2 * SIDE + 1):
        check_blocks({**how, "near": (step, channels)}, step, width, channels)


@pytest.mark.parametrize("height", [1, 3, 9, 40])
def test_few_and_many_places_for_each_slice_are_divided(height):
    check_blocks({}, 1, 2 * SIDE + 1, 3 * SLICE + 5, height)


def check_blocks(how, step, width, channels, height=3):
    taps = how.get("taps", 3)
    wide = max(width - 1, 0) * step + taps
    high = (height - 1) * step + taps
    x, w = random(1, (high, wide, channels), float32), random(2, (taps, taps, channels), float32)
    found = []
    for function in both(**how):
        for workers in (1, 2, 3):
            y = aligned(random(3, (height, width, channels), float32))
            run(function, (x, w, y), (height, width, channels, wide, step), workers)
            found.append(y)
    assert all(np.array_equal(found[3], each) for each in found[4:])
    for each in found[1:]:
        np.testing.assert_allclose(each, found[0], rtol=1e-5, atol=1e-5)


def test_other_loops_are_left_alone():
    x, y = Buffer("x", float32), Buffer("y", float32)
    copy = Store(y, symbol("i") * C + symbol("c"), Load(x, symbol("c")))
    kernel = Kernel((x, y), SIZES, (Loop("i", H, (Loop("c", C, (copy,), lanes=True),)),))
    assert block_windows(kernel).body == kernel.body


def test_long_windows_are_left_alone():
    kernel = depthwise(taps=20)
    assert block_windows(kernel).body == kernel.body
