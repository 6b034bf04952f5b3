"""Networks of convolutions keep channels innermost from one to the next."""

from __future__ import annotations

import numpy as np

from burnx import waist
from burnx.builder import Builder
from burnx.dtype import float32, int64
from burnx.fusion.orders import channels_last
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import steps_in
from burnx.ops import operators
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.cpu.compare_devices import Contest


def pointwise(x, outputs, seed):
    kernel = np.random.default_rng(seed).integers(-4, 5, (outputs, x.shape[1], 1, 1))
    weights = waist.constant(kernel.astype(np.float32))
    return waist.conv(x, weights, (1, 1), ((0, 0), (0, 0)), (1, 1))


def program():
    """Two convolutions of data with open sizes; their results added, each broadcast to the other; two readers of that."""
    builder = Builder(operators())
    x = builder.input(TensorType(float32, (1, 5, symbol("h"), symbol("w"))))
    y = builder.input(TensorType(float32, (1, 6, symbol("i"), symbol("v"))))
    rows = builder.input(TensorType(int64, (symbol("r"),)))
    with builder.ambient():
        added = waist.map("add", pointwise(x, 16, 1), pointwise(y, 16, 2))
        some = waist.take(added, rows, 2)
        last = pointwise(added, 8, 3), pointwise(waist.map("mul", some, some), 8, 4)
    return builder.finish(list(last))


def test_values_that_may_be_broadcast_keep_their_order():
    made = program()
    found = schedule(made.instructions, frozenset(made.outputs), frozenset(made.outputs), Traits())
    stored = {each for step in steps_in(found.steps) for each in step.storages}
    orders = {each.order for each in stored if each.role == "arena" and len(each.shape) == 4}
    assert orders == {channels_last(4)}


def test_they_are_what_the_reference_makes_of_them():
    contest, random = Contest(program(), [True, True]), np.random.default_rng(0)
    for h, w, i, v in ((3, 5, 3, 5), (1, 5, 4, 1), (4, 1, 1, 6), (1, 1, 1, 1)):
        shapes = (1, 5, h, w), (1, 6, i, v)
        given = [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
        contest.check([*given, random.integers(0, max(h, i), 3)])
