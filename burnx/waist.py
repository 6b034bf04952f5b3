"""The primitives as functions of tensors: what the bodies of operators are written in.

``map`` broadcasts its operands; everything else takes them as they are.  ``const``, ``static_shape`` and ``dims``
turn tensors into the Python numbers that a primitive's attributes need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from burnx.dtype import DType, int64
from burnx.errors import ShapeError
from burnx.graph import Graph
from burnx.shape import Dim, Expr, Shape, Undecided, broadcast_shapes, may_equal, same, shape_text
from burnx.tensor import AMBIENT, Array, Tensor, Undetermined, recorder_of
from burnx.types import TensorType, Type

Body = Graph | Callable[..., Sequence[Tensor]]
Pairs = Sequence[tuple[int, int]]


class Emitter(Protocol):
    """A recorder that takes primitives: the builder of a program."""

    def emit(
        self, name: str, inputs: Sequence[Tensor | None], /, **attributes: Any
    ) -> list[Tensor]: ...

    def constant(self, array: Array) -> Tensor: ...

    def fresh_size(self, size: Tensor) -> Dim: ...

    def branch(self, condition: Tensor, then: Body, otherwise: Body) -> list[Tensor]: ...

    def repeat(
        self, trips: Tensor | None, condition: Tensor | None, carried: Sequence[Tensor], body: Body
    ) -> list[Tensor]: ...


def _emitter(*tensors: Tensor | None) -> Emitter:
    return cast(Emitter, recorder_of(tensors))


def _emit(name: str, *tensors: Tensor, **attributes: Any) -> Tensor:
    return _emitter(*tensors).emit(name, tensors, **attributes)[0]


def constant(value: Any, dtype: DType | None = None) -> Tensor:
    """A constant in the program that is being built."""
    array = np.asarray(value, dtype)
    return cast(Emitter, AMBIENT.get()).constant(array)


def const(x: Tensor) -> Array:
    """The value of a tensor, which has to be known when the program is built."""
    for known in (x.ref.array, x.ref.known):
        if known is not None and not (x.dtype == int64 and known.dtype == object):
            return known
        if known is not None and all(isinstance(item, int) for item in known.flat):
            return known.astype(np.int64)
    raise Undetermined(x.ref, "value")


def is_known(x: Tensor) -> bool:
    """Whether ``const(x)`` has an answer."""
    try:
        const(x)
    except Undetermined:
        return False
    return True


def static_shape(x: Tensor) -> tuple[int, ...]:
    """The shape of a tensor as ints, which have to be known when the program is built."""
    if all(isinstance(dim, int) for dim in x.shape):
        return cast("tuple[int, ...]", x.shape)
    raise Undetermined(x.ref, "shape")


def known_dims(x: Tensor) -> tuple[Dim, ...] | None:
    """The elements of an integer vector as dimensions, if they are known."""
    known = x.ref.array if x.ref.array is not None else x.ref.known
    if known is None:
        return None
    return tuple(item if isinstance(item, Expr) else int(item) for item in known.reshape(-1))


def dims(x: Tensor) -> tuple[Dim, ...]:
    """The elements of a vector of sizes as dimensions; unknown ones become symbols bound while running."""
    known = known_dims(x)
    if known is not None:
        return known
    (length,) = x.shape
    if not isinstance(length, int):
        raise Undetermined(x.ref, "shape")
    wide = cast_to(x, int64)
    return tuple(
        _emitter(x).fresh_size(slice_(wide, (index,), (1,), (1,))) for index in range(length)
    )


def sizes(*values: Dim) -> Tensor:
    """Dimensions as an int64 vector."""
    return cast(Emitter, AMBIENT.get()).emit("sizes", (), dims=tuple(values))[0]


def map(function: str, *operands: Tensor) -> Tensor:
    """Apply a scalar function of ``primitives/scalar.py`` to operands of one dtype, broadcast together."""
    shape = broadcast_shapes(*(operand.shape for operand in operands))
    return _emit("map", *(broadcast(operand, shape) for operand in operands), function=function)


def cast_to(x: Tensor, dtype: DType, saturate: bool = True) -> Tensor:
    """Convert elements; nothing happens if they have the dtype already."""
    return x if x.dtype == dtype else _emit("cast", x, dtype=dtype, saturate=saturate)


def bitcast(x: Tensor, dtype: DType) -> Tensor:
    return _emit("bitcast", x, dtype=dtype)


def broadcast(x: Tensor, shape: Shape) -> Tensor:
    """Shapes: (*t) -> shape, aligned at the last axis."""
    return x if x.shape == tuple(shape) else _emit("broadcast", x, shape=tuple(shape))


def reshape(x: Tensor, shape: Sequence[Dim]) -> Tensor:
    return x if x.shape == tuple(shape) else _emit("reshape", x, shape=tuple(shape))


def with_size(x: Tensor, axis: int, size: Dim, rule: str) -> Tensor:
    """x, whose axis has this size by a rule of its operator; what is not known now is checked while running.

    Raises: ShapeError, with the rule, if the axis surely has another size.
    """
    place = axis % x.ndim
    if not may_equal(x.shape[place], size):
        raise ShapeError(f"{rule}, not {shape_text(x.shape)}")
    return reshape(x, [*x.shape[:place], size, *x.shape[place + 1 :]])


def is_size(x: Tensor, axis: int, size: Dim) -> bool:
    """Whether an axis has this size.

    Raises: Undetermined while that depends on sizes that are not known.
    """
    try:
        return same(x.shape[axis], size)
    except Undecided:
        raise Undetermined(x.ref, "shape") from None


def transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Output axis i is input axis perm[i]."""
    perm = tuple(int(axis) for axis in perm)
    return x if perm == tuple(range(x.ndim)) else _emit("transpose", x, perm=perm)


