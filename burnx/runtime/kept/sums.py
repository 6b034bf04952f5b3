"""Sums of large constants, worked out on threads of their own while whoever reads them goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from burnx.runtime.kept.pages import populate

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Array = np.ndarray[Any, Any]
LEAST_BYTES = 1 << 20  # less is added up in less time than a thread takes to be told of it
THREADS = 2


def add_up(data: Array) -> int:
    """The sum of all words: 64 bits, zeros at the end do not count."""
    whole = len(data) // 8 * 8
    words = int(np.add.reduce(data[:whole].view(np.uint64))) if whole else 0
    rest = data[whole:].tobytes().ljust(8, b"\0")
    return (words + int.from_bytes(rest, "little")) % (1 << 64)


@dataclass(slots=True)
class Sums:
    """Constants that are not to be believed before ``settle`` has said so."""

    _differing: set[str] = field(default_factory=set)
    _coming: dict[str, Future[bool]] = field(default_factory=dict)
    _threads: ThreadPoolExecutor | None = None

    def add(self, name: str, constants: Array, total: int) -> None:
        """Compare a constant's sum with what it was."""
        if constants.nbytes < LEAST_BYTES:
            if add_up(constants) != total:
                self._differing.add(name)
            return
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(THREADS, "burnx-sums")
        self._coming[name] = self._threads.submit(_is_as_it_was, constants, total)

    def settle(self) -> set[str]:
        """The names of those that differ, now that all have been added up; the threads go."""
        for name, each in self._coming.items():
            if not each.result():
                self._differing.add(name)
        if self._threads is not None:
            self._threads.shutdown()
        self._threads, self._coming = None, {}
        differing, self._differing = self._differing, set()
        return differing


def _is_as_it_was(constants: Array, total: int) -> bool:
    populate(constants)
    return add_up(constants) == total
