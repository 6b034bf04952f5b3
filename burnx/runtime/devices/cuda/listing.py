"""Which CUDA devices are here."""

from __future__ import annotations

from typing import Any

from burnx.errors import DeviceError
from burnx.runtime.device import Facts

WHAT_TO_INSTALL = (
    "pip install cupy-cuda13x, or cupy-cuda12x for a driver older than 580 (nvidia-smi says)"
)


def list_devices() -> list[Facts]:
    """What is known of each device; none where CuPy or a driver is not."""
    try:
        return [_facts(number) for number in range(_count_devices())]
    except DeviceError:
        return []


def describe_device(number: int) -> Facts:
    """What is known of a device.

    Raises: DeviceError if CuPy, a driver or that device is missing.
    """
    return _facts(find_cuda(number))


def find_cuda(number: int) -> int:
    """The number of a device that is here.

    Raises: DeviceError if CuPy, a driver or that device is missing.
    """
    count = _count_devices()
    if number >= count:
        raise DeviceError(f"there is no device 'cuda:{number}'; CUDA has {count} here")
    return number


def _count_devices() -> int:
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(f"cuda needs CuPy ({error}): {WHAT_TO_INSTALL}") from error
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"no CUDA device answers ({error}): it takes NVIDIA's driver, which pip does not install"
        ) from error


def _facts(number: int) -> Facts:
    import cupy

    found: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(number)
    version = cupy.cuda.runtime.driverGetVersion()
    driver = f"CUDA {version // 1000}.{version % 1000 // 10}, CuPy {cupy.__version__}"
    about = f"{found['name'].decode()}, sm_{found['major']}{found['minor']}"
    return f"cuda:{number}", about, driver, found["totalGlobalMem"], found["multiProcessorCount"]