def slice_(
    x: Tensor, starts: Sequence[Dim], lengths: Sequence[Dim], steps: Sequence[int]
) -> Tensor:
    """``lengths[i]`` elements of axis i from ``starts[i]`` on, ``steps[i]`` apart; one of each for every axis."""
    return _emit("slice", x, starts=tuple(starts), sizes=tuple(lengths), steps=tuple(steps))


def slice_axis(x: Tensor, axis: int, start: Dim, length: Dim, step: int = 1) -> Tensor:
    """``length`` elements along one axis."""
    starts: list[Dim] = [0] * x.ndim
    lengths, steps = list(x.shape), [1] * x.ndim
    starts[axis], lengths[axis], steps[axis] = start, length, step
    return slice_(x, starts, lengths, steps)


def pad(x: Tensor, value: Tensor, low: Sequence[Dim], high: Sequence[Dim]) -> Tensor:
    """Surround with a scalar of the same dtype; negative widths cut off."""
    return _emit("pad", x, value, low=tuple(low), high=tuple(high))


def concat(tensors: Sequence[Tensor], axis: int) -> Tensor:
    return (
        tensors[0] if len(tensors) == 1 else _emit("concat", *tensors, axis=axis % tensors[0].ndim)
    )


def flip(x: Tensor, axes: Sequence[int]) -> Tensor:
    return _emit("flip", x, axes=tuple(axes)) if axes else x


