"""What a device's driver does: memory, functions and launches, all carried out in the order they are asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Protocol, TypeAlias
from weakref import WeakSet

import numpy as np

from burnx.errors import DeviceError
from burnx.gpu.code import Code, Limits
from burnx.gpu.dialects import Dialect
from burnx.runtime.device_array import DeviceArray as DeviceArray
from burnx.runtime.devices.gpu.pages import Pages

Array = np.ndarray[Any, Any]
Memory: TypeAlias = Any  # of the driver's own kind, counted in bytes
Place: TypeAlias = tuple[Memory, int]  # memory, bytes from its start
Launch: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A function that can be launched: the driver's own ``handle``, and in which kept ``binary`` it is called ``name``."""

    handle: Any
    name: str
    binary: str = ""


@dataclass(slots=True, eq=False)
class Arena:
    """The memory in which calls work, one after the other; ``user`` refers to the plan that used it last.

    ``spare`` refers to what products of a library take beside it, as long as one of them is bound to it.
    """

    memory: Memory = None
    size: int = 0
    user: Any = None
    spare: Any = None


class Lock:
    """Held by who uses a device.

    Drivers do not survive a fork: a child that was forked after its parent used the device is refused, not left hanging.
    """

    def __init__(self, name: str) -> None:
        self._name, self._process, self._lock = name, os.getpid(), RLock()

    def __enter__(self) -> None:
        if os.getpid() != self._process:
            raise DeviceError(
                f"{self._name} was used before this process was forked, and its driver does not work here: "
                "start processes with the method spawn, or use the device in them only"
            )
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Driver(Protocol):
    """A device.  One call at a time uses it: whoever does holds ``lock``.

    ``libraries``: what is called that does "products", "convolutions" and "attentions" here, where it is.  ``workers``: groups that run at
    once where each needs scratch memory of its own.  ``functions`` are those that were built, by kernel and form; ``users``
    are the segments that were made for the device.
    """

    name: str
    about: str
    dialect: Dialect
    limits: Limits
    workers: int
    lock: Lock
    arena: Arena
    functions: dict[tuple[str, Any], tuple[Code, Built]]
    pages: Pages
    users: WeakSet[Any]

    def allocate(self, size_bytes: int) -> Memory:
        """Memory that goes back when nobody refers to it.

        Raises: ModelError if there is not enough.
        """

    def upload(self, place: Place, array: Array) -> None:
        """Put an array's bytes there; the array may change as soon as this returns."""

    def download(self, place: Place, array: Array) -> None:
        """Fill an array from there, after all that was asked for before."""

    def copy(self, target: Place, source: Place, size_bytes: int) -> None: ...

    def fill(self, place: Place, size_bytes: int, byte: int) -> None: ...

    def build(self, codes: Sequence[Code]) -> list[Built]:
        """The functions of codes, of which each has a name of its own."""

    def load(self, wanted: Sequence[tuple[str, str]]) -> list[Built] | None:
        """Functions by (kept binary, name in it); None if one of them is not to be had any more."""

    def bind(
        self,
        function: Built,
        code: Code,
        groups: tuple[int, int, int],
        places: Sequence[Place],
        sizes: Sequence[int],
    ) -> Launch:
        """A launch with its arguments; ``places`` are the buffers, the guards and the error flag, in this order."""

    def bind_gemm(
        self, gemm: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        """A launch of the library's product (``library.Gemm``) on its buffers.

        Raises: DeviceError if it cannot do it.
        """

    def record(self, launches: Sequence[Launch], waits: Sequence[Sequence[int]] = ()) -> Launch:
        """Launches as one; with ``waits`` each has to wait for these alone, else for the one before it."""

    def bind_convolution(
        self,
        known: tuple[Any, bool],
        places: Sequence[Place],
        workspace: Place,
        workspace_bytes: int,
    ) -> Launch:
        """A launch of the library's convolution, and whether its filter is a constant, on its buffers.

        Raises: DeviceError if it cannot do it.
        """

    def bind_attention(
        self, attention: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        """A launch of the library's attention on its buffers.

        Raises: DeviceError if it cannot do it.
        """

    @property
    def libraries(self) -> Mapping[str, str]: ...

    @property
    def memory_bytes(self) -> int:
        """The device's whole memory."""

    @property
    def stamp(self) -> Mapping[str, str]:
        """What results of tuning on this device depend on: its name, its driver and its compiler."""

    def memory_use(self) -> tuple[int, int]:
        """Bytes that are in use, and bytes that are taken from the device, of this process."""

    def release(self) -> None:
        """Give back to the device what is taken from it and not in use."""

    def finish(self) -> None:
        """Wait until all is done."""

    def timed(self, launch: Launch) -> int:
        """Nanoseconds that a launch takes on the device."""

    def adopt(self, value: Any) -> DeviceArray:
        """Another library's array that lies on this device, in C order; where it is, if it is in that order."""

    def capsule(self, array: DeviceArray, stream: Any, max_version: Any) -> Any:
        """An array's memory as dlpack hands it out, which keeps it alive.

        Raises: DeviceError if nobody takes this device's.
        """
