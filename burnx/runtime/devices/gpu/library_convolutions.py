"""Which kernels a library's convolution can stand for.

As with products, a library is only asked for what has one meaning, NaN included: sums, what is added to them, the larger
or smaller of that and a number, and where it is rounded on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from burnx.dtype import DType, dtype_name, float32
from burnx.gpu.tiles_product import Product, product_of
from burnx.kernels.ir import Apply, Cast, Constant, Kernel, Load, Local, Store, Value
from burnx.runtime.devices.gpu.library_convolution import Convolution, Image, Pair, Stage
from burnx.runtime.devices.gpu.library_products import (
    GIVEN,
    MOST_BYTES,
    Walk,
    find_walk,
    is_simple_rest,
    join_loops,
    turns_of,
)
from burnx.shape import evaluate

Sizes = Mapping[str, int]


def whole_convolution(kernel: Kernel, sizes: Sizes) -> Convolution | None:
    """A kernel as one convolution that writes its result; None if what it does is no library's to do."""
    found = product_of(kernel)
    if found is None or len(found.contract.body) != 1:
        return None
    store = found.contract.body[0]
    if not isinstance(store, Store) or store.combine:
        return None
    stages = _stages(store.value, found.contract.name, store.buffer.dtype)
    if stages is None or _is_better_parted(found, stages):
        return None
    things: list[Load | Store] = [store, *(load for _, load, _, _ in stages if load is not None)]
    ends = [_walk_end(found, each, sizes) for each in things]
    made = _convolution(kernel, found, sizes, ends)
    if made is None:
        return None
    convolution, images = made
    buffers = [kernel.buffers.index(each.buffer) for each in things]
    placed = [replace(each, buffer=one) for each, one in zip(images, buffers, strict=True)]
    others = iter(placed[1:])
    listed = tuple(
        Stage(kind, dtype_name(dtype), next(others) if load is not None else None, number)
        for kind, load, dtype, number in stages
    )
    name = dtype_name(store.buffer.dtype)
    return replace(convolution, made=name, result=placed[0], stages=listed)


def parted_convolution(kernel: Kernel, sizes: Sizes) -> Convolution | None:
    """A kernel's sums alone, in float32, as ``library_products.rest_of`` reads them; of halves no library makes these."""
    found = product_of(kernel)
    if found is None or found.contract.left.dtype != float32 or not is_simple_rest(found):
        return None
    turns, columns = turns_of(found, sizes), evaluate(found.columns, sizes)
    steps = [math.prod(turns[place + 1 :]) * columns for place in range(len(turns))]
    size = math.prod(turns) * columns * 4
    made = _convolution(kernel, found, sizes, [Walk(0, tuple(steps), 1)])
    if made is None or size > MOST_BYTES or made[0].groups > 1:
        return None
    result = replace(made[1][0], buffer=len(kernel.buffers))
    return replace(made[0], result=result, temporary_bytes=size)


def _is_better_parted(found: Product, stages: Sequence[_Stage]) -> bool:
    """Whether stages are left to burnx: with exact float32 cuDNN has but its own ReLU, which may lose NaN."""
    return found.contract.left.dtype == float32 and any(kind != "add" for kind, *_ in stages)


# --- what follows -----------------------------------------------------------------------------------------------------

_Stage = tuple[str, Load | None, DType, float]


def _stages(value: Value, name: str, made: DType) -> list[_Stage] | None:
    """What happens to a sum until it is stored in a dtype; None if a library would do something else."""
    if made != float32:
        if not isinstance(value, Cast) or value.dtype != made or value.bits:
            return None
        value = value.value
    found: list[_Stage] = []
    while not isinstance(value, Local):
        step = _step(value, made)
        if step is None:
            return None
        stage, value = step
        found.append(stage)
    return _without_last_round(found[::-1], made) if value.name == name else None


def _without_last_round(stages: list[_Stage], made: DType) -> list[_Stage]:
    """The same without rounding once more what is rounded when it is stored: numbers that are exact change none of it."""
    place = len(stages) - 1
    while place >= 0 and stages[place][0] in ("max", "min") and _is_exact(stages[place][3], made):
        place -= 1
    if place < 0 or stages[place][0] != "round":
        return stages
    return [*stages[:place], *stages[place + 1 :]]


def _is_exact(number: float, dtype: DType) -> bool:
    return float(np.float32(number).astype(dtype)) == number


