"""OpenCL devices, through pyopencl: any driver that is installed, PoCL among them.

What is done with them is ``runtime.devices.gpu``'s; here are the driver and what is known of each device.
May import: runtime.devices.gpu and below, and pyopencl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnx.runtime.devices.opencl.listing import describe_device, list_devices

if TYPE_CHECKING:
    from burnx.runtime.devices.gpu.driver import Driver


def find_driver(name: str) -> Driver:
    """The driver of a device of this name.

    Raises: DeviceError if its package, a driver or that device is missing.
    """
    # what it takes to compile is not needed to say what is here
    from burnx.runtime.devices.opencl import driver

    return driver.find_driver(name)


__all__ = ["describe_device", "find_driver", "list_devices"]
