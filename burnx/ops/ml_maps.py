"""Maps of ai.onnx.ml: to tensors, and from them.  Maps are dicts in Python, so every operator here is a call of the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import DType, float32, int64, string
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Float32, T
from burnx.ops.ml_scores import ML, Array, as_rows, label_list
from burnx.ops.operator import operator
from burnx.tensor import Tensor
from burnx.types import MapType, SequenceType, TensorType, Type


def map_type(x: Tensor, keys: tuple[DType, ...]) -> MapType:
    """The type of a map with keys of one of these dtypes.

    Raises: ModelError if it is none.
    """
    kind = x.type
    if not isinstance(kind, MapType) or kind.key not in keys:
        raise ModelError(f"a map from {' or '.join(map(str, keys))} is needed here, not {kind}")
    return kind


def _filled(values: Sequence[Any], dtype: DType) -> Array:
    """Shapes: () -> (1, value)."""
    row = np.empty((1, len(values)), dtype)
    row[0] = values
    return row


@operator("ZipMap", since=(1,), domain=ML)
def zip_map(
    x: Float32,
    *,
    classlabels_int64s: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
) -> T:
    """A map from labels to numbers for every row.

    Shapes: (row, label) -> a sequence of as many maps as rows.
    Source: ai.onnx.ml ZipMap-1
    """
    labels = label_list(classlabels_int64s, classlabels_strings)

    def run(rows: Array) -> list[Any]:
        if rows.shape[1] != len(labels):
            raise ModelError(f"{rows.shape[1]} columns have as many labels, not {len(labels)}")
        return [[dict(zip(labels.tolist(), row, strict=True)) for row in rows.tolist()]]

    return waist.host("ZipMap", run, [as_rows(x)], [_zipped(labels)])[0]


def _zipped(labels: Array) -> SequenceType:
    key = string if labels.dtype == object else int64
    return SequenceType(MapType(key, TensorType(float32, ())))


@zip_map.infer
def _zip_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    lists = [attributes.get(f"classlabels_{kind}") for kind in ("int64s", "strings")]
    return [_zipped(label_list(*lists))]


def _to_text(value: Any) -> str:
    """A number as C prints it with %f; text as it is."""
    return value if isinstance(value, str) else f"{float(np.float32(value)):f}"


def _number(value: Any) -> float:
    """A number, or one written as text.

    Raises: ModelError if the text is none.
    """
    try:
        return float(value)
    except ValueError as error:
        raise ModelError(f"a map is cast to numbers, and {value!r} is none") from error


def _whole(value: Any) -> int:
    """A number cut to an integer; text that is one keeps all of its digits."""
    try:
        return int(value)
    except ValueError:
        return int(_number(value))


# what stands where a sparse map has no key is left open by the standard; these are onnxruntime's
_CASTS: dict[str, tuple[DType, Callable[[Any], Any], Any]] = {
    "TO_FLOAT": (float32, _number, 0.0),
    "TO_STRING": (string, _to_text, "0.f"),
    "TO_INT64": (int64, _whole, 0),
}


@operator("CastMap", since=(1,), domain=ML)
def cast_map(x: T1, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> T2:
    """The values of a map from integers, in the order of the keys, or (SPARSE) each at the place that its key says.

    Shapes: a map -> (1, value), or (1, max_map).
    Source: ai.onnx.ml CastMap-1
    """
    map_type(x, (int64,))
    if cast_to not in _CASTS or map_form not in ("DENSE", "SPARSE"):
        raise ModelError(
            f'a map is cast to one of {", ".join(_CASTS)} and is DENSE or SPARSE, not "{cast_to}", "{map_form}"'
        )
    dtype, convert, nothing = _CASTS[cast_to]

    def run(items: Mapping[int, Any]) -> list[Array]:
        values = {int(key): convert(items[key]) for key in sorted(items)}
        if map_form == "DENSE":
            return [_filled(list(values.values()), dtype)]
        if any(not 0 <= key < max_map for key in values):
            raise ModelError(f"keys of a sparse map are 0 to {max_map - 1}, not {list(values)}")
        return [_filled([values.get(place, nothing) for place in range(max_map)], dtype)]

    size = max_map if map_form == "SPARSE" else None
    return waist.host("CastMap", run, [x], [TensorType(dtype, (1, size))])[0]  # type: ignore[arg-type]


@cast_map.infer
def _cast_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(_CASTS[attributes.get("cast_to", "TO_FLOAT")][0], None)]


@operator("DictVectorizer", since=(1,), domain=ML)
def dict_vectorizer(
    x: T1,
    *,
    int64_vocabulary: Sequence[int] | None = None,
    string_vocabulary: Sequence[str] | None = None,
) -> T2:
    """The value that a map has for each word of a vocabulary, 0 or "" where it has none.

    Shapes: a map -> (word); the standard says one axis, onnxruntime gives it another of size 1.
    Source: ai.onnx.ml DictVectorizer-1
    """
    words = label_list(int64_vocabulary, string_vocabulary).tolist()
    kind = map_type(x, (string,) if string_vocabulary else (int64,))
    dtype = _value_dtype(kind)
    nothing: Any = "" if dtype == string else 0

    def run(items: Mapping[Any, Any]) -> list[Array]:
        return [_filled([items.get(word, nothing) for word in words], dtype)[0]]

    return waist.host("DictVectorizer", run, [x], [TensorType(dtype, (len(words),))])[0]


def _value_dtype(kind: Type) -> DType:
    """The dtype of the values of a map."""
    if isinstance(kind, MapType) and isinstance(kind.value, TensorType):
        return kind.value.dtype
    raise ModelError(f"a map to numbers or strings is needed here, not {kind}")


@dict_vectorizer.infer
def _vector_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(_value_dtype(inputs[0]), None)]
