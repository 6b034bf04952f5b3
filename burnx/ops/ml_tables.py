"""Small operators of ai.onnx.ml: ArrayFeatureExtractor, Binarizer and LabelEncoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import string
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T1, T2, Int64, T
from burnx.ops.ml_scores import ML, Array
from burnx.ops.operator import operator
from burnx.shape import product
from burnx.types import TensorType


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
    above = waist.map("lt", waist.constant(threshold, x.dtype), x)
    return waist.cast_to(above, x.dtype)


def _first_given(*tables: tuple[Any, Any]) -> Array:
    """The one table that is given, as an array."""
    for values, dtype in tables:
        if values is not None:
            return np.asarray(values, dtype)
    raise ModelError("LabelEncoder needs keys and values")


@operator("LabelEncoder", since=(1, 2, 4), domain=ML)
def label_encoder(
    x: T1,
    *,
    keys_tensor: Array | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_floats: Sequence[float] | None = None,
    values_tensor: Array | None = None,
    values_strings: Sequence[str] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_floats: Sequence[float] | None = None,
    default_tensor: Array | None = None,
    default_string: str = "_Unused",
    default_int64: int = -1,
    default_float: float = -0.0,
) -> T2:
    """The value whose key each element is, or a default.  Source: ai.onnx.ml LabelEncoder-4"""
    keys = _first_given(
        (keys_tensor, None),
        (keys_strings, object),
        (keys_int64s, np.int64),
        (keys_floats, np.float32),
    )
    values = _first_given(
        (values_tensor, None),
        (values_strings, object),
        (values_int64s, np.int64),
        (values_floats, np.float32),
    )
    if keys.size != values.size:
        raise ModelError(f"LabelEncoder has {keys.size} keys and {values.size} values")
    defaults = {"O": default_string, "i": default_int64, "f": default_float}
    default = defaults[values.dtype.kind] if default_tensor is None else default_tensor.item()
    table: dict[Any, Any] = {}
    for key, value in zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True):
        table.setdefault(_key(key), value)

    def run(items: Array) -> list[Array]:
        found = np.empty(items.size, values.dtype)
        found[:] = [table.get(_key(item), default) for item in items.reshape(-1).tolist()]
        return [found.reshape(items.shape)]

    dtype = string if values.dtype.kind == "O" else values.dtype
    return waist.host("LabelEncoder", run, [x], [TensorType(dtype, x.shape)])[0]


def _key(item: Any) -> Any:
    """NaN is found under its name: it does not equal itself."""
    return "NaN" if item != item else item


@label_encoder.infer
def _label_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    found = attributes.get("values_tensor")
    if found is not None:
        return [TensorType(string if found.dtype.kind == "O" else found.dtype, None)]
    named = {"values_strings": object, "values_int64s": np.int64, "values_floats": np.float32}
    return [TensorType(np.dtype(named[name]), None) for name in named if name in attributes]


@label_encoder.upgrade(from_version=1)
def label_encoder_1(
    x: T1,
    *,
    classes_strings: Sequence[str] = (),
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> T2:
    """LabelEncoder between strings and their places in a list."""
    names, places = list(classes_strings), list(range(len(classes_strings)))
    if x.dtype == string:
        return label_encoder(
            x, keys_strings=names, values_int64s=places, default_int64=default_int64
        )
    return label_encoder(x, keys_int64s=places, values_strings=names, default_string=default_string)
