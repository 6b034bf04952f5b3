"""Inputs as users have them: strided, reversed, repeated, misaligned, read-only; models called from many threads."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnx import waist
from burnx.builder import Builder, remove_dead
from burnx.dtype import float32, float64, int8, int64
from burnx.errors import ShapeError
from burnx.ops import operators
from burnx.program import Program
from burnx.runtime.devices.cpu.runner import Runner
from burnx.runtime.devices.reference.interpreter import Interpreter
from burnx.shape import symbol
from burnx.types import TensorType
from tests.unit.cpu.compare_devices import check_guarded, eager_threads

Array = np.ndarray[Any, Any]
N, M = symbol("n"), symbol("m")


def build(function: Any, *types: TensorType) -> Program:
    builder = Builder(operators())
    inputs = [builder.input(kind) for kind in types]
    with builder.ambient():
        results = function(*inputs)
    return remove_dead(builder.finish(results))


def work(x: Any) -> list[Any]:
    doubled = waist.map("add", x, x)
    return [doubled, waist.reduce("sum", x, (1,)), waist.transpose(doubled, (1, 0))]


def strided(data: st.DataObject, array: Array) -> Array:
    """The same elements at other addresses."""
    how = data.draw(st.sampled_from(["reversed", "gaps", "far", "turned", "crooked", "fixed"]))
    rows, columns = array.shape
    if how == "reversed":
        return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
    if how == "gaps":
        wide = np.zeros((rows * 2, columns * 3), array.dtype)
        wide[::2, ::3] = array
        return wide[::2, ::3]
    if how == "far":
        wide = np.zeros((rows, 1 << 16), array.dtype)
        wide[:, -columns or None :][:, :columns] = array
        return wide[:, -columns or None :][:, :columns]
    if how == "turned":
        return np.asfortranarray(array)
    if how == "crooked":
        memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
        found = memory.view(array.dtype).reshape(array.shape)
        found[...] = array
        return found
    array.flags.writeable = False
    return array


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_where_an_input_lies_does_not_matter(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([float32, float64, int8, int64]))
    shape = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 17)))
    plain = (np.arange(shape[0] * shape[1]) % 11 - 5).astype(dtype).reshape(shape)
    program = build(work, TensorType(dtype, (N, M)))
    expected = Interpreter().run(program, [plain])
    given_array = strided(data, plain.copy())
    assert np.array_equal(given_array, plain)
    for fuse in (True, False):
        found = Runner(threads=1, fuse=fuse).run(program, [given_array])
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_a_repeated_input_is_read_as_often_as_it_says() -> None:
    program = build(work, TensorType(float32, (N, M)))
    x = np.broadcast_to(np.float32(3), (4, 5))
    first, second, _ = Runner(threads=1).run(program, [x])
    assert first.tolist() == [[6.0] * 5] * 4 and second.tolist() == [15.0] * 4


def test_a_number_is_as_good_as_an_array_without_axes() -> None:
    program = build(lambda x: [waist.map("neg", x)], TensorType(float64, ()))
    runner = Runner(threads=1)
    assert [float(runner.run(program, [np.float64(k)])[0]) for k in range(9)] == [
        -float(k) for k in range(9)
    ]


def test_an_input_of_a_shape_that_others_deny_is_an_error() -> None:
    kinds = TensorType(float32, (N,)), TensorType(float32, (N,))
    program = build(lambda x, y: [waist.map("add", x, y)], *kinds)
    with pytest.raises(ShapeError, match=r"shape \(7,\) is needed here, not \(3,\)"):
        Runner(threads=1).run(program, [np.zeros(3, np.float32), np.zeros(7, np.float32)])


class TestZeroSizes:
    @pytest.mark.parametrize("size", [0, 1, 2])
    def test_no_extreme_of_an_axis_without_elements(self, size: int) -> None:
        program = build(lambda x: [waist.argreduce("max", x, 0)], TensorType(float32, (N, 2)))
        x = np.zeros((size, 2), np.float32)
        if size:
            assert Runner(threads=1).run(program, [x])[0].tolist() == [0, 0]
            return
        with pytest.raises(ShapeError, match="no greatest or least"):
            Runner(threads=1).run(program, [x])

    @pytest.mark.parametrize("rows", [0, N])
    @pytest.mark.parametrize("name", ["take", "scatter"])
    def test_no_index_lies_in_an_axis_of_0(self, rows: Any, name: str) -> None:
        def take(x: Any, at: Any, new: Any) -> list[Any]:
            if name == "take":
                return [waist.take(x, at, 0)]
            return [waist.scatter_along(x, at, new, 0, "none")]

        kinds = TensorType(float32, (rows,)), TensorType(int64, (3,)), TensorType(float32, (3,))
        inputs = [np.zeros(0, np.float32), np.zeros(3, np.int64), np.ones(3, np.float32)]
        found = check_guarded(build(take, *kinds), inputs, threads=1)
        assert isinstance(found, ShapeError) and "an axis of 0" in str(found)

    def test_a_product_with_no_columns(self) -> None:
        def product(x: Any) -> list[Any]:
            w = waist.constant(np.zeros((3, 0), np.float32))
            return [waist.contract(x, w, ((), ()), ((1,), (0,)))]

        program = build(product, TensorType(float32, (N, 3)))
        assert Runner(threads=1).run(program, [np.ones((2, 3), np.float32)])[0].shape == (2, 0)

    def test_a_spread_convolution_of_nothing(self) -> None:
        def conv(x: Any) -> list[Any]:
            w = waist.constant(np.ones((1, 1, 1), np.float32))
            return [waist.conv(x, w, (1,), ((0, 0),), (1,), (2,))]

        program = build(conv, TensorType(float32, (1, 1, N)))
        runner = Runner(threads=1)
        sizes = [runner.run(program, [np.ones((1, 1, k), np.float32)])[0].size for k in (0, 1, 3)]
        assert sizes == [0, 1, 5]

    def test_softmax_with_an_axis_of_no_elements(self) -> None:
        def softmax(x: Any) -> list[Any]:
            top = waist.reshape(waist.reduce("max", x, (0,)), (1, 0, N))
            powers = waist.map("exp", waist.map("sub", x, top))
            total = waist.reshape(waist.reduce("sum", powers, (0,)), (1, 0, N))
            return [waist.map("div", powers, total)]

        program = build(softmax, TensorType(float32, (N, 0, N)))
        assert Runner(threads=1).run(program, [np.ones((3, 0, 3), np.float32)])[0].size == 0

    def test_sizes_that_vanish_from_the_plan_still_tell_plans_apart(self) -> None:
        program = build(lambda x: [waist.reshape(x, (1, 0))], TensorType(float32, (1, N, 0)))
        runner = Runner(threads=1)
        for size in (3, 1, 3):
            assert runner.run(program, [np.ones((1, size, 0), np.float32)])[0].shape == (1, 0)


def test_an_index_is_not_looked_up_in_the_padding_of_a_window() -> None:
    def pooled(x: Any, at: Any) -> list[Any]:
        return [waist.window_reduce("max", waist.take(x, at, 0), (3,), (1,), (1,), ((1, 1),))]

    program = build(pooled, TensorType(float32, (5,)), TensorType(int64, (N,)))
    x, at = np.arange(5, dtype=np.float32), np.array([4, 0, 1, -1], np.int64)
    (found,) = check_guarded(program, [x, at], threads=1)
    assert found.tolist() == [4.0, 4.0, 4.0, 4.0]


@pytest.mark.parametrize("name", ["int16", "uint8", "int8", "int4"])
def test_products_in_narrow_integers_wrap(name: str) -> None:
    from burnx.dtype import DTYPES

    kind = DTYPES[name]
    program = build(
        lambda x, y: [waist.contract(x, y, ((), ()), ((1,), (0,)))],
        TensorType(kind, (3, N)),
        TensorType(kind, (N, 5)),
    )
    random = np.random.default_rng(0)
    inputs = [random.integers(0, 8, s).astype(np.int8).astype(kind) for s in ((3, 9), (9, 5))]
    wide = inputs[0].astype(np.int64) @ inputs[1].astype(np.int64)
    bits = 4 if name == "int4" else 8 * kind.itemsize
    (found,) = Runner(threads=1).run(program, inputs)
    assert np.array_equal(found.astype(np.int64) % (1 << bits), wide % (1 << bits))


@pytest.mark.parametrize("fuse", [True, False])
def test_a_sum_of_4_bits_wraps_before_it_is_used(fuse: bool) -> None:
    from burnx.dtype import DTYPES

    int4 = DTYPES["int4"]

    def function(x: Any, y: Any) -> list[Any]:
        product = waist.contract(x, y, ((), ()), ((1,), (0,)))
        return [waist.map("abs", waist.reduce("sum", x, (1,))), waist.map("abs", product)]

    program = build(function, TensorType(int4, (2, N)), TensorType(int4, (N, 2)))
    x, y = np.full((2, 9), 1, np.int8).astype(int4), np.full((9, 2), 1, np.int8).astype(int4)
    total, product = Runner(threads=1, fuse=fuse).run(program, [x, y])  # 9 is -7 in 4 bits
    assert total.astype(int).tolist() == [7, 7]
    assert product.astype(int).tolist() == [[7, 7]] * 2


def test_calls_from_many_threads_do_not_disturb_each_other() -> None:
    def network(x: Any, w: Any) -> list[Any]:
        made = waist.contract(x, w, ((), ()), ((1,), (0,)))
        return [waist.map("tanh", made), waist.reduce("sum", made, (0, 1))]

    program = build(network, TensorType(float32, (N, 8)), TensorType(float32, (8, M)))
    random = np.random.default_rng(0)
    cases = [
        [random.standard_normal((n, 8), np.float32), random.standard_normal((8, m), np.float32)]
        for n, m in ((1, 1), (3, 9), (17, 33), (64, 64), (5, 128))
    ]
    with eager_threads():
        runner = Runner(threads=2)
        alone = [[each.tobytes() for each in runner.run(program, case)] for case in cases]

        def call(number: int) -> bool:
            place = number % len(cases)
            found = runner.run(program, cases[place])
            return [each.tobytes() for each in found] == alone[place]

        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(call, range(300)))


def test_guarded_memory_ends_where_it_says() -> None:
    from tests.unit.cpu.guarded import guarded

    memory = guarded(100)
    assert (memory.ctypes.data + 100) % 4096 == 0 and ctypes.string_at(memory.ctypes.data, 100)
