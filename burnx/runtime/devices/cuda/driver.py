"""The driver of CUDA devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np

from burnx.errors import ModelError
from burnx.gpu.code import Code, Limits
from burnx.gpu.dialects import CUDA, Dialect
from burnx.runtime.device_array import DeviceArray
from burnx.runtime.devices.cuda import cublas, cudnn, exchange
from burnx.runtime.devices.cuda.lanes import in_lanes, one_by_one
from burnx.runtime.devices.cuda.libraries import find_packages, name_libraries
from burnx.runtime.devices.cuda.listing import find_cuda
from burnx.runtime.devices.cuda.matrices import find_matrices, measure_matrices
from burnx.runtime.devices.cuda.modules import (
    allow_shared,
    hold_function,
    load_cubin,
    load_function,
    make_stamp,
    name_cubin,
)
from burnx.runtime.devices.gpu.binaries import load_binary
from burnx.runtime.devices.gpu.driver import Arena, Array, Built, Launch, Lock, Place
from burnx.runtime.devices.gpu.pages import Pages

Each = TypeVar("Each")
Made = TypeVar("Made")

WORKERS_OF_A_UNIT = 16
HOLD_CYCLES = 100_000  # longer than a launch takes to come from the host


@cache
def find_driver(name: str) -> Cuda:
    """The driver of ``cuda:<number>``.

    Raises: DeviceError if CuPy, a driver or that device is missing.
    """
    return Cuda(name, find_cuda(int(name.split(":")[1])))


class _Lock(Lock):
    """The device is the current one for who holds its lock."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name)
        self._number = number

    def __enter__(self) -> None:
        import cupy

        super().__enter__()
        cupy.cuda.Device(self._number).use()


