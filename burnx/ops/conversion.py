"""Cast and its kin."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import dtype_of_code, parse_dtype
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2
from burnx.ops.operator import REQUIRED, operator


def attribute_dtype(value: object) -> object:
    """The dtype an attribute names: by ONNX code, or by name."""
    return parse_dtype(value) if isinstance(value, str) else dtype_of_code(int(value))  # type: ignore[call-overload]


@operator("Cast", since=(1, 6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(input: T1, *, to: int | str = REQUIRED, saturate: int = 1, round_mode: str = "up") -> T2:  # type: ignore[assignment]
    """Convert the elements to the dtype ``to``; see ``primitives/scalar.py`` for what is out of range.

    Source: ONNX Cast-28
    """
    if round_mode != "up":
        raise ModelError(f'Cast rounds "up", not "{round_mode}"')
    return waist.cast_to(input, attribute_dtype(to), bool(saturate))  # type: ignore[arg-type]


@cast.infer
def _cast_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    from burnx.types import TensorType

    return [TensorType(attribute_dtype(attributes["to"]), None)]  # type: ignore[arg-type]


@cast.upgrade(from_version=5)
def cast_1(input: T1, *, to: str = REQUIRED) -> T2:  # type: ignore[assignment]
    """Cast whose dtype is a name such as FLOAT."""
    names = {"FLOAT": "float32", "DOUBLE": "float64"}
    return cast(input, to=names.get(to, str(to).lower()))