def reduce(function: str, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Combine along axes, which disappear: sum, prod, max, min, and, or."""
    return _emit("reduce", x, function=function, axes=tuple(axes))


def argreduce(function: str, x: Tensor, axis: int) -> Tensor:
    """The first position of the "max" or "min" along an axis, which disappears."""
    return _emit("argreduce", x, function=function, axis=axis)


def window_reduce(
    function: str,
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Pairs,
) -> Tensor:
    """Combine under a window over the last axes; padding is neutral."""
    return _emit(
        "window_reduce",
        x,
        function=function,
        window=tuple(window),
        strides=tuple(strides),
        dilations=tuple(dilations),
        pads=tuple(tuple(pair) for pair in pads),
    )


def cumulate(
    function: str, x: Tensor, axis: int, reverse: bool = False, exclusive: bool = False
) -> Tensor:
    return _emit("cumulate", x, function=function, axis=axis, reverse=reverse, exclusive=exclusive)


def contract(
    left: Tensor,
    right: Tensor,
    batch: tuple[Sequence[int], Sequence[int]],
    sum_over: tuple[Sequence[int], Sequence[int]],
    dtype: DType | None = None,
) -> Tensor:
    """Shapes: batch axes, free axes of left, free axes of right."""
    return _emit(
        "contract",
        left,
        right,
        batch=(tuple(batch[0]), tuple(batch[1])),
        sum_over=(tuple(sum_over[0]), tuple(sum_over[1])),
        dtype=dtype or left.dtype,
    )


def conv(
    x: Tensor,
    w: Tensor,
    strides: Sequence[int],
    pads: Pairs,
    dilations: Sequence[int],
    spread: Sequence[int] | None = None,
    groups: int = 1,
    dtype: DType | None = None,
) -> Tensor:
    """Correlation of channels-first data; ``spread`` puts zeros between the elements of x first."""
    return _emit(
        "conv",
        x,
        w,
        strides=tuple(strides),
        pads=tuple(tuple(pair) for pair in pads),
        dilations=tuple(dilations),
        spread=tuple(spread or [1] * len(strides)),
        groups=groups,
        dtype=dtype or x.dtype,
    )


def take(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Shapes: (*a, n, *b), (*i) -> (*a, *i, *b)."""
    return _emit("take", x, indices, axis=axis)


def take_along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    return _emit("take_along", x, indices, axis=axis)


def gather_nd(x: Tensor, indices: Tensor, batch: int = 0) -> Tensor:
    return _emit("gather_nd", x, indices, batch=batch)


def scatter_along(x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str) -> Tensor:
    return _emit("scatter_along", x, indices, updates, axis=axis, reduction=reduction)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none") -> Tensor:
    return _emit("scatter_nd", x, indices, updates, reduction=reduction)


def nonzero(x: Tensor) -> Tensor:
    """Shapes: (*s) -> (rank, n)."""
    return _emit("nonzero", x)


def sort(x: Tensor, axis: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Values in order, and where they stood."""
    values, order = _emitter(x).emit("sort", (x,), axis=axis, descending=descending)
    return values, order


def iota(size: Dim, dtype: DType = int64) -> Tensor:
    """0, 1, … size - 1."""
    return cast(Emitter, AMBIENT.get()).emit("iota", (), size=size, dtype=dtype)[0]


def draw_key(seed: float | None) -> Tensor:
    """What random numbers are drawn with, two words of uint32: without a seed other ones in every call."""
    return cast(Emitter, AMBIENT.get()).emit("draw_key", (), seed=seed)[0]


def host(
    name: str, function: Callable[..., Any], inputs: Sequence[Tensor | None], types: Sequence[Type]
) -> list[Tensor]:
    """Call Python on the values: for what no device computes.  A size of None in ``types`` depends on the data."""
    return _emitter(*inputs).emit("host", inputs, function=function, types=tuple(types), name=name)


def branch(condition: Tensor, then: Body, otherwise: Body) -> list[Tensor]:
    """Run one of two bodies without parameters."""
    return _emitter(condition).branch(condition, then, otherwise)


def repeat(
    trips: Tensor | None, condition: Tensor | None, carried: Sequence[Tensor], body: Body
) -> list[Tensor]:
    """Run ``body(iteration, condition, *carried) -> (condition, *carried, *items)`` again and again.

    Gives the carried values after the last time, then each item stacked along a new first axis.
    """
    return _emitter(trips, condition, *carried).repeat(trips, condition, carried, body)


def tensor_type(x: Tensor) -> TensorType:
    return cast(TensorType, x.type)


def inline(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Run a graph in place, as part of what is being built."""
    return cast(Any, AMBIENT.get()).run_graph(graph, inputs)


def inline_whole(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Run a graph in place; if any of it needs to know more, all of what is being built has to wait."""
    return cast(Any, AMBIENT.get()).run_whole(graph, inputs)
