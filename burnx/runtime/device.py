"""Devices: what they are called, which are here, and running a program on one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from burnx.errors import DeviceError, ModelError
from burnx.files import MappedFile
from burnx.graph import Graph
from burnx.program import Program

Array = np.ndarray[Any, Any]
DEFAULT = "cpu"


class Runner(Protocol):
    """A program made ready on a device."""

    times_ns: dict[str, int] | None  # where it is set: what each thing took, by "<what> <place>"

    def run(self, program: Program, inputs: Sequence[Any]) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Device:
    """A place where programs run: ``cpu``, ``reference``, ``opencl:0``, ``cuda:1``."""

    name: str
    about: str = ""

    def __str__(self) -> str:
        return self.name


_ROOM = "burnx.runtime.devices."
_ABOUT = {
    "reference": "NumPy, one primitive at a time: the oracle for the others",
    "cpu": "this machine's processor",
}
_KINDS = ("opencl", "cuda")  # of which there may be several, by number


def find_device(name: str | Device | None = None) -> Device:
    """The device of a name; without one, that of ``BURNX_DEVICE``, else ``cpu``.

    Raises: DeviceError if there is no such device here.
    """
    if isinstance(name, Device):
        return name
    wanted = str(name if name is not None else os.environ.get("BURNX_DEVICE") or DEFAULT)
    if wanted in _ABOUT:
        return Device(wanted, _ABOUT[wanted])
    kind, _, number = wanted.partition(":")
    if kind in _KINDS and (number.isascii() and number.isdigit() or wanted == kind):
        full = f"{kind}:{int(number or 0)}"
        return Device(full, importlib.import_module(_ROOM + kind).find_driver(full).about)
    raise DeviceError(f"there is no device {wanted!r}; available: {', '.join(map(str, devices()))}")


def devices() -> tuple[Device, ...]:
    """The devices that can be used here."""
    found = [Device(name, about) for name, about in _ABOUT.items()]
    for kind in _KINDS:
        found += [Device(*each) for each in importlib.import_module(_ROOM + kind).list_devices()]
    return tuple(found)


@dataclass(slots=True, eq=False)
class Executable:
    """A program ready to run on a device."""

    program: Program
    runner: Runner

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs; none of them shares memory with an input or a constant."""
        results = self.runner.run(self.program, inputs)
        seen: set[int] = set()
        try:
            return [_own(value, inputs, seen) for value in results]
        except MemoryError as error:
            raise ModelError(f"not enough memory for the outputs: {error}") from error


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
    find = getattr(_room(where), "find_shelf", None)
    found: Shelf | None = None if find is None else find(path, base_dir, options)
    return found


def prepare(
    program: Program,
    where: Device,
    options: Mapping[str, Any] | None = None,
    slot: Any = None,
) -> Executable:
    """Make a program ready to run on a device; ``options`` are ``RunOptions`` that have been checked.

    ``slot`` is where it is to be kept.
    Raises: UsageError if ``BURNX_THREADS`` is not a number of threads.
    """
    kept = () if slot is None else (slot,)
    named = {"name": where.name} if ":" in where.name else {}
    return Executable(program, _room(where).prepare(program, options or _NONE, *kept, **named))


def open_kept(
    slot: Any, where: Device, options: Mapping[str, Any], whole: Callable[[], Program]
) -> Executable | None:
    """The program that a device has kept; ``whole`` makes it anew where it is needed."""
    found = _room(where).open_kept(slot, options, whole)
    return None if found is None else Executable(*found)


def _room(where: Device) -> Any:
    return importlib.import_module(_ROOM + where.name.partition(":")[0])


def _own(value: Any, inputs: Sequence[Any], seen: set[int]) -> Any:
    if isinstance(value, list):
        return [_own(item, inputs, seen) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    shared = value.base is not None or not value.flags.writeable or id(value) in seen
    seen.add(id(value))
    if shared or any(value is item for item in inputs):
        return np.array(value, order="C", copy=True)
    return np.ascontiguousarray(value).reshape(value.shape)


def placement(program: Program, where: Device) -> dict[str, int]:
    """How often each thing occurs that the device has no code of its own for, so that Python carries it out.

    Bodies of branches and loops count once.
    """
    counts: dict[str, int] = {}
    name_foreign: Callable[[Program], Iterator[str]]
    name_foreign = _room(where).name_foreign
    for name in name_foreign(program):
        counts[name] = counts.get(name, 0) + 1
    return counts
