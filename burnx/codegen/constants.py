"""Which constants stand in the source as literals, and which are parameters in the weights file."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from burnx.codegen.expressions import call
from burnx.codegen.literal import constant
from burnx.dtype import DType, bool_, dtype_name, float32, int64, string
from burnx.graph import Node, Value
from burnx.ops import find
from burnx.ops.operator import FIXED
from burnx.types import TensorType

LITERAL_ELEMENTS = 16
LITERAL_WORDS = 32
# operators with bodies, which are written as inner functions
FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap", "FlexAttention", "Gradient"})
_SCALAR_FRIENDLY = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Where", "Mod", "Equal"}
) | frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "PRelu"})
# inputs that are numbers of a setting rather than weights
_SETTINGS = frozenset({("Resize", 1), ("Resize", 2), ("Upsample", 1)})
_DEFAULTS: dict[str, DType] = {"i": int64, "f": float32, "b": bool_, "O": string}


def literal_input(node: Node, place: int) -> ast.expr | None:
    """The constant at an input as a literal, where the operator takes it back as the same constant."""
    value = node.inputs[place]
    if value is None or value.array is None:
        return None
    array = value.array
    if node.operator in FLOW:
        return constant(array) if array.ndim == 0 and array.dtype in (int64, bool_) else None
    if array.dtype == string:
        if array.size > LITERAL_WORDS:
            return None
        return constant(array.tolist()) if array.size else _explicit(array)
    is_setting = (node.operator, place) in _SETTINGS and array.size <= LITERAL_ELEMENTS
    if not is_setting and not _is_small(value):
        return None
    if array.size == 0:
        return _explicit(array)
    if coerced_dtype(node, place, array) != array.dtype:
        return _explicit(array) if array.dtype.kind in "iufb" else None
    if array.size == 1 and array.ndim and _broadcasts(node, place, array):
        array = array.reshape(())
    return constant(array)


def literal_result(value: Value) -> ast.expr | None:
    """A constant that a branch or a turn of a loop gives as a literal, where that is short."""
    array = value.array
    if array is None or array.dtype.kind not in "iufb" or not _is_small(value):
        return None
    return _explicit(array)


def _explicit(array: np.ndarray[Any, Any]) -> ast.Call | None:
    """``ops.array(...)``, which says its dtype; shapes that nested lists cannot say are left to the weights."""
    if np.asarray(array.tolist()).shape != array.shape:
        return None
    return call("ops.array", constant(array.tolist()), dtype=constant(dtype_name(array.dtype)))


def _is_small(value: Value) -> bool:
    array = value.array
    assert array is not None
    if array.dtype.kind in "iub":
        return bool(array.size <= LITERAL_ELEMENTS)
    if array.dtype.kind != "f" or array.size > 1:
        return False
    return "." not in value.name or "/" in value.name or "::" in value.name


def coerced_dtype(node: Node, place: int, array: np.ndarray[Any, Any]) -> DType | None:
    """The dtype that a Python number at this input becomes."""
    operator = find(node.domain, node.operator)
    wanted = operator.variable_of(place)
    if wanted in FIXED:
        return FIXED[wanted]
    is_power = node.operator == "Pow" and not node.domain  # its base becomes what the exponent is
    for other, value in enumerate(node.inputs):
        is_alike = is_power or operator.variable_of(other) == wanted
        if other != place and value is not None and not value.is_constant and is_alike:
            return value.type.dtype if isinstance(value.type, TensorType) else None
    return _DEFAULTS.get(array.dtype.kind)


def _broadcasts(node: Node, place: int, array: np.ndarray[Any, Any]) -> bool:
    """Whether a scalar in place of an array of one element gives a result of the same shape."""
    if node.domain or node.operator not in _SCALAR_FRIENDLY:
        return False
    ranks = [
        len(value.type.shape)
        for other, value in enumerate(node.inputs)
        if other != place
        and value is not None
        and not value.is_constant
        and isinstance(value.type, TensorType)
        and value.type.shape is not None
    ]
    return bool(ranks) and max(ranks) >= array.ndim
