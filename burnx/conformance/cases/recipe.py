"""Recipes: the inputs and attributes of a small case of an operator, as data.

Inputs are one text, with ``|`` between them:

    2x3              an array of that shape; ``()`` is a scalar
    2x3 positive     the same with values of that kind (``values.py`` lists the kinds)
    =[1, 2]          these values, in the dtype of the input
    scales: =[2.0]   the input of that name, for operators whose inputs moved
    =0.5 @float      an input of that element type, where its variable has another one
    -                an optional input that is left out

A recipe fits itself to every version of its operator: inputs and attributes that a version does not have are
dropped.  Sequences and optionals of the same element are made where the type asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from burnx.conformance.cases.type_text import element_name
from burnx.conformance.cases.values import make_value

Binding: TypeAlias = Mapping[str, str]
"""The type text of each type variable in a case."""

NEWEST = 1_000


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a case of an operator is made of, for the versions from ``since`` to ``until``.

    ``types`` are default types of type variables, ``tied`` variables follow the type of another one where they may,
    ``only`` names the element types that a variable is tried with where not all make sense.
    ``captured`` is a value that only graphs among the attributes read.
    """

    operator: str
    inputs: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    since: int = 1
    until: int = NEWEST
    outputs: int = 0
    types: Mapping[str, str] = field(default_factory=dict)
    tied: Mapping[str, str] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    captured: tuple[str, str] | None = None
    name: str = ""

    def covers(self, version: int) -> bool:
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True)
class FromTypes:
    """An attribute whose value depends on the types of the case and the opset of its model; None leaves it out."""

    variables: tuple[str, ...]
    make: Callable[[Binding, int], Any]


def recipes_for(operators: str, inputs: str = "", **settings: Any) -> list[Recipe]:
    """The same recipe for several operators."""
    return [Recipe(operator, inputs, **settings) for operator in operators.split()]


def dtype_code(variable: str) -> FromTypes:
    """The number that stands for the element type of a variable."""
    return FromTypes((variable,), lambda types, _: element_code(types[variable]))


def element_code(type_text: str) -> int:
    return TensorProto.DataType.Value(element_name(type_text).upper())


def tensor_of(variable: str, spec: str) -> FromTypes:
    """A constant of the type of a variable."""

    def make(types: Binding, _: int) -> TensorProto:
        array = make_value(types[variable], spec, np.random.default_rng(0))
        if array.dtype == object:
            texts = [text.encode() for text in array.flat]
            return helper.make_tensor("value", TensorProto.STRING, array.shape, texts)
        return numpy_helper.from_array(array, "value")

    return FromTypes((variable,), make)
