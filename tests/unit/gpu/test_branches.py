"""Launches that need not wait for each other: what they wait for, and on which lanes they stand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import burnx
from burnx import ops
from burnx.runtime.devices.gpu import branches
from burnx.runtime.devices.gpu.branches import LANES, assign_lanes, reduce_waits
from burnx.runtime.devices.gpu.launches import Plan, Waits

pytest.importorskip("pyopencl")
DEVICE = "opencl:0"
random = np.random.default_rng(3)


def all_before(waits: Any) -> list[set[int]]:
    """All that each launch waits for, directly or not."""
    found: list[set[int]] = []
    for each in waits:
        found.append(set(each).union(*(found[other] for other in each)))
    return found


def some_waits(count: int) -> list[set[int]]:
    return [
        set(random.choice(line, random.integers(0, min(line, 4) + 1), False).tolist())
        for line in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40, 200])
def test_fewer_waits_keep_the_order(count: int) -> None:
    waits = some_waits(count)
    reduced = reduce_waits(waits)
    assert all_before(reduced) == all_before(waits)
    for line, found in enumerate(reduced):
        others = set().union(*(all_before(reduced)[each] for each in found))
        assert not others & set(found), line


@pytest.mark.parametrize("count", [1, 2, 5, 40, 200])
def test_lanes_keep_the_order(count: int) -> None:
    """Who stands in a lane waits for the one before it there, and for those of other lanes that it names."""
    reduced = reduce_waits(some_waits(count))
    lanes, last, made = assign_lanes(reduced), dict[int, int](), []
    for place, lane in enumerate(lanes):
        before = {last[lane.number]} if lane.number in last else set()
        made.append({*before, *lane.others})
        assert all(lanes[other].number != lane.number for other in lane.others)
        last[lane.number] = place
    assert max(lane.number for lane in lanes) < LANES
    for wanted, found in zip(all_before(reduced), all_before(made), strict=True):
        assert wanted <= found


def test_a_chain_stands_in_one_lane_and_three_beside_each_other_in_three() -> None:
    assert {each.number for each in assign_lanes(((), (0,), (1,)))} == {0}
    lanes = assign_lanes(((), (0,), (0,), (0,), (1, 2, 3), (4,)))
    assert [each.number for each in lanes] == [0, 0, 1, 2, 0, 0]
    assert lanes[4].others == (2, 3)
    assert lanes[5].others == ()


# ---------------------------------------------------------------------------------------------- plans
def plans_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> list[Plan]:
    """The plans that are made meanwhile."""
    from burnx.runtime.devices.gpu import native

    made: list[Plan] = []
    add = native.Native.add_plan

    def note(self: Any, key: Any, plan: Plan) -> Any:
        made.append(plan)
        return add(self, key, plan)

    monkeypatch.setattr(native.Native, "add_plan", note)
    work()
    return made


def heads(x: Any, a: Any, b: Any, c: Any) -> Any:
    query, key, value = (ops.mat_mul(x, each) for each in (a, b, c))
    return ops.mat_mul(ops.softmax(ops.mat_mul(query, ops.transpose(key, perm=[1, 0]))), value)


def some(*shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


HEADS = [some(48, 64), some(64, 40), some(64, 40), some(64, 40)]


def test_products_of_one_input_need_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (plan,) = plans_of(monkeypatch, lambda: burnx.compile(heads, DEVICE)(*HEADS))
    assert plan.waits[:3] == ((), (), ())
    assert set(range(3)) <= all_before(plan.waits)[-1]


def test_what_meets_in_memory_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch that writes waits for all that read or wrote there before, and each that reads for who wrote."""

    def blocks(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        for one, two in itertools.pairwise((a, b, c, d, a)):
            x = ops.softmax(ops.mat_mul(ops.mat_mul(x, one), ops.transpose(two, perm=[1, 0])) + x)
        return x

    weights = [some(64, 64) for _ in range(4)]
    (plan,) = plans_of(monkeypatch, lambda: burnx.compile(blocks, DEVICE)(some(32, 64), *weights))
    if not plan.waits:  # all are one behind the other anyway
        waits: Waits = tuple((line - 1,) * (line > 0) for line in range(len(plan.launches)))
    else:
        waits = plan.waits
    before = all_before(waits)
    touched = [branches._stretches(each.task, plan.offsets, {}, 1) for each in plan.origins]

    def meet(some: Any, others: Any) -> bool:
        return any(a < d and c < b for a, b in some for c, d in others)

    for late, (reads, writes) in enumerate(touched):
        for early, (reads_before, writes_before) in enumerate(touched[:late]):
            if meet(writes_before, [*reads, *writes]) or meet(reads_before, writes):
                assert early in before[late]


def test_products_of_a_library_share_memory_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    (plan,) = plans_of(monkeypatch, lambda: burnx.compile(heads, DEVICE)(*HEADS))
    tasks = [each.task for each in plan.origins]
    flow = [branches.Run(line, ()) for line in range(len(tasks))]
    waits = branches.find_waits(flow, tasks, plan.offsets, {}, 1, [True] * len(tasks))
    assert waits == ()
    assert branches.find_waits(flow, tasks, plan.offsets, {}, 1, [False] * len(tasks))[1] == ()


def test_loops_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    (plan,) = plans_of(monkeypatch, lambda: burnx.compile(heads, DEVICE)(*HEADS))
    tasks = [each.task for each in plan.origins]
    turns = branches.Run(0, ()), branches.Run(0, ())
    assert branches.find_waits(turns, tasks, plan.offsets, {}, 1, [False] * len(tasks)) == ()


def test_a_kept_plan_waits_as_the_first_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from burnx.runtime.devices.opencl import find_driver
    from burnx.runtime.kept import identity

    monkeypatch.setattr(find_driver(DEVICE), "functions", {})  # those there are kept elsewhere
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    file = tmp_path / "heads.onnx"
    onnx.save(
        parser.parse_model(
            """<ir_version: 8, opset_import: ["": 17]>
            heads (float[48,64] x, float[64,40] a, float[64,40] b, float[64,40] c) => (float[48,40] y) {
                query = MatMul(x, a)
                key = MatMul(x, b)
                value = MatMul(x, c)
                turned = Transpose<perm = [1, 0]>(key)
                scores = MatMul(query, turned)
                weights = Softmax(scores)
                y = MatMul(weights, value)
            }"""
        ),
        file,
    )

    def run() -> None:
        burnx.load(file, device=DEVICE)(*HEADS)

    (first,) = plans_of(monkeypatch, run)
    (second,) = plans_of(monkeypatch, run)
    assert first.origins
    assert not second.origins
    assert first.waits == second.waits != ()
