"""Constants in a device's memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnx.fusion.storage import Storage
from burnx.runtime.devices.gpu.driver import Driver, Place

_APART = 256  # bytes


def put_constants(storages: Sequence[Storage], driver: Driver) -> dict[Storage, Place]:
    """Constants one behind the other in the device's memory."""
    places: dict[Storage, int] = {}
    total = 0
    for storage in storages:
        assert storage.array is not None
        places[storage] = total
        total += -(-max(storage.array.nbytes, 1) // _APART) * _APART
    if not places:
        return {}
    with driver.lock:
        memory = driver.allocate(total)
        for storage, offset in places.items():
            if storage.array is not None and storage.array.nbytes:
                driver.upload((memory, offset), np.ascontiguousarray(storage.array))
    return {storage: (memory, offset) for storage, offset in places.items()}
