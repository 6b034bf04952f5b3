"""The threads that run programs: the pool of this process.

The threads of the pool stay in one native call each, without the GIL; a job wakes them.  One call at a time has them:
another that runs at the same moment runs alone on the thread that made it, with the same result.  A call that takes
long comes back to Python now and then, and may lose them to another then.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from functools import partial

import numpy as np

from burnx.runtime.devices.cpu.machine import (
    AT_END,
    POOL_BYTES,
    WORKERS_MAX,
    load_machine,
    make_aligned,
)
from burnx.runtime.devices.cpu.processors import Seats, count_threads, list_processors
from burnx.runtime.devices.cpu.stacks import has_stack, run_with_stack, start_with_stack


class Pool:
    """The threads of this process: as many as any call has asked for, less the one that calls."""

    def __init__(self) -> None:
        self._machine = load_machine()
        self._start = self._machine.start
        self._memory = make_aligned(POOL_BYTES)
        self._address = self._memory.ctypes.data
        self._threads: list[threading.Thread] = []
        self._ready = 1  # workers that there are, the caller included
        self._largest = WORKERS_MAX if self._machine.shares else 1
        self._changing = threading.Lock()
        self._seats = Seats(self._memory, list_processors())

    def run(self, steps: int, state: int, workers: int) -> bool:
        """Run the steps at an address with the state at another; False if a kernel failed."""
        if workers > self._ready:
            workers = self._grow(workers)
        if not has_stack():
            return run_with_stack(partial(self._run_until, steps, state, workers))
        start, pool, pc = self._start, self._address, 0
        while pc >= 0:  # each time Python has handled signals
            pc = start(pool, steps, workers, state, pc)
        return pc == AT_END

    def _run_until(self, steps: int, state: int, workers: int, stopped: threading.Event) -> bool:
        """``run`` for another thread, which handles the signals."""
        pc = 0
        while pc >= 0 and not stopped.is_set():
            pc = self._start(self._address, steps, workers, state, pc)
        return pc == AT_END

    def _grow(self, workers: int) -> int:
        """Start threads; as many workers as there can be."""
        with self._changing:
            workers = min(workers, self._largest)
            while self._ready < workers:
                thread = threading.Thread(
                    target=self._machine.serve,
                    args=(self._address, self._ready, int(self._memory[:4].view(np.int32)[0])),
                    name=f"burnx-{self._ready}",
                    daemon=True,
                )
                try:
                    start_with_stack(thread)
                except RuntimeError:  # this process may not have more
                    self._largest = self._ready
                    return self._ready
                self._threads.append(thread)
                self._seats.give(thread)
                self._ready += 1
        return workers

    def follow(self, processors: list[int]) -> None:
        """Let the threads stay on other processors from now on; not if a call has the pool."""
        if processors == self._seats.processors or not self._machine.take(self._address):
            return
        try:
            with self._changing:
                self._seats = Seats(self._memory, processors)
                for thread in self._threads:
                    self._seats.give(thread)
        finally:
            self._machine.give(self._address)

    def close(self) -> None:
        """Let all threads return; later calls run alone."""
        for _ in range(100):
            if self._machine.take(self._address):
                break
            time.sleep(0.01)
        else:
            return  # a daemon thread still runs a program: the process ends under it
        with self._changing:
            self._largest = 1
            self._machine.close(self._address)
            for thread in self._threads:
                thread.join(timeout=1)


_pool: Pool | None = None
_making = threading.Lock()


def find_pool() -> Pool:
    """The pool of this process."""
    global _pool
    if _pool is None:
        with _making:
            if _pool is None:
                _pool = Pool()
    return _pool


def run_steps(steps: int, state: int, workers: int) -> bool:
    """Run the steps at an address with the state at another; False if a kernel failed."""
    return (_pool or find_pool()).run(steps, state, workers)


def prepare_threads(wanted: int | None = None) -> int:
    """How many workers a program is to have; the pool follows what this process may use by now.

    Raises: UsageError as ``count_threads``.
    """
    if _pool is not None:
        _pool.follow(list_processors())
    return count_threads(wanted)


def _forget_pool() -> None:
    global _pool, _making
    _pool, _making = None, threading.Lock()


def _close_pool() -> None:
    if _pool is not None:
        _pool.close()


atexit.register(_close_pool)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
