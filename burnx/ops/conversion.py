"""Cast and its kin."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import DType, dtype_name, dtype_of_code, float32, int32, parse_dtype, uint8
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Flag
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor
from burnx.types import TensorType

FLOAT8_E8M0, FLOAT8_E5M2 = parse_dtype("float8_e8m0fnu"), parse_dtype("float8_e5m2")
# the least mantissa that rounds up: of a normal float32, and of one below 2^-126, whose first bit is 2^-127
_ROUNDS_UP: dict[str, tuple[int, int]] = {
    "up": (1, 0x400001),
    "nearest": (0x400000, 0x600000),
    "down": (0x800000, 0x800000),
}


def attribute_dtype(value: object) -> DType:
    """The dtype an attribute names: by ONNX code, or by name."""
    return parse_dtype(value) if isinstance(value, str) else dtype_of_code(int(value))  # type: ignore[call-overload]


@operator("Cast", since=(1, 6, 9, 13, 19, 21, 23, 24, 25, 28))
def cast(input: T1, *, to: int | str = REQUIRED, saturate: Flag = 1, round_mode: str = "up") -> T2:  # type: ignore[assignment]
    """Convert the elements to the dtype ``to``; see ``primitives/scalar.py`` for what is out of range.

    Source: ONNX Cast-28
    """
    dtype = attribute_dtype(to)
    if dtype == FLOAT8_E8M0:
        return _to_power_of_two(input, bool(saturate), round_mode)
    if (
        dtype == input.dtype == FLOAT8_E5M2 and saturate
    ):  # the only one that holds an infinity to saturate
        return waist.cast_to(waist.cast_to(input, float32), dtype, True)
    return waist.cast_to(input, dtype, bool(saturate))


def _to_power_of_two(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """float8_e8m0, which holds nothing but an exponent: 2^-127 … 2^127 and NaN.

    Without ``saturate`` what is out of range gives NaN.
    """
    if round_mode not in _ROUNDS_UP:
        raise ModelError(f'Cast rounds {", ".join(_ROUNDS_UP)}, not "{round_mode}"')

    def number(value: int) -> Tensor:
        return waist.constant(value, int32)

    bits = waist.bitcast(waist.cast_to(x, float32), int32)
    exponent = waist.map("bit_and", waist.map("shift_right", bits, number(23)), number(0xFF))
    mantissa = waist.map("bit_and", bits, number(0x7FFFFF))
    is_tiny = waist.map("eq", exponent, number(0))
    normal, tiny = (number(value) for value in _ROUNDS_UP[round_mode])
    rises = waist.map("le", waist.map("select", is_tiny, tiny, normal), mantissa)
    code = waist.map("add", exponent, waist.cast_to(rises, int32))
    code = waist.map("min", code, number(0xFE if saturate else 0xFF))
    if not saturate:
        below = waist.map("and", is_tiny, waist.map("lt", mantissa, number(0x400000)))
        code = waist.map("select", below, number(0xFF), code)
    is_nan = waist.map(
        "and", waist.map("eq", exponent, number(0xFF)), waist.map("lt", number(0), mantissa)
    )
    code = waist.map("select", is_nan, number(0xFF), code)
    return waist.bitcast(waist.cast_to(code, uint8), FLOAT8_E8M0)


@operator("CastLike", since=(15, 19, 21, 23, 24, 25))
def cast_like(input: T1, target_type: T2, *, saturate: Flag = 1, round_mode: str = "up") -> T2:
    """Convert the elements to the dtype of another tensor.  Source: ONNX CastLike-25"""
    name = dtype_name(target_type.dtype)
    return cast(input, to=name, saturate=saturate, round_mode=round_mode)


@cast.infer
def _cast_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [TensorType(attribute_dtype(attributes["to"]), None)]


@cast.upgrade(from_version=5)
def cast_1(input: T1, *, to: str = REQUIRED) -> T2:  # type: ignore[assignment]
    """Cast whose dtype is a name such as FLOAT."""
    names = {"FLOAT": "float32", "DOUBLE": "float64"}
    return cast(input, to=names.get(to, str(to).lower()))
