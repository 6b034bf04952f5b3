"""Devices: what they are called, which are here, and running a program on one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from burnx.dtype import as_array
from burnx.errors import DeviceError, InputError, ModelError, UnsupportedError
from burnx.files import MappedFile
from burnx.graph import Graph
from burnx.program import Program
from burnx.runtime.device_array import DeviceArray, find_place, is_array, put
from burnx.runtime.profile import Times
from burnx.tensor import Tensor

Array = np.ndarray[Any, Any]
DEFAULT = "cpu"


class Runner(Protocol):
    """A program made ready on a device."""

    times: Times | None  # where it is set: what each thing took, by "<what> <place>"

    def run(self, program: Program, inputs: Sequence[Any]) -> list[Any]: ...


@dataclass(frozen=True, slots=True, init=False)
class Device:
    """A place where programs run: ``cpu``, ``reference``, ``opencl:0``, ``cuda:1``; ``cuda`` is ``cuda:0``.

    ``units`` are processors, or what a driver counts instead.  Raises: DeviceError if there is no such device here.
    """

    name: str
    about: str = field(default="", compare=False)
    driver: str = field(default="", compare=False)
    memory_bytes: int = field(default=0, compare=False)
    units: int = field(default=0, compare=False)

    def __init__(self, name: str | Device | None = None, *facts: Any) -> None:
        given = (str(name), *facts) if facts else _find_facts(name)
        names = [each.name for each in fields(self)]
        for field_name, value in zip(names, given, strict=False):
            object.__setattr__(self, field_name, value)

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, tuple(getattr(self, each.name) for each in fields(self))

    def put(self, array: Any) -> Any:
        """A copy of an array in this device's memory; a NumPy array where that is the processor's.

        Raises: DeviceError if the array holds text, or is another library's and lies out of the processor's reach.
        """
        place = None if isinstance(array, DeviceArray) else find_place(array)
        if place is not None:
            raise DeviceError(
                f"an array on {place} is not put on {self.name} by itself: give its copy on the host"
            )
        host = as_array(array)
        if ":" not in self.name:
            return host.copy()
        if host.dtype.kind == "O":
            raise DeviceError(f"text and objects do not lie on {self.name}")
        return put(room_of(self).find_driver(self.name), host)


_ROOM = "burnx.runtime.devices."
_ABOUT = {
    "reference": "NumPy, one primitive at a time: the oracle for the others",
    "cpu": "this machine's processor",
}
_KINDS = ("opencl", "cuda")  # of which there may be several, by number
Facts = tuple[str, str, str, int, int]


def find_device(name: str | Device | None = None) -> Device:
    """The device of a name; without one, that of ``BURNX_DEVICE``, else ``cpu``.

    Raises: DeviceError if there is no such device here.
    """
    return name if isinstance(name, Device) else Device(name)


def devices() -> tuple[Device, ...]:
    """The devices that can be used here."""
    found = [Device(*_host_facts(name)) for name in _ABOUT]
    for kind in _KINDS:
        found += [Device(*each) for each in importlib.import_module(_ROOM + kind).list_devices()]
    return tuple(found)


def _find_facts(name: str | Device | None) -> Facts:
    wanted = str(name if name is not None else os.environ.get("BURNX_DEVICE") or DEFAULT)
    if wanted in _ABOUT:
        return _host_facts(wanted)
    kind, _, number = wanted.partition(":")
    if kind in _KINDS and (number.isascii() and number.isdigit() or wanted == kind):
        facts: Facts = importlib.import_module(_ROOM + kind).describe_device(int(number or 0))
        return facts
    where = "" if name is not None else "BURNX_DEVICE: "
    there = ", ".join(map(str, devices()))
    raise DeviceError(f"{where}there is no device {wanted!r}; available: {there}")


@cache
def _host_facts(name: str) -> Facts:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    units = len(os.sched_getaffinity(0)) if name == "cpu" else 1
    driver = {"cpu": "burnx's own", "reference": f"NumPy {np.__version__}"}[name]
    return name, _ABOUT[name], driver, memory_bytes, units


def enter(name: str, value: Any, where: Device) -> Any:
    """What is given for an input; an array that lies on the device where it is wanted stays there.

    What burnx itself left on another device is copied.
    Raises: InputError if an array of another library lies on another device, or cannot be taken from it.
    """
    if isinstance(value, Tensor):
        value = value.held()
    place = find_place(value)
    if place is None:
        return value
    if isinstance(value, DeviceArray):
        return value if place == where.name else value.numpy()
    if place.partition(":")[0] != where.name.partition(":")[0] or place not in ("cuda", where.name):
        raise InputError(
            f'input "{name}" lies on {place}, and the model runs on {where.name}: '
            "burnx moves no array by itself between devices"
        )
    try:
        return room_of(where).find_driver(where.name).adopt(value)
    except (BufferError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f'input "{name}" on {place} cannot be taken: {error}') from error


@dataclass(slots=True, eq=False)
class Executable:
    """A program ready to run on a device; ``instead`` makes the runner of another one for what the device cannot."""

    program: Program
    runner: Runner
    instead: Callable[[], Runner] | None = None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs; none of them shares memory with an input or a constant.

        Raises: DeviceError, UnsupportedError if the device cannot run it and nothing else was asked to.
        """
        results = self._run(inputs)
        seen: set[int] = set()
        there = next((each.driver for each in inputs if isinstance(each, DeviceArray)), None)
        try:
            owned = [_own(value, inputs, seen) for value in results]
        except MemoryError as error:
            raise ModelError(f"not enough memory for the outputs: {error}") from error
        return owned if there is None else _left_there(owned, inputs, there)

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        try:
            return self.runner.run(self.program, inputs)
        except (DeviceError, UnsupportedError):
            if self.instead is None:
                raise
            self.runner, self.instead = self.instead(), None
        return self.runner.run(
            self.program, [_on_host(each) if is_array(each) else each for each in inputs]
        )


