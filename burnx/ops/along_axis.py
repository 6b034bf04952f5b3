"""Operators along one axis: the place of an extreme, running sums and products, softmax."""

from __future__ import annotations

from burnx import waist
from burnx.errors import ShapeError
from burnx.ops.kinds import T2, Flag, Int64, T
from burnx.ops.movement import axis_list, flatten, has_rank, normal_axis, reshape, shape
from burnx.ops.operator import Operator, operator
from burnx.ops.precision import widen
from burnx.ops.reduction import fold_axes
from burnx.tensor import Tensor, Undetermined


def _place_of(function: str, data: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    place = normal_axis(axis, data.ndim)
    if last:
        found = waist.argreduce(function, waist.flip(data, [place]), place)
        end = waist.reshape(waist.sizes(data.shape[place] - 1), ())
        found = waist.map("sub", end, found)
    else:
        found = waist.argreduce(function, data, place)
    kept = [1 if i == place else n for i, n in enumerate(data.shape)]
    return waist.reshape(found, kept) if keepdims else found


@operator("ArgMax", since=(1, 11, 12, 13))
def arg_max(data: T, *, axis: int = 0, keepdims: Flag = 1, select_last_index: Flag = 0) -> Int64:
    """The place of the greatest element along an axis; NaN wins.  Source: ONNX ArgMax-13"""
    return _place_of("max", data, axis, keepdims, select_last_index)


@operator("ArgMin", since=(1, 11, 12, 13))
def arg_min(data: T, *, axis: int = 0, keepdims: Flag = 1, select_last_index: Flag = 0) -> Int64:
    """The place of the least element along an axis; NaN wins.  Source: ONNX ArgMin-13"""
    return _place_of("min", data, axis, keepdims, select_last_index)


def _running(function: str, x: Tensor, axis: Tensor, reverse: int, exclusive: int) -> Tensor:
    axes = axis_list(axis)
    if len(axes) != 1:
        raise ShapeError(f"a running sum or product has one axis, not {len(axes)}")
    return waist.cumulate(function, x, normal_axis(axes[0], x.ndim), bool(reverse), bool(exclusive))


@operator("CumSum", since=(11, 14), meaning=11)
def cum_sum(x: T, axis: T2, *, exclusive: Flag = 0, reverse: Flag = 0) -> T:
    """Running sums along an axis.  Source: ONNX CumSum-14"""
    return _running("sum", x, axis, reverse, exclusive)


@operator("CumProd", since=(26,))
def cum_prod(x: T, axis: T2, *, exclusive: Flag = 0, reverse: Flag = 0) -> T:
    """Running products along an axis.  Source: ONNX CumProd-26"""
    return _running("prod", x, axis, reverse, exclusive)


def _as_first(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """The type of the first input."""
    return [inputs[0]]


for _entry in (cum_sum, cum_prod):
    _entry.infer(_as_first)


def log_softmax_along(x: Tensor, axis: int) -> Tensor:
    """x - log(sum(exp(x))) along an axis, shifted by the greatest element."""
    shifted = x - fold_axes("max", x, (axis,))
    return shifted - waist.map("log", fold_axes("sum", waist.map("exp", shifted), (axis,)))


@operator("Softmax", since=(1, 11, 13))
def softmax(input: T, *, axis: int = -1) -> T:
    """exp(x) / sum(exp(x)) along an axis.  Source: ONNX Softmax-13"""
    place, wide = (normal_axis(axis, input.ndim),), widen(input)
    powers = waist.map("exp", wide - fold_axes("max", wide, place))
    return waist.cast_to(powers / fold_axes("sum", powers, place), input.dtype)


@operator("LogSoftmax", since=(1, 11, 13))
def log_softmax(input: T, *, axis: int = -1) -> T:
    """The logarithm of softmax, without computing softmax.  Source: ONNX LogSoftmax-13"""
    place = normal_axis(axis, input.ndim)
    return waist.cast_to(log_softmax_along(widen(input), place), input.dtype)


@operator("Hardmax", since=(1, 11, 13))
def hardmax(input: T, *, axis: int = -1) -> T:
    """1 at the first greatest element along an axis, else 0.  Source: ONNX Hardmax-13"""
    place = normal_axis(axis, input.ndim)
    if not isinstance(input.shape[place], int):
        raise Undetermined(input.ref, "shape")  # it may be empty: then no element is the greatest
    if input.shape[place] == 0:
        return input
    found = _place_of("max", input, place, 1, 0)
    behind = [1] * (input.ndim - place - 1)
    positions = waist.reshape(waist.iota(input.shape[place]), [input.shape[place], *behind])
    return waist.cast_to(waist.map("eq", found, positions), input.dtype)


def _flattened_before_13(entry: Operator) -> None:
    """Register a softmax as it was: over all axes from ``axis`` on together."""

    @entry.upgrade(from_version=12)
    def softmax_1(input: T, *, axis: int = 1) -> T:
        if axis == -1:
            return entry(input, axis=-1)
        whole = entry(flatten(input, axis=axis), axis=-1)
        is_empty = has_rank(input) and 0 in input.shape
        return reshape(whole, shape(input), **({"allowzero": 1} if is_empty else {}))


for _entry in (softmax, log_softmax, hardmax):
    _flattened_before_13(_entry)
