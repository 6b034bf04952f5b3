"""What the cpu device says of a program: what it leaves to Python, and where a run spends its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from burnx.runtime.compiled.lines import Lines, Task
from burnx.runtime.compiled.spent import describe_call
from burnx.runtime.devices.cpu.machine import PROFILE_OFFSET
from burnx.runtime.profile import Spent, Times
from burnx.runtime.profile import note as add

Array = np.ndarray[Any, Any]


def watch(state: Array, steps: int) -> Array:
    """Have the next run note the nanoseconds of each step; where they will be."""
    spent = np.zeros(steps, np.int64)
    state[PROFILE_OFFSET : PROFILE_OFFSET + 8].view(np.int64)[0] = spent.ctypes.data
    return spent


def note(times: Times, lines: Lines, state: Array, spent: Array, sizes: Mapping[str, int]) -> None:
    """Add what steps took, by kind of kernel and node, and watch no longer.

    A step in a loop counts as one call, its bytes and operations not at all: nobody knows how often it ran.
    """
    state[PROFILE_OFFSET : PROFILE_OFFSET + 8] = 0
    for place, (line, elapsed_ns) in enumerate(zip(lines.lines, spent.tolist(), strict=False)):
        if not isinstance(line, Task):
            add(times, Spent("jump", "", 1, elapsed_ns))
        elif any(first <= place <= last for first, last in lines.loops):
            add(times, Spent(line.kind, line.place, 1, elapsed_ns))
        else:
            add(times, describe_call(line, sizes, elapsed_ns))
