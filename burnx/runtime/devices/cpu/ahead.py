"""Kernels that nobody has compiled yet, compiled on a thread of their own while those behind them are still written.

LLVM runs without Python's lock, so on two cores the one is hidden behind the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.object_files import find_object_files, name_entry
from burnx.runtime.devices.cpu.objects import MakeText, compile_kernel, is_loaded

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


@dataclass(slots=True)
class Ahead:
    """The kernels of one build; a block that ends waits for no kernel that has not been begun."""

    target: Target
    _images: dict[str, bytes] = field(default_factory=dict)
    _coming: dict[str, Future[bytes]] = field(default_factory=dict)
    _thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def add(self, key: str, make_ir: MakeText) -> None:
        """Begin with a kernel, unless it is there already or its text cannot be made: who wants it learns why."""
        name = name_entry(key, self.target)
        if name in self._images or name in self._coming or is_loaded(name):
            return
        files = find_object_files()
        image = files.read_entry(name) if files is not None else None
        if image is not None:
            self._images[name] = image
            return
        with suppress(Exception):
            text = make_ir()
            self._coming[name] = self._start().submit(compile_kernel, key, text, self.target)

    def _start(self) -> ThreadPoolExecutor:
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(1, "burnx-llvm")
        return self._thread

    def finish(self, keys: Iterable[str]) -> Mapping[str, bytes]:
        """The objects of kernels by the names of their entries, of those among ``keys`` that were begun.

        Raises: DeviceError if the text of one of them is not valid.
        """
        for name in {name_entry(key, self.target) for key in keys} & self._coming.keys():
            self._images[name] = self._coming.pop(name).result()
        return self._images
