"""Small kernels written as LLVM text, step tables, and Python in another process, for tests of the cpu device."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from burnx.runtime.devices.cpu import machine
from burnx.runtime.devices.cpu.objects import load_kernel
from burnx.runtime.devices.cpu.target import find_target
from burnx.runtime.devices.cpu.threads import run_steps

ROOT = Path(__file__).parents[2]

BODIES = {
    "nothing": "  ret void",
    # data[worker] += 1, and an error unless everybody has as much
    "keep_step": """
  %data = load ptr, ptr %args
  %mine_p = getelementptr [8 x i64], ptr %data, i64 %worker
  %mine = load i64, ptr %mine_p
  %next_worker = add i64 %worker, 1
  %other = urem i64 %next_worker, %workers
  %other_p = getelementptr [8 x i64], ptr %data, i64 %other
  %its = load atomic i64, ptr %other_p monotonic, align 8
  %ahead = sub i64 %its, %mine
  %far = icmp ugt i64 %ahead, 1
  %one = add i64 %mine, 1
  store atomic i64 %one, ptr %mine_p monotonic, align 8
  br i1 %far, label %bad, label %good
bad:
  store i64 1, ptr %state
  ret void
good:
  ret void""",
    # flag = --data[0] > 0, by worker 0
    "count_down": """
  %first = icmp eq i64 %worker, 0
  br i1 %first, label %go, label %done
go:
  %data = load ptr, ptr %args
  %flag_pp = getelementptr ptr, ptr %args, i64 1
  %flag_p = load ptr, ptr %flag_pp
  %value = load i64, ptr %data
  %less = sub i64 %value, 1
  store i64 %less, ptr %data
  %more = icmp sgt i64 %less, 0
  %flag = zext i1 %more to i8
  store i8 %flag, ptr %flag_p
  br label %done
done:
  ret void""",
    # data[0] = workers, data[1] += 1, without asking who this is
    "note_workers": """
  %data = load ptr, ptr %args
  store i64 %workers, ptr %data
  %times_p = getelementptr i64, ptr %data, i64 1
  %old = atomicrmw add ptr %times_p, i64 1 monotonic
  ret void""",
    # data[0] += 1
    "count": """
  %data = load ptr, ptr %args
  %old = load i64, ptr %data
  %new = add i64 %old, 1
  store i64 %new, ptr %data
  ret void""",
    "fail": """
  store i64 1, ptr %state
  ret void""",
    # each of 64 items goes to one worker, by the work counter
    "hand_out": """
  %data = load ptr, ptr %args
  %work = getelementptr i8, ptr %state, i64 192
  br label %take
take:
  %item = atomicrmw add ptr %work, i64 1 monotonic
  %there = icmp ult i64 %item, 64
  br i1 %there, label %do, label %done
do:
  %place = getelementptr i64, ptr %data, i64 %item
  %old = load i64, ptr %place
  %new = add i64 %old, 1
  store i64 %new, ptr %place
  br label %take
done:
  ret void""",
}


def write_kernel(body: str) -> str:
    return (
        "define void @kernel(ptr %args, i64 %worker, i64 %workers, ptr %state) {" + body + "\n}\n"
    )


def load(name: str) -> int:
    """The address of one of the kernels above."""
    text = write_kernel(BODIES[name])
    return load_kernel(text, lambda: text, find_target())


@dataclass(eq=False)
class Steps:
    """A program of steps with the memory it needs."""

    table: np.ndarray
    state: np.ndarray
    kept: Sequence[np.ndarray]

    def run(self, workers: int) -> bool:
        return run_steps(self.table.ctypes.data, self.state.ctypes.data, workers)


def make_steps(rows: Sequence[Sequence[int]], *kept: np.ndarray) -> Steps:
    """Steps of rows that may be shorter than four, with END after them."""
    table = np.zeros((len(rows) + 1, 4), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return Steps(table, machine.make_state(), kept)


def make_args(*arrays: np.ndarray) -> np.ndarray:
    return np.array([each.ctypes.data for each in arrays], np.int64)


def start_python(code: str, **environment: str) -> subprocess.Popen[str]:
    """Python code in another process that finds burnx and this module."""
    places = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "unit")])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        env={**os.environ, "PYTHONPATH": places, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_python(code: str, **environment: str) -> str:
    """What the code prints; it must end well within a minute."""
    process = start_python(code, **environment)
    try:
        out, problems = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, problems
    return out
