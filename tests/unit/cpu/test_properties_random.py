"""Random programs on the cpu device against the reference: fused, unfused, with several threads, at several sizes.

``BURNX_EXAMPLES`` says how many programs each test makes, new ones every time; the suite is content with the same few.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnx.dtype import is_float
from burnx.errors import BurnxError
from burnx.runtime.devices.reference.interpreter import Interpreter
from tests.unit.cpu import random_control, random_products, random_steps
from tests.unit.cpu.compare_devices import Contest, check_guarded, compare, run
from tests.unit.cpu.random_programs import SIZES, Array, Item, Maker, Step, feeds

EXAMPLES = int(os.environ.get("BURNX_EXAMPLES", "8"))
KINDS = {
    "elementwise": ("unary", "roots", "binary", "arithmetic", "select", "cast", "bitcast"),
    "movement": (
        *("reshape", "reshape_anew", "transpose", "slice_", "flip", "pad", "concat"),
        *("broadcast", "iota", "sizes", "arithmetic"),
    ),
    "positions": (
        *("take", "take_along", "take_by_values", "gather_nd", "scatter_along", "scatter_nd"),
        *("window_reduce", "transpose", "binary"),
    ),
    "reductions": ("reduce", "argreduce", "cumulate", "window_reduce", "broadcast", "arithmetic"),
    "products": ("contract", "matmul", "behind", "reshape", "transpose", "broadcast"),
    "convolutions": ("conv", "channel_bias", "concat", "pad", "behind", "window_reduce"),
    "rows": ("softmax", "norm", "attention", "arithmetic", "transpose", "reduce"),
    "control": ("cond", "loop", "scan", "nested", "growing", "arithmetic", "reduce", "take"),
    "everything": tuple(step.__name__ for step in random_steps.STEPS),
}
BY_NAME = {step.__name__: step for step in random_steps.STEPS}
quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize="BURNX_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


def make(data: st.DataObject, steps: tuple[Step, ...]) -> tuple[Maker, list[Item]]:
    """A program in the making, and what it gives: its last value and some others."""
    maker = Maker(data.draw)
    for _ in range(maker.size(1, 7)):
        maker.attempt(maker.pick(steps))
    if not maker.items:
        maker.input("float32", (3,))
    chosen = [item for item in maker.items[:-1] if maker.chance(4)]
    return maker, [maker.items[-1], *chosen]


def stays_exact(maker: Maker, seed: int, special: bool) -> bool:
    """Whether the numbers that count as exact are few enough bits long."""
    program = maker.program(maker.items)
    for sizes in SIZES:
        found = run(Interpreter(), program, feeds(maker, sizes, seed, special))
        if isinstance(found, BurnxError):
            continue
        pairs = zip(maker.items, found, strict=True)
        if not all(is_short(array) for item, array in pairs if item.exact):
            return False
    return True


def is_short(array: Array) -> bool:
    if not is_float(array.dtype):
        return True
    wide = array.astype(np.float64)
    wide = wide[np.isfinite(wide)]
    limit = 2**20 if array.dtype.itemsize >= 4 else 2**5
    return bool(np.all(np.abs(wide) <= limit) and np.all(wide * 1024 == np.floor(wide * 1024)))


@pytest.mark.parametrize("kind", KINDS)
@quick
@given(data=st.data())
def test_all_ways_to_run_a_program_give_the_references_numbers(
    kind: str, data: st.DataObject
) -> None:
    maker, outputs = make(data, tuple(BY_NAME[name] for name in KINDS[kind]))
    special, seed = maker.chance(2), maker.size(0, 1000)
    if not stays_exact(maker, seed, special):
        return
    contest = Contest(maker.program(outputs), [item.exact for item in outputs])
    for sizes in (*SIZES, *SIZES[:2]):  # the memory of one size serves another
        contest.check(feeds(maker, sizes, seed, special))


@pytest.mark.parametrize("fuse", [True, False])
@quick
@given(data=st.data())
def test_no_kernel_touches_memory_that_is_not_its_own(fuse: bool, data: st.DataObject) -> None:
    maker, outputs = make(data, tuple(random_steps.STEPS))
    seed = maker.size(0, 1000)
    program = maker.program(outputs)
    for sizes in SIZES:
        inputs = feeds(maker, sizes, seed, False)
        found = check_guarded(program, inputs, threads=1, fuse=fuse)
        expected = run(Interpreter(), program, inputs)
        assert isinstance(expected, BurnxError) == isinstance(found, BurnxError)


POSITIONS = ("take", "take_along", "gather_nd", "scatter_along", "scatter_nd")


@quick
@given(data=st.data(), name=st.sampled_from(POSITIONS))
def test_an_index_outside_its_axis_is_the_references_error(data: st.DataObject, name: str) -> None:
    maker = Maker(data.draw, outside=True)
    maker.attempt(BY_NAME[name])
    if not maker.items:
        return
    item = maker.items[-1]
    program = maker.program([item])
    for sizes in SIZES[::3]:
        inputs = feeds(maker, sizes, maker.size(0, 1000), False)
        expected = run(Interpreter(), program, inputs)
        found = check_guarded(program, inputs, threads=1)
        if isinstance(expected, BurnxError) and not isinstance(found, BurnxError):
            assert 0 in found[0].shape  # an index of nothing is not looked at
            continue
        assert compare(expected, found, [item.exact]) is None


def test_all_steps_are_tried() -> None:
    tried = {name for names in KINDS.values() for name in names}
    assert tried == set(BY_NAME) and random_products.PRODUCT_KINDS and random_control.trips
