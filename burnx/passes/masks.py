"""Masks: what is known of the numbers that are added to scores before a softmax.

A row without a visible key tells attention and its decomposition apart: softmax of nothing but -inf is NaN, attention
gives zeros.  A mask is finite here if no -inf goes into it; that finite numbers overflow on the way is not looked at,
since the rows of NaN which a softmax makes of that are nobody's intention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from burnx.dtype import FLOATS, bool_
from burnx.graph import Array, Node, Value
from burnx.passes.patterns import scalar
from burnx.passes.views import MOVING, shape_of, view_of
from burnx.shape import Dim
from burnx.types import TensorType

FAR = -1e30  # beside it float32 has no digits left for a score
HALF_FAR = -6e4  # beyond it float16 has no numbers
DEPTH = 24

_ALL = frozenset({"Add", "Sub", "Mul", "Neg", "Concat", "Min", "Max", "Identity", "Abs"})
_TAKING = "Tile Slice Gather GatherND Split Clip Trilu"
_FIRST = MOVING.union(_TAKING.split())
# sums of activations and functions of them
_SUMS = "MatMul Gemm Linear QuantLinear DynamicQuantLinear Conv QuantConv Softmax LayerNormalization RMSNormalization"
_SETTLED = frozenset(f"{_SUMS} Tanh Sigmoid Gelu Cos Sin Relu".split())


def may_hide_rows(mask: Value) -> bool:
    """Whether some row of a mask may let no key through."""
    if dtype_of(mask) == bool_:
        return not (_has_open_rows(mask.array) if mask.array is not None else is_lower(mask))
    return not _is_open(mask)


def _has_open_rows(array: Array) -> bool:
    return array.ndim > 0 and bool(array.any(axis=-1).all())


def _is_open(mask: Value) -> bool:
    """Whether each row of an additive mask surely has a finite number."""
    if mask.array is not None:
        return mask.array.ndim > 0 and bool(np.isfinite(mask.array.max(axis=-1)).all())
    node = mask.producer
    if node is not None and node.operator == "Add" and not node.domain:
        first, second = node.inputs
        if first is not None and second is not None:
            for one, other in ((first, second), (second, first)):
                if is_finite(one) and _is_open(other):
                    return True
    return is_finite(mask) or is_causal(mask)


def dtype_of(value: Value | None) -> object:
    return value.type.dtype if value is not None and isinstance(value.type, TensorType) else None


def is_finite(value: Value | None, depth: int = DEPTH) -> bool:
    """Whether no infinity goes into a value."""
    if value is None or not isinstance(value.type, TensorType) or depth == 0:
        return False
    if value.type.dtype not in FLOATS:
        return True
    if value.array is not None:
        return bool(np.isfinite(value.array).all())
    node = value.producer
    if node is None or node.domain not in ("", "burnx"):
        return False
    if node.operator in _SETTLED:
        return True
    if node.operator == "ConstantOfShape":
        filled = node.attributes.get("value")
        return filled is None or bool(np.isfinite(filled).all())
    return all(is_finite(each, depth - 1) for each in _sources(node))


def _sources(node: Node) -> list[Value | None]:
    """What the numbers of a node come from; a None where that is not known."""
    if node.operator in _ALL:
        return node.inputs
    if node.operator in _FIRST:
        return node.inputs[:1]
    if node.operator == "Where":
        return node.inputs[1:]
    if node.operator == "Cast":
        return node.inputs
    if node.operator == "Div" and (scalar(node.inputs[1]) or 0.0) != 0:
        return node.inputs[:1]
    return [None]


# ------------------------------------------------------------------------------- causal
def is_lower(mask: Value) -> bool:
    """Whether a mask of truths lets query i see the keys up to i and no other."""
    shape = shape_of(mask)
    if shape is None or len(shape) < 2 or any(dim != 1 for dim in shape[:-2]):
        return False
    if mask.array is not None:
        return bool((mask.array == np.tril(np.ones(mask.array.shape[-2:], bool))).all())
    node = mask.producer
    if node is None or node.domain or node.operator not in _ORDERS:
        return False
    row, column = (node.inputs[place] for place in _ORDERS[node.operator])
    return _counts_along(row, -2, shape[-2]) and _counts_along(column, -1, shape[-1])


# where the row stands in a comparison that is true at and below the diagonal, and where the column
_ORDERS: Mapping[str, tuple[int, int]] = {"LessOrEqual": (1, 0), "GreaterOrEqual": (0, 1)}


def _counts_along(value: Value | None, axis: int, size: Dim) -> bool:
    """Whether a value is 0, 1, 2 … along one axis and has no other."""
    shape = shape_of(value)
    if value is None or shape is None or len(shape) < -axis or shape[axis] != size:
        return False
    if any(dim != 1 for place, dim in enumerate(shape) if place != len(shape) + axis):
        return False
    view = view_of(value, _producer)
    if view is None:
        return False
    array = view.base.array
    if array is not None:
        return bool((array.reshape(-1) == np.arange(array.size)).all())
    node = view.base.producer
    if node is None or node.operator != "Range" or node.domain:
        return False
    return scalar(node.inputs[0]) == 0 and scalar(node.inputs[2]) == 1


def _producer(value: Value) -> Node | None:
    return value.producer


def is_causal(mask: Value, is_fill: Callable[[float], bool] = lambda fill: fill <= FAR) -> bool:
    """Whether an additive mask is 0 where query i may see a key, those up to i, and else hides it for sure."""
    shape = shape_of(mask)
    if shape is None or len(shape) < 2 or any(dim != 1 for dim in shape[:-2]):
        return False
    if mask.array is not None:
        lower = np.tril(np.ones(mask.array.shape[-2:], bool))
        hidden = mask.array.reshape(lower.shape)[~lower]
        seen = mask.array.reshape(lower.shape)[lower]
        return bool((seen == 0).all()) and all(is_fill(float(each)) for each in np.unique(hidden))
    node = mask.producer
    if node is None or node.operator != "Where" or node.domain:
        return False
    condition, zero, fill = node.inputs[0], scalar(node.inputs[1]), scalar(node.inputs[2])
    if condition is None or zero != 0 or fill is None:
        return False
    return is_fill(fill) and is_lower(condition)


def is_exact(mask: Value) -> bool:
    """Whether scores of the mask's dtype plus the mask say in it what they say in float32.

    Half precision has so few digits that a large number of the mask swallows scores or does not, which is seen where
    nothing else is visible in a row.
    """
    kind = mask.type
    if not isinstance(kind, TensorType) or kind.dtype.itemsize > 2:
        return True
    if is_causal(mask, lambda fill: fill <= HALF_FAR):
        return True
    if mask.array is not None:
        return bool((mask.array.max(axis=-1) > -1e3).all())
    node = mask.producer
    if node is None or node.operator != "Where" or node.domain:
        return False
    return all(number == 0 or number <= FAR for number in map(_number, node.inputs[1:]))


def _number(value: Value | None) -> float:
    number = scalar(value)
    return math.nan if number is None else number
