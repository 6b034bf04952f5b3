"""Windows worked out several places at a time give what they gave one by one."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import float32
from burnx.kernels.blocking import SIDE, block_windows
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


def depthwise(in_place=False, taps=3, function="add"):
    """y = relu(depthwise(x, w)) or, in place, y = y + depthwise(x, w)."""
    x, w, y = (Buffer(name, float32) for name in "xwy")
    i, j, c, u, v = (symbol(name) for name in "ijcuv")
    data = Load(x, ((i * STEP + u) * WIDE + j * STEP + v) * C + c)
    value = Apply("mul", (data, Load(w, (u * taps + v) * C + c)), float32)
    fold = Fold((Accumulator("sum", function, value),), (("u", taps), ("v", taps)))
    total = Local("sum", float32)
    place = (i * W + j) * C + c
    other = Load(y, place) if in_place else Constant(0.0, float32)
    changed = Apply("add" if in_place else "max", (total, other), float32)
    body = (fold, Let("out", changed), Store(y, place, Local("out", float32)))
    lanes = Loop("c", C, body, lanes=True)
    rows = Loop("i", H, (Loop("j", W, (lanes,), parallel=True),), parallel=True)
    return Kernel((x, w, y), SIZES, (rows,))


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
    height, channels, taps = 3, 21, how.get("taps", 3)
    wide = max(width - 1, 0) * step + taps
    high = (height - 1) * step + taps
    x, w = random(1, (high, wide, channels), float32), random(2, (taps, taps, channels), float32)
    found = []
    for function in both(**how):
        for workers in (1, 2):
            y = aligned(random(3, (height, width, channels), float32))
            run(function, (x, w, y), (height, width, channels, wide, step), workers)
            found.append(y)
    assert np.array_equal(found[2], found[3])
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
