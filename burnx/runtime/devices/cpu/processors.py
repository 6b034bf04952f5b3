"""The processors this process may use: how many threads to have, and which processor each stays on."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from functools import lru_cache

import numpy as np

from burnx.errors import UsageError
from burnx.runtime.devices.cpu.machine import WORKERS_MAX


def count_threads(wanted: int | None = None) -> int:
    """How many threads to use: what is wanted, else ``BURNX_THREADS``, else the processors this process may use.

    Raises: UsageError if BURNX_THREADS is not a whole number from 1 on.
    """
    if wanted is not None:
        return min(wanted, WORKERS_MAX)
    asked = os.environ.get("BURNX_THREADS", "")
    if asked:
        if not asked.isdecimal() or int(asked) < 1:
            raise UsageError(f"BURNX_THREADS is a whole number from 1 on; found {asked!r}")
        return min(int(asked), WORKERS_MAX)
    return min(_count_allowed(), WORKERS_MAX)


def _count_allowed() -> int:
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quota = find_quota()
    return min(allowed, quota) if quota else allowed


@lru_cache(maxsize=1)
def find_quota(root: str = "") -> int:
    """The processors that the control groups of this process allow, rounded up; 0 if they do not say."""
    found = [_read_quota(root, place, group) for place, group in _list_groups(root)]
    return min((quota for quota in found if quota), default=0)


# where control groups are found, as their controllers are listed in /proc/self/cgroup
_MOUNTS = {
    "": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
    "cpu": ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"),
}


def _list_groups(root: str) -> list[tuple[str, str]]:
    """(mount, group) of this process's groups and all above them."""
    groups = []
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        kind = "cpu" if "cpu" in controllers.split(",") else controllers
        for mount in _MOUNTS.get(kind, ()):
            parts = path.strip("/").split("/")
            groups += [(mount, "/".join(parts[:count])) for count in range(len(parts) + 1)]
    return groups


def _read_quota(root: str, mount: str, group: str) -> int:
    folder = f"{root}{mount}/{group}"
    words = _read(f"{folder}/cpu.max").split()
    if not words:
        words = [_read(f"{folder}/cpu.cfs_quota_us"), _read(f"{folder}/cpu.cfs_period_us")]
    quota, period = (word.strip() for word in (words + [""])[:2])
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return 0  # "max" or -1: no limit
    return max(1, -(-int(quota) // int(period)))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


_CPUS_MAX = 1024


class Seats:
    """Which thread stays on which processor, written where the machine reads it.

    Left to the system, two threads that wait for each other often share one processor for a long while.
    """

    def __init__(self, pool: np.ndarray, processors: list[int]) -> None:
        self.processors = processors
        count = len(processors)
        bits = np.zeros((count, _CPUS_MAX), np.uint8)
        bits[range(count), self.processors] = 1
        self._masks = np.packbits(bits, axis=1, bitorder="little")
        self._places = np.full(_CPUS_MAX, -1)
        self._places[self.processors] = range(count)
        self._owners = np.zeros(count, np.int64)
        self._home = pool[80:88].view(np.int64)
        self._home[0] = 0
        tables = (self._places, self._owners, self._masks)
        pool[88:112].view(np.int64)[:] = [table.ctypes.data for table in tables]

    def give(self, thread: threading.Thread) -> None:
        """Keep a thread on the next processor that is free; there may be none."""
        free = [place for place in np.flatnonzero(self._owners == 0) if place != self._home[0]]
        if free and thread.native_id:
            with suppress(OSError):
                os.sched_setaffinity(thread.native_id, {self.processors[free[0]]})
                self._owners[free[0]] = thread.native_id


def list_processors() -> list[int]:
    """The processors that the main thread may run on; none where the system does not say."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(cpu for cpu in os.sched_getaffinity(os.getpid()) if cpu < _CPUS_MAX)
