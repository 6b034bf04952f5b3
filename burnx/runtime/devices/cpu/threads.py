"""The threads that run programs: the pool of this process.

The threads of the pool stay in one native call each, without the GIL; a job wakes them.  One call at a time has them:
another that runs at the same moment runs alone on the thread that made it, with the same result.
"""

from __future__ import annotations

import atexit
import os
import threading

from burnx.runtime.devices.cpu.machine import (
    AT_END,
    FAILED,
    POOL_BYTES,
    WORKERS_MAX,
    load_machine,
    make_aligned,
)
from burnx.runtime.devices.cpu.processors import Seats


class Pool:
    """The threads of this process: as many as any call has asked for, less the one that calls."""

    def __init__(self) -> None:
        self._machine = load_machine()
        self._start = self._machine.start
        self._memory = make_aligned(POOL_BYTES)
        self._address = self._memory.ctypes.data
        self._word = self._memory[:4].view("int32")
        self._free = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._largest = WORKERS_MAX if self._machine.shares else 1
        self._seats = Seats(self._memory)

    def run(self, steps: int, state: int, workers: int) -> bool:
        """Run the steps at an address with the state at another; False if a kernel failed."""
        if workers > 1 and self._free.acquire(blocking=False):
            try:
                if workers > len(self._threads) + 1:
                    workers = self._grow(workers)
                pc = 0
                while pc >= 0:
                    pc = self._start(self._address, steps, workers, state, pc)
            finally:
                self._free.release()
            return pc == AT_END
        return self.run_alone(steps, state)

    def run_alone(self, steps: int, state: int) -> bool:
        """The same on this thread only."""
        start = self._start
        pc = start(0, steps, 1, state, 0)
        while pc >= 0:  # Python has handled signals meanwhile
            pc = start(0, steps, 1, state, pc)
        return pc != FAILED

    def _grow(self, workers: int) -> int:
        workers = min(workers, self._largest)
        while len(self._threads) + 1 < workers:
            number = len(self._threads) + 1
            thread = threading.Thread(
                target=self._machine.serve,
                args=(self._address, number, int(self._word[0])),
                name=f"burnx-{number}",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError:  # no more threads for this process
                self._largest = number
                return number
            self._threads.append(thread)
            self._seats.give(thread)
        return workers

    def close(self) -> None:
        """Let all threads return; later calls run alone."""
        if not self._free.acquire(timeout=1):
            return  # a daemon thread still runs a program: the process ends under it
        try:
            self._largest = 1
            self._machine.close(self._address)
            for thread in self._threads:
                thread.join(timeout=1)
            self._threads.clear()
        finally:
            self._free.release()


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


def _forget_pool() -> None:
    global _pool, _making
    _pool, _making = None, threading.Lock()


def _close_pool() -> None:
    if _pool is not None:
        _pool.close()


atexit.register(_close_pool)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