def _on_host(value: Any) -> Array:
    found: Array = value.numpy() if isinstance(value, DeviceArray) else value
    return found


_NONE: Mapping[str, Any] = {}


class Shelf(Protocol):
    """What a device keeps of a model file for the next process."""

    def find_face(self) -> Graph | None:
        """The model without its nodes."""

    def find_map(self) -> MappedFile | None:
        """The file as it was when the face was found; None if no face was.

        Raises: ModelError if it was written to since, or external data has changed.
        """

    def learn(self, graph: Graph, maps: Sequence[MappedFile]) -> None:
        """Note the model as it was read, and what was mapped to read it."""

    def find_slot(self, kind: Sequence[Any]) -> Any:
        """Where the program for a kind of input is kept."""


def find_shelf(
    path: Path, base_dir: Path | None, where: Device, options: Mapping[str, Any]
) -> Shelf | None:
    """What a device keeps of a model file; None if it keeps nothing."""
    find = getattr(room_of(where), "find_shelf", None)
    found: Shelf | None = None if find is None else find(path, base_dir, options, **_named(where))
    return found


def prepare(
    program: Program,
    where: Device,
    options: Mapping[str, Any] | None = None,
    slot: Any = None,
) -> Executable:
    """Make a program ready to run on a device; ``options`` are ``RunOptions`` that have been checked.

    ``slot`` is where it is to be kept.  What the device cannot run, the device of ``fallback`` does, if one is named.
    Raises: UsageError if ``BURNX_THREADS`` is not a number of threads.
    """
    options = options or _NONE
    other = find_device(options["fallback"]) if options.get("fallback") else where
    instead = None if other == where else partial(_make_runner, program, other, options)
    return Executable(program, _make_runner(program, where, options, slot), instead)


def _make_runner(
    program: Program, where: Device, options: Mapping[str, Any], slot: Any = None
) -> Runner:
    kept = () if slot is None else (slot,)
    made: Runner = room_of(where).prepare(program, options, *kept, **_named(where))
    return made


def _named(where: Device) -> dict[str, str]:
    """What a room is told that several devices share."""
    return {"name": where.name} if ":" in where.name else {}


def open_kept(
    slot: Any, where: Device, options: Mapping[str, Any], whole: Callable[[], Program]
) -> Executable | None:
    """The program that a device has kept; ``whole`` makes it anew where it is needed."""
    found = room_of(where).open_kept(slot, options, whole, **_named(where))
    return None if found is None else Executable(*found)


def room_of(where: Device) -> Any:
    """The room that runs programs on a device; those with a driver share one."""
    return importlib.import_module(_ROOM + ("gpu" if ":" in where.name else where.name))


def find_roofline(where: Device, options: Mapping[str, Any]) -> Any:
    """What a device does at its best, measured once; None of one that has no kernels."""
    find = getattr(room_of(where), "find_roofline", None)
    return None if find is None else find(options, where.name)


def _own(value: Any, inputs: Sequence[Any], seen: set[int]) -> Any:
    if isinstance(value, list):
        return [_own(item, inputs, seen) for item in value]
    if not is_array(value):
        return value
    shared = id(value) in seen or any(value is item for item in inputs)
    seen.add(id(value))
    if isinstance(value, DeviceArray):
        return value.copy() if shared else value
    if shared or value.base is not None or not value.flags.writeable:
        return np.array(value, order="C", copy=True)
    return np.ascontiguousarray(value).reshape(value.shape)


def _left_there(values: Sequence[Any], inputs: Sequence[Any], driver: Any) -> list[Any]:
    """Outputs for inputs that lie on a device lie there, too, whoever made them.

    Other libraries' memory is theirs again when a call returns: they know nothing of burnx's queue.
    """
    moved = [
        put(driver, value) if isinstance(value, np.ndarray) and value.dtype.kind != "O" else value
        for value in values
    ]
    if any(isinstance(each, DeviceArray) and each.borrowed for each in inputs):
        with driver.lock:
            driver.finish()
    return moved


def placement(program: Program, where: Device) -> dict[str, list[str]]:
    """What the device has no code of its own for, so that Python carries it out, and the places where it occurs.

    Bodies of branches and loops count once.
    """
    found: dict[str, list[str]] = {}
    name_foreign: Callable[[Program], Iterator[tuple[str, str]]]
    name_foreign = room_of(where).name_foreign
    for name, place in name_foreign(program):
        found.setdefault(name, []).append(place)
    return found
