"""The driver of OpenCL devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from weakref import WeakSet

import numpy as np

from burnx.errors import DeviceError, InputError, ModelError
from burnx.gpu.code import Code, Limits
from burnx.gpu.dialects import OPENCL, Dialect
from burnx.runtime.device_array import DeviceArray
from burnx.runtime.devices.gpu.binaries import load_binary
from burnx.runtime.devices.gpu.driver import Arena, Array, Built, Launch, Lock, Place
from burnx.runtime.devices.gpu.pages import Pages
from burnx.runtime.devices.opencl.listing import find_opencl
from burnx.runtime.devices.opencl.programs import (
    build_program,
    load_program,
    make_stamp,
    name_program,
)

WORKERS_OF_A_UNIT = 16


@cache
def find_driver(name: str) -> OpenCL:
    """The driver of ``opencl:<number>``.

    Raises: DeviceError if pyopencl, a driver or that device is missing.
    """
    device = find_opencl(int(name.split(":")[1]))
    import pyopencl

    context = pyopencl.Context([device])
    profiled = pyopencl.command_queue_properties.PROFILING_ENABLE
    queue = pyopencl.CommandQueue(context, device, profiled)
    return OpenCL(name, device, queue)


@dataclass(slots=True, eq=False)
class OpenCL:
    """An OpenCL device with one queue, in order."""

    name: str
    device: Any
    queue: Any
    dialect: Dialect = OPENCL
    lock: Lock = field(init=False)
    arena: Arena = field(default_factory=Arena)
    functions: dict[tuple[str, Any], tuple[Code, Built]] = field(default_factory=dict)
    pages: Pages = field(default_factory=Pages)
    users: WeakSet[Any] = field(default_factory=WeakSet)
    pool: Any = None
    about: str = ""
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    libraries: Mapping[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import pyopencl
        from pyopencl.tools import ImmediateAllocator, MemoryPool

        self.lock = Lock(self.name)
        self.pool = MemoryPool(ImmediateAllocator(self.queue))
        device, processor = self.device, pyopencl.device_type.CPU
        self.about = f"{device.name.strip()}, {device.platform.name.strip()}"
        self.limits = Limits(
            threads=min(device.max_work_group_size, 256),
            local_bytes=min(device.local_mem_size, 32768),
            units=device.max_compute_units,
            vector_bytes=0 if device.type & processor else 16,
            doubles="cl_khr_fp64" in device.extensions.split(),
        )
        self.workers = max(device.max_compute_units * WORKERS_OF_A_UNIT, 256)

    @property
    def memory_bytes(self) -> int:
        return int(self.device.global_mem_size)

    @property
    def stamp(self) -> dict[str, str]:
        """What results of tuning, and binaries, depend on."""
        if not self.known:
            self.known = make_stamp(self.device)
        return self.known

    def memory_use(self) -> tuple[int, int]:
        return int(self.pool.active_bytes), int(self.pool.managed_bytes)

    def release(self) -> None:
        self.pool.free_held()

    def allocate(self, size_bytes: int) -> Any:
        import pyopencl

        try:
            return self.pool.allocate(size_bytes)
        except pyopencl.Error as error:
            raise ModelError(
                f"{self.name}: not enough memory, {size_bytes} bytes: {error}"
            ) from error

    def upload(self, place: Place, array: Array) -> None:
        import pyopencl

        pyopencl.enqueue_copy(
            self.queue, place[0], _bytes_of(array), dst_offset=place[1], is_blocking=True
        )

    def download(self, place: Place, array: Array) -> None:
        import pyopencl

        pyopencl.enqueue_copy(
            self.queue, _bytes_of(array), place[0], src_offset=place[1], is_blocking=True
        )

    def copy(self, target: Place, source: Place, size_bytes: int) -> None:
        import pyopencl

        if size_bytes:
            pyopencl.enqueue_copy(
                self.queue,
                target[0],
                source[0],
                byte_count=size_bytes,
                src_offset=source[1],
                dst_offset=target[1],
            )

    def fill(self, place: Place, size_bytes: int, byte: int) -> None:
        import pyopencl

        pyopencl.enqueue_fill_buffer(self.queue, place[0], np.uint8(byte), place[1], size_bytes)

    def build(self, codes: Sequence[Code]) -> list[Built]:
        from burnx.gpu.emitter import prelude

        needs = frozenset[str]().union(*(code.needs for code in codes))
        text = "\n".join([prelude(self.dialect, needs), *(code.text for code in codes)])
        program = build_program(self.queue.context, self.device, text, self.name)
        binary = name_program(text, self.device)
        return [Built(program, code.name, binary) for code in codes]

    def load(self, wanted: Sequence[tuple[str, str]]) -> list[Built] | None:
        programs: dict[str, Any] = {}
        for binary in dict.fromkeys(binary for binary, _ in wanted):
            programs[binary] = load_binary(
                binary, lambda image: load_program(self.queue.context, self.device, image)
            )
            if programs[binary] is None:
                return None
        return [Built(programs[binary], name, binary) for binary, name in wanted]

    def bind(
        self,
        function: Built,
        code: Code,
        groups: tuple[int, int, int],
        places: Sequence[Place],
        sizes: Sequence[int],
    ) -> Launch:
        import pyopencl

        kernel = pyopencl.Kernel(function.handle, function.name)
        count = len(places) - 1 - len(code.form.guards)
        number = np.int64 if code.form.wide else np.int32
        arguments: list[Any] = []
        for memory, offset in places[:count]:
            arguments += [memory, np.uint64(offset)]
        arguments += [number(size) for size in sizes]
        for memory, offset in places[count:]:
            arguments += [memory, np.uint64(offset)]
        kernel.set_args(*arguments)
        group = code.form.group
        whole, local = (groups[0] * group, groups[1], groups[2]), (group, 1, 1)
        queue, enqueue = self.queue, pyopencl.enqueue_nd_range_kernel
        return lambda: enqueue(queue, kernel, whole, local)

    def bind_gemm(
        self, gemm: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        raise DeviceError(f"{self.name} has no library of products")

    def bind_convolution(
        self,
        known: tuple[Any, bool],
        places: Sequence[Place],
        workspace: Place,
        workspace_bytes: int,
    ) -> Launch:
        raise DeviceError(f"{self.name} has no library of convolutions")

    def bind_attention(
        self, attention: Any, places: Sequence[Place], workspace: Place, workspace_bytes: int
    ) -> Launch:
        raise DeviceError(f"{self.name} has no library of attentions")

    def record(self, launches: Sequence[Launch], waits: Sequence[Sequence[int]] = ()) -> Launch:
        """The launches, whose arguments stay set, one behind the other."""
        held = tuple(launches)

        def play() -> None:
            for launch in held:
                launch()

        return play

    def finish(self) -> None:
        self.queue.finish()

    def timed(self, launch: Launch) -> int:
        event: Any = launch()
        event.wait()
        return int(event.profile.end - event.profile.start)

    def adopt(self, value: Any) -> DeviceArray:
        raise InputError(
            f"{self.name}: of arrays that lie there burnx takes its own, not a {type(value).__name__}"
        )

    def capsule(self, array: DeviceArray, stream: Any, max_version: Any) -> Any:
        raise DeviceError(
            f"no library takes OpenCL's memory through dlpack: numpy() copies an array from {self.name}"
        )


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
