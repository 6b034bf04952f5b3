"""What runs on a device: the launches of a segment for given sizes, and what is the same for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnx.fusion.storage import Storage
from burnx.gpu.code import Code
from burnx.kernels.ir import Kernel
from burnx.program import Var
from burnx.runtime.compiled.lines import Task
from burnx.runtime.devices.gpu.driver import Built, Place
from burnx.runtime.devices.gpu.flow import Flow
from burnx.runtime.devices.gpu.library import Asked

Sizes = Mapping[str, int]
Ends = tuple[tuple[Var, ...], tuple[Var, ...]]
End = tuple[Var, tuple[int, ...], Storage]
Waits = tuple[tuple[int, ...], ...]  # for each launch those before it that it waits for
Filled = tuple[int, int, int]  # first byte, the one after the last, what they hold


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """What a launch was made of.

    ``named`` are all sizes of the kernel, ``symbols`` those of the segment, that the task's sizes are made of.  ``tame``:
    as ``library_attentions.is_tame`` says it.
    """

    task: Task
    kernel: Kernel
    text: str
    named: Mapping[str, int]
    symbols: Sizes
    tame: bool = False

    @property
    def place(self) -> str:
        return self.task.place


@dataclass(frozen=True, slots=True, eq=False)
class Launched:
    """One launch: its function, groups (none: nothing to do), buffers with the guards last, and sizes.

    With ``asked`` a library multiplies, and the function, if there is one, does what follows.
    """

    code: Code
    function: Built
    groups: tuple[int, int, int]
    storages: tuple[Storage, ...]
    sizes: tuple[int, ...]
    asked: Asked | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The launches of a segment for given sizes; ``origins`` say what each was made of, unless the plan was kept.

    ``given`` and ``made`` are (value, shape, storage) of what enters and of what leaves; their memory is part of the
    arena.  ``zeroed`` bytes of that start as zero, and of these ``filled`` then as another number.  ``checked``: whether
    a kernel may find an index outside its axis.  ``waits``: empty where each launch waits for the one before it.
    """

    launches: tuple[Launched, ...]
    offsets: Mapping[Storage, int]
    size: int
    zeroed: tuple[int, int]
    filled: tuple[Filled, ...]
    given: tuple[End, ...]
    made: tuple[End, ...]
    checked: bool
    origins: tuple[Origin, ...] = ()
    waits: Waits = ()


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A segment on a device, whatever the sizes: ``constants`` lie there, plans depend on ``symbols``.

    ``plan`` makes one for sizes that there is none for.  ``kept``: it is as an earlier process has left it.
    """

    flow: Sequence[Flow]
    constants: Mapping[Storage, Place]
    symbols: tuple[str, ...]
    weights_bytes: int
    plan: Callable[[Sizes], Plan]
    kept: bool = False


class Failed(Exception):
    """A kernel met an index outside its axis, or a body that may never run has sizes that do not fit."""


class Unplanned(Exception):
    """Sizes came, or something was asked, that an earlier process has left nothing for."""


def refuse(sizes: Sizes) -> Any:
    """The plan of what was kept for sizes that it was not kept for.

    Raises: Unplanned.
    """
    raise Unplanned
