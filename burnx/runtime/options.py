"""How a model is to run, beside where: what a caller may ask of a device."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from burnx.errors import UsageError
from burnx.runtime.device import find_device


class RunOptions(TypedDict, total=False):
    """``threads`` of the CPU, the device to ``fallback`` to, ``fuse`` and ``tune`` for compiled devices.

    ``no_lift`` names passes to leave out.  A device without kernels of its own has nothing to fuse or tune.  Python
    carries out what a device has no kernels for (``placement`` lists it); a program whose kernels a device does not take
    is an error, unless ``fallback`` names a device that runs it instead.
    """

    threads: int | None
    fallback: str | None
    fuse: bool
    tune: bool | None
    no_lift: Collection[str]


_CHOICES = {"fuse": (True, False), "tune": (True, False, None)}


def check_options(options: Mapping[str, Any]) -> None:
    """Raises: UsageError if an option is not known or not of its kind, DeviceError if ``fallback`` is no device."""
    for name in options:
        if name not in RunOptions.__annotations__:
            known = ", ".join(("device", *RunOptions.__annotations__))
            raise UsageError(f"there is no option {name!r}; there are {known}")
    threads = options.get("threads")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise UsageError(f"threads is a whole number from 1 on; found {threads!r}")
    for name, values in _CHOICES.items():
        if name in options and not any(options[name] is value for value in values):
            listed = " or ".join(map(str, values))
            raise UsageError(f"{name} is {listed}; found {options[name]!r}")
    if options.get("fallback") is not None:
        find_device(options["fallback"])
