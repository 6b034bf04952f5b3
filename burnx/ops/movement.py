"""Reshape, transpose, slice, concat and their kin: operators that move elements."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import int64
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T1, Count, Flag, Int64, T, Tind
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import (
    Dim,
    Undecided,
    broadcast_shapes,
    maximum,
    minimum,
    product,
    same,
    shape_text,
)
from burnx.tensor import Tensor, Undetermined
from burnx.types import TensorType, Type


def has_rank(x: Tensor) -> bool:
    """Whether the rank of a tensor is known while its operator is recorded."""
    return isinstance(x.type, TensorType) and x.type.shape is not None


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the end as one counted from the start."""
    if not -rank <= axis < rank:
        raise ShapeError(f"an axis of rank {rank} is at least {-rank} and below {rank}, not {axis}")
    return axis % rank


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Distinct axes, counted from the start."""
    found = tuple(normal_axis(int(axis), rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"axes are given once each, not {list(axes)}")
    return found


def axis_list(axes: Tensor) -> list[int]:
    """A tensor of axes as ints."""
    return [int(axis) for axis in waist.const(axes).reshape(-1)]


@operator("Identity", since=(1, 13, 14, 16, 19, 21, 23, 24, 25))
def identity(input: T) -> T:
    """The input itself.  Source: ONNX Identity-25"""
    return input


@operator("Reshape", since=(1, 5, 13, 14, 19, 21, 23, 24, 25), ranks={"shape": 1})
def reshape(data: T, shape: Int64, *, allowzero: Flag = 0) -> T:
    """The same elements under another shape: -1 is what remains, 0 keeps the size unless ``allowzero``.

    Source: ONNX Reshape-25
    """
    wanted = waist.known_dims(shape)
    if wanted is None:
        return _reshape_unknown(data, shape, allowzero)
    if allowzero and 0 in wanted and -1 in wanted:
        raise ShapeError("with allowzero, a shape has 0 or -1 but not both")
    dims: list[Dim] = list(wanted)
    for axis, dim in enumerate(wanted):
        if dim == 0 and not allowzero:
            if axis >= data.ndim:
                raise ShapeError(
                    f"a 0 in a shape keeps the size of an axis, but there is no axis {axis}"
                )
            dims[axis] = data.shape[axis]
    return waist.reshape(data, _fill_in(data.shape, dims))


def _fill_in(shape: Sequence[Dim], dims: list[Dim]) -> list[Dim]:
    """Replace the -1 of a shape by what remains."""
    places = [axis for axis, dim in enumerate(dims) if dim == -1]
    if not places:
        return dims
    if len(places) > 1:
        raise ShapeError(f"a shape has one -1 at most: {dims}")
    rest = product(dim for axis, dim in enumerate(dims) if axis != places[0])
    total = product(shape)
    if rest == 0:
        raise ShapeError(f"-1 is undetermined beside a size of 0: {shape_text(tuple(dims))}")
    if isinstance(rest, int) and isinstance(total, int) and total % rest:
        raise ShapeError(f"{total} elements do not fit {shape_text(tuple(dims))}")
    dims[places[0]] = total // rest
    return dims


def _reshape_unknown(data: Tensor, shape: Tensor, allowzero: int) -> Tensor:
    """Reshape to sizes that are only known while running."""
    (rank,) = shape.shape
    if not isinstance(rank, int):
        raise Undetermined(shape.ref, "shape")
    wide = waist.cast_to(shape, int64)
    if not allowzero:
        kept = [data.shape[axis] if axis < data.ndim else 0 for axis in range(rank)]
        wide = waist.map(
            "select", waist.map("eq", wide, waist.constant(0, int64)), waist.sizes(*kept), wide
        )
    open_axis = waist.map("eq", wide, waist.constant(-1, int64))
    rest = waist.reduce("prod", waist.map("select", open_axis, waist.constant(1, int64), wide), [0])
    remaining = waist.map("div", waist.reshape(waist.sizes(product(data.shape)), ()), rest)
    # beside a size of 0 it is undetermined; -1 is refused when it becomes a size
    nothing = waist.map("eq", rest, waist.constant(0, int64))
    remaining = waist.map("select", nothing, waist.constant(-1, int64), remaining)
    full = waist.map("select", open_axis, remaining, wide)
    return waist.reshape(data, waist.dims(full))


@reshape.upgrade(from_version=4)
def reshape_1(data: T, *, shape: Sequence[int] = (), consumed_inputs: object = None) -> T:
    """Reshape with its shape as an attribute."""
    return reshape(data, [int(n) for n in shape])


@operator("Transpose", since=(1, 13, 21, 23, 24, 25))
def transpose(data: T, *, perm: Sequence[int] | None = None) -> T:
    """Reorder the axes; reverse them without ``perm``.  Source: ONNX Transpose-25"""
    order = range(data.ndim)[::-1] if perm is None else perm
    return waist.transpose(data, order)


@operator("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25))
def flatten(input: T, *, axis: int = 1) -> T:
    """A matrix: the axes before ``axis`` as rows, the others as columns.  Source: ONNX Flatten-25"""
    rank = input.ndim
    if not -rank <= axis <= rank:
        raise ShapeError(
            f"Flatten splits rank {rank} at an axis from {-rank} to {rank}, not {axis}"
        )
    split = axis + rank if axis < 0 else axis
    return waist.reshape(input, (product(input.shape[:split]), product(input.shape[split:])))


@operator("Squeeze", since=(1, 11, 13, 21, 23, 24, 25))
def squeeze(data: T, axes: Int64 | None = None) -> T:
    """Remove axes of size 1: the given ones, or all.  Source: ONNX Squeeze-25"""
    if axes is None:
        dropped = tuple(axis for axis, dim in enumerate(waist.static_shape(data)) if dim == 1)
    else:
        dropped = normal_axes(axis_list(axes), data.ndim)
    for axis in dropped:
        if isinstance(data.shape[axis], int) and data.shape[axis] != 1:
            raise ShapeError(
                f"Squeeze removes axes of size 1, not axis {axis} of {shape_text(data.shape)}"
            )
    kept = [dim for axis, dim in enumerate(data.shape) if axis not in dropped]
    return waist.reshape(data, kept)


@squeeze.upgrade(from_version=12)
def squeeze_1(data: T, *, axes: Sequence[int] | None = None) -> T:
    """Squeeze with its axes as an attribute."""
    return squeeze(data, None if axes is None else np.array(axes, np.int64))


@operator("Unsqueeze", since=(1, 11, 13, 21, 23, 24, 25))
def unsqueeze(data: T, axes: Int64) -> T:
    """Insert axes of size 1 at these places of the result.  Source: ONNX Unsqueeze-25"""
    new = axis_list(axes)
    places = normal_axes(new, data.ndim + len(new))
    old = iter(data.shape)
    return waist.reshape(
        data, [1 if axis in places else next(old) for axis in range(data.ndim + len(new))]
    )


@unsqueeze.upgrade(from_version=12)
def unsqueeze_1(data: T, *, axes: Sequence[int] = REQUIRED) -> T:  # type: ignore[assignment]
    """Unsqueeze with its axes as an attribute."""
    return unsqueeze(data, np.array(axes, np.int64))


@operator("Shape", since=(1, 13, 15, 19, 21, 23, 24, 25))
def shape(data: T, *, start: int = 0, end: int | None = None) -> Int64:
    """The sizes of the axes from ``start`` to ``end``, clamped.  Source: ONNX Shape-25"""
    first, last, _ = builtins.slice(start, end).indices(data.ndim)
    return waist.sizes(*data.shape[first:last])


@operator("Size", since=(1, 13, 19, 21, 23, 24, 25))
def size(data: T) -> Int64:
    """The number of elements, a scalar.  Source: ONNX Size-25"""
    return waist.reshape(waist.sizes(product(data.shape)), ())


@operator("Concat", since=(1, 4, 11, 13))
def concat(*inputs: T, axis: int = REQUIRED) -> T:  # type: ignore[assignment]
    """Join along an axis.  Source: ONNX Concat-13"""
    place = normal_axis(axis, inputs[0].ndim)
    return waist.concat(list(inputs), place)


@concat.upgrade(from_version=3)
def concat_1(*inputs: T, axis: int = 1) -> T:
    """Concat whose axis has a default."""
    return concat(*inputs, axis=axis)


@operator("Expand", since=(8, 13), ranks={"shape": 1})
def expand(input: T, shape: Int64) -> T:
    """Broadcast with a shape, in both directions.  Source: ONNX Expand-13"""
    return waist.broadcast(input, broadcast_shapes(input.shape, waist.dims(shape)))


@operator("Slice", since=(1, 10, 11, 13))
def slice(
    data: T, starts: Tind, ends: Tind, axes: Tind | None = None, steps: Tind | None = None
) -> T:
    """Elements from starts to ends, counted from the end if negative and then clamped.  Source: ONNX Slice-13"""
    first, last = waist.known_dims(starts), waist.known_dims(ends)
    if first is None or last is None:
        raise Undetermined((starts if first is None else ends).ref, "value")
    chosen = range(len(first)) if axes is None else axis_list(axes)
    strides = [1] * len(first) if steps is None else axis_list(steps)
    begin: list[Dim] = [0] * data.ndim
    sizes, step = list(data.shape), [1] * data.ndim
    for place, start, end, stride in zip(
        normal_axes(list(chosen), data.ndim), first, last, strides, strict=True
    ):
        try:
            begin[place], sizes[place] = _span(start, end, stride, data.shape[place])
        except Undecided:
            raise Undetermined(data.ref, "shape") from None
        step[place] = stride
    return waist.slice_(data, begin, sizes, step)


@slice.infer
def _slice_types(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    """The rank is that of the data, however long the slices turn out to be."""
    data = inputs[0]
    assert isinstance(data, TensorType)
    return [data if data.shape is None else TensorType(data.dtype, (None,) * len(data.shape))]  # type: ignore[arg-type]


FAR = 2**31 - 1
"""By the text of Slice-13 this says the end of an axis whose size is not known."""


def _span(start: Dim, end: Dim, step: int, n: Dim) -> tuple[Dim, Dim]:
    """Where a slice starts and how many elements it has."""
    if step == 0:
        raise ShapeError("a slice has a step other than 0")
    first = _clamp(_from_start(start, n), 0, n if step > 0 else n - 1)
    is_open = step > 0 and isinstance(end, int) and end >= FAR and not isinstance(n, int)
    limits = (0, n) if step > 0 else (-1, n - 1)
    last = n if is_open else _clamp(_from_start(end, n), *limits)
    distance = last - first if step > 0 else first - last
    count = maximum(-((-distance) // _size(step)), 0)
    return (first if count != 0 else 0), count


def _size(step: int) -> int:
    return step if step > 0 else -step


def _from_start(place: Dim, n: Dim) -> Dim:
    return place + n if place < 0 else place


def _clamp(place: Dim, low: Dim, high: Dim) -> Dim:
    return minimum(maximum(place, low), high)


@slice.upgrade(from_version=9)
def slice_1(
    data: T, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> T:
    """Slice with its bounds as attributes."""
    chosen = None if axes is None else np.array(axes, np.int64)
    return slice(data, np.array(starts, np.int64), np.array(ends, np.int64), chosen)


@operator("Split", since=(1, 2, 11, 13, 18))
def split(
    input: T,
    split: Int64 | None = None,
    *,
    axis: int = 0,
    num_outputs: Count | None = None,
    outputs: int | None = None,
) -> list[T]:
    """Parts of given sizes, or ``num_outputs`` of ceil(n / num_outputs), the last of what remains.

    Source: ONNX Split-18
    """
    place = normal_axis(axis, input.ndim)
    n = input.shape[place]
    if split is not None:
        lengths = list(waist.dims(split))
    else:
        count = num_outputs or outputs
        if not count:
            raise ModelError("Split needs sizes or a number of parts")
        each = -((-n) // count)
        lengths = [maximum(minimum(each, n - each * part), 0) for part in range(count)]
    surplus: Dim = 0 if _is_whole(lengths, n) or split is None else n - sum(lengths)
    parts: list[Tensor] = []
    start: Dim = 0
    for length in lengths:
        part = waist.slice_axis(input, place, start, length + surplus)
        if surplus != 0:
            # only running tells whether something is left over, which is an error here
            part = waist.reshape(part, (*part.shape[:place], length, *part.shape[place + 1 :]))
        parts.append(part)
        start = start + length
    return parts


def _is_whole(lengths: Sequence[Dim], n: Dim) -> bool:
    """Whether the parts surely add up to the axis.

    Raises: ShapeError if they surely do not.
    """
    total: Dim = 0
    for length in lengths:
        total = total + length
    try:
        fits = same(total, n)
    except Undecided:
        return False
    if not fits:
        raise ShapeError(f"the parts of a Split add up to the axis: {list(lengths)} and {n}")
    return True


@split.upgrade(from_version=12)
def split_2(
    input: T,
    split_input: Tensor | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
    outputs: int | None = None,
) -> list[T]:
    """Split with its sizes as an attribute, or into equal parts."""
    sizes = None if split is None else np.array(split, np.int64)
    return _split(input, split_input if sizes is None else sizes, axis=axis, outputs=outputs)


@split.upgrade(from_version=17)
def split_13(
    input: T, split: Int64 | None = None, *, axis: int = 0, outputs: int | None = None
) -> list[T]:
    """Split into equal parts where no sizes are given."""
    return _split(input, split, axis=axis, outputs=outputs)


def _split(data: Tensor, sizes: object, *, axis: int, outputs: int | None) -> list[Tensor]:
    if sizes is not None:
        return split(data, sizes, axis=axis, outputs=outputs)
    count = outputs or 1
    n = data.shape[normal_axis(axis, data.ndim)] if has_rank(data) else None
    if isinstance(n, int) and n % count:
        raise ShapeError(
            f"Split before opset 18 makes equal parts, but {n} is not a multiple of {count}"
        )
    if isinstance(n, int):
        return split(data, axis=axis, num_outputs=count, outputs=count)
    each = (
        gather(shape(data), np.array([axis])) / count
    )  # running tells whether something is left over
    return split(data, expand(each, np.array([count])), axis=axis, outputs=count)


@operator("Gather", since=(1, 11, 13))
def gather(data: T, indices: Tind, *, axis: int = 0) -> T:
    """Slices of the data along an axis; negative indices count from the end.  Source: ONNX Gather-13"""
    return waist.take(data, indices, normal_axis(axis, data.ndim))


@operator("Tile", since=(1, 6, 13), ranks={"repeats": 1})
def tile(input: T, repeats: T1) -> T:
    """Repeat the whole along each axis.  Source: ONNX Tile-13"""
    times = waist.dims(repeats)
    if len(times) != input.ndim:
        raise ShapeError(f"Tile takes a count for each of {input.ndim} axes, not {len(times)}")
    paired = [dim for pair in zip([1] * input.ndim, input.shape, strict=True) for dim in pair]
    wide = [dim for pair in zip(times, input.shape, strict=True) for dim in pair]
    full = waist.broadcast(waist.reshape(input, paired), tuple(wide))
    return waist.reshape(full, [n * count for n, count in zip(input.shape, times, strict=True)])
