"""Python values as ONNX attributes, of the kind that the schema says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import AttributeProto

from burnx.dtype import code_of_dtype, parse_dtype, string
from burnx.errors import ExportError
from burnx.exporter.onnx_tensors import encoded, tensor_proto
from burnx.exporter.onnx_types import type_proto
from burnx.graph import Graph
from burnx.types import MapType, OptionalType, SequenceType, TensorType

Kind = int
WriteGraph = Callable[[Graph, str], Any]


def _integer(value: Any) -> int:
    """An int; a dtype, or the name of one, is its code."""
    if isinstance(value, str):
        return code_of_dtype(parse_dtype(value))
    return code_of_dtype(value) if isinstance(value, np.dtype) else int(value)


def _array(value: Any) -> np.ndarray[Any, Any]:
    """A tensor; what Python has as text is one of strings."""
    array = np.asarray(value)
    return array.astype(string) if array.dtype.kind in "US" else array


_SINGLE: dict[Kind, tuple[str, Callable[[Any], Any]]] = {
    AttributeProto.FLOAT: ("f", float),
    AttributeProto.INT: ("i", _integer),
    AttributeProto.STRING: ("s", encoded),
}
_REPEATED: dict[Kind, tuple[str, Callable[[Any], Any]]] = {
    AttributeProto.FLOATS: ("floats", float),
    AttributeProto.INTS: ("ints", _integer),
    AttributeProto.STRINGS: ("strings", encoded),
}
_MESSAGE: dict[Kind, tuple[str, Callable[[str, Any], Any]]] = {
    AttributeProto.TENSOR: ("t", lambda name, value: tensor_proto(name, _array(value))),
    AttributeProto.TYPE_PROTO: ("tp", lambda name, value: type_proto(value)),
}


def attribute_proto(name: str, value: Any, kind: Kind | None, write_graph: WriteGraph) -> Any:
    """An attribute of ``kind``; without one, its value says the kind.

    Raises: ExportError if it cannot be written so.
    """
    kind = kind or guess_kind(value)
    proto = AttributeProto(name=name, type=kind)  # type: ignore[arg-type]
    try:
        if kind in _SINGLE:
            field, convert = _SINGLE[kind]
            setattr(proto, field, convert(value))
        elif kind in _REPEATED:
            field, convert = _REPEATED[kind]
            getattr(proto, field).extend(convert(item) for item in np.ravel(value).tolist())
        elif kind in _MESSAGE:
            field, make = _MESSAGE[kind]
            getattr(proto, field).CopyFrom(make(name, value))
        elif kind == AttributeProto.GRAPH:
            proto.g.CopyFrom(write_graph(value, name))
        elif kind == AttributeProto.TENSORS:
            proto.tensors.extend(tensor_proto("", _array(item)) for item in value)
        else:
            raise TypeError(f"attributes of kind {kind} are not written")
    except (TypeError, ValueError) as error:
        raise ExportError(
            f"attribute {name!r} cannot be written: {type(value).__name__}, {error}"
        ) from error
    return proto


def guess_kind(value: Any) -> Kind:
    """The kind of attribute that a value of Python is, where no schema says.

    Raises: TypeError if it is none.
    """
    match value:
        case Graph():
            return AttributeProto.GRAPH
        case TensorType() | SequenceType() | OptionalType() | MapType():
            return AttributeProto.TYPE_PROTO
        case np.ndarray():
            return AttributeProto.TENSOR
        case str() | bytes():
            return AttributeProto.STRING
        case bool() | int() | np.integer() | np.bool_() | np.dtype():
            return AttributeProto.INT
        case float() | np.floating():
            return AttributeProto.FLOAT
        case list() | tuple():
            return _guess_list(value)
    raise ExportError(f"{type(value).__name__} is no value of an attribute")


def _guess_list(values: Any) -> Kind:
    kinds = {guess_kind(value) for value in values}
    if not kinds or kinds == {AttributeProto.INT}:
        return AttributeProto.INTS
    if kinds <= {AttributeProto.INT, AttributeProto.FLOAT}:
        return AttributeProto.FLOATS
    return AttributeProto.STRINGS if kinds == {AttributeProto.STRING} else AttributeProto.TENSORS
