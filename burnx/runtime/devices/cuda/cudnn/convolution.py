"""Convolutions by cuDNN: the graph of one, and its launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from burnx.runtime.devices.cuda.cudnn.plans import (
    NEVER,
    Recipe,
    Site,
    address,
    find_plan,
    open_graph,
    open_library,
)
from burnx.runtime.devices.gpu.driver import Launch, Place
from burnx.runtime.devices.gpu.library_convolution import Convolution, Image, Stage

_INEXACT = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS")  # what multiplies float32 in TF32
IMAGE, FILTER, RESULT, OTHERS = 1, 2, 3, 4  # what tensors are called in a plan


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
    library, handle = open_library(site.number)
    plan = find_plan(site, CONVOLUTION, convolution, workspace_bytes)
    ordered = _order_filter(convolution, places, is_constant, site.stream())
    numbers = _numbers_on_device(convolution, site.stream())
    pack = _addresses(convolution, places, ordered.array, numbers)
    scratch = address(workspace, 0, "float32")
    held = places, workspace, numbers

    def launch(_: object = held) -> None:
        stream = site.stream()
        if not is_constant:
            ordered.fill(stream)
        library.set_stream(handle, stream.ptr)
        plan.execute(pack, scratch, handle=handle)

    return launch


# --- the graph --------------------------------------------------------------------------------------------------------


def describe_convolution(library: Any, handle: Any, convolution: Convolution) -> Any:
    """The graph of a convolution and what follows it."""
    graph, types = open_graph(library, handle, convolution.given)
    single = types["float32"]
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


def _notes(convolution: Convolution) -> Sequence[str]:
    exact = convolution.given == "float32" and convolution.exact
    return [*NEVER, *(_INEXACT if exact else ())]


CONVOLUTION = Recipe("a convolution", describe_convolution, _notes)


# --- memory -----------------------------------------------------------------------------------------------------------


def _addresses(
    convolution: Convolution, places: Sequence[Place], filter_: Any, numbers: Mapping[int, Any]
) -> dict[int, int]:
    """Where each tensor of a plan lies, by what it is called there."""
    image, result = convolution.image, convolution.result
    pack = {
        IMAGE: address(places[image.buffer], image.start, convolution.given),
        FILTER: int(filter_.data.ptr),
        RESULT: address(places[result.buffer], result.start, convolution.made),
    }
    for place, stage in enumerate(convolution.stages):
        if stage.image is not None:
            where = places[stage.image.buffer]
            pack[OTHERS + place] = address(where, stage.image.start, stage.dtype)
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
