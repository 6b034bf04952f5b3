"""Features of ai.onnx.ml: choosing, scaling, replacing and joining the columns of observations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from burnx import waist
from burnx.dtype import float32, is_integer
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T1, Float32, Int64, T
from burnx.ops.ml_scores import ML, as_rows, wide
from burnx.ops.operator import operator
from burnx.shape import Dim, product
from burnx.tensor import Tensor


@operator("ArrayFeatureExtractor", since=(1,), domain=ML)
def array_feature_extractor(x: T, y: Int64) -> T:
    """The columns ``y`` of the last axis; a vector counts as one row.  Source: ai.onnx.ml ArrayFeatureExtractor-1"""
    if not x.ndim:
        raise ShapeError("ArrayFeatureExtractor takes rank 1 or more")
    data = waist.reshape(x, (1, x.shape[0])) if x.ndim == 1 else x
    return waist.take(data, waist.reshape(y, (product(y.shape),)), data.ndim - 1)


@operator("Binarizer", since=(1,), domain=ML)
def binarizer(x: T, *, threshold: float = 0.0) -> T:
    """1 above the threshold, else 0.  Source: ai.onnx.ml Binarizer-1"""
    limit = math.floor(threshold) if is_integer(x.dtype) else threshold
    return waist.cast_to(waist.map("lt", waist.constant(limit, x.dtype), x), x.dtype)


def _per_feature(values: Sequence[float], x: Tensor, name: str) -> Tensor:
    """Numbers along the last axis: one for all features, or one for each."""
    features = x.shape[-1] if x.ndim else 1
    if not values or (len(values) != 1 and isinstance(features, int) and len(values) != features):
        raise ModelError(f"{name} has 1 or {features} numbers, not {len(values)}")
    return waist.constant(np.asarray(values), x.dtype)


@operator("Scaler", since=(1,), domain=ML)
def scaler(
    x: T, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None
) -> Float32:
    """(x - offset) · scale, for each feature or for all.  Source: ai.onnx.ml Scaler-1"""
    found = waist.cast_to(x, wide(x))
    if offset:
        found = waist.map("sub", found, _per_feature(offset, found, "offset"))
    if scale:
        found = waist.map("mul", found, _per_feature(scale, found, "scale"))
    return waist.cast_to(found, float32)


@operator("Normalizer", since=(1,), domain=ML)
def normalizer(x: T, *, norm: str = "MAX") -> Float32:
    """Every row divided by its greatest element or by its L1 or L2 norm; a row whose divisor is 0 stays.

    The standard writes the L1 norm as sum(x) and the result of L2 without a sign: sizes are meant, and signs are
    kept, as onnxruntime has it.
    Source: ai.onnx.ml Normalizer-1
    """
    rows = as_rows(x, wide(x))
    if norm == "MAX":
        divisor = waist.reduce("max", rows, [1])
    elif norm == "L1":
        divisor = waist.reduce("sum", waist.map("abs", rows), [1])
    elif norm == "L2":
        divisor = waist.map("sqrt", waist.reduce("sum", waist.map("mul", rows, rows), [1]))
    else:
        raise ModelError(f'norm is one of MAX, L1, L2, not "{norm}"')
    divisor = waist.reshape(divisor, (rows.shape[0], 1))
    zero, one = waist.constant(0, rows.dtype), waist.constant(1, rows.dtype)
    divisor = waist.map("select", waist.map("eq", divisor, zero), one, divisor)
    return waist.cast_to(waist.reshape(waist.map("div", rows, divisor), x.shape), float32)


@operator("Imputer", since=(1,), domain=ML)
def imputer(
    x: T,
    *,
    imputed_value_floats: Sequence[float] | None = None,
    imputed_value_int64s: Sequence[int] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> T:
    """Elements of one value, which may be NaN, replaced by another, of each feature or of all.

    Source: ai.onnx.ml Imputer-1
    """
    whole = is_integer(x.dtype)
    values = imputed_value_int64s if whole else imputed_value_floats
    other = imputed_value_floats if whole else imputed_value_int64s
    if other or not values:
        kinds = ("int64s", "floats") if whole else ("floats", "int64s")
        raise ModelError(f"an Imputer of {x.dtype} takes imputed_value_{kinds[0]}, no {kinds[1]}")
    sought = replaced_value_int64 if whole else replaced_value_float
    if sought != sought:
        is_sought = waist.map("is_nan", x)
    else:
        is_sought = waist.map("eq", x, waist.constant(sought, x.dtype))
    return waist.map("select", is_sought, _per_feature(values, x, "imputed_value"), x)


@operator("FeatureVectorizer", since=(1,), domain=ML)
def feature_vectorizer(*x: T1, inputdimensions: Sequence[int] | None = None) -> Float32:
    """The features of all inputs beside each other; each is cut, or filled up with 0, to its number of columns.

    Source: ai.onnx.ml FeatureVectorizer-1
    """
    if inputdimensions is not None and len(inputdimensions) != len(x):
        raise ModelError(f"{len(x)} inputs have as many sizes, not {len(inputdimensions)}")
    parts = [as_rows(each, float32) for each in x]
    widths: Sequence[Dim] = inputdimensions or [part.shape[1] for part in parts]
    zero = waist.constant(0, float32)
    sized = [
        waist.pad(part, zero, (0, 0), (0, width - part.shape[1]))
        for part, width in zip(parts, widths, strict=True)
    ]
    return waist.concat(sized, 1)
