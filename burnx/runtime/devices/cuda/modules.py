"""Texts of CUDA C++ as modules: from the cubin that an earlier process has kept, or compiled by NVRTC."""

from __future__ import annotations

from functools import cache
from typing import Any

from burnx.errors import DeviceError
from burnx.gpu.dialects import CUDA
from burnx.gpu.tiles_form import WARPGROUPS_OF
from burnx.runtime.devices.gpu.binaries import load_or_build, name_binary

OPTIONS = CUDA.options


def make_stamp(capability: int) -> dict[str, str]:
    """What a cubin depends on, beside its text."""
    from cupy.cuda import nvrtc

    major, minor = nvrtc.getVersion()
    arch = f"sm_{capability}{'a' if capability == WARPGROUPS_OF else ''}"
    return {"for": "cuda", "arch": arch, "nvrtc": f"{major}.{minor}"}


def load_function(text: str, function: str, stamp: dict[str, str], name: str) -> Any:
    """A function of a text, on the current device.

    Raises: DeviceError if NVRTC does not take the text.
    """

    def load(image: bytes) -> Any:
        return load_cubin(image, function)

    options = _options(stamp)
    found = load_or_build(
        "\n".join((*options, text)), stamp, load, lambda: _compile(text, options, name)
    )
    if found is None:
        raise DeviceError(f"{name} does not load what NVRTC made for {stamp['arch']}")
    return found


def name_cubin(text: str, stamp: dict[str, str]) -> str:
    """What the cubin of a text is kept under."""
    return name_binary("\n".join((*_options(stamp), text)), stamp)


def _options(stamp: dict[str, str]) -> tuple[str, ...]:
    return (*OPTIONS, f"-arch={stamp['arch']}")


def load_cubin(image: bytes, function: str) -> Any:
    """A function of a cubin on the current device; None if it holds no code for it, for all that it says."""
    import cupy

    module = cupy.cuda.function.Module()
    try:
        module.load(image)
        return module.get_function(function)
    except cupy.cuda.driver.CUDADriverError:
        return None


def allow_shared(function: Any, size_bytes: int) -> None:
    """Let a function have more shared memory than a launch gets without asking."""
    from cupy.cuda import driver

    driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED, size_bytes)


_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@cache
def hold_function(number: int, capability: int, name: str) -> Any:
    """A kernel that keeps the device ``number`` busy for so many cycles."""
    import cupy

    with cupy.cuda.Device(number):
        return load_function(_HOLD, "hold", make_stamp(capability), name)


_HOLD = """\
extern "C" __global__ void hold(const long long cycles)
{
    const long long first = clock64();
    while (clock64() - first < cycles) { }
}
"""


def _compile(text: str, options: tuple[str, ...], name: str) -> bytes:
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        said = nvrtc.getProgramLog(program)
        raise DeviceError(f"{name} does not take a kernel: {error}\n{said}") from error
    finally:
        nvrtc.destroyProgram(program)
