"""Types as ONNX writes them: protos for declarations, texts for the constraints of schemas."""

from __future__ import annotations

from typing import Any

from onnx import TypeProto, ValueInfoProto

from burnx.dtype import DType, code_of_dtype, dtype_name
from burnx.shape import Dim, symbols
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

_TEXTS = {
    "float32": "float",
    "float64": "double",
    "float4_e2m1fn": "float4e2m1",
    "float6_e2m3fn": "float6e2m3",
    "float6_e3m2fn": "float6e3m2",
    "float8_e8m0fnu": "float8e8m0",
}


def dtype_text(dtype: DType) -> str:
    """A dtype as schemas call it: ``float``, ``float8e4m3fn``."""
    name = dtype_name(dtype)
    return _TEXTS.get(name, name.replace("_", ""))


def type_text(kind: Type) -> str:
    """A type as schemas call it: ``seq(tensor(float))``."""
    match kind:
        case TensorType():
            return f"tensor({dtype_text(kind.dtype)})"
        case SequenceType():
            return f"seq({type_text(kind.element)})"
        case OptionalType():
            return f"optional({type_text(kind.element)})"
        case MapType():
            return f"map({dtype_text(kind.key)},{type_text(kind.value)})"


def value_info(name: str, kind: Type) -> Any:
    """The declaration of a value."""
    info = ValueInfoProto(name=name)
    _fill(info.type, kind)
    return info


def type_proto(kind: Type) -> Any:
    """The message of a type."""
    proto = TypeProto()
    _fill(proto, kind)
    return proto


def _fill(proto: Any, kind: Type) -> None:
    match kind:
        case TensorType():
            _fill_tensor(proto.tensor_type, kind)
        case SequenceType():
            _fill(proto.sequence_type.elem_type, kind.element)
        case OptionalType():
            _fill(proto.optional_type.elem_type, kind.element)
        case MapType():
            proto.map_type.key_type = code_of_dtype(kind.key)
            _fill(proto.map_type.value_type, kind.value)


def _fill_tensor(proto: Any, kind: TensorType) -> None:
    proto.elem_type = code_of_dtype(kind.dtype)
    if kind.shape is None:
        return
    proto.shape.SetInParent()
    for dim in kind.shape:
        entry = proto.shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        elif is_named(dim):
            entry.dim_param = str(dim)


def is_named(dim: Dim) -> bool:
    """Whether a dimension can be written down: a size that has no name of the model's has none in a file."""
    return not any(name.startswith("_") for name in symbols(dim))
