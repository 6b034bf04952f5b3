"""Which OpenCL devices are here."""

from __future__ import annotations

from typing import Any

from burnx.errors import DeviceError
from burnx.runtime.device import Facts

WHAT_TO_INSTALL = (
    "pip install pyopencl pocl-binary-distribution; the latter is PoCL, a driver for this processor"
)


def list_devices() -> list[Facts]:
    """What is known of each device; none where pyopencl or a driver is not."""
    try:
        return [_facts(number, device) for number, device in enumerate(all_opencl())]
    except DeviceError:
        return []


def describe_device(number: int) -> Facts:
    """What is known of a device.

    Raises: DeviceError if pyopencl, a driver or that device is missing.
    """
    return _facts(number, find_opencl(number))


def find_opencl(number: int) -> Any:
    """A device as pyopencl has it.

    Raises: DeviceError if pyopencl, a driver or that device is missing.
    """
    devices = all_opencl()
    if number >= len(devices):
        raise DeviceError(f"there is no device 'opencl:{number}'; OpenCL has {len(devices)} here")
    return devices[number]


def all_opencl() -> list[Any]:
    """All devices, in the order in which they are counted.

    Raises: DeviceError if pyopencl or every driver is missing.
    """
    try:
        import pyopencl
    except ImportError as error:
        raise DeviceError(f"opencl needs pyopencl ({error}): {WHAT_TO_INSTALL}") from error
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.Error as error:
        raise DeviceError(f"no OpenCL driver is installed: {WHAT_TO_INSTALL}") from error
    found: list[Any] = []
    for platform in platforms:
        try:
            found += platform.get_devices()
        except pyopencl.Error:  # a driver whose hardware is not here
            continue
    return found


def _facts(number: int, device: Any) -> Facts:
    about = f"{device.name.strip()}, {device.platform.name.strip()}"
    driver = f"{device.version.strip()}, {device.driver_version.strip()}"
    return f"opencl:{number}", about, driver, device.global_mem_size, device.max_compute_units
