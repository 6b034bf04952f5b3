"""ONNX's attributes as Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx import AttributeProto

from burnx.errors import ModelError
from burnx.importer.onnx_file import OnnxFile, sparse_array, tensor_array
from burnx.importer.onnx_types import declared_type


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


_READ: dict[int, Callable[[Any, OnnxFile], Any]] = {
    AttributeProto.FLOAT: lambda a, file: float(a.f),
    AttributeProto.INT: lambda a, file: int(a.i),
    AttributeProto.STRING: lambda a, file: _text(a.s),
    AttributeProto.FLOATS: lambda a, file: [float(each) for each in a.floats],
    AttributeProto.INTS: lambda a, file: [int(each) for each in a.ints],
    AttributeProto.STRINGS: lambda a, file: [_text(each) for each in a.strings],
    AttributeProto.TENSOR: lambda a, file: tensor_array(a.t, file),
    AttributeProto.TENSORS: lambda a, file: [tensor_array(each, file) for each in a.tensors],
    AttributeProto.SPARSE_TENSOR: lambda a, file: sparse_array(a.sparse_tensor, file),
    AttributeProto.TYPE_PROTO: lambda a, file: declared_type(a.tp, a.name),
}


def attribute_value(attribute: Any, file: OnnxFile, given: Mapping[str, Any]) -> Any:
    """The value of an attribute; one that refers to an attribute of the enclosing function takes it from ``given``.

    None where that attribute was not given.
    """
    if attribute.ref_attr_name:
        return given.get(attribute.ref_attr_name)
    kind = attribute.type or _guess(attribute)
    if kind not in _READ:
        raise ModelError(f'attribute "{attribute.name}" has a kind that is not known here')
    return _READ[kind](attribute, file)


def _guess(attribute: Any) -> int:
    """The kind of an attribute in files from before kinds were written down."""
    for name, kind in _FIELDS.items():
        if (
            attribute.HasField(name)
            if name in ("f", "i", "s", "t", "g")
            else len(getattr(attribute, name))
        ):
            return kind
    return int(AttributeProto.UNDEFINED)


_FIELDS: dict[str, int] = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
}
