"""The native machine: runs the steps of a program on all threads with no Python between them.

A step is a row of four int64: (what, a, b, c).  ``what`` is one of

=============  =====================================================================================
RUN            call the kernel at address a with the arguments at address b, on every worker
JUMP           go on at step a
JUMP_UNLESS    go on at step b if the bool (a byte) at address a is false
COPY           copy c bytes to address a from address b; the two do not overlap
BARRIER        wait until all workers are here
END            the program is over; everything written is there when the call returns
=============  =====================================================================================

plus ``THEN_BARRIER`` (RUN, COPY: all workers wait after it) and ``SOLO`` (RUN: worker 0 alone runs the kernel, as one
worker of one; the others go on).  Every worker walks the table by itself, so what a step reads must have been written
before a barrier: also the bool of a JUMP_UNLESS, which nobody may write again before the next barrier.  Between two
barriers at most one kernel may hand out work by the counter in the state.  Every loop has a barrier in it: there alone
the program can be interrupted.

State (one per running call, ``STATE_BYTES``, aligned to 64): what kernels see, +0 i64 error, +64 i32 barrier count,
+128 i32 barrier generation, +192 i64 work counter (0 after every barrier), +256 i32 stop; the machine's own, +320 i64
first step, +328 i64 where it stopped, +336 i64 deadline, +344 address of one i64 a step or 0: there worker 0 adds up
the nanoseconds that each step took.

Pool (one per process): +0 i32 word, of jobs so far and how many workers the last one has, +4 i32 sleepers; of the job,
+64 steps, +72 state; +80 i64 the caller's place among the processors, and addresses: +88 the place (i64, -1: none) of
each of 1,024 processors, +96 the id (i64, 0: none) of the thread that stays at each place, +104 the mask (128 bytes)
of each place; +128 i32 workers still at it, +132 i32 sleepers; +192 i32 whether a call has the pool.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.machine_ir import can_share, write_machine
from burnx.runtime.devices.cpu.objects import load_functions
from burnx.runtime.devices.cpu.target import find_target

END, RUN, JUMP, JUMP_UNLESS, COPY, BARRIER = range(6)
THEN_BARRIER, SOLO = 0x100, 0x200

STATE_BYTES = 384
POOL_BYTES = 256
WORKERS_MAX = 1023
PROFILE_OFFSET = 344  # where a state holds the address of the steps' times
AT_END, FAILED = -1, -2  # what ``start`` gives, else the step to go on at

_FUNCTIONS = ("machine_start", "machine_serve", "machine_take", "machine_give", "machine_close")


@dataclass(frozen=True, slots=True)
class Machine:
    """The native functions.  They take addresses and run without the GIL.

    ``start(pool, steps, workers, state, pc)`` runs steps, alone if another call has the pool.  ``serve(pool, worker,
    seen)`` is what a thread of the pool does.  ``take(pool)`` gives 1 if nobody had the pool, which then is the
    caller's until ``give(pool)``; meanwhile it may be ``close``d.  ``shares``: there can be more than one worker here.
    """

    start: Callable[[int, int, int, int, int], int]
    serve: Callable[[int, int, int], None]
    take: Callable[[int], int]
    give: Callable[[int], None]
    close: Callable[[int], None]
    shares: bool


def load_machine() -> Machine:
    """The machine for this process's target, compiled or from the cache."""
    return _load(find_target())


@lru_cache(maxsize=8)
def _load(target: Target) -> Machine:
    text = write_machine(target)
    start, serve, take, give, close = load_functions(text, lambda: text, _FUNCTIONS, target)
    address, number = ctypes.c_void_p, ctypes.c_int64
    return Machine(
        ctypes.CFUNCTYPE(number, address, address, number, address, number)(start),
        ctypes.CFUNCTYPE(None, address, number, number)(serve),
        ctypes.CFUNCTYPE(number, address)(take),
        ctypes.CFUNCTYPE(None, address)(give),
        ctypes.CFUNCTYPE(None, address)(close),
        can_share(target),
    )


def make_state() -> np.ndarray:
    """Memory for the state of one running call, zeroed and aligned."""
    return make_aligned(STATE_BYTES)


def make_aligned(size_bytes: int) -> np.ndarray:
    """Zeroed bytes at an address divisible by 64."""
    memory = np.zeros(size_bytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size_bytes]
