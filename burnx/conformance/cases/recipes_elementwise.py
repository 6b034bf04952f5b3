"""Recipes of operators that go element by element."""

from __future__ import annotations

from burnx.conformance.cases.recipe import FromTypes, Recipe, dtype_code, recipes_for
from burnx.conformance.cases.type_text import element_name


def _dtype_word(variable: str) -> FromTypes:
    """The name of the element type of a variable, which the first version of Cast took."""
    return FromTypes((variable,), lambda types, _: element_name(types[variable]).upper())


_OF_WIDTH = {
    8: (
        "uint8",
        "int8",
        "bool",
        "float8e4m3fn",
        "float8e4m3fnuz",
        "float8e5m2",
        "float8e5m2fnuz",
        "float8e8m0",
    ),
    16: ("uint16", "int16", "float16", "bfloat16"),
    32: ("float", "uint32", "int32"),
    64: ("double", "uint64", "int64", "complex64"),
    128: ("complex128",),
    4: ("uint4", "int4", "float4e2m1"),
    2: ("uint2", "int2"),
}
_SIGNED = (
    "float16",
    "float",
    "double",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
)
"""What negative floats can be cast to; for other dtypes the standard leaves it open."""
_OLD_BROADCAST = {"broadcast": 1, "axis": 1}

RECIPES = [
    *recipes_for(
        "Abs Atan BitwiseNot Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsNaN LeakyRelu "
        "Mish Neg Not Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu",
        "2x3",
    ),
    *recipes_for("Cosh Asinh", "2x3"),
    *recipes_for("Acos Asin Atanh", "2x3 unit"),
    Recipe("Acosh", "2x3 above1"),
    *recipes_for("Log Sqrt", "2x3 positive"),
    Recipe("Reciprocal", "2x3 nonzero"),
    *recipes_for("IsNaN IsInf", "2x4 special", name="special"),
    Recipe("Round", "=[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]", name="halves"),
    Recipe("Gelu", "2x3", {"approximate": "tanh"}, name="tanh"),
    *recipes_for("Add Sub Mul", "2x3x4 | 3", attributes=_OLD_BROADCAST, until=6, name="axis"),
    Recipe("Div", "2x3x4 | 3 nonzero", _OLD_BROADCAST, until=6, name="axis"),
    *recipes_for("And Or Xor", "2x3x4 | 3", attributes=_OLD_BROADCAST, until=6, name="axis"),
    *recipes_for(
        "Equal Greater Less", "2x3x4 | 3", attributes=_OLD_BROADCAST, until=6, name="axis"
    ),
    Recipe("Pow", "2x3x4 positive | 3", _OLD_BROADCAST, until=6, name="axis"),
    *recipes_for("Add Sub Mul And Or Xor Equal Greater Less", "2x3 | 2x3", until=6),
    Recipe("Div", "2x3 | 2x3 nonzero", until=6),
    Recipe("Pow", "2x3 positive | 2x3", until=6),
    *recipes_for("Add Sub Mul And Or Xor Equal Greater Less", "2x3 | 3", since=7),
    *recipes_for("GreaterOrEqual LessOrEqual BitwiseAnd BitwiseOr BitwiseXor", "2x3 | 3"),
    Recipe("Div", "2x3 | 3 nonzero", since=7),
    Recipe("Mod", "2x3 | 3 nonzero", {"fmod": 1}),
    Recipe(
        "Mod",
        "=[-7, -6, 7, 6, 5] | =[4, -4, 4, -4, 5]",
        {"fmod": 0},
        types={"T": "tensor(int64)"},
        name="sign",
    ),
    Recipe("Pow", "2x3 positive | =[0, 1, 2]", since=7),
    Recipe("PRelu", "2x3 | 3 positive", until=6),
    Recipe("PRelu", "2x3 | 3 positive", since=7),
    *recipes_for("Max Min Mean Sum", "2x3 | 2x3 | 2x3", until=7),
    *recipes_for("Max Min Mean Sum", "2x3 | 3 | ()", since=8),
    Recipe("BitShift", "=[1, 2, 3, 12] | =[1, 0, 2, 1]", {"direction": "LEFT"}, name="left"),
    Recipe("BitShift", "=[1, 2, 3, 12] | =[1, 0, 2, 1]", {"direction": "RIGHT"}, name="right"),
    Recipe("Clip", "2x3 | =-1 | =1", {"min": -1.0, "max": 1.0}),
    Recipe("Where", "2x3 | 2x3 | 3"),
    Recipe("SwiGLU", "2x3 | 2x3"),
    # other types of the same numbers
    Recipe("Cast", "2x3 count", {"to": _dtype_word("T2")}, until=5),
    Recipe("Cast", "2x3 count", {"to": dtype_code("T2")}, since=6),
    Recipe(
        "Cast", "2x3 whole", {"to": dtype_code("T2")}, since=6, only={"T2": _SIGNED}, name="signs"
    ),
    Recipe(
        "Cast",
        "2x3",
        {"to": dtype_code("T2")},
        since=6,
        types={"T1": "tensor(double)"},
        only={"T1": ("double",), "T2": _SIGNED},
        name="quarters",
    ),
    Recipe("CastLike", "2x3 count | 2"),
    Recipe("CastLike", "2x3 whole | 2", only={"T2": _SIGNED}, name="signs"),
    *[
        Recipe(
            "BitCast",
            "2x4",
            {"to": dtype_code("T2")},
            types=dict.fromkeys(("T1", "T2"), f"tensor({kinds[0]})"),
            only={"T1": kinds, "T2": kinds},
        )
        for kinds in _OF_WIDTH.values()
    ],
]
