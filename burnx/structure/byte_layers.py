"""Nodes that are layers of bytes: what they take and give is quantized, each tensor by a scale and a zero point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnx.graph import Value, constant_value
from burnx.structure.layer_reading import (
    Layer,
    Reader,
    Rule,
    dtype_of,
    dtype_option,
    has_shapes,
    kernel_of,
    shape_of,
    spatial,
    unless,
    weights_of,
)

# the inputs of QLinearConv and QGemm behind the first, as far as they are the same
_LEFT = ("input_scale", "input_zero_point", "weight", "weight_scale", "weight_zero_point")
_AXES = (1, 2, 3)  # that convolutions have


def _q_conv(reader: Reader) -> Layer | None:
    names = (*_LEFT, "output_scale", "output_zero_point", "bias")
    fields = weights_of(reader, {name: place for place, name in enumerate(names, 1)})
    shape, each = shape_of(fields["weight"]), shape_of(fields["weight_scale"])
    sides = dict.fromkeys(names[:2] + names[5:7], ())
    fits = each in ((), shape[:1]) and has_shapes(fields, {**sides, "weight_zero_point": each})
    if len(shape) - 2 not in _AXES or not fits:
        return None
    options = spatial(reader, len(shape) - 2)
    assert options is not None
    args = (shape[1] * options.get("groups", 1), shape[0], kernel_of(reader, fields["weight"]))
    options |= _of_bytes(fields) | ({"per_channel": True} if each else {})
    options |= unless("output", dtype_of(fields["output_zero_point"]), "uint8")
    kind = f"QLinearConv{len(shape) - 2}d"
    return Layer(kind, args, options, fields, (reader.node.inputs[0],))


def _of_bytes(fields: Mapping[str, Value]) -> dict[str, Any]:
    options: dict[str, Any] = {} if "bias" in fields else {"bias": False}
    options |= unless("dtype", dtype_of(fields["input_zero_point"]), "uint8")
    return options | unless("weight_dtype", dtype_of(fields["weight"]), "int8")


def _q_gemm(reader: Reader) -> Layer | None:
    names = (*_LEFT, "bias", "output_scale", "output_zero_point")
    fields = weights_of(reader, {name: place for place, name in enumerate(names, 1)})
    rows, columns = shape_of(fields["weight"])
    each = shape_of(fields["weight_scale"])
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(names[:2] + names[6:], ())
    shapes |= {"weight_zero_point": each, "bias": (rows,)}
    if not reader.take("transB", 0) or each not in ((), (rows,)) or not has_shapes(fields, shapes):
        return None
    options = _of_bytes(fields) | ({"per_channel": True} if each else {})
    zero_point = fields.get("output_zero_point")
    options |= unless("output", None if zero_point is None else dtype_of(zero_point), "uint8")
    return Layer("QGemm", (columns, rows), options, fields, (reader.node.inputs[0],))


# ------------------------------------------------------------------------------- products that give floats
def linear_of_bytes(
    reader: Reader, names: dict[str, int]
) -> tuple[tuple[int, ...], dict[str, Any], dict[str, Value]] | None:
    """Sizes, options and fields of a product with a matrix of bytes; None if no layer holds them."""
    fields = {name: _plain(value) for name, value in weights_of(reader, names).items()}
    size, each = shape_of(fields["weight"]), shape_of(fields["weight_scale"])
    if len(size) != 2 or each not in ((), size[1:]):
        return None
    if not has_shapes(fields, {"weight_zero_point": each, "bias": size[1:]}):
        return None
    options: dict[str, Any] = {} if "bias" in fields else {"bias": False}
    options |= {"per_channel": True} if each else {}
    options |= {} if "weight_zero_point" in fields else {"zero_point": False}
    options |= unless("weight_dtype", dtype_of(fields["weight"]), "int8")
    return size, options | dtype_option(fields["weight_scale"]), fields


def _plain(value: Value) -> Value:
    """A scale or zero point of one element as a scalar, which means the same to these operators."""
    array = value.array
    if array is None or array.ndim != 1 or array.size != 1:
        return value
    return constant_value(array.reshape(()), value.name)


def _integer_linear(reader: Reader) -> Layer | None:
    names = {"weight": 1, "weight_scale": 3, "weight_zero_point": 5, "bias": 6}
    held, inputs = linear_of_bytes(reader, names), [*reader.node.inputs, None, None][:5]
    given = [inputs[0], inputs[2], inputs[4]]
    if held is None or any(value is not None and value.is_constant for value in given):
        return None
    args, options, fields = held
    taken = tuple(given if given[2] is not None else given[:2])
    return Layer("IntegerLinear", args, options, fields, taken)


# ------------------------------------------------------------------------------- operators without weights
def _of_sides(kind: str, word: str, *sides: str) -> Rule:
    """The rule for an operator whose every tensor has a scale and a zero point, its result the last."""
    every = (*sides, "output")

    def rule(reader: Reader) -> Layer | None:
        places: dict[str, int] = {}
        for number, side in enumerate(every):
            # the result itself is no input
            start = 3 * number - (1 if side == "output" else 0)
            places |= {f"{side}_scale": start + 1, f"{side}_zero_point": start + 2}
        fields = weights_of(reader, places)
        given = tuple(reader.node.inputs[3 * number] for number in range(len(sides)))
        options = _scaled_sides(fields, len(places), given)
        if options is None:
            return None
        attributes = {name: reader.take(name, None) for name in list(reader.rest)}
        return Layer(kind, (), attributes | options, fields, given, word=word)

    return rule


def _scaled_sides(
    fields: Mapping[str, Value], count: int, given: tuple[Value | None, ...]
) -> dict[str, Any] | None:
    """The dtype of tensors of one scale each; None if they are something else."""
    dtypes = {dtype_of(value) for name, value in fields.items() if "zero_point" in name}
    is_plain = all(shape_of(value) == () for value in fields.values())
    if len(fields) != count or len(dtypes) != 1 or not is_plain:
        return None
    if any(value is None or value.is_constant for value in given):
        return None
    return unless("dtype", dtypes.pop(), "uint8")


def _concat(reader: Reader) -> Layer | None:
    count = (len(reader.node.inputs) - 2) // 3
    places = {"output_scale": 0, "output_zero_point": 1}
    for number in range(count):
        places |= {f"scale_{number}": 3 * number + 3, f"zero_point_{number}": 3 * number + 4}
    fields = weights_of(reader, places)
    given = tuple(reader.node.inputs[3 * number + 2] for number in range(count))
    options = _scaled_sides(fields, len(places), given)
    if options is None:
        return None
    args = (count, reader.take("axis", 0))
    return Layer("QLinearConcat", args, options, fields, given, word="concat")


_TWO, _ONE = ("left", "right"), ("input",)
_MICROSOFT = "com.microsoft"
BYTES: dict[tuple[str, str], Rule] = {
    ("", "QLinearConv"): _q_conv,
    ("", "QLinearMatMul"): _of_sides("QLinearMatMul", "matmul", *_TWO),
    (_MICROSOFT, "QGemm"): _q_gemm,
    (_MICROSOFT, "MatMulIntegerToFloat"): _integer_linear,
    (_MICROSOFT, "QLinearConcat"): _concat,
} | {
    (_MICROSOFT, kind): _of_sides(kind, word, *sides)
    for kind, word, sides in (
        ("QLinearAdd", "add", _TWO),
        ("QLinearMul", "mul", _TWO),
        ("QLinearSigmoid", "sigmoid", _ONE),
        ("QLinearLeakyRelu", "leaky_relu", _ONE),
        ("QLinearSoftmax", "softmax", _ONE),
        ("QLinearReduceMean", "mean", _ONE),
        ("QLinearAveragePool", "pool", _ONE),
        ("QLinearGlobalAveragePool", "pool", _ONE),
    )
}
