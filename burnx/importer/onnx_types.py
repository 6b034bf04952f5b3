"""ONNX's type declarations as types."""

from __future__ import annotations

import warnings
from typing import Any

from burnx.capture.inputs import is_dim_name, parse_dim
from burnx.dtype import dtype_of_code
from burnx.errors import ModelError, located
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


def settled_output(found: Type, info: Any, place: str) -> Type:
    """The type of an output of a model, of which the node at ``place`` gives ``found``."""
    with located(place):
        declared = declared_type(info.type, info.name)
        result = refine(found, declared, info.name)
    _warn_of_shape(result, declared, info.name, place)
    return result


def _warn_of_shape(found: Type, declared: Type, name: str, place: str) -> None:
    """Warn if an output cannot have the shape that it is declared with; what its nodes give is what it has."""
    own, said = (getattr(kind, "shape", None) for kind in (found, declared))
    # files say () where they know no shape
    if own is None or not said or not _contradict(own, said):
        return
    warnings.warn(
        f'output "{name}" is declared as {declared}, but its nodes give {found}, {place}; '
        "that declaration is left aside",
        UserWarning,
        stacklevel=3,
    )


def _contradict(left: Shape, right: Shape) -> bool:
    """Whether two shapes are of other ranks, or have other sizes that are known."""
    if len(left) != len(right):
        return True
    pairs = zip(left, right, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


def refine(found: Type, declared: Type, name: str) -> Type:
    """What is inferred, with what is declared where that says more.

    Raises: ModelError if they contradict each other.
    """
    if not isinstance(found, TensorType) or not isinstance(declared, TensorType):
        return found
    if found.dtype != declared.dtype:
        raise ModelError(f'value "{name}" is declared as {declared}, but it is {found}')
    return declared if found.shape is None and declared.shape is not None else found
