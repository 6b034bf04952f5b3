"""The pool of threads: calls at once, forks, Ctrl-C, the end of the process, idling; how many threads there may be."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from native_code import Steps, load, make_args, make_steps, run_python, start_python

from burnx.errors import UsageError
from burnx.runtime.devices.cpu.machine import JUMP, JUMP_UNLESS, RUN, THEN_BARRIER
from burnx.runtime.devices.cpu.processors import count_threads, find_quota

PROGRAM = """
import numpy as np, os, signal, sys, threading, time
from native_code import Steps, load, make_args, make_steps
from burnx.runtime.devices.cpu.machine import JUMP, RUN, THEN_BARRIER

def make(turns):
    data = np.zeros((64, 8), np.int64)
    args = make_args(data)
    step = (RUN | THEN_BARRIER, load("keep_step"), args.ctypes.data)
    return make_steps([step] * turns, data, args), data

def make_endless():
    args = make_args(np.zeros(1))
    return make_steps([(RUN | THEN_BARRIER, load("nothing"), args.ctypes.data), (JUMP, 0)], args)
"""


def test_many_python_threads_run_programs_at_once() -> None:
    problems: list[str] = []

    def work(number: int) -> None:
        data = np.zeros((8, 8), np.int64)
        args = make_args(data)
        step = (RUN | THEN_BARRIER, load("keep_step"), args.ctypes.data)
        steps = make_steps([step] * (50 + number))
        for turn in range(100):
            data[:] = 0
            fine = steps.run(1 + turn % 3)
            if not fine or data[0, 0] != 50 + number:
                problems.append(f"thread {number}, turn {turn}: {data[:, 0]}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_long_programs_at_once_may_lose_the_pool_and_get_it_again() -> None:
    turns = 60_000  # a few times as long as native code runs without a look at Python

    def make() -> tuple[Steps, np.ndarray]:
        data, left, flag = np.zeros(64, np.int64), np.array([turns]), np.ones(1, np.bool_)
        work, count = make_args(data), make_args(left, flag)
        rows = [
            (RUN | THEN_BARRIER, load("hand_out"), work.ctypes.data),
            (RUN | THEN_BARRIER, load("count_down"), count.ctypes.data),
            (JUMP_UNLESS, flag.ctypes.data, 4),
            (JUMP, 0),
        ]
        return make_steps(rows, data, left, flag, work, count), data

    programs = [make() for _ in range(3)]
    threads = [threading.Thread(target=steps.run, args=(2,)) for steps, _ in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, data in programs:
        assert (data == turns).all()


def test_more_workers_than_processors_get_through() -> None:
    data = np.zeros((8, 8), np.int64)
    args = make_args(data)
    steps = make_steps([(RUN | THEN_BARRIER, load("keep_step"), args.ctypes.data)] * 100)
    assert steps.run(8)
    assert (data[:, 0] == 100).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_has_a_pool_of_its_own() -> None:
    out = run_python(
        PROGRAM
        + """
stop = threading.Event()
def keep_busy():
    steps, _ = make(200)
    while not stop.is_set():
        assert steps.run(2)
busy = threading.Thread(target=keep_busy)
busy.start()
steps, data = make(1000)
assert steps.run(2)
for turn in range(10):
    child = os.fork()
    if child == 0:
        data[:] = 0
        fine = steps.run(3) and data[0, 0] == 1000
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0, turn
stop.set()
busy.join()
data[:] = 0
assert steps.run(2) and data[1, 0] == 1000
print("fine")
"""
    )
    assert out == "fine\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_is_answered_at_once(workers: int) -> None:
    code = f"""
steps = make_endless()
print("ready", flush=True)
try:
    steps.run({workers})
except KeyboardInterrupt:
    print("interrupted", flush=True)
