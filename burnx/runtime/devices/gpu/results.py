"""Results of races on a device."""

from __future__ import annotations

from burnx.runtime.devices.gpu.driver import Driver
from burnx.runtime.tuning.store import Store, find_store


def results_of(driver: Driver) -> Store:
    """What races on this device have found."""
    return find_store(driver.stamp)
