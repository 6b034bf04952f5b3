"""The native machine: every kind of step, barriers, errors, and text for other systems."""

from __future__ import annotations

import ctypes
import platform

import numpy as np
import pytest
from native_code import load, make_args, make_steps, write_kernel

from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.compile import compile_object
from burnx.runtime.devices.cpu.machine import (
    BARRIER,
    COPY,
    JUMP,
    JUMP_UNLESS,
    PROFILE_OFFSET,
    RUN,
    SOLO,
    THEN_BARRIER,
)
from burnx.runtime.devices.cpu.machine_ir import can_share, write_machine
from burnx.runtime.devices.cpu.objects import load_kernel
from burnx.runtime.devices.cpu.target import find_target

WORKERS = [1, 2, 3]


@pytest.mark.parametrize("workers", WORKERS)
def test_every_worker_runs_a_step(workers: int) -> None:
    data = np.zeros(2, np.int64)
    args = make_args(data)
    assert make_steps([(RUN, load("note_workers"), args.ctypes.data)]).run(workers)
    assert data.tolist() == [workers, workers]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_solo_step_runs_once_as_one_worker(workers: int) -> None:
    data = np.zeros(2, np.int64)
    args = make_args(data)
    assert make_steps([(RUN | SOLO, load("note_workers"), args.ctypes.data)] * 5).run(workers)
    assert data.tolist() == [1, 5]


@pytest.mark.parametrize("workers", WORKERS)
def test_a_loop_runs_until_its_flag_is_false(workers: int) -> None:
    data, flag, counted = np.array([1000]), np.ones(1, np.bool_), np.zeros(1, np.int64)
    loop, inside = make_args(data, flag), make_args(counted)
    rows = [
        (JUMP_UNLESS, flag.ctypes.data, 5),
        (BARRIER,),  # all have read the flag before it is written again
        (RUN | SOLO, load("count"), inside.ctypes.data),
        (RUN | THEN_BARRIER, load("count_down"), loop.ctypes.data),
        (JUMP, 0),
        (RUN | SOLO, load("count"), inside.ctypes.data),
    ]
    assert make_steps(rows).run(workers)
    assert (data[0], counted[0]) == (0, 1001)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 100_003])
def test_copies_are_exact(size: int, workers: int) -> None:
    source = np.random.default_rng(size).integers(0, 256, size + 1, np.uint8)
    target = np.zeros(size + 1, np.uint8)
    copy = (COPY | THEN_BARRIER, target.ctypes.data, source.ctypes.data, size)
    assert make_steps([copy]).run(workers)
    assert np.array_equal(target[:size], source[:size]) and target[size] == 0


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_nobody_passes_a_barrier_early(workers: int) -> None:
    data = np.zeros((workers, 8), np.int64)
    args = make_args(data)
    step = (RUN | THEN_BARRIER, load("keep_step"), args.ctypes.data)
    turns = 100 if workers == 2 else 5
    steps = make_steps([step] * 1000)
    for turn in range(turns):
        assert steps.run(workers), f"after {turn} thousand barriers"
    assert (data[:, 0] == turns * 1000).all()


@pytest.mark.parametrize("workers", WORKERS)
def test_the_work_counter_starts_again_after_every_barrier(workers: int) -> None:
    data = np.zeros(64, np.int64)
    args = make_args(data)
    step = (RUN | THEN_BARRIER, load("hand_out"), args.ctypes.data)
    steps = make_steps([step] * 50)
    for _ in range(20):
        assert steps.run(workers)
    assert (data == 1000).all()


@pytest.mark.parametrize("workers", WORKERS)
def test_an_error_ends_the_program_at_the_next_barrier(workers: int) -> None:
    data = np.zeros(2, np.int64)
    args = make_args(data)
    count = (RUN | SOLO, load("note_workers"), args.ctypes.data)
    steps = make_steps([(RUN, load("fail"), 0), count, (BARRIER,), count])
    assert not steps.run(workers)
    assert data[1] == 1 and steps.state[0] == 1
    assert not make_steps([(RUN | SOLO, load("fail"), 0)]).run(workers)  # no barrier at all
    assert make_steps([count]).run(workers)


def test_a_program_goes_on_where_it_was_interrupted_by_the_clock() -> None:
    data, flag = np.array([10_000_000]), np.ones(1, np.bool_)
    args = make_args(data, flag)
    rows = [
        (RUN | THEN_BARRIER, load("count_down"), args.ctypes.data),
        (JUMP_UNLESS, flag.ctypes.data, 4),
        (BARRIER,),
        (JUMP, 0),
    ]
    assert make_steps(rows).run(1)  # a fraction of a second: several turns
    assert data[0] == 0


def test_the_profile_adds_up_what_steps_take() -> None:
    times = np.zeros(4, np.int64)
    steps = make_steps([(RUN | THEN_BARRIER, load("nothing"), 0)] * 3)
    steps.state[PROFILE_OFFSET : PROFILE_OFFSET + 8].view(np.int64)[0] = times.ctypes.data
    for workers in (1, 2):
        before = times.copy()
        assert steps.run(workers)
        assert ((times - before)[:3] > 0).all() and times[3] == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets a register of x86")
@pytest.mark.parametrize("workers", WORKERS)
def test_small_numbers_stay_whatever_the_process_has_set(workers: int) -> None:
    def load_setter(name: str, value: int) -> int:
        body = f"""
  %p = alloca i32
  store i32 {value}, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret void"""
        text = write_kernel(body) + "declare void @llvm.x86.sse.ldmxcsr(ptr)"
        return load_kernel(name, lambda: text, find_target())

    halve = write_kernel("""
  %data = load ptr, ptr %args
  %p = getelementptr [16 x float], ptr %data, i64 %worker
  %x = load float, ptr %p
  %y = fmul float %x, 5.0e-1
  store float %y, ptr %p
  ret void""")
    data = np.full((workers, 16), 1e-39, np.float32)
    wanted = data[0, 0] / 2
    args = make_args(data)
    steps = make_steps(
        [(RUN, load_kernel("halve", lambda: halve, find_target()), args.ctypes.data)]
    )
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
    flush, usual = kind(load_setter("flush", 0x9FC0)), kind(load_setter("usual", 0x1F80))
    flush(0, 0, 0, 0)
    try:
        fine = steps.run(workers)
    finally:
        usual(0, 0, 0, 0)
    assert fine and wanted > 0 and (data[:, 0] == wanted).all()


@pytest.mark.parametrize(
    "triple",
    [
        "aarch64-unknown-linux-gnu",
        "arm64-apple-darwin",
        "x86_64-apple-darwin",
        "x86_64-pc-linux-gnu",
    ],
)
def test_the_machine_is_written_for_other_systems(triple: str) -> None:
    target = Target(triple, "x86-64" if triple.startswith("x86") else "generic", "", 16, 16, "")
    assert can_share(target)
    assert len(compile_object(write_machine(target), target)) > 1000
