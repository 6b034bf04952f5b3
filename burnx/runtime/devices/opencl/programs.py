"""Texts of OpenCL C as programs: from the binary that an earlier process has kept, or from the text."""

from __future__ import annotations

from typing import Any

from burnx.errors import DeviceError
from burnx.gpu.dialects import OPENCL
from burnx.runtime.devices.gpu.binaries import load_or_build, name_binary

OPTIONS = (*OPENCL.options, "-w")  # warnings are for who writes kernels
EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"  # quotients and roots are those of other devices


def options_of(device: Any) -> tuple[str, ...]:
    """What the compiler of a device is told."""
    import pyopencl

    exact = device.single_fp_config & pyopencl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return (*OPTIONS, EXACT) if exact else OPTIONS


def make_stamp(device: Any) -> dict[str, str]:
    """What a binary depends on, beside its text."""
    return {
        "for": "opencl",
        "device": device.name.strip(),
        "version": device.version.strip(),
        "driver": device.driver_version.strip(),
        "platform": device.platform.version.strip(),
    }


def build_program(context: Any, device: Any, text: str, name: str) -> Any:
    """The program of a text.

    Raises: DeviceError if the driver does not take it.
    """
    import pyopencl

    built: list[Any] = []
    options = options_of(device)

    def load(image: bytes) -> Any:
        return built[0] if built else load_program(context, device, image)

    def build() -> bytes:
        try:
            made = pyopencl.Program(context, text).build(list(options), cache_dir=False)
        except pyopencl.Error as error:
            raise DeviceError(f"{name} does not take a kernel: {error}") from error
        built.append(made)
        (image,) = made.get_info(pyopencl.program_info.BINARIES)
        return bytes(image)

    return load_or_build("\n".join((*options, text)), make_stamp(device), load, build)


def load_program(context: Any, device: Any, image: bytes) -> Any:
    """The program of a binary; None if another driver wrote it, for all that it calls itself the same."""
    import pyopencl

    try:
        return pyopencl.Program(context, [device], [image]).build(list(options_of(device)))
    except pyopencl.Error:
        return None


def name_program(text: str, device: Any) -> str:
    """What the binary of a text is kept under."""
    return name_binary("\n".join((*options_of(device), text)), make_stamp(device))
