"""The functions behind the methods of ``Tensor``, under NumPy's names and rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import burnx.ops
from burnx.dtype import dtype_name
from burnx.errors import DTypeError, ShapeError, TraceError
from burnx.ops import arithmetic, conversion, logic, movement
from burnx.ops.operator import fitting, table
from burnx.ops.other_names import METHOD_NAMES, suggestion
from burnx.shape import Expr
from burnx.tensor import Tensor, caller

AxisLike = int | Sequence[int] | None
_ARRAYS = (Tensor, np.ndarray)


def _find(op_type: str) -> Callable[..., Any]:
    return table()["", op_type]


def _reversed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self)


def _reshape(x: Tensor, *shape: Any) -> Tensor:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple, Tensor)) else shape
    if isinstance(sizes, Tensor):
        return movement.reshape(x, sizes)
    allowzero = {"allowzero": 1} if any(isinstance(n, int) and n == 0 for n in sizes) else {}
    return movement.reshape(x, list(sizes), **allowzero)


def _transpose(x: Tensor, *axes: Any) -> Tensor:
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (list, tuple)) else axes
    return (
        movement.transpose(x, perm=[movement.normal_axis(axis, len(order)) for axis in order])
        if order
        else movement.transpose(x)
    )


def _swapaxes(x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.ndim))
    a, b = (movement.normal_axis(axis, x.ndim) for axis in (first, second))
    order[a], order[b] = order[b], order[a]
    return movement.transpose(x, perm=order)


def _astype(x: Tensor, dtype: Any) -> Tensor:
    name = dtype if isinstance(dtype, str) else dtype_name(np.dtype(dtype))
    return conversion.cast(x, to=name)


def _flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    first, last = start_axis % x.ndim, end_axis % x.ndim
    return _reshape(x, *x.shape[:first], -1, *x.shape[last + 1 :])


def _axes(axis: AxisLike) -> list[int] | None:
    return None if axis is None else [axis] if isinstance(axis, int) else list(axis)


def _squeeze(x: Tensor, axis: AxisLike = None) -> Tensor:
    return movement.squeeze(x, _axes(axis))


def _reduction(op_type: str) -> Callable[..., Any]:
    def reduce(x: Tensor, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
        return _find(op_type)(x, _axes(axis), keepdims=int(keepdims))

    return reduce


def _arg(op_type: str) -> Callable[..., Any]:
    return lambda x, axis=0: _find(op_type)(x, axis=axis, keepdims=0)


def _invert(x: Tensor) -> Tensor:
    return logic.not_(x) if x.dtype == np.bool_ else _find("BitwiseNot")(x)


def _logical(of_bool: str, of_integer: str) -> Callable[..., Any]:
    return lambda x, other: _find(of_bool if x.dtype == np.bool_ else of_integer)(x, other)


def _not_equal(x: Tensor, other: Any) -> Tensor:
    return logic.not_(logic.equal(x, other))


def _power_of(x: Tensor, base: Any) -> Tensor:
    """``base ** x``; a Python number takes the dtype of x."""
    if not isinstance(base, (np.ndarray, np.generic, Tensor)):
        base = fitting(np.asarray(base), x.dtype, "pow")
    return arithmetic.pow(base, x)


def _getattr(x: Tensor, name: str) -> Any:
    hint = suggestion(name, METHOD_NAMES, dir(burnx.ops))
    raise AttributeError(f"a tensor has no {name!r}{hint}", name=name)


def _setitem(x: Tensor, index: Any, value: Any) -> None:
    raise TraceError(
        f"{caller()}: a tensor is never written in place; make a new one with ops.where, ops.scatter_nd or ops.concat"
    )


def _getitem(x: Tensor, index: Any) -> Tensor:
    """NumPy's basic indexing, and one integer tensor or list."""
    items = _expanded(index if isinstance(index, tuple) else (index,), x.ndim)
    taken = [item for item in items if item is not None]
    _check_numbers(x, taken)
    if sum(item != slice(None) for item in taken if not isinstance(item, _ARRAYS)) == 1:
        taken = [np.asarray(item) if isinstance(item, int) else item for item in taken]
    x = _take_slices(x, taken)
    axis = 0
    dropped: list[int] = []
    for item in taken:
        if isinstance(item, _ARRAYS):
            x = movement.gather(x, item, axis=axis)
            axis += item.ndim - 1
        elif not isinstance(item, slice):
            dropped.append(axis)
        axis += 1
    x = movement.squeeze(x, dropped) if dropped else x
    added = _added(items)
    return movement.unsqueeze(x, added) if added else x


