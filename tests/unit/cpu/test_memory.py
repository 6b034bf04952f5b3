"""The memory of a call: plans in which nothing overlaps, close to the least possible, quickly; arenas."""

from __future__ import annotations

import gc
import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnx.runtime.compiled.arena import ALIGNMENT, Interval, lower_bound, plan_arena
from burnx.runtime.devices.cpu.memory import Workspace

INTERVALS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 30), st.integers(0, 30)).map(
        lambda each: (each[0], min(each[1:]), max(each[1:]))
    ),
    max_size=70,
)


def check_plan(intervals: list[Interval]) -> float:
    """Check that no two buffers overlap; what the plan takes relative to the least possible."""
    offsets, total = plan_arena(intervals)
    assert len(offsets) == len(intervals)
    places = sorted(
        (offset, size, first, last)
        for offset, (size, first, last) in zip(offsets, intervals, strict=True)
    )
    for number, (offset, size, first, last) in enumerate(places):
        assert offset % ALIGNMENT == 0 and offset >= 0 and offset + size <= total
        for other, other_size, other_first, other_last in places[number + 1 :]:
            if other >= offset + size:
                break
            apart = other_last < first or last < other_first
            assert apart or not other_size or not size
    least = lower_bound(intervals)
    assert least <= total
    return total / least if least else 1.0


@given(INTERVALS)
def test_buffers_that_are_needed_at_once_never_overlap(intervals: list[Interval]) -> None:
    check_plan(intervals)


def make_chain(seed: int, count: int = 1000) -> list[Interval]:
    """What networks have: most values are needed in the next step, some a few steps later, a few for long."""
    numbers = random.Random(seed)
    sizes = [3136 << 8, 784 << 9, 196 << 10, 49 << 11, 4096, 128]
    return [
        (numbers.choice(sizes), step, step + numbers.choice([1, 1, 1, 1, 1, 2, 4, 9]))
        for step in range(count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_plans_of_networks_are_close_to_the_least_possible(seed: int) -> None:
    assert check_plan(make_chain(seed)) < 1.2


def test_plans_of_simple_shapes_are_the_least_possible() -> None:
    assert check_plan([(100, 0, 0)]) == 1
    assert check_plan([]) == 1
    assert check_plan([(1 << 20, step, step + 1) for step in range(300)]) == 1
    assert check_plan([(64 * (step + 1), 0, 300) for step in range(200)]) == 1
    assert check_plan([(0, 0, 5), (64, 1, 2)]) == 1
    shrinking = [(1 << (20 - step // 10), step, step + 1) for step in range(100)]
    assert check_plan(shrinking) == 1


def test_the_least_possible_is_what_the_fullest_step_needs() -> None:
    assert lower_bound([(64, 0, 1), (128, 1, 2), (1, 2, 2)]) == 192
    assert lower_bound([(64, 0, 1), (64, 2, 3)]) == 64


def test_a_thousand_buffers_are_planned_quickly() -> None:
    intervals = make_chain(0)
    taken = []
    for _ in range(10):
        before = time.perf_counter()
        plan_arena(intervals)
        taken.append(time.perf_counter() - before)
    assert min(taken) < 0.05


@pytest.mark.parametrize("size", [0, 1, 64, 4096, 5 << 20])
def test_a_workspace_is_aligned_and_zero(size: int) -> None:
    space = Workspace(size)
    assert space.address % ALIGNMENT == 0 and space.array.size == size
    assert not size or space.address == space.array.ctypes.data
    assert not space.array.any()
    space.array[:] = 255


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads what Linux says")
def test_a_workspace_goes_back_to_the_system_at_once() -> None:
    def count_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    gc.disable()  # no collection is needed
    try:
        before = count_pages()
        space = Workspace(64 << 20)
        space.array[:] = 1
        during = count_pages()
        del space
        after = count_pages()
    finally:
        gc.enable()
    assert during - before > 15_000 and after - before < 1_000


def test_an_array_keeps_its_workspace() -> None:
    array = Workspace(1 << 16).array[100:200]
    array[:] = 7
    gc.collect()
    assert np.array_equal(array, np.full(100, 7))
