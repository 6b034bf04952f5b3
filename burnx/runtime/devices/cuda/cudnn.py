"""Convolutions by cuDNN, through NVIDIA's cudnn-frontend: with float32 sums only, and the same ones in every run.

Plans are kept as cuDNN writes them, so that kernels that it makes at run time are made once.

Source: NVIDIA cuDNN 9, "Graph API"; cudnn-frontend 1.32, its Python package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from burnx.dtype import DTYPES
from burnx.errors import DeviceError
from burnx.runtime.devices.gpu.binaries import load_or_build
from burnx.runtime.devices.gpu.driver import Launch, Place
from burnx.runtime.devices.gpu.library_convolution import Convolution, Image, Stage

NAME = "cudnn"
FRONTEND = "nvidia-cudnn-frontend"
_PACKAGES = (FRONTEND, "nvidia-cudnn-cu13", "nvidia-cudnn-cu12")
_TYPES = {"float32": "FLOAT", "float16": "HALF", "bfloat16": "BFLOAT16"}
_NEVER = ("REDUCED_PRECISION_REDUCTION", "WINOGRAD", "FFT", "NONDETERMINISTIC")
_INEXACT = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS")  # what multiplies float32 in TF32
IMAGE, FILTER, RESULT, OTHERS = 1, 2, 3, 4  # what tensors are called in a plan


def find_library() -> dict[str, str]:
    """The versions of the packages that convolutions need, by name; none if cudnn-frontend is not here."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found if FRONTEND in found else {}


@dataclass(frozen=True, slots=True)
class Site:
    """Where a convolution runs: the device's number, what gives the stream that is used now, and what plans depend on."""

    number: int
    stream: Callable[[], Any]
    stamp: Mapping[str, str]


@cache
def _open(number: int) -> tuple[Any, Any]:
    """(the package, a handle) for the device ``number``, which is the current one.

    Raises: DeviceError if cuDNN does not start.
    """
    try:
        import cudnn

        return cudnn, cudnn.create_handle()
    except Exception as error:  # of several kinds, none of which the package promises
        raise DeviceError(f"cuda:{number}: cuDNN does not start: {error}") from error


def bind_convolution(
    site: Site,
    known: tuple[Convolution, bool],
    places: Sequence[Place],
    workspace: Place,
    workspace_bytes: int,
) -> Launch:
    """A launch of a convolution; with its filter a constant, that is put in cuDNN's order once, else before each one.

    Raises: DeviceError if cuDNN does not do it, or knows fewer ways than the one that is asked for.
    """
    convolution, is_constant = known
    library, handle = _open(site.number)
    plan = _find_plan(site, convolution)
    needed = int(plan.get_workspace_size())
    if needed > workspace_bytes:
        raise DeviceError(f"cuda:{site.number}: cuDNN wants {needed} bytes for a convolution")
    ordered = _order_filter(convolution, places, is_constant, site.stream())
    numbers = _numbers_on_device(convolution, site.stream())
    pack = _addresses(convolution, places, ordered.array, numbers)
    scratch = _address(workspace, 0, "float32")
    held = places, workspace, numbers

    def launch(_: object = held) -> None:
        stream = site.stream()
        if not is_constant:
            ordered.fill(stream)
        library.set_stream(handle, stream.ptr)
        plan.execute(pack, scratch, handle=handle)

    return launch


# --- plans ------------------------------------------------------------------------------------------------------------


def _find_plan(site: Site, convolution: Convolution) -> Any:
    """The plan that is asked for, as it was kept or made anew.

    Raises: DeviceError if there is none.
    """
    library, handle = _open(site.number)

    def load(image: bytes) -> Any:
        plan = library.pygraph(handle=handle)
        try:
            plan.deserialize(handle, image)
        except Exception:  # of several kinds; another cuDNN may have written it
            return None
        return plan

    def build() -> bytes:
        first = replace(convolution, rank=0)
        return _plans_of(site.number, first).write(convolution.rank)

    found = load_or_build(json.dumps(asdict(convolution)), site.stamp, load, build)
    if found is None:
        raise DeviceError(f"cuda:{site.number}: cuDNN does not read the plan that it has written")
    return found


@dataclass(slots=True, eq=False)
class _Plans:
    """cuDNN's ways of a convolution, the one that it holds to be the fastest first, as far as they have been asked for."""

    number: int
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
            raise DeviceError(f"cuda:{self.number}: cuDNN knows {count} ways of a convolution")
        graph.build_plan_at_index(self.built[rank])  # which is the one that is written
        return bytes(graph.serialize(as_bytes=True))


@lru_cache(maxsize=4)
def _plans_of(number: int, convolution: Convolution) -> _Plans:
    """Raises: DeviceError if cuDNN has no way."""
    library, handle = _open(number)
    try:
        graph = _describe(library, handle, convolution)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([library.heur_mode.A, library.heur_mode.FALLBACK])
        exact = convolution.given == "float32" and convolution.exact
        notes = [*_NEVER, *(_INEXACT if exact else ())]
        graph.deselect_numeric_notes([getattr(library.numerical_note, each) for each in notes])
    except Exception as error:  # of several kinds, none of which the package promises
        words = " ".join(str(error).split())[:300]
        raise DeviceError(f"cuda:{number}: cuDNN does not do a convolution: {words}") from error
    return _Plans(number, graph)