steps, data = make(100)
assert steps.run({workers}) and data[0, 0] == 100
"""
    taken = []
    for _ in range(3):
        process = start_python(PROGRAM + code)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        before = time.perf_counter()
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        taken.append(time.perf_counter() - before)
        _, problems = process.communicate(timeout=30)
        assert line == "interrupted\n" and process.returncode == 0, problems
        if taken[-1] < 0.3:
            return
    pytest.fail(f"an interrupt was answered after {taken} seconds")


def test_other_python_threads_run_meanwhile() -> None:
    out = run_python(
        PROGRAM
        + """
steps = make_endless()
threading.Thread(target=steps.run, args=(2,), daemon=True).start()
turns = 0
end = time.perf_counter() + 0.5
while time.perf_counter() < end:
    turns += 1
print(turns > 1000)
"""
    )
    assert out == "True\n"  # and the process ended, although a daemon thread runs a program


def test_idle_threads_take_no_time() -> None:
    out = run_python(
        PROGRAM
        + """
for workers in (2, 4):
    steps, _ = make(1000)
    assert steps.run(workers)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(0.5)
    print(time.process_time() - before < 0.02)
"""
    )
    assert out == "True\nTrue\n"


def test_a_process_ends_at_once_and_its_last_calls_work() -> None:
    out = run_python(
        """
import atexit
late = []
atexit.register(lambda: print(late[0][0].run(3), late[0][1][0, 0], threading.active_count()))
"""
        + PROGRAM
        + """
late.append(make(10))
assert make(10)[0].run(4)
"""
    )
    assert out == "True 10 1\n"


def test_threads_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_THREADS", "3")
    assert count_threads() == 3
    assert count_threads(5) == 5
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("BURNX_THREADS", wrong)
        with pytest.raises(UsageError, match="whole number from 1 on"):
            count_threads()
    monkeypatch.setenv("BURNX_THREADS", "")
    assert 1 <= count_threads() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_processors_that_are_not_allowed_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURNX_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert count_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2, reason="needs two processors"
)
def test_threads_move_to_the_processors_that_are_allowed_now() -> None:
    out = run_python(
        PROGRAM
        + """
from burnx.runtime.devices.cpu.threads import prepare_threads
allowed = sorted(os.sched_getaffinity(0))
assert prepare_threads() == len(allowed)
assert make(100)[0].run(2)
worker = [thread.native_id for thread in threading.enumerate() if thread.name == "burnx-1"][0]
assert len(os.sched_getaffinity(worker)) == 1
for few in ({allowed[1]}, {allowed[0]}, set(allowed)):
    os.sched_setaffinity(0, few)
    assert prepare_threads() == len(few)
    steps, data = make(100)
    assert steps.run(2) and data[1, 0] == 100
    print(os.sched_getaffinity(worker) <= set(allowed))
""",
        BURNX_THREADS="",
    )
    assert out == "True\n" * 3


QUOTAS = [  # /proc/self/cgroup, file, its text, processors
    ("0::/\n", "sys/fs/cgroup/cpu.max", "150000 100000\n", 2),
    ("0::/\n", "sys/fs/cgroup/cpu.max", "max 100000\n", 0),
    ("0::/a/b\n", "sys/fs/cgroup/a/cpu.max", "50000 100000\n", 1),
    ("0::/a/b\n", "sys/fs/cgroup/c/cpu.max", "50000 100000\n", 0),
    ("4:cpu,cpuacct:/a\n", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "400000\n", 4),
    ("4:cpu,cpuacct:/a\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n", 0),
    ("", "sys/fs/cgroup/cpu.max", "50000 100000\n", 0),
]


@pytest.mark.parametrize("groups, file, text, count", QUOTAS)
def test_quotas_of_control_groups_are_kept(
    tmp_path: Path, groups: str, file: str, text: str, count: int
) -> None:
    place = tmp_path / file
    for each in (tmp_path / "proc/self/cgroup", place):
        each.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    place.write_text(text)
    if place.name == "cpu.cfs_quota_us":
        (place.parent / "cpu.cfs_period_us").write_text("100000\n")
    find_quota.cache_clear()
    try:
        assert find_quota(str(tmp_path)) == count
    finally:
        find_quota.cache_clear()
