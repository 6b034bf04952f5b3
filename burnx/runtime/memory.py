"""What burnx holds of a device's memory."""

from __future__ import annotations

from dataclasses import dataclass

from burnx.runtime.device import Device, find_device, room_of


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes of a device's memory.

    ``used_bytes`` are in use: ``arena_bytes`` of them are the memory that calls work in, ``weights_bytes`` constants,
    the rest arrays that the caller holds.  ``reserved_bytes`` are taken from the device, used or kept for the next who
    asks; ``device_bytes`` is all that it has.
    """

    device: str
    used_bytes: int = 0
    reserved_bytes: int = 0
    arena_bytes: int = 0
    weights_bytes: int = 0
    device_bytes: int = 0


def memory_report(device: str | Device | None = None) -> MemoryReport:
    """What burnx holds of a device's memory; ``reference`` holds nothing between calls.

    Raises: DeviceError if there is no such device here.
    """
    where = find_device(device)
    measure = getattr(room_of(where), "measure_memory", None)
    numbers: dict[str, int] = {} if measure is None else measure(where.name)
    return MemoryReport(where.name, device_bytes=where.memory_bytes, **numbers)
