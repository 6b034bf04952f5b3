"""Random numbers: the generator's own examples, how they are spread, and that every device draws the same."""

from __future__ import annotations

import numpy as np
import pytest

from burnx.builder import Builder
from burnx.dtype import bfloat16, float16, float32, float64, int64, uint32
from burnx.lowering import lower
from burnx.ops import operators
from burnx.ops.drawing import normal, threefry, uniform
from burnx.runtime.compiled.segments import Segment, cut
from burnx.runtime.device import devices, find_device, prepare
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.ops.text_model import load

DEVICES = ["reference", "cpu"]
DEVICES += [each.name for each in devices() if each.name == "opencl:0"]
DTYPES = [float16, bfloat16, float32, float64]
KNOWN = [
    ((0x00000000, 0x00000000), 0x0000000000000000, (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), -1, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), 0x85A308D3_243F6A88 - (1 << 64), (0xC4923A9C, 0x483DF7A0)),
]
"""Keys, counters and words.  Source: the examples that come with Random123, threefry2x32 of 20 rounds."""


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_words_are_those_of_the_generator(where, key, counter, words):
    builder = Builder(operators())
    inputs = [builder.input(TensorType(uint32, (2,))), builder.input(TensorType(int64, (1,)))]
    with builder.ambient():
        program = builder.finish(threefry(*inputs))
    given = [np.array(key, np.uint32), np.array([counter], np.int64)]
    found = prepare(program, find_device(where))(given)
    assert tuple(int(each[0]) for each in found) == words


def drawn(draw, dtype, count, seed, device="reference", numbers=(0.0, 1.0)):
    builder = Builder(operators())
    with builder.ambient():
        program = builder.finish([draw((count,), numbers, seed, dtype)])
    return prepare(program, find_device(device))([])[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_numbers_fill_their_range_evenly(dtype):
    x = drawn(uniform, dtype, 200_000, 1.0).astype(np.float64)
    assert x.min() >= 0 and x.max() <= 1
    assert np.abs(np.histogram(x, 10, (0, 1))[0] / 20_000 - 1).max() < 0.05
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_numbers_have_the_moments_and_tails_of_a_bell(dtype):
    x = drawn(normal, dtype, 200_000, 1.0).astype(np.float64)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01
    assert abs((x**3).mean()) < 0.03 and abs((x**4).mean() - 3) < 0.1
    for bound, share in ((1, 0.3173), (2, 0.0455), (3, 0.0027)):
        assert abs((np.abs(x) > bound).mean() / share - 1) < 0.15
    moved = drawn(normal, float64, 1000, 1.0, numbers=(5.0, 0.0))
    assert (moved == 5).all()


def test_ends_are_kept_however_far_apart():
    most = float(np.finfo(np.float32).max)
    for low, high in ((0.1, 0.1), (-most, most), (3.0, 3.0000002)):
        x = drawn(uniform, float32, 10_000, 2.0, numbers=(low, high))
        assert x.min() >= np.float32(low) and x.max() <= np.float32(high)
        assert np.isfinite(x).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("where", DEVICES[1:])
def test_every_device_draws_the_same(where, dtype):
    expected, found = (drawn(uniform, dtype, 3001, 5.0, each) for each in ("reference", where))
    assert np.array_equal(expected, found)
    expected, found = (drawn(normal, dtype, 3001, 5.0, each) for each in ("reference", where))
    digits = 12 if dtype == float64 else 5
    loose = max(10.0**-digits, float(np.finfo(dtype).eps) if dtype == float16 else 0.0)
    loose = 0.01 if dtype == bfloat16 else loose
    np.testing.assert_allclose(found.astype(float), expected.astype(float), loose, 1e-5)


@pytest.mark.parametrize("where", DEVICES)
def test_only_the_key_is_python_s(where):
    text = "g (float[n, c] x) => (int32[n, 3] y) { y = Multinomial<sample_size=3%s>(x) }"
    x = np.random.default_rng(0).standard_normal((200, 50)).astype(np.float32)
    seeded, free = (load(text % end, device=where) for end in (", seed=1.0", ""))
    if where != "reference":
        assert [list(model.placement()) for model in (seeded, free)] == [["draw_key"]] * 2
    assert np.array_equal(*(seeded.run({"x": x})["y"] for _ in range(2)))
    assert not np.array_equal(*(free.run({"x": x})["y"] for _ in range(2)))


def test_seeds_differ_and_long_rows_do_not_repeat():
    one, two = (drawn(uniform, float32, 4096, seed) for seed in (1.0, 2.0))
    assert (one == two).mean() < 0.01
    assert len(np.unique(drawn(uniform, float64, 100_000, 1.0))) == 100_000


def test_numbers_drawn_in_between_divide_no_run_of_instructions():
    text = "g (float[n] x) => (float[n] y) { a = Relu(x) r = RandomNormalLike(a) y = Add(a, r) }"
    units = cut(lower(load(text).graph, [TensorType(float32, (symbol("n"),))])).units
    assert [isinstance(unit, Segment) for unit in units] == [False, True]
