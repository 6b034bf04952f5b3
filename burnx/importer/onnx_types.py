"""ONNX's type declarations as types."""

from __future__ import annotations

from typing import Any

from burnx.capture.inputs import is_dim_name, parse_dim
from burnx.dtype import dtype_of_code
from burnx.errors import ModelError
from burnx.shape import Dim, Shape, symbol
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type


def declared_type(proto: Any, name: str) -> Type:
    """The type that a value is declared with.

    Raises: ModelError if it is none that burnx knows.
    """
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return TensorType(
            dtype_of_code(proto.tensor_type.elem_type), _shape(proto.tensor_type, name)
        )
    if kind == "sparse_tensor_type":
        return TensorType(
            dtype_of_code(proto.sparse_tensor_type.elem_type),
            _shape(proto.sparse_tensor_type, name),
        )
    if kind == "sequence_type":
        return SequenceType(declared_type(proto.sequence_type.elem_type, name))
    if kind == "optional_type":
        return OptionalType(declared_type(proto.optional_type.elem_type, name))
    if kind == "map_type":
        return MapType(
            dtype_of_code(proto.map_type.key_type), declared_type(proto.map_type.value_type, name)
        )
    raise ModelError(f'value "{name}" is declared without a type')


def _shape(proto: Any, name: str) -> Shape | None:
    if not proto.HasField("shape"):
        return None
    return tuple(_dim(dim, name, axis) for axis, dim in enumerate(proto.shape.dim))


def _dim(proto: Any, name: str, axis: int) -> Dim:
    if proto.HasField("dim_value") and proto.dim_value >= 0:
        return int(proto.dim_value)
    return parse_dim(proto.dim_param) if is_dim_name(proto.dim_param) else symbol(f"_{name}_{axis}")


def refine(found: Type, declared: Type, name: str) -> Type:
    """What is inferred, with what is declared where that says more.

    Raises: ModelError if they contradict each other.
    """
    if not isinstance(found, TensorType) or not isinstance(declared, TensorType):
        return found
    if found.dtype != declared.dtype:
        raise ModelError(f'value "{name}" is declared as {declared}, but it is {found}')
    return declared if found.shape is None and declared.shape is not None else found
