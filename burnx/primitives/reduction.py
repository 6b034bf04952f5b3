"""Primitives that combine many elements into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DType, bool_, compute_dtype, dtype_name, int64, is_float, is_integer
from burnx.errors import DTypeError, ShapeError
from burnx.primitives.core import Array, primitive
from burnx.shape import maximum
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class Reducer:
    """How elements are combined, and the neutral element that reducing nothing gives."""

    numpy: np.ufunc
    neutral: Callable[[DType], Any]
    symbolic: bool = False


def lowest(dtype: DType) -> Any:
    """The value that every other is at least as great as: -inf, the least integer, or False."""
    if dtype == bool_:
        return False
    return np.iinfo(dtype).min if is_integer(dtype) else -np.inf


def highest(dtype: DType) -> Any:
    """The value that every other is at most as great as: inf, the greatest integer, or True."""
    if dtype == bool_:
        return True
    return np.iinfo(dtype).max if is_integer(dtype) else np.inf


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer(np.add, lambda dtype: 0, symbolic=True),
    "prod": Reducer(np.multiply, lambda dtype: 1, symbolic=True),
    "max": Reducer(np.maximum, lowest),
    "min": Reducer(np.minimum, highest),
    "and": Reducer(np.logical_and, lambda dtype: True),
    "or": Reducer(np.logical_or, lambda dtype: False),
}


def _check(function: str, dtype: DType) -> None:
    logical = function in ("and", "or")
    if logical != (dtype == bool_) and function not in ("max", "min"):
        raise DTypeError(f"{function} does not reduce {dtype_name(dtype)}")


def _infer_reduce(x: TensorType, *, function: str, axes: tuple[int, ...]) -> TensorType:
    assert x.shape is not None
    _check(function, x.dtype)
    if len(set(axes)) != len(axes) or not all(0 <= axis < len(x.shape) for axis in axes):
        raise ShapeError(f"axes {list(axes)} are not distinct axes of rank {len(x.shape)}")
    return TensorType(x.dtype, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


@primitive("reduce", _infer_reduce, symbolic=True)
def evaluate_reduce(x: Array, *, function: str, axes: tuple[int, ...]) -> Array:
    """Combine along ``axes``, which disappear; low-precision floats accumulate in float32."""
    reducer = REDUCERS[function]
    if x.dtype == object:
        if not reducer.symbolic:
            raise TypeError(f"{function} has no meaning for sizes")
        return np.asarray(
            reducer.numpy.reduce(x, axis=axes, initial=reducer.neutral(int64)), object
        )
    wide = compute_dtype(x.dtype)
    with np.errstate(all="ignore"):
        result = reducer.numpy.reduce(
            x.astype(wide, copy=False),
            axis=axes,
            dtype=None if function in ("and", "or") else wide,
            initial=reducer.neutral(x.dtype),
        )
    return np.asarray(result).astype(x.dtype, copy=False)


def _infer_argreduce(x: TensorType, *, function: str, axis: int) -> TensorType:
    assert x.shape is not None
    return TensorType(int64, tuple(n for i, n in enumerate(x.shape) if i != axis))


@primitive("argreduce", _infer_argreduce)
def evaluate_argreduce(x: Array, *, function: str, axis: int) -> Array:
    """The position of the first greatest ("max") or least ("min") element along ``axis``; NaN wins."""
    find = np.argmax if function == "max" else np.argmin
    if x.shape[axis] == 0:
        raise ShapeError("an axis without elements has no greatest or least one")
    return np.asarray(find(x.astype(compute_dtype(x.dtype), copy=False), axis=axis), np.int64)


def _window_size(n: Any, window: Any, stride: int, dilation: int, pad: tuple[int, int]) -> Any:
    return maximum((n + pad[0] + pad[1] - dilation * (window - 1) - 1) // stride + 1, 0)


def _infer_window_reduce(
    x: TensorType,
    *,
    function: str,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> TensorType:
    assert x.shape is not None
    lead = len(x.shape) - len(window)
    if lead < 0:
        raise ShapeError(f"a window over {len(window)} axes does not fit rank {len(x.shape)}")
    sizes = zip(x.shape[lead:], window, strides, dilations, pads, strict=True)
    return TensorType(x.dtype, (*x.shape[:lead], *(_window_size(*each) for each in sizes)))


@primitive("window_reduce", _infer_window_reduce)
def evaluate_window_reduce(
    x: Array,
    *,
    function: str,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> Array:
    """Combine the elements under a window that moves over the last axes; padding is neutral.

    Shapes: (*b, *s) -> (*b, *o) with o = (s + pads - dilation * (window - 1) - 1) // stride + 1.
    """
    reducer, wide = REDUCERS[function], compute_dtype(x.dtype)
    neutral = reducer.neutral(x.dtype)
    padded = pad_last(x.astype(wide, copy=False), pads, neutral)
    sizes = zip(x.shape[x.ndim - len(window) :], window, strides, dilations, pads, strict=True)
    out = tuple(int(_window_size(*each)) for each in sizes)
    total = np.full((*x.shape[: x.ndim - len(window)], *out), neutral, wide)
    for offset in np.ndindex(*window):
        view = window_view(padded, offset, out, strides, dilations)
        reducer.numpy(total, view, out=total)
    return total.astype(x.dtype, copy=False)


def pad_last(x: Array, pads: tuple[tuple[int, int], ...], value: Any) -> Array:
    """Pad the last axes with a number; negative widths cut off."""
    lead = x.ndim - len(pads)
    crop = tuple(
        slice(max(-a, 0), max(n - max(-b, 0), 0))
        for n, (a, b) in zip(x.shape[lead:], pads, strict=True)
    )
    index: tuple[Any, ...] = (..., *crop)
    x = x[index]
    widths = [(0, 0)] * lead + [(max(a, 0), max(b, 0)) for a, b in pads]
    return np.pad(x, widths, constant_values=value) if any(map(any, widths)) else x


def window_view(
    padded: Array,
    offset: tuple[int, ...],
    out: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> Array:
    """The elements that one place of the window meets at every position."""
    index = tuple(
        slice(at * dilation, at * dilation + (size - 1) * stride + 1, stride)
        if size
        else slice(0, 0)
        for at, size, stride, dilation in zip(offset, out, strides, dilations, strict=True)
    )
    return padded[(..., *index)]


def _infer_cumulate(
    x: TensorType, *, function: str, axis: int, reverse: bool, exclusive: bool
) -> TensorType:
    _check(function, x.dtype)
    return x


@primitive("cumulate", _infer_cumulate)
def evaluate_cumulate(
    x: Array, *, function: str, axis: int, reverse: bool, exclusive: bool
) -> Array:
    """Running sums or products along ``axis``, from its end if ``reverse``, without the element if ``exclusive``."""
    reducer, wide = REDUCERS[function], compute_dtype(x.dtype)
    values = np.flip(x, axis) if reverse else x
    if exclusive:
        shape = list(x.shape)
        shape[axis] = min(1, shape[axis])
        first = np.full(shape, reducer.neutral(x.dtype), x.dtype)
        kept = values[(slice(None),) * axis + (slice(0, max(x.shape[axis] - 1, 0)),)]
        values = np.concatenate([first, kept], axis)
    with np.errstate(all="ignore"):
        result = reducer.numpy.accumulate(values.astype(wide, copy=False), axis=axis, dtype=wide)
    result = np.flip(result, axis) if reverse else result
    return result.astype(x.dtype, copy=False)


def accumulator(dtype: DType) -> DType:
    """The dtype in which products of ``dtype`` are added up."""
    return compute_dtype(dtype) if is_float(dtype) else dtype
