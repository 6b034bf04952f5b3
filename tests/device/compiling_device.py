"""A CUDA device that runs nothing: its kernels are written, and NVRTC says whether they compile.

Its memory is the host's, and what kernels would write stays zero, so that outputs mean nothing; a loop that asks the
device whether it goes on ends at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np
import nvrtc
import pytest

from burnx.gpu.code import Code, Limits
from burnx.gpu.dialects import CUDA, Dialect
from burnx.gpu.emitter import prelude
from burnx.runtime.devices import cuda
from burnx.runtime.devices.gpu.driver import Arena, Built
from burnx.runtime.devices.gpu.pages import Pages

H200 = Limits(
    threads=1024,
    local_bytes=232_448,
    warp=32,
    units=132,
    matrices=frozenset(("float16", "bfloat16")),
    capability=90,
)
AT_A_TIME = 40  # functions that are compiled as one text


@dataclass(slots=True, eq=False)
class CompilingDevice:
    """The driver: ``codes`` are those that were asked for, by name."""

    name: str = "cuda:0"
    about: str = "nothing that runs"
    dialect: Dialect = CUDA
    limits: Limits = H200
    workers: int = 132 * 16
    libraries: dict[str, str] = field(default_factory=dict)
    lock: Any = field(default_factory=RLock)
    arena: Arena = field(default_factory=Arena)
    functions: dict[Any, Any] = field(default_factory=dict)
    pages: Pages = field(default_factory=Pages)
    users: WeakSet[Any] = field(default_factory=WeakSet)
    codes: dict[str, Code] = field(default_factory=dict)
    memory_bytes: int = 1 << 30

    @property
    def stamp(self) -> dict[str, str]:
        return {"for": "cuda", "device": self.about}

    def memory_use(self) -> tuple[int, int]:
        return 0, 0

    def release(self) -> None:
        """There is nothing to give back."""

    def allocate(self, size_bytes: int) -> Any:
        return np.zeros(size_bytes, np.uint8)

    def upload(self, place: Any, array: Any) -> None:
        place[0][place[1] : place[1] + array.nbytes] = array.reshape(-1).view(np.uint8)

    def download(self, place: Any, array: Any) -> None:
        array.reshape(-1).view(np.uint8)[:] = place[0][place[1] : place[1] + array.nbytes]

    def copy(self, target: Any, source: Any, size_bytes: int) -> None:
        moved = source[0][source[1] : source[1] + size_bytes]
        target[0][target[1] : target[1] + size_bytes] = moved

    def fill(self, place: Any, size_bytes: int, byte: int) -> None:
        place[0][place[1] : place[1] + size_bytes] = byte

    def build(self, codes: Sequence[Code]) -> list[Any]:
        self.codes |= {code.name: code for code in codes}
        return [Built(None, code.name) for code in codes]

    def bind(self, *_: Any) -> Any:
        return _do_nothing

    def record(self, launches: Sequence[Any], waits: Any = ()) -> Any:
        return _do_nothing

    def finish(self) -> None:
        """Nothing was begun."""


def _do_nothing() -> None:
    """What a launch does here."""


@contextmanager
def compiling_device() -> Iterator[CompilingDevice]:
    """``cuda:0`` is a device that only compiles, meanwhile."""
    device = CompilingDevice()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "find_driver", lambda name: device)
        facts = ("cuda:0", device.about, "none", 1 << 30, 132)
        patch.setattr(cuda, "describe_device", lambda number: facts)
        yield device


def faults(device: CompilingDevice) -> list[str]:
    """What NVRTC says against the functions that a device was asked for; where a text fails, one by one."""
    codes = list(device.codes.values())
    found: list[str] = []
    for start in range(0, len(codes), AT_A_TIME):
        part = codes[start : start + AT_A_TIME]
        if _fault(part):
            found += [f"{code.name}: {fault}" for code in part if (fault := _fault([code]))]
    return found


def _fault(codes: Sequence[Code]) -> str:
    needs = frozenset[str]().union(*(code.needs for code in codes))
    text = "\n".join([prelude(CUDA, needs), *(code.text for code in codes)])
    return nvrtc.fault_of(text, CUDA.options)
