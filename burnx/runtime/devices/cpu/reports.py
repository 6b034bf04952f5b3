"""What the cpu device says of a program: what it leaves to Python, and where a run spends its time."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from burnx.runtime.compiled.lines import Lines, Task
from burnx.runtime.devices.cpu.machine import PROFILE_OFFSET

Array = np.ndarray[Any, Any]
Times = MutableMapping[str, int]


def watch(state: Array, steps: int) -> Array:
    """Have the next run note the nanoseconds of each step; where they will be."""
    spent = np.zeros(steps, np.int64)
    state[PROFILE_OFFSET : PROFILE_OFFSET + 8].view(np.int64)[0] = spent.ctypes.data
    return spent


def note(times: Times, lines: Lines, state: Array, spent: Array) -> None:
    """Add what steps took, by kind of kernel and node, and watch no longer."""
    state[PROFILE_OFFSET : PROFILE_OFFSET + 8] = 0
    for line, elapsed_ns in zip(lines.lines, spent.tolist(), strict=False):
        label = f"{line.kind} {line.place}".rstrip() if isinstance(line, Task) else "jump"
        times[label] = times.get(label, 0) + elapsed_ns
