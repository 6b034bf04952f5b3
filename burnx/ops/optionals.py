"""Optionals: a value or nothing, which is None in a running program."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import bool_
from burnx.errors import ModelError
from burnx.ops.kinds import B, O, V
from burnx.ops.operator import operator
from burnx.ops.sequences import element_type
from burnx.tensor import Tensor
from burnx.types import OptionalType, SequenceType, TensorType, Type


def _content(kind: Type) -> Type:
    """The type of what an optional holds, sizes that are not numbers left open."""
    if isinstance(kind, SequenceType):
        return SequenceType(element_type(kind.element))
    return element_type(kind)


@operator("Optional", since=(15, 28))
def optional(input: V | None = None, *, type: Type | None = None) -> O:
    """An optional that holds the input, or nothing of a given type.  Source: ONNX Optional-28"""
    if input is not None:
        kind = OptionalType(_content(input.type))
        return waist.host("Optional", lambda value: [value], [input], [kind])[0]
    if type is None:
        raise ModelError("an Optional of nothing needs a type")
    return waist.host("Optional", lambda: [None], [], [OptionalType(_content(type))])[0]


@operator("OptionalGetElement", since=(15, 18, 28))
def optional_get_element(input: O) -> V:
    """What an optional holds.  Source: ONNX OptionalGetElement-28"""
    if not isinstance(input.type, OptionalType):
        return input

    def get(value: Any) -> list[Any]:
        if value is None:
            raise ModelError("OptionalGetElement needs an optional that holds something")
        return [value]

    return waist.host("OptionalGetElement", get, [input], [_content(input.type.element)])[0]


@operator("OptionalHasElement", since=(15, 18, 28))
def optional_has_element(input: O | None = None) -> B:
    """Whether there is something.  Source: ONNX OptionalHasElement-28"""
    if input is None or not isinstance(input.type, OptionalType):
        return waist.constant(input is not None, bool_)

    def has(value: Any) -> list[Any]:
        return [np.array(value is not None, np.bool_)]

    return _asked(has, input)


def _asked(has: Any, input: Tensor) -> Tensor:
    return waist.host("OptionalHasElement", has, [input], [TensorType(bool_, ())])[0]


@optional_has_element.infer
def _has_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(bool_, ())]
