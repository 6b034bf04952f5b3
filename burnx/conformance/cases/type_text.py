"""Types as the schemas write them: ``tensor(float)``, ``seq(tensor(int64))``, ``map(string, float)``."""

from __future__ import annotations

import re

from onnx import TensorProto, TypeProto, helper

from burnx.dtype import DType, dtype_name, dtype_of_code

_WRAPPED = re.compile(r"(tensor|sparse_tensor|seq|optional|map)\((.*)\)")


def split_type(text: str) -> tuple[str, str]:
    """The outer word of a type, and what stands in its brackets."""
    match = _WRAPPED.fullmatch(text.strip())
    return (match[1], match[2]) if match else ("", text.strip())


def element_name(text: str) -> str:
    """The element type at the bottom: ``float`` of ``seq(tensor(float))``; the values' of a map."""
    while True:
        word, inner = split_type(text)
        if not word:
            return inner
        text = inner.split(",", 1)[1] if word == "map" else inner


def dtype_of(text: str) -> DType:
    """The NumPy dtype of the element type."""
    return dtype_of_code(TensorProto.DataType.Value(element_name(text).upper()))


def short_name(text: str) -> str:
    """The name of a type in names of cases: ``float32``, ``seq_int64``, ``map_string_float32``."""
    word, inner = split_type(text)
    if word == "map":
        return "_".join(["map", *(short_name(part) for part in inner.split(","))])
    if word in ("", "tensor"):
        return dtype_name(dtype_of(text))
    return f"{word}_{short_name(inner)}"


def type_proto(text: str, shape: tuple[int, ...] | None = None) -> TypeProto:
    """The type as the model files store it; the shape is that of the tensors at the bottom."""
    word, inner = split_type(text)
    if word == "seq":
        return helper.make_sequence_type_proto(type_proto(inner, shape))
    if word == "optional":
        return helper.make_optional_type_proto(type_proto(inner, shape))
    if word == "map":
        key, value = inner.split(",", 1)
        code = TensorProto.DataType.Value(key.strip().upper())
        return helper.make_map_type_proto(code, type_proto(value))
    code = TensorProto.DataType.Value(element_name(text).upper())
    return helper.make_tensor_type_proto(code, shape)


def type_text(proto: TypeProto) -> str:
    """A stored type as the schemas write it."""
    word = proto.WhichOneof("value")
    if word == "sequence_type":
        return f"seq({type_text(proto.sequence_type.elem_type)})"
    if word == "optional_type":
        return f"optional({type_text(proto.optional_type.elem_type)})"
    if word == "map_type":
        key = TensorProto.DataType.Name(proto.map_type.key_type).lower()
        return f"map({key}, {type_text(proto.map_type.value_type)})"
    return f"tensor({TensorProto.DataType.Name(proto.tensor_type.elem_type).lower()})"