@dataclass(slots=True, eq=False)
class Cuda:
    """A CUDA device with one stream, and others, ``lanes``, for the branches of what is recorded."""

    name: str
    number: int
    dialect: Dialect = CUDA
    arena: Arena = field(default_factory=Arena)
    functions: dict[tuple[str, Any], tuple[Code, Built]] = field(default_factory=dict)
    pages: Pages = field(default_factory=Pages)
    users: WeakSet[Any] = field(default_factory=WeakSet)
    lock: Any = None
    stream: Any = None
    about: str = ""
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    known: dict[str, str] = field(default_factory=dict)
    lanes: list[Any] = field(default_factory=list)
    packages: dict[str, dict[str, str]] = field(default_factory=find_packages)

    def __post_init__(self) -> None:
        import cupy

        self.lock = _Lock(self.name, self.number)
        with self.lock:
            self.stream = cupy.cuda.Stream(non_blocking=True)
        found = cupy.cuda.runtime.getDeviceProperties(self.number)
        self.about = found["name"].decode()
        capability = found["major"] * 10 + found["minor"]
        self.limits = Limits(
            threads=1024,
            local_bytes=found["sharedMemPerBlockOptin"],
            warp=32,
            units=found["multiProcessorCount"],
            matrices=find_matrices(capability),
            capability=capability,
        )
        self.workers = found["multiProcessorCount"] * WORKERS_OF_A_UNIT

    @property
    def memory_bytes(self) -> int:
        import cupy

        return int(cupy.cuda.Device(self.number).mem_info[1])

    @property
    def stamp(self) -> dict[str, str]:
        """What results of tuning depend on, libraries among it; binaries depend on less."""
        if not self.known:
            import cupy

            version = str(cupy.cuda.runtime.driverGetVersion())
            self.known = {**make_stamp(self.limits.capability), "device": self.about}
            self.known |= {"driver": version}
            for found in self.packages.values():
                self.known |= found
            self.known["matrices"] = " ".join(sorted(self.limits.matrices))
        return self.known

    @property
    def libraries(self) -> dict[str, str]:
        """What products, convolutions and attentions may be left to."""
        return name_libraries(self.packages)

    def measure_matrices(self) -> Mapping[str, float]:
        """Operations a second of the matrix units, by what they multiply."""
        with self.lock:
            return measure_matrices(self, make_stamp(self.limits.capability))

    def memory_use(self) -> tuple[int, int]:
        import cupy

        with self.lock:
            pool = cupy.get_default_memory_pool()
            return int(pool.used_bytes()), int(pool.total_bytes())

    def release(self) -> None:
        import cupy

        with self.lock:
            self.stream.synchronize()
            cupy.get_default_memory_pool().free_all_blocks(stream=self.stream)

    def allocate(self, size_bytes: int) -> Any:
        import cupy

        try:
            with cupy.cuda.Device(self.number), self.stream:
                return cupy.cuda.alloc(size_bytes)
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise ModelError(
                f"{self.name}: not enough memory, {size_bytes} bytes: {error}"
            ) from error

    def upload(self, place: Place, array: Array) -> None:
        memory, offset = place
        (memory + offset).copy_from_host_async(_pointer(array), array.nbytes, self.stream)

    def download(self, place: Place, array: Array) -> None:
        memory, offset = place
        (memory + offset).copy_to_host_async(_pointer(array), array.nbytes, self.stream)
        self.stream.synchronize()

    def copy(self, target: Place, source: Place, size_bytes: int) -> None:
        if size_bytes:
            (target[0] + target[1]).copy_from_device_async(
                source[0] + source[1], size_bytes, self.stream
            )

    def fill(self, place: Place, size_bytes: int, byte: int) -> None:
        (place[0] + place[1]).memset_async(byte, size_bytes, self.stream)

    def build(self, codes: Sequence[Code]) -> list[Built]:
        """Each function is a module of its own, so that it is found again whatever it is built with."""
        import cupy

        from burnx.gpu.emitter import prelude

        stamp = make_stamp(self.limits.capability)

        def load(code: Code) -> Built:
            text = "\n".join([prelude(self.dialect, code.needs), code.text])
            with cupy.cuda.Device(self.number):
                function = load_function(text, code.name, stamp, self.name)
            return Built(function, code.name, name_cubin(text, stamp))

        return _side_by_side(load, codes)

    def load(self, wanted: Sequence[tuple[str, str]]) -> list[Built] | None:
        import cupy

        def load(each: tuple[str, str]) -> Built | None:
            binary, name = each
            with cupy.cuda.Device(self.number):
                found = load_binary(binary, lambda image: load_cubin(image, name))
            return None if found is None else Built(found, name, binary)

        found = [each for each in _side_by_side(load, wanted) if each is not None]
        return found if len(found) == len(wanted) else None

    def bind(
        self,
        function: Built,
        code: Code,
        groups: tuple[int, int, int],
        places: Sequence[Place],
        sizes: Sequence[int],
    ) -> Launch:
        count = len(places) - 1 - len(code.form.guards)
        number = np.int64 if code.form.wide else np.int32
        pointers = [np.uint64(memory.ptr + offset) for memory, offset in places]
        arguments = (*pointers[:count], *(number(size) for size in sizes), *pointers[count:])
        group = (code.form.group, 1, 1)
        if code.local_bytes > 48 << 10:
            allow_shared(function.handle, code.local_bytes)
        start, held = function.handle, [memory for memory, _ in places]

        def launch(_: object = held) -> None:
            start(groups, group, arguments, shared_mem=code.local_bytes, stream=self.stream)

        return launch

    def bind_gemm(
        self, gemm: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        here = self.number, lambda: self.stream
        return cublas.bind_gemm(here, gemm, places, workspace, workspace_bytes)

    def bind_convolution(
        self,
        known: tuple[Any, bool],
        places: Sequence[Place],
        workspace: Place,
        workspace_bytes: int,
    ) -> Launch:
        site = cudnn.Site(self.number, lambda: self.stream, self.stamp)
        return cudnn.bind_convolution(site, known, places, workspace, workspace_bytes)

    def bind_attention(
        self, attention: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        site = cudnn.Site(self.number, lambda: self.stream, self.stamp)
        return cudnn.bind_attention(site, attention, places, workspace, workspace_bytes)

    def record(self, launches: Sequence[Launch], waits: Sequence[Sequence[int]] = ()) -> Launch:
        """A CUDA graph of the launches, with branches where they need not wait for each other."""
        held, stream = tuple(launches), self.stream
        if not held:
            return lambda: None
        with stream:
            stream.begin_capture()
            try:
                in_lanes(self, held, waits or one_by_one(len(held)))
            finally:
                self.stream = stream
                graph = stream.end_capture()

        def play(_: object = held) -> None:
            graph.launch(stream)

        return play

    def finish(self) -> None:
        self.stream.synchronize()

    def timed(self, launch: Launch) -> int:
        """Nanoseconds of a launch on the device, which is kept busy while the launch is on its way there."""
        import cupy

        hold = hold_function(self.number, self.limits.capability, self.name)
        hold((1, 1, 1), (1, 1, 1), (np.int64(HOLD_CYCLES),), stream=self.stream)
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(self.stream)
        launch()
        stop.record(self.stream)
        stop.synchronize()
        return int(cupy.cuda.get_elapsed_time(start, stop) * 1e6)

    def adopt(self, value: Any) -> DeviceArray:
        with self.lock:
            return exchange.adopt(self, value)

    def capsule(self, array: DeviceArray, stream: Any, max_version: Any) -> Any:
        with self.lock:
            return exchange.capsule(array, stream, max_version)

    def interface(self, array: DeviceArray) -> dict[str, Any]:
        """What ``__cuda_array_interface__`` says of an array."""
        with self.lock:
            return exchange.interface(array)


def _side_by_side(work: Callable[[Each], Made], items: Sequence[Each]) -> list[Made]:
    with ThreadPoolExecutor(max(min(len(items), len(os.sched_getaffinity(0))), 1)) as pool:
        return list(pool.map(work, items))


def _pointer(array: Array) -> Any:
    import ctypes

    return ctypes.c_void_p(array.ctypes.data)
