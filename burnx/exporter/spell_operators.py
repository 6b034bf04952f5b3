"""Spellings of operators: burnx's own, and newer ones said in the words of an older opset."""

from __future__ import annotations

from burnx.dtype import bool_, code_of_dtype, dtype_name, float64, is_float
from burnx.exporter.spell_gradient import GRADIENT
from burnx.exporter.spell_lifted import LIFTED
from burnx.exporter.spell_sizes import spell_reshape, spell_sizes
from burnx.exporter.spelling import Emitter, Spelling
from burnx.graph import Node, Value
from burnx.shape import Shape
from burnx.types import TensorType, Type

_GEMM_DTYPES = {"float16", "float32", "float64", "bfloat16", "int32", "int64", "uint32", "uint64"}


def _rank(kind: Type) -> int | None:
    shape = kind.shape if isinstance(kind, TensorType) else None
    return None if shape is None else len(shape)


def _dtype_name(value: Value) -> str:
    return dtype_name(value.type.dtype) if isinstance(value.type, TensorType) else ""


def spell_linear(node: Node, emitter: Emitter) -> list[Value] | None:
    """Gemm for a matrix, else MatMul with the transposed weight, and Add."""
    x, weight, *rest = node.inputs
    bias = rest[0] if rest else None
    if x is None or weight is None:
        return None
    kind = node.outputs[0].type
    if _rank(x.type) == 2 and _dtype_name(x) in _GEMM_DTYPES:
        given = [x, weight] if bias is None else [x, weight, bias]
        return [emitter.emit("Gemm", given, kind, transB=1)]
    turned = emitter.once(("turned", weight), lambda: _turned(weight, emitter))
    product = emitter.emit("MatMul", [x, turned], kind)
    return [product if bias is None else emitter.emit("Add", [product, bias], kind)]


def _turned(weight: Value, emitter: Emitter) -> Value:
    assert isinstance(weight.type, TensorType)
    shape = None if weight.type.shape is None else weight.type.shape[::-1]
    kind = TensorType(weight.type.dtype, shape)
    return emitter.emit("Transpose", [weight], kind, perm=[1, 0])


def spell_swish(node: Node, emitter: Emitter) -> list[Value] | None:
    """x * sigmoid(alpha * x) before opset 24."""
    x = node.inputs[0]
    if emitter.opset >= 24 or x is None or not isinstance(x.type, TensorType):
        return None
    alpha, kind = node.attributes.get("alpha"), node.outputs[0].type
    scaled = x
    if alpha is not None and alpha != 1:
        factor = emitter.constant(alpha, x.type.dtype)
        scaled = emitter.emit("Mul", [x, factor], kind)
    gate = emitter.emit("Sigmoid", [scaled], kind)
    return [emitter.emit("Mul", [x, gate], kind)]


def spell_erf(node: Node, emitter: Emitter) -> list[Value] | None:
    """Erf of integers, which only opset 9 has: that of the same numbers as float64, cut."""
    x, kind = node.inputs[0], node.outputs[0].type
    if x is None or not isinstance(kind, TensorType) or is_float(kind.dtype):
        return None
    wide = TensorType(float64, kind.shape)
    found = emitter.emit("Erf", [emitter.emit("Cast", [x], wide, to=code_of_dtype(float64))], wide)
    return [emitter.emit("Cast", [found], kind, to=code_of_dtype(kind.dtype))]


def spell_mod(node: Node, emitter: Emitter) -> list[Value] | None:
    """The floored remainder of floats, before opset 28: the truncated one, plus b where their signs differ.

    A remainder of 0 has the sign of b.
    """
    a, b = node.inputs
    kind = node.outputs[0].type
    if emitter.opset >= 28 or node.attributes.get("fmod") or a is None or b is None:
        return None
    if not isinstance(kind, TensorType) or not is_float(kind.dtype):
        return None
    flags = TensorType(bool_, kind.shape)
    zero = emitter.constant(0, kind.dtype)
    rest = emitter.emit("Mod", [a, b], kind, fmod=1)
    is_low = emitter.emit("Less", [rest, zero], flags)
    is_low_divisor = emitter.emit("Less", [b, zero], TensorType(bool_, _shape(b)))
    differs = emitter.emit("Xor", [is_low, is_low_divisor], flags)
    is_zero = emitter.emit("Equal", [rest, zero], flags)
    is_rest = emitter.emit("Not", [is_zero], flags)
    moves = emitter.emit("And", [differs, is_rest], flags)
    moved = emitter.emit("Add", [rest, b], kind)
    signed = emitter.emit("Where", [is_low_divisor, emitter.constant(-0.0, kind.dtype), zero], kind)
    settled = emitter.emit("Where", [is_zero, signed, rest], kind)
    return [emitter.emit("Where", [moves, moved, settled], kind)]


