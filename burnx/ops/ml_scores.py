"""Scores of the models of ai.onnx.ml: rows to compute on, what is done to scores last, and the class they name.

What the standard leaves open is done as onnxruntime does it: how one score becomes those of two classes, and that
SOFTMAX and SOFTMAX_ZERO are not applied to such a pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, float32, float64, int64, string
from burnx.errors import ModelError, ShapeError
from burnx.tensor import Tensor
from burnx.types import TensorType, Type

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
ALMOST_ZERO = 1e-7


def as_rows(x: Tensor, dtype: DType | None = None) -> Tensor:
    """Observations as a matrix; a vector is one of them.

    Shapes: (row, feature) or (feature) -> (row, feature).
    """
    if x.ndim not in (1, 2):
        raise ShapeError(f"observations are a matrix or one row, not of rank {x.ndim}")
    rows = waist.reshape(x, (1, x.shape[0])) if x.ndim == 1 else x
    return rows if dtype is None else waist.cast_to(rows, dtype)


def wide(x: Tensor) -> DType:
    """The dtype in which what becomes float32 is computed: float64 only for float64."""
    return float64 if x.dtype == float64 else float32


def transformed(scores: Tensor, name: str) -> Tensor:
    """Scores after the transform of this name.

    Shapes: (row, score) -> (row, score).
    """
    check_transform(name)
    return _FUNCTIONS[name](scores)


def check_transform(name: str) -> None:
    """Raises: ModelError unless there is a transform of this name."""
    if name not in TRANSFORMS:
        raise ModelError(f'post_transform is one of {", ".join(TRANSFORMS)}, not "{name}"')


def paired(score: Tensor, is_probability: bool, name: str) -> Tensor:
    """The scores of two classes when only that of the second is given.

    Shapes: (row, 1) -> (row, 2).
    """
    check_transform(name)
    minus = waist.map("neg", score)
    if name == "LOGISTIC":
        return _logistic(waist.concat([minus, score], 1))
    one = waist.constant(1, score.dtype)
    other = waist.map("sub", one, score) if is_probability else minus
    pair = waist.concat([other, score], 1)
    return _probit(pair) if name == "PROBIT" else pair


def is_above(score: Tensor, limit: float) -> Tensor:
    """1 where a single score is above a limit, else 0.

    Shapes: (row, 1) -> (row).
    """
    above = waist.map("lt", waist.constant(limit, score.dtype), score)
    return waist.reshape(waist.cast_to(above, int64), (score.shape[0],))


def label_list(integers: Sequence[int] | None, strings: Sequence[str] | None) -> Array:
    """The classes' labels; none of either kind is an empty list of integers.

    Raises: ModelError if there are labels of both kinds.
    """
    if integers and strings:
        raise ModelError("classes have labels of one kind, integers or strings")
    if strings:
        return np.array(list(strings), object)
    return np.array(list(integers or ()), np.int64)


def named(classes: Tensor, labels: Array) -> Tensor:
    """The label of each class.

    Shapes: (row) -> (row).
    """
    return waist.take(waist.constant(labels), classes, 0)


def classifier_types(
    inputs: Sequence[Type], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    """The dtypes of labels and scores."""
    labels = string if attributes.get("classlabels_strings") else int64
    return [TensorType(labels, None), TensorType(float32, None)]


# ------------------------------------------------------------------------------- the transforms
def _rowwise(x: Tensor, function: str) -> Tensor:
    return waist.reshape(waist.reduce(function, x, [1]), (x.shape[0], 1))


def _softmax(x: Tensor) -> Tensor:
    powers = waist.map("exp", waist.map("sub", x, _rowwise(x, "max")))
    return waist.map("div", powers, _rowwise(powers, "sum"))


def _softmax_zero(x: Tensor) -> Tensor:
    """Softmax over what is not zero; zeros stay."""
    zero, one = waist.constant(0, x.dtype), waist.constant(1, x.dtype)
    is_zero = waist.map("le", waist.map("abs", x), waist.constant(ALMOST_ZERO, x.dtype))
    powers = waist.map("exp", waist.map("sub", x, _rowwise(x, "max")))
    powers = waist.map("select", is_zero, zero, powers)
    total = _rowwise(powers, "sum")
    total = waist.map("select", waist.map("eq", total, zero), one, total)
    return waist.map("div", powers, total)


def _logistic(x: Tensor) -> Tensor:
    one = waist.constant(1, x.dtype)
    return waist.map("div", one, waist.map("add", one, waist.map("exp", waist.map("neg", x))))


def _probit(x: Tensor) -> Tensor:
    """The normal distribution's quantile √2 erf⁻¹(2 x - 1): a close formula, then Newton's method on erf.

    Source: Winitzki 2008
    """

    def number(value: float) -> Tensor:
        return waist.constant(value, float64)

    two, one = number(2.0), number(1.0)
    wanted = waist.map("sub", waist.map("mul", waist.cast_to(x, float64), two), one)
    square = waist.map("mul", wanted, wanted)
    log = waist.map("log", waist.map("sub", one, square))
    half = waist.map("mul", log, number(0.5))
    first = waist.map("add", number(2 / (math.pi * _WINITZKI)), half)
    scaled = waist.map("mul", log, number(1 / _WINITZKI))
    inner = waist.map("sqrt", waist.map("sub", waist.map("mul", first, first), scaled))
    size = waist.map("sqrt", waist.map("sub", inner, first))
    root = waist.map("mul", size, waist.map("sign", wanted))
    for _ in range(4):
        error = waist.map("sub", waist.map("erf", root), wanted)
        slope = waist.map("mul", waist.map("exp", waist.map("mul", root, root)), number(_ROOT))
        step = waist.map("mul", error, slope)
        better = waist.map("sub", root, step)
        is_end = waist.map("eq", square, one)
        root = waist.map("select", is_end, root, better)
    return waist.cast_to(waist.map("mul", root, number(math.sqrt(2))), x.dtype)


_WINITZKI = 0.147
_ROOT = math.sqrt(math.pi) / 2
_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "NONE": lambda x: x,
    "SOFTMAX": _softmax,
    "LOGISTIC": _logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}
