"""What the cpu device says of a program: what it leaves to Python, and where a run spends its time."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import numpy as np

from burnx.dtype import dtype_name
from burnx.program import Instruction, Program, Var, bodies
from burnx.runtime.devices.cpu.lines import Lines, Task
from burnx.runtime.devices.cpu.machine import PROFILE_OFFSET
from burnx.types import TensorType

Array = np.ndarray[Any, Any]
Times = MutableMapping[str, int]


def name_foreign(program: Program) -> Iterator[str]:
    """The names of what Python carries out between native segments, bodies of branches and loops included."""
    from burnx.runtime.devices.cpu.segments import Segment, cut

    for unit in cut(program).units:
        if isinstance(unit, Segment):
            continue
        yield _name(unit)
        for body in bodies(unit):
            yield from name_foreign(body)


# primitives that are never native; of the others it is a type that has no native code
_ALWAYS = frozenset(("host", "defer", "cond", "loop", "sort", "nonzero", "random", "size_of"))


def _name(instruction: Instruction) -> str:
    name = str(instruction.attributes.get("name", instruction.primitive))
    if instruction.primitive in _ALWAYS:
        return name
    values = [var for var in (*instruction.outputs, *instruction.inputs) if var is not None]
    return f"{name} of {' and '.join(dict.fromkeys(map(_kind, values)))}"


def _kind(var: Var) -> str:
    if not isinstance(var.type, TensorType):
        return "sequences"
    return dtype_name(var.type.dtype) + (" of unknown rank" if var.type.shape is None else "")


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