def _describe(library: Any, handle: Any, convolution: Convolution) -> Any:
    """The graph of a convolution and what follows it."""
    single = library.data_type.FLOAT
    types = {name: getattr(library.data_type, each) for name, each in _TYPES.items()}
    graph = library.pygraph(
        io_data_type=types[convolution.given],
        intermediate_data_type=single,
        compute_data_type=single,
        handle=handle,
    )
    image = [convolution.pictures, convolution.groups * convolution.channels, *convolution.size]
    given = types[convolution.given]
    x = graph.tensor(
        dim=image, stride=_strides(convolution.image), data_type=given, name="image", uid=IMAGE
    )
    w = graph.tensor(
        dim=_filter_extents(convolution),
        stride=_filter_strides(convolution),
        data_type=given,
        name="filter",
        uid=FILTER,
    )
    y = graph.conv_fprop(
        image=x,
        weight=w,
        pre_padding=[0, 0],
        post_padding=[0, 0],
        stride=list(convolution.strides),
        dilation=list(convolution.dilations),
        compute_data_type=single,
    )
    y.set_data_type(single)
    for place, stage in enumerate(convolution.stages):
        y = _follow(library, graph, y, (convolution, stage, OTHERS + place, types))
    y.set_output(True).set_data_type(types[convolution.made]).set_uid(RESULT)
    y.set_dim(_result_extents(convolution)).set_stride(_strides(convolution.result))
    return graph


def _follow(library: Any, graph: Any, y: Any, told: tuple[Convolution, Stage, int, Any]) -> Any:
    """A stage behind what there is so far."""
    convolution, stage, uid, types = told
    single = types["float32"]
    if stage.kind == "round":
        return y.set_data_type(types[stage.dtype])
    if stage.image is not None:
        bias = not any(stage.image.steps)
        extents = _result_extents(convolution)
        z = graph.tensor(
            dim=[1, extents[1], 1, 1] if bias else extents,
            stride=[extents[1], 1, extents[1], extents[1]] if bias else _strides(stage.image),
            data_type=types[stage.dtype],
            name=f"added{uid}",
            uid=uid,
        )
        return graph.add(a=y, b=z).set_data_type(single)
    number = graph.tensor(
        dim=[1, 1, 1, 1], stride=[1, 1, 1, 1], data_type=single, name=f"number{uid}", uid=uid
    )
    # Neither is true of NaN; what cuDNN's own ReLU makes of that depends on the engine.
    compare = graph.cmp_lt if stage.kind == "max" else graph.cmp_gt
    beyond = compare(input=y, comparison=number).set_data_type(library.data_type.BOOLEAN)
    return graph.binary_select(input0=number, input1=y, mask=beyond).set_data_type(single)


def _strides(image: Image) -> list[int]:
    picture, row, column = image.steps
    return [picture or 1, 1, row or 1, column or 1]


def _result_extents(convolution: Convolution) -> list[int]:
    kernels = convolution.groups * convolution.kernels
    return [convolution.pictures, kernels, *convolution.out]


def _filter_extents(convolution: Convolution) -> list[int]:
    kernels = convolution.groups * convolution.kernels
    return [kernels, convolution.channels, *convolution.window]


def _filter_strides(convolution: Convolution) -> list[int]:
    channels, (rows, columns) = convolution.channels, convolution.window
    return [rows * columns * channels, 1, columns * channels, channels]


# --- memory -----------------------------------------------------------------------------------------------------------


def _address(place: Place, start: int, dtype: str) -> int:
    memory, offset = place
    return int(memory.ptr) + offset + start * DTYPES[dtype].itemsize


def _addresses(
    convolution: Convolution, places: Sequence[Place], filter_: Any, numbers: Mapping[int, Any]
) -> dict[int, int]:
    """Where each tensor of a plan lies, by what it is called there."""
    image, result = convolution.image, convolution.result
    pack = {
        IMAGE: _address(places[image.buffer], image.start, convolution.given),
        FILTER: int(filter_.data.ptr),
        RESULT: _address(places[result.buffer], result.start, convolution.made),
    }
    for place, stage in enumerate(convolution.stages):
        if stage.image is not None:
            where = places[stage.image.buffer]
            pack[OTHERS + place] = _address(where, stage.image.start, stage.dtype)
    return pack | {OTHERS + place: int(each.data.ptr) for place, each in numbers.items()}


def _numbers_on_device(convolution: Convolution, stream: Any) -> dict[int, Any]:
    """The numbers of stages that are read from memory, by the stages' places."""
    import cupy

    with stream:
        return {
            place: cupy.full(1, stage.number, np.float32)
            for place, stage in enumerate(convolution.stages)
            if stage.kind in ("max", "min")
        }


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Ordered:
    """A filter in cuDNN's order (kernel, row, column, channel), and the memory that it comes from."""

    source: Any
    array: Any

    def fill(self, stream: Any) -> None:
        import cupy

        with stream:
            cupy.copyto(self.array, self.source)


_ORDERED: WeakValueDictionary[Any, _Ordered] = WeakValueDictionary()  # of constants


def _order_filter(
    convolution: Convolution, places: Sequence[Place], is_constant: bool, stream: Any
) -> _Ordered:
    """A filter in cuDNN's order; plans that are made of one constant share it."""
    import cupy

    buffer, start, steps = convolution.filter
    memory, offset = places[buffer]
    group, kernel, row, column, channel = steps
    extents = (convolution.groups, convolution.kernels, *convolution.window, convolution.channels)
    key = (int(memory.ptr) + offset, start, extents, steps, convolution.given)
    found = _ORDERED.get(key) if is_constant else None
    if found is not None:
        return found
    bits = np.dtype(np.uint32 if convolution.given == "float32" else np.uint16)
    strides = [each * bits.itemsize for each in (group, kernel, row, column, channel)]
    source = cupy.ndarray(extents, bits, memory + (offset + start * bits.itemsize), strides)
    with stream:
        made = _Ordered(source, cupy.empty(extents, bits))
    made.fill(stream)
    if is_constant:
        _ORDERED[key] = made
    return made