def _added(items: Sequence[Any]) -> list[int]:
    """The axes of the result that an index adds."""
    found, axis = [], 0
    for item in items:
        if item is None:
            found.append(axis)
        kept = isinstance(item, slice) or item is None
        axis += item.ndim if isinstance(item, _ARRAYS) else int(kept)
    return found


def _expanded(items: tuple[Any, ...], rank: int) -> list[Any]:
    """The index with its ellipsis, and the axes behind it, written out."""
    items = tuple(_checked(item) for item in items)
    taken = sum(1 for item in items if item is not None and item is not Ellipsis)
    places = [place for place, item in enumerate(items) if item is Ellipsis]
    arrays = sum(1 for item in items if isinstance(item, _ARRAYS))
    if taken > rank:
        raise ShapeError(f"{caller()}: {taken} indices for {rank} axes")
    if len(places) > 1 or arrays > 1:
        raise ShapeError(
            f"{caller()}: an index has at most one ellipsis and one tensor or list; "
            "use ops.gather_nd for several"
        )
    rest = [slice(None)] * (rank - taken)
    place = places[0] if places else len(items)
    return [*items[:place], *rest, *items[place + len(places) :]]


def _checked(item: Any) -> Any:
    """One part of an index; a list is an array from here on.

    Raises: DTypeError if it is no integer, slice, None, ellipsis or array of integers.
    """
    if item is None or item is Ellipsis or isinstance(item, (slice, Expr)):
        return item
    if isinstance(item, list):
        item = np.asarray(item) if item else np.asarray(item, np.int64)
    if isinstance(item, _ARRAYS) and item.dtype.kind in "iu":
        return item
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return int(item)
    found = item.dtype if isinstance(item, _ARRAYS) else type(item).__name__
    raise DTypeError(f"{caller()}: an index is made of integers, slices and None, not {found}")


_END = np.iinfo(np.int64).max


def _check_numbers(x: Tensor, items: Sequence[Any]) -> None:
    for axis, (item, size) in enumerate(zip(items, x.shape, strict=True)):
        if isinstance(item, int) and isinstance(size, int) and not -size <= item < size:
            raise ShapeError(f"{caller()}: index {item} is outside of axis {axis} of size {size}")


def _take_slices(x: Tensor, items: Sequence[Any]) -> Tensor:
    """Apply the slices and the single numbers of an index; a number keeps an axis of size 1 for now."""
    starts, ends, axes, steps = [], [], [], []
    for axis, item in enumerate(items):
        if isinstance(item, _ARRAYS) or item == slice(None):
            continue
        start, end, step = _bounds(item)
        starts.append(start)
        ends.append(end)
        axes.append(axis)
        steps.append(step)
    if not axes:
        return x
    return movement.slice(
        x, starts, ends, axes, steps if any(step != 1 for step in steps) else None
    )


def _bounds(item: Any) -> tuple[Any, Any, int]:
    if isinstance(item, slice):
        step = 1 if item.step is None else int(item.step)
        first, last = (0, _END) if step > 0 else (_END, -_END)
        return (
            first if item.start is None else item.start,
            last if item.stop is None else item.stop,
            step,
        )
    if isinstance(item, Expr):
        return item, item + 1, 1
    return item, item + 1 if item != -1 else _END, 1


METHODS: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "radd": _reversed(arithmetic.add),
    "sub": arithmetic.sub,
    "rsub": _reversed(arithmetic.sub),
    "mul": arithmetic.mul,
    "rmul": _reversed(arithmetic.mul),
    "div": arithmetic.div,
    "rdiv": _reversed(arithmetic.div),
    "pow": arithmetic.pow,
    "rpow": _power_of,
    "mod": arithmetic.mod,
    "matmul": lambda self, other: _find("MatMul")(self, other),
    "rmatmul": lambda self, other: _find("MatMul")(other, self),
    "neg": arithmetic.neg,
    "abs": arithmetic.abs,
    "invert": _invert,
    "and": _logical("And", "BitwiseAnd"),
    "or": _logical("Or", "BitwiseOr"),
    "xor": _logical("Xor", "BitwiseXor"),
    "less": logic.less,
    "less_or_equal": logic.less_or_equal,
    "greater": logic.greater,
    "greater_or_equal": logic.greater_or_equal,
    "equal": logic.equal,
    "not_equal": _not_equal,
    "getitem": _getitem,
    "setitem": _setitem,
    "getattr": _getattr,
    "reshape": _reshape,
    "transpose": _transpose,
    "swapaxes": _swapaxes,
    "astype": _astype,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "sum": _reduction("ReduceSum"),
    "mean": _reduction("ReduceMean"),
    "prod": _reduction("ReduceProd"),
    "max": _reduction("ReduceMax"),
    "min": _reduction("ReduceMin"),
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "clip": arithmetic.clip,
}
