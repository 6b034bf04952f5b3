"""Reading and writing at positions: the gather and scatter operators."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import int64, string
from burnx.errors import ModelError, ShapeError, UnsupportedError
from burnx.ops.kinds import Int64, T, Tind
from burnx.ops.movement import normal_axis
from burnx.ops.operator import operator
from burnx.shape import Undecided, same, shape_text
from burnx.tensor import Tensor, Undetermined

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ModelError(f"a scatter combines by one of {_REDUCTIONS}, not {reduction!r}")


def _need_product(data: Tensor, reduction: str) -> None:
    if reduction == "mul" and data.dtype == string:
        raise UnsupportedError("a scatter of strings does not multiply")


def _need_index_length(indices: Tensor) -> None:
    if not indices.ndim:
        raise ShapeError("index tuples are a tensor of rank 1 or more")
    if not isinstance(indices.shape[-1], int):
        raise Undetermined(indices.ref, "shape")


@operator("GatherElements", since=(11, 13))
def gather_elements(data: T, indices: Tind, *, axis: int = 0) -> T:
    """out[i, j, k] = data[indices[i, j, k], j, k] for axis 0, and so on.  Source: ONNX GatherElements-13"""
    return waist.take_along(data, indices, normal_axis(axis, data.ndim))


@operator("GatherND", since=(11, 12, 13))
def gather_nd(data: T, indices: Int64, *, batch_dims: int = 0) -> T:
    """Slices of the data at index tuples, side by side for the first ``batch_dims`` axes.

    Shapes: (*b, *s), (*b, *i, d) -> (*b, *i, *s[d:]).
    Source: ONNX GatherND-13
    """
    _need_index_length(indices)
    if not 0 <= batch_dims < min(data.ndim, indices.ndim):
        raise ShapeError(
            f"GatherND shares axes before the last one: {batch_dims} of {shape_text(data.shape)}"
            f" and {shape_text(indices.shape)}"
        )
    return waist.gather_nd(data, indices, batch_dims)


@operator("ScatterElements", since=(11, 13, 16, 18))
def scatter_elements(
    data: T, indices: Tind, updates: T, *, axis: int = 0, reduction: str = "none"
) -> T:
    """A copy of the data with updates written, or combined, where GatherElements would read.

    Source: ONNX ScatterElements-18
    """
    _check_reduction(reduction)
    _need_product(data, reduction)
    if indices.ndim != data.ndim:
        raise ShapeError(f"indices have the rank of the data, {data.ndim}, not {indices.ndim}")
    place = normal_axis(axis, data.ndim)
    return waist.scatter_along(data, indices, updates, place, reduction)


_TEXTS = "strings have no product"
scatter_elements.limit(_TEXTS, r"^gen_ScatterElements_.*_mul_T_string$")


@operator("Scatter", since=(9, 11))
def scatter(data: T, indices: Tind, updates: T, *, axis: int = 0) -> T:
    """The old name of ScatterElements.  Source: ONNX Scatter-9"""
    return scatter_elements(data, indices, updates, axis=axis)


@operator("ScatterND", since=(11, 13, 16, 18))
def scatter_nd(data: T, indices: Int64, updates: T, *, reduction: str = "none") -> T:
    """A copy of the data with slices written, or combined, at index tuples.

    Shapes: (*s), (*i, d), (*i, *s[d:]) -> (*s).
    Source: ONNX ScatterND-18
    """
    _check_reduction(reduction)
    _need_product(data, reduction)
    _need_index_length(indices)
    return waist.scatter_nd(data, indices, updates, reduction)


scatter_nd.limit(_TEXTS, r"^gen_ScatterND_.*_mul_T_string$")


@operator("TensorScatter", since=(24,))
def tensor_scatter(
    past_cache: T,
    update: T,
    write_indices: Int64 | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> T:
    """A copy of a cache with the update written along ``axis`` from the write index of each batch on.

    Source: ONNX TensorScatter-24
    """
    if mode not in ("linear", "circular"):
        raise ModelError(f'TensorScatter writes "linear" or "circular", not "{mode}"')
    rank = past_cache.ndim
    place = normal_axis(axis, rank)
    if place == 0:
        raise ShapeError("TensorScatter writes along an axis that is not the batch")
    _check_cache(past_cache, update, place)
    steps = waist.reshape(
        waist.iota(update.shape[place]),
        [update.shape[place] if axis == place else 1 for axis in range(rank)],
    )
    positions = steps
    if write_indices is not None:
        first = waist.reshape(write_indices, [update.shape[0]] + [1] * (rank - 1))
        positions = waist.map("add", first, steps)
    if mode == "circular":
        length = waist.reshape(waist.sizes(past_cache.shape[place]), ())
        positions = waist.map("floor_mod", positions, length)
    return waist.scatter_along(
        past_cache,
        waist.broadcast(waist.cast_to(positions, int64), update.shape),
        update,
        place,
        "none",
    )


def _check_cache(cache: Tensor, update: Tensor, place: int) -> None:
    apart = cache.ndim != update.ndim
    for axis, (have, new) in enumerate(zip(cache.shape, update.shape, strict=False)):
        if axis == place:
            continue
        try:
            apart = apart or not same(have, new)
        except Undecided:
            continue
    if apart:
        raise ShapeError(
            f"an update has the sizes of its cache but along axis {place}: "
            f"{shape_text(update.shape)} and {shape_text(cache.shape)}"
        )
