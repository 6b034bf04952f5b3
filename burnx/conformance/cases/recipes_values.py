"""Recipes of operators that make values (constants, random numbers) and of sequences and optionals."""

from __future__ import annotations

import base64
from typing import Any

from burnx.conformance.cases.recipe import (
    Binding,
    FromTypes,
    Recipe,
    dtype_code,
    element_code,
    recipes_for,
    tensor_of,
)
from burnx.conformance.cases.type_text import split_type, type_proto

_PICTURE = base64.b64decode(
    "Qk1GAAAAAAAAADYAAAAoAAAAAgAAAAIAAAABABgAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAA/wAAAP8AAAAA/////wAAAA=="
)
"""Two by two pixels as a BMP file."""


def _optional_type() -> FromTypes:
    """The type that an empty optional holds."""
    return FromTypes(("O",), lambda types, _: type_proto(split_type(types["O"])[1]))


def _sequence_code(types: Binding, _: int) -> Any:
    return element_code(types["S"])


RECIPES = [
    Recipe("Constant", "", {"value": tensor_of("T", "2x3")}),
    *[
        Recipe("Constant", "", {name: value}, since=12, name=name)
        for name, value in (
            ("value_float", 1.5),
            ("value_floats", [1.5, -2.0]),
            ("value_int", 3),
            ("value_ints", [3, -4]),
            ("value_string", "déf"),
            ("value_strings", ["a", ""]),
        )
    ],
    Recipe("ConstantOfShape", "=[2, 3]", {"value": tensor_of("T2", "1")}),
    Recipe("ConstantOfShape", "=[2, 0]", name="empty"),
    Recipe("EyeLike", "3x4", {"k": 1, "dtype": dtype_code("T2")}),
    Recipe("Range", "=1 | =7 | =2"),
    *recipes_for(
        "RandomNormalLike RandomUniformLike",
        "2x3",
        attributes={"seed": 1.0, "dtype": dtype_code("T2")},
        types={"T1": "tensor(float)"},
    ),
    *recipes_for(
        "RandomNormal RandomUniform",
        attributes={"seed": 1.0, "shape": [2, 3], "dtype": dtype_code("T")},
    ),
    Recipe("Bernoulli", "2x3 part", {"seed": 1.0, "dtype": dtype_code("T2")}),
    Recipe("Multinomial", "2x3", {"seed": 1.0, "sample_size": 4, "dtype": dtype_code("T2")}),
    Recipe("ImageDecoder", f"={list(_PICTURE)}"),
    # sequences
    Recipe("SequenceEmpty", "", {"dtype": FromTypes(("S",), _sequence_code)}),
    Recipe("SequenceConstruct", "2x3 | 1x2"),
    Recipe("SequenceAt", "2x3 | =-1", types={"I": "tensor(int64)"}),
    Recipe("SequenceErase", "2x3 | =0", types={"I": "tensor(int64)"}),
    Recipe(
        "SequenceInsert", "2x3 | 1x2 | =1", types={"I": "tensor(int64)"}, tied={"T": "S", "S": "T"}
    ),
    Recipe("SequenceLength", "2x3"),
    Recipe("ConcatFromSequence", "2x3", {"axis": 1}),
    Recipe("ConcatFromSequence", "2x3", {"axis": 0, "new_axis": 1}, name="new"),
    Recipe("SplitToSequence", "4x2 | =[1, 3]", types={"I": "tensor(int64)"}),
    Recipe("SplitToSequence", "4x2", {"axis": 1, "keepdims": 0}, name="each"),
    # optionals
    Recipe("Optional", "2x3"),
    Recipe("Optional", "", {"type": _optional_type()}, name="empty"),
    Recipe("OptionalGetElement", "2x3"),
    Recipe("OptionalHasElement", "2x3"),
    Recipe("OptionalHasElement", "", since=18, name="absent"),
]
