"""What this machine can use: a description of each thing that entries are made for, to be compared with theirs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence

from burnx.errors import DeviceError
from burnx.runtime.environments.contents import Content

About = Mapping[str, str]
# what an entry holds of long texts is a sum, which tells nobody anything
_SUMS = {"features": "the instructions that the processor has, or BURNX_CPU leaves it,"}
_DRIVEN = ("opencl", "cuda")


def describe_machine() -> tuple[About, ...]:
    """What kernels, plans and tuning results are made for here: the processor and each device."""
    from burnx.runtime.devices.cpu.kept import plan_stamp
    from burnx.runtime.devices.cpu.results import results_of
    from burnx.runtime.devices.cpu.target import find_target

    results = results_of(find_target())
    from burnx.runtime.devices.gpu.kept import plan_stamp as plans_of

    found: list[About] = [plan_stamp().describe(), results.about]
    for kind in _DRIVEN:
        room = importlib.import_module(f"burnx.runtime.devices.{kind}")
        for name, *_ in room.list_devices():
            try:
                found.append(plans_of(room.find_driver(name)).describe())
            except DeviceError:  # it is listed, and cannot be opened
                continue
    return tuple(found)


def find_obstacle(content: Content, here: Sequence[About]) -> str | None:
    """Why an entry is of no use here; None if it is of use."""
    wanted = content.about
    alike = [each for each in here if each.get("for") == wanted.get("for")]
    if not alike:
        return f"it is for {wanted.get('for', 'something unknown')}, which is not here"
    differing = [_difference(wanted, each) for each in alike]
    if all(differing):
        return min(filter(None, differing), key=len)
    missing = next((path for path, *_ in content.files if not _is_same(path, content)), None)
    return None if missing is None else f"its model file {missing!r} is not here as it was"


def _is_same(path: object, content: Content) -> bool:
    from burnx.runtime.kept.identity import is_same

    return any(each[0] == path and is_same(list(each)) for each in content.files)


def _difference(wanted: About, here: About) -> str | None:
    for name, value in wanted.items():
        if name in _SUMS and here.get(name) != value:
            return f"{_SUMS[name]} differ"
        if here.get(name) != value:
            return f"{name} is {value!r} there and {here.get(name, 'unknown')!r} here"
    return None