def _shape(value: Value) -> Shape | None:
    return value.type.shape if isinstance(value.type, TensorType) else None


def spell_reduction(node: Node, emitter: Emitter) -> list[Value] | None:
    """Axes as an attribute before opset 18, where they are known."""
    if emitter.opset >= 18 or len(node.inputs) < 2 or node.inputs[1] is None:
        return None
    axes = emitter.resolve(node.inputs[1]).array
    if axes is None:
        return None
    if axes.size == 0 and node.attributes.get("noop_with_empty_axes"):
        return None
    given = {name: v for name, v in node.attributes.items() if name != "noop_with_empty_axes"}
    if axes.size:
        given["axes"] = [int(axis) for axis in axes.reshape(-1)]
    return [emitter.emit(node.operator, [node.inputs[0]], node.outputs[0].type, **given)]


def spell_split(node: Node, emitter: Emitter) -> list[Value] | None:
    """Sizes, or a number of parts; before opset 18 as many equal parts as there are outputs."""
    has_sizes = len(node.inputs) > 1 and node.inputs[1] is not None
    given = {name: value for name, value in node.attributes.items() if name != "num_outputs"}
    kinds = [value.type for value in node.outputs]
    if emitter.opset >= 18:
        if has_sizes or node.attributes.get("num_outputs") is not None:
            return None
        given["num_outputs"] = len(kinds)
    elif not has_sizes and not _is_known_equal(kinds, int(given.get("axis") or 0)):
        return None
    return emitter.emit_all("Split", node.inputs, kinds, **given)


def _is_known_equal(kinds: list[Type], axis: int) -> bool:
    sizes = {
        kind.shape[axis] if isinstance(kind, TensorType) and kind.shape is not None else None
        for kind in kinds
    }
    return None not in sizes and len(sizes) == 1


def spell_mean_variance(node: Node, emitter: Emitter) -> list[Value] | None:
    """The default axes are written out: ONNX's checker cannot look into this operator without them."""
    if node.attributes.get("axes") is not None:
        return None
    kind = node.outputs[0].type
    return [emitter.emit(node.operator, node.inputs, kind, axes=[0, 2, 3])]


def spell_stft(node: Node, emitter: Emitter) -> list[Value] | None:
    """The default is written out: the shape inference of ONNX's checker takes another one."""
    if node.attributes.get("onesided") is not None:
        return None
    return [emitter.emit(node.operator, node.inputs, node.outputs[0].type, onesided=1)]


def spell_scatter(node: Node, emitter: Emitter) -> list[Value] | None:
    """ScatterElements, which is Scatter's name since opset 11."""
    kind = node.outputs[0].type
    return [emitter.emit("ScatterElements", node.inputs, kind, axis=node.attributes.get("axis"))]


def spell_upsample(node: Node, emitter: Emitter) -> list[Value] | None:
    """Resize as Upsample did it, up to opset 10: asymmetric, rounding down."""
    if len(node.inputs) != 2:
        return None
    x, scales = node.inputs
    how = {
        "mode": node.attributes.get("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return [emitter.emit("Resize", [x, None, scales], node.outputs[0].type, **how)]


_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

SPELLINGS: dict[tuple[str, str], Spelling] = {
    ("burnx", "Sizes"): spell_sizes,
    ("burnx", "Linear"): spell_linear,
    ("", "Reshape"): spell_reshape,
    ("", "Swish"): spell_swish,
    ("", "Erf"): spell_erf,
    ("", "Mod"): spell_mod,
    ("", "Split"): spell_split,
    ("", "STFT"): spell_stft,
    ("", "Scatter"): spell_scatter,
    ("", "Upsample"): spell_upsample,
    ("", "MeanVarianceNormalization"): spell_mean_variance,
    **LIFTED,
    **GRADIENT,
    **{("", f"Reduce{name}"): spell_reduction for name in _REDUCTIONS},
}