def _step(value: Value, made: DType) -> tuple[_Stage, Value] | None:
    """(the last thing that happens in a value, to what)"""
    if isinstance(value, Cast):
        inner = value.value
        if value.dtype != float32 or value.bits or not isinstance(inner, Cast):
            return None
        whole = inner.dtype == made and not inner.bits and inner.value.dtype == float32
        return (("round", None, made, 0.0), inner.value) if whole else None
    if not isinstance(value, Apply) or value.dtype != float32 or len(value.arguments) != 2:
        return None
    one, two = value.arguments
    if value.function in ("max", "min"):
        if isinstance(one, Constant):
            one, two = two, one
        if not isinstance(two, Constant) or not math.isfinite(two.value):
            return None
        return (value.function, None, float32, float(two.value)), one
    if value.function == "add":
        for term, rest in ((one, two), (two, one)):
            load = term.value if isinstance(term, Cast) and not term.bits else term
            if isinstance(load, Load) and load.dtype in (made, float32):
                return ("add", load, load.dtype, 0.0), rest
    return None


# --- how it is walked -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that takes turns: the steps of the image, the filter and the ends."""

    turns: int
    image: int
    filter: int
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Axis:
    """One direction of an image: elements from place to place, places that there are, and how a window moves."""

    unit: int
    size: int
    out: int
    window: int
    stride: int
    dilation: int
    filter: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Loops:
    """How image and filter are walked, and the loops outside and inside of the sums that take turns."""

    left: Walk
    right: Walk
    outside: list[_Loop]
    inside: list[_Loop]


_ONCE = _Loop(1, 0, 0)
PARTS = 8  # the most that strides and dilations down have in common


def _walk_end(found: Product, end: Load | Store, sizes: Sizes) -> Walk | None:
    names = [name for name, _ in (*found.outer, *found.contract.rows)]
    return find_walk(end.index, names, found.contract.column[0], (), sizes)


def _convolution(
    kernel: Kernel, found: Product, sizes: Sizes, ends: Sequence[Walk | None]
) -> tuple[Convolution, list[Image]] | None:
    """The convolution without what follows, and the images of its ends, of which buffers are not said yet."""
    contract = found.contract
    given = contract.left.dtype
    walks = [each for each in ends if each is not None]
    if given not in GIVEN or contract.right.dtype != given or contract.dtype != float32:
        return None
    if len(walks) < len(ends) or any(each.column != 1 for each in walks):
        return None
    loops = _loops(found, sizes, walks)
    parts = None if loops is None else _parts(loops, evaluate(found.columns, sizes))
    if loops is None or parts is None:
        return None
    batch, group, channels, (down, across) = parts
    if loops.left.start == 0:
        high, wide = _full(batch, down, across)
        down, across = _sized(down, high), _sized(across, wide)
    buffers = [kernel.buffers.index(each.buffer) for each in (contract.left, contract.right)]
    steps = (group.filter, loops.right.column, down.filter, across.filter, channels.filter)
    made = Convolution(
        given=dtype_name(given),
        made="float32",
        pictures=batch.turns,
        groups=group.turns,
        channels=channels.turns,
        kernels=evaluate(found.columns, sizes),
        size=(down.size, across.size),
        out=(down.out, across.out),
        window=(down.window, across.window),
        strides=(down.stride, across.stride),
        dilations=(down.dilation, across.dilation),
        image=Image(buffers[0], loops.left.start, (batch.image, down.unit, across.unit)),
        filter=(buffers[1], loops.right.start, steps),
        result=Image(0, 0, (0, 0, 0)),
    )
    images = [
        Image(0, walk.start, (_at(batch, place), _at(down, place), _at(across, place)))
        for place, walk in enumerate(walks)
    ]
    image = _packed(made.image, made.pictures, made.size, made.groups * made.channels)
    packed = [_packed(each, made.pictures, made.out, made.groups * made.kernels) for each in images]
    kept = [each for each in packed if each is not None]
    if image is None or len(kept) < len(images):
        return None
    return replace(made, image=image), kept


def _packed(image: Image, pictures: int, size: Pair, channels: int) -> Image | None:
    """An image without gaps, steps of extents of 1 as if they were more; None if it has gaps or is no image.

    cuDNN takes others, but not all of its engines mean what is asked.
    """
    if not any(image.steps):
        return image  # the same row of channels everywhere
    row = size[1] * channels
    steps = size[0] * row, row, channels
    extents = pictures, *size
    found = zip(extents, image.steps, steps, strict=True)
    fits = all(extent == 1 or step == wanted for extent, step, wanted in found)
    return replace(image, steps=steps) if fits else None


