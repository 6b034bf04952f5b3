"""Plans of cuDNN: with float32 sums only, and the same ones in every run.

They are kept as cuDNN writes them, so that kernels that it makes at run time are made once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

from burnx.dtype import DTYPES
from burnx.errors import DeviceError
from burnx.runtime.devices.cuda.packages import find_versions
from burnx.runtime.devices.gpu.binaries import load_or_build
from burnx.runtime.devices.gpu.driver import Place

NAME = "cudnn"
FRONTEND = "nvidia-cudnn-frontend"
NEVER = ("REDUCED_PRECISION_REDUCTION", "WINOGRAD", "FFT", "NONDETERMINISTIC")
_PACKAGES = (FRONTEND, "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")
_TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}


def find_library() -> dict[str, str]:
    """The versions of the packages that plans need, by name; none if cudnn-frontend is not here."""
    return find_versions(*_PACKAGES)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a plan runs: the device's number, what gives the stream that is used now, and what plans depend on."""

    number: int
    stream: Callable[[], Any]
    stamp: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kind of work is put to cuDNN.

    ``word`` is what errors call it; ``describe`` makes its graph of (library, handle, what is asked for); ``notes`` says
    what its plans must not do, ``engines`` which ones are left out, by parts of their names.
    """

    word: str
    describe: Callable[[Any, Any, Any], Any]
    notes: Callable[[Any], Sequence[str]]
    engines: tuple[str, ...] = ()


@cache
def open_library(number: int) -> tuple[Any, Any]:
    """(the package, a handle) for the device ``number``, which is the current one.

    Raises: DeviceError if cuDNN does not start.
    """
    try:
        import cudnn

        return cudnn, cudnn.create_handle()
    except Exception as error:  # of several kinds, none of which the package promises
        raise DeviceError(f"cuda:{number}: cuDNN does not start: {error}") from error


def find_plan(site: Site, recipe: Recipe, asked: Any, workspace_bytes: int) -> Any:
    """The plan that is asked for (by its ``rank``), as it was kept or made anew.

    Raises: DeviceError if there is none, or it wants a larger workspace.
    """
    library, handle = open_library(site.number)

    def load(image: bytes) -> Any:
        plan = library.pygraph(handle=handle)
        try:
            plan.deserialize(handle, image)
        except Exception:  # of several kinds; another cuDNN may have written it
            return None
        return plan

    def build() -> bytes:
        return _ways_of(site.number, recipe, replace(asked, rank=0)).write(asked.rank)

    found = load_or_build(json.dumps(asdict(asked)), site.stamp, load, build)
    if found is None:
        raise DeviceError(f"cuda:{site.number}: cuDNN does not read the plan that it has written")
    needed = int(found.get_workspace_size())
    if needed > workspace_bytes:
        raise DeviceError(f"cuda:{site.number}: cuDNN wants {needed} bytes for {recipe.word}")
    return found


@dataclass(slots=True, eq=False)
class Ways:
    """cuDNN's ways of a work, the one that it holds to be the fastest first, as far as they have been asked for."""

    number: int
    word: str
    graph: Any
    built: list[int] = field(default_factory=list)
    looked_at: int = 0

    def write(self, rank: int) -> bytes:
        """A way as bytes; those that cannot be built are passed over.

        Raises: DeviceError if there are fewer.
        """
        graph = self.graph
        while len(self.built) <= rank and self.looked_at < graph.get_execution_plan_count():
            index = self.looked_at
            self.looked_at += 1
            try:
                graph.build_plan_at_index(index)
            except Exception:  # it was ruled out, or cannot be built here
                continue
            self.built.append(index)
        if len(self.built) <= rank:
            count = len(self.built)
            raise DeviceError(f"cuda:{self.number}: cuDNN knows {count} ways of {self.word}")
        graph.build_plan_at_index(self.built[rank])  # which is the one that is written
        return bytes(graph.serialize(as_bytes=True))


@lru_cache(maxsize=4)
def _ways_of(number: int, recipe: Recipe, asked: Any) -> Ways:
    """Raises: DeviceError if cuDNN has no way."""
    library, handle = open_library(number)
    try:
        graph = recipe.describe(library, handle, asked)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([library.heur_mode.A, library.heur_mode.FALLBACK])
        notes = recipe.notes(asked)
        graph.deselect_numeric_notes([getattr(library.numerical_note, each) for each in notes])
        if recipe.engines:
            graph.deselect_engines(list(recipe.engines))
    except Exception as error:  # of several kinds, none of which the package promises
        words = " ".join(str(error).split())[:300]
        raise DeviceError(f"cuda:{number}: cuDNN does not do {recipe.word}: {words}") from error
    return Ways(number, recipe.word, graph)


def open_graph(library: Any, handle: Any, given: str) -> tuple[Any, dict[str, Any]]:
    """(a graph that works in float32 on tensors of a dtype, cuDNN's names of dtypes)"""
    types = {name: getattr(library.data_type, each) for name, each in _TYPES.items()}
    graph = library.pygraph(
        io_data_type=types[given],
        intermediate_data_type=types["float32"],
        compute_data_type=types["float32"],
        handle=handle,
    )
    return graph, types


def address(place: Place, start: int, dtype: str) -> int:
    """Of the element ``start`` of what lies at a place."""
    memory, offset = place
    return int(memory.ptr) + offset + start * DTYPES[dtype].itemsize
