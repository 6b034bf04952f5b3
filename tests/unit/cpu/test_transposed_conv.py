"""Transposed convolutions, which the compiler takes apart into plain ones, give what the reference gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

import burnx
from burnx import waist
from burnx.builder import Builder
from burnx.dtype import float32, int32
from burnx.errors import BurnxError
from burnx.fusion.geometry import geometry, parts
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import steps_in
from burnx.kernels.ir import Contract, walk
from burnx.ops import operators
from burnx.shape import evaluate, symbol
from burnx.types import TensorType
from tests.unit.cpu.compare_devices import Contest, check_guarded, compare

NAMES = ("a", "b", "c")
SIZES = (
    {"n": 2, "a": 5, "b": 4, "c": 3},
    {"n": 1, "a": 1, "b": 1, "c": 2},
    {"n": 3, "a": 9, "b": 17, "c": 1},
    {"n": 0, "a": 2, "b": 2, "c": 2},
)


def whole_numbers(random, shape, dtype=float32):
    """Small whole numbers: their sums come out the same in any order."""
    return random.integers(-4, 5, shape).astype(dtype)


@st.composite
def convolutions(draw):
    """The numbers of a convolution with zeros between the elements of its data."""
    rank, groups = draw(st.integers(1, 3)), draw(st.sampled_from((1, 1, 2, 5)))
    each, outs = draw(st.integers(1, 5)), draw(st.sampled_from((1, 2, 9)))
    if groups == 5:
        each = outs = 1
    small = st.integers(1, 3 if rank == 3 else 4)

    def several(values):
        return tuple(draw(values) for _ in range(rank))

    pads = several(st.tuples(st.integers(-1, 4), st.integers(-1, 4)))
    return {
        "kernel": (groups * outs, each, *several(small)),
        "spread": several(st.integers(1, 3)),
        "dilations": several(st.sampled_from((1, 1, 1, 2, 3))),
        "pads": pads,
        "groups": groups,
        "strides": several(st.sampled_from((1,) * 9 + (2,))),
        "seed": draw(st.integers(0, 1 << 20)),
        "open": draw(st.booleans()),
        "constant": draw(st.sampled_from((True, True, True, False))),
        "dtype": draw(st.sampled_from((float32, float32, int32))),
    }


def program(case):
    """max(y * 2 + residual, 0) of a convolution y, and y itself; the residual's shape is y's."""
    random, dtype = np.random.default_rng(case["seed"]), case["dtype"]
    builder, rank = Builder(operators()), len(case["spread"])
    channels = case["kernel"][1] * case["groups"]
    sizes = [symbol(name) for name in NAMES] if case["open"] else [4, 3, 2]
    x = builder.input(TensorType(dtype, (symbol("n"), channels, *sizes[:rank])))
    numbers = whole_numbers(random, case["kernel"], dtype)
    w = None if case["constant"] else builder.input(TensorType(dtype, numbers.shape))
    names = ("strides", "pads", "dilations", "spread", "groups")
    with builder.ambient():
        kernel = waist.constant(numbers) if w is None else w
        y = waist.conv(x, kernel, *(case[name] for name in names), dtype)
        residual = builder.input(TensorType(dtype, y.shape))
        doubled = waist.map("mul", y, waist.broadcast(waist.constant(np.array(2, dtype)), y.shape))
        zeros = waist.broadcast(waist.constant(np.array(0, dtype)), y.shape)
        z = waist.map("max", waist.map("add", doubled, residual), zeros)
    return builder.finish([y, z] if case["seed"] % 2 else [z])


def arrays(made, sizes, random):
    """Inputs of a program; now and then an infinity or NaN, which no tap may reach that does not meet it."""
    found = []
    for var in made.inputs:
        shape = tuple(evaluate(each, sizes) for each in var.type.shape)
        found.append(whole_numbers(random, shape, var.type.dtype))
    x = found[0]
    if x.size and x.dtype == float32 and random.random() < 0.2:
        x.reshape(-1)[random.integers(x.size)] = random.choice([np.inf, np.nan])
    return found


@settings(max_examples=15, deadline=None)
@given(convolutions())
def test_random_ones_agree_with_the_reference(case):
    try:
        made = program(case)
    except BurnxError:
        return  # a kernel larger than data that is not open
    contest, random = Contest(made, [True, True]), np.random.default_rng(case["seed"])
    for sizes in SIZES if case["open"] else SIZES[:1]:
        given_arrays = arrays(made, sizes, random)
        expected = contest.check(given_arrays)
        difference = compare(expected, check_guarded(made, given_arrays, threads=1), [True, True])
        assert difference is None


def transposed(spread, kernel, pads, count=8, strides=None):
    case = {
        "kernel": (count, 3, *kernel),
        "spread": spread,
        "dilations": (1,) * len(spread),
        "pads": pads,
        "groups": 1,
        "strides": strides or (1,) * len(spread),
        "seed": 0,
        "open": True,
        "constant": True,
        "dtype": float32,
    }
    return program(case)


def conv_of(made):
    return next(each for each in made.instructions if each.primitive == "conv")


@pytest.mark.parametrize(
    "spread, kernel, pads, taps",
    [
        ((2, 2), (2, 2), ((1, 1), (1, 1)), [1, 1, 1, 1]),
        ((2, 2), (3, 3), ((1, 2), (1, 2)), [1, 2, 2, 4]),
        ((2,), (4,), ((2, 2),), [2, 2]),
        ((3, 1), (2, 2), ((1, 1), (0, 0)), [0, 2, 2]),
        ((4,), (16,), ((12, 12),), [4, 4, 4, 4]),
    ],
)
def test_each_part_has_the_taps_that_meet_data(spread, kernel, pads, taps):
    seed = conv_of(transposed(spread, kernel, pads))
    found = list(parts(seed, geometry(seed)))
    assert sorted(int(np.prod(each.kernel)) for each in found) == taps
    assert sum(np.prod(each.kernel) for each in found) == np.prod(kernel)


def test_data_is_not_stored_apart():
    made = transposed((2, 2), (4, 4), ((2, 2), (2, 2)))
    contracts, apart = steps_of(made)
    assert contracts == 4 and not apart


def test_strides_keep_their_own_way():
    made = transposed((2, 2), (4, 4), ((2, 2), (2, 2)), strides=(3, 1))
    contracts, apart = steps_of(made)
    assert contracts == 1 and apart


def test_what_follows_one_channel_runs_by_itself():
    made = transposed((2, 2), (2, 2), ((1, 1), (1, 1)), count=1)
    found = schedule(made.instructions, frozenset(made.outputs), frozenset(made.outputs), Traits())
    *products, last = steps_in(found.steps)
    assert len(products) == 4
    assert not any(isinstance(each, Contract) for each in walk(last.kernel.body))


def steps_of(made):
    """(how many products, whether data lies with zeros between) in a schedule."""
    found = schedule(made.instructions, frozenset(made.outputs), frozenset(made.outputs), Traits())
    steps = list(steps_in(found.steps))
    contracts = sum(isinstance(each, Contract) for step in steps for each in walk(step.kernel.body))
    return contracts, any(storage.apart for step in steps for storage in step.storages)


@pytest.mark.parametrize("strides", ["1, 1", "2, 2"])
def test_a_kernel_whose_size_is_given_while_running(strides):
    text = f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[n,2,h,b] x, float[2,3,c,d] w) => (float[n,3,i,j] y) {{
            y = ConvTranspose<strides = [{strides}]>(x, w)
        }}"""
    model = parser.parse_model(text)
    random = np.random.default_rng(3)
    feed = {"x": whole_numbers(random, (1, 2, 4, 5)), "w": whole_numbers(random, (2, 3, 3, 2))}
    expected, found = (burnx.load(model, device=each).run(feed) for each in ("reference", "cpu"))
    np.testing.assert_array_equal(found["y"], expected["y"])
