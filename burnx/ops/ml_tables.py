"""Look-ups of ai.onnx.ml: labels to labels, and categories to ones among zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import int64, string
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Float32, T
from burnx.ops.ml_scores import ML, Array
from burnx.ops.operator import operator
from burnx.tensor import Tensor
from burnx.types import TensorType


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
    pairs = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
    return _look_up(x, [(_key(key), value) for key, value in pairs], default, values.dtype)


def _look_up(
    x: Tensor, pairs: Sequence[tuple[Any, Any]], default: Any, dtype: np.dtype[Any]
) -> Tensor:
    """The value of the last pair whose key each element is, or a default."""
    table = dict(pairs)

    def run(items: Array) -> list[Array]:
        found = np.empty(items.size, dtype)
        found[:] = [table.get(_key(item), default) for item in items.reshape(-1).tolist()]
        return [found.reshape(items.shape)]

    kind = TensorType(string if dtype.kind == "O" else dtype, x.shape)
    return waist.host("LabelEncoder", run, [x], [kind])[0]


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


@label_encoder.upgrade(from_version=3)
def label_encoder_2(
    x: T1,
    *,
    keys_strings: Sequence[str] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_floats: Sequence[float] | None = None,
    values_strings: Sequence[str] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_floats: Sequence[float] | None = None,
    default_string: str = "_Unused",
    default_int64: int = -1,
    default_float: float = -0.0,
) -> T2:
    """LabelEncoder without tensors; of repeated keys the first counts, as onnxruntime has it."""
    keys = {"keys_strings": keys_strings, "keys_int64s": keys_int64s, "keys_floats": keys_floats}
    values = {
        "values_strings": values_strings,
        "values_int64s": values_int64s,
        "values_floats": values_floats,
    }
    # what comes last counts in the operator of today
    turned: dict[str, Any] = {
        name: list(each)[::-1] for name, each in {**keys, **values}.items() if each
    }
    return label_encoder(
        x,
        **turned,
        default_string=default_string,
        default_int64=default_int64,
        default_float=default_float,
    )


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


@operator("CategoryMapper", since=(1,), domain=ML)
def category_mapper(
    x: T1,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    default_int64: int = -1,
    default_string: str = "_Unused",
) -> T2:
    """Strings to the integers beside them in two lists, or integers to strings.  Source: ai.onnx.ml CategoryMapper-1"""
    numbers, names = list(cats_int64s or ()), list(cats_strings or ())
    if len(numbers) != len(names):
        raise ModelError(f"{len(numbers)} integers have as many strings, not {len(names)}")
    if x.dtype == string:
        return _look_up(x, [*zip(names, numbers, strict=True)], default_int64, np.dtype(np.int64))
    return _look_up(x, [*zip(numbers, names, strict=True)], default_string, np.dtype(object))


@category_mapper.infer
def _category_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(int64 if inputs[0].dtype == string else string, None)]


@operator("OneHotEncoder", since=(1,), domain=ML)
def one_hot_encoder(
    x: T,
    *,
    cats_int64s: Sequence[int] | None = None,
    cats_strings: Sequence[str] | None = None,
    zeros: int = 1,
) -> Float32:
    """A 1 at the place of each element's category among zeros; floats are cut to integers first.

    An element of no category gives zeros, or, with ``zeros`` 0, an error.
    Shapes: (*s) -> (*s, category).
    Source: ai.onnx.ml OneHotEncoder-1
    """
    named = x.dtype == string
    given = list((cats_strings if named else cats_int64s) or ())
    if not given or ((cats_int64s if named else cats_strings) or ()):
        raise ModelError(
            f"{x.dtype} has categories in cats_{'strings' if named else 'int64s'} only"
        )
    last = {category: place for place, category in enumerate(given)}
    kinds = np.array(list(last), object if named else np.int64)
    wide = x if named else waist.cast_to(x, int64)
    places = waist.map("eq", waist.reshape(wide, (*x.shape, 1)), waist.constant(kinds))
    rank = len(x.shape)
    count = len(last)
    own = waist.map(
        "select", places, waist.constant(np.arange(count)), waist.constant(count, int64)
    )
    place = waist.reduce("min", own, [rank])
    rows = np.zeros((count + bool(zeros), len(given)), np.float32)
    rows[np.arange(count), list(last.values())] = 1
    # without a row of zeros a place that is none is an error
    return waist.take(waist.constant(rows), place, 0)