def _parts(loops: _Loops, columns: int) -> tuple[_Loop, _Loop, _Loop, tuple[_Axis, _Axis]] | None:
    """(pictures, groups, channels, the axes down and across); None if the loops are other ones."""
    channels = next((each for each in loops.inside if each.image == 1), _Loop(1, 1, 1))
    window = [each for each in loops.inside if each is not channels]
    groups = [each for each in loops.outside if each.filter]
    places = [each for each in loops.outside if not each.filter]
    if len(groups) > 1 or len(window) > 2 or not places or columns == 0:
        return None
    group = groups[0] if groups else _ONCE
    apart = groups and (
        group.image != channels.turns or any(each != columns for each in group.ends)
    )
    axes = None if apart else _axes(places, window, group.turns * channels.turns)
    return None if axes is None else (axes[0], group, channels, axes[1])


def _at(loop: _Loop | _Axis, place: int) -> int:
    return loop.ends[place] if loop.ends else 0


def _loops(found: Product, sizes: Sizes, ends: Sequence[Walk]) -> _Loops | None:
    contract = found.contract
    names = [name for name, _ in (*found.outer, *contract.rows)]
    inner, column = [name for name, _ in contract.inner], contract.column[0]
    left = find_walk(contract.left.index, names, column, inner, sizes)
    right = find_walk(contract.right.index, names, column, inner, sizes)
    turns = turns_of(found, sizes)
    extents = [evaluate(extent, sizes) for _, extent in contract.inner]
    if left is None or right is None or 0 in turns or 0 in extents:
        return None
    outside = [
        _Loop(count, left.loops[place], right.loops[place], tuple(w.loops[place] for w in ends))
        for place, count in enumerate(turns)
        if count > 1
    ]
    inside = [
        _Loop(count, left.inner[place], right.inner[place])
        for place, count in enumerate(extents)
        if count > 1
    ]
    return _Loops(left, right, outside, inside)


def _axes(
    places: Sequence[_Loop], window: Sequence[_Loop], channels: int
) -> tuple[_Loop, tuple[_Axis, _Axis]] | None:
    """(the loop of pictures, the axes down and across); None if there are more."""
    rows = [*[_ONCE] * (2 - len(places)), *places][-2:]
    before = places[:-2]
    joined = join_loops(
        [each.turns for each in before], [(each.image, *each.ends) for each in before]
    )
    if len(joined) > 1:
        return None
    batch = _ONCE
    if joined:
        batch = _Loop(joined[0].turns, joined[0].steps[0], 0, joined[0].steps[1:])
    steps = [*[_ONCE] * (2 - len(window)), *window]
    if len(window) == 1 and window[0].image >= rows[1].turns * rows[1].image > 0:
        steps.reverse()  # it goes down
    across = _axis(rows[1], steps[1], channels)
    down = _axis(rows[0], steps[0], _pitch(rows[0], steps[0], across))
    if min(across.unit, down.unit, across.stride, down.stride) < 1 or batch.image < 0:
        return None
    return batch, (down, across)


def _pitch(row: _Loop, step: _Loop, across: _Axis) -> int:
    """Elements from one row of an image to the next: what both loops step by, or a part of it that holds a row well."""
    both = math.gcd(*(each.image for each in (row, step) if each.turns > 1))
    parts = [both // each for each in range(1, PARTS + 1) if both % (each * across.unit) == 0]
    return next((each for each in parts if _fits(across, each // across.unit)), both)


def _axis(row: _Loop, step: _Loop, unit: int) -> _Axis:
    """An axis of a row loop and a window's; ``unit`` is the step that is likely, from one place to the next."""
    steps = [each.image for each in (row, step) if each.turns > 1]
    unit = max(unit, 1)
    if any(each % unit for each in steps):
        unit = max(math.gcd(*steps), 1)
    stride = row.image // unit if row.turns > 1 else 1
    dilation = step.image // unit if step.turns > 1 else 1
    size = (row.turns - 1) * stride + (step.turns - 1) * dilation + 1
    return _Axis(unit, size, row.turns, step.turns, stride, dilation, step.filter, row.ends)


def _full(batch: _Loop, down: _Axis, across: _Axis) -> tuple[int, int]:
    """The image's whole size, as its steps say it."""
    high = batch.image // down.unit if batch.turns > 1 and batch.image % down.unit == 0 else 0
    return high, down.unit // across.unit if down.unit % across.unit == 0 else 0


def _sized(axis: _Axis, full: int) -> _Axis:
    """An axis with all of its places, if as many results come of them."""
    return replace(axis, size=full) if _fits(axis, full) else axis


def _fits(axis: _Axis, full: int) -> bool:
    last = full - axis.dilation * (axis.window - 1) - 1
    return full >= axis.size and last // axis.stride + 1 == axis.out
