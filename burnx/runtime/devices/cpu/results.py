"""Results of races on this processor, and the stamp that plans carry of them."""

from __future__ import annotations

from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.object_files import describe_target
from burnx.runtime.tuning.store import Store, find_store


def results_of(target: Target) -> Store:
    """What races on this processor have found."""
    return find_store({**describe_target(target), "for": "cpu tuning"})


def tuning_stamp(target: Target) -> str:
    """Which results there are: plans that were made with others are not taken."""
    found = results_of(target).find("stamp")
    return found if isinstance(found, str) else ""
