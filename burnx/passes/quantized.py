"""Quantized layers: a layer whose weight is dequantized, one whose input is quantized by its own range, and tensors
that are rounded to what bytes can say.

Each is lifted to an operator of burnx whose body calls the very operators that it was, so that it is bit for bit the
same, and is those operators again when it is exported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burnx.dtype import is_float, is_integer
from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.rewriting import Match, rewrite, rewrite_graph

OUTPUT_SCALE = 7  # its place among the inputs of QuantConv and QuantLinear
_BIAS = 4


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant that is dequantized: its bytes, scale and zero point, and along which axis these are."""

    data: Value
    scale: Value
    zero_point: Value | None
    axis: int = 0
    block_size: int = 0
    is_scaled: bool = False

    @property
    def values(self) -> tuple[Value, Value, Value | None]:
        return self.data, self.scale, self.zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.data)

    def fits(self, axis: int) -> bool:
        """Whether there is one scale, or one for each place along ``axis``."""
        if self.block_size or self.is_scaled:
            return False
        shape = shape_of(self.scale)
        return shape == () or (self.axis == axis and shape == (self.shape[axis],))


def lift_quantized_layers(graph: Graph) -> int:
    return rewrite_graph(graph, _conv, _product, _biased, _rows, _moved_rows, _scaled_rows)


def lift_dynamic_quantization(graph: Graph) -> int:
    return rewrite_graph(graph, _dynamic, _biased_dynamic)


def lift_fake_quantize(graph: Graph) -> int:
    return rewrite_graph(graph, _rounded, _biased)


# ------------------------------------------------------------------------------- what is stored as bytes
def shape_of(value: Value) -> tuple[int, ...]:
    assert value.array is not None
    return value.array.shape


def _plain(value: Value) -> Value:
    """A constant of one element as a scalar: a scale or zero point of the whole, which means the same."""
    assert value.array is not None
    if value.array.size != 1 or value.array.ndim == 0:
        return value
    return constant_value(value.array.reshape(()), value.name)


def _stored(match: Match, value: Value | None) -> Stored | None:
    """The constant behind a value, if it is one that was dequantized."""
    node = match.enter(value) if value is not None else None
    if node is None or node.domain:
        return None
    if node.operator == "Mul":
        return _cast_and_scaled(match, node)
    if node.operator != "DequantizeLinear" or not _says_only(node, "axis", "block_size"):
        return None
    given = [*node.inputs, None][:3]
    data, scale, zero_point = given
    if data is None or data.array is None or scale is None or scale.array is None:
        return None
    if zero_point is not None and zero_point.array is None:
        return None
    axis, rank = int(node.attributes.get("axis", 1)), data.array.ndim
    block_size = int(node.attributes.get("block_size", 0))
    if not block_size:
        scale, zero_point = _plain(scale), None if zero_point is None else _plain(zero_point)
    if zero_point is not None and shape_of(zero_point) != shape_of(scale):
        return None
    place = axis % rank if rank and -rank <= axis < rank else 0
    return Stored(data, scale, zero_point, place, block_size)


def _says_only(node: Node, *names: str) -> bool:
    return all(value == 0 or name in names for name, value in node.attributes.items())


def _cast_and_scaled(match: Match, node: Node) -> Stored | None:
    """A constant of bytes that is cast and multiplied by a scale for each of its rows or columns."""
    cast, scale = match.enter(node.inputs[0]) if node.inputs[0] else None, node.inputs[1]
    if cast is None or cast.operator != "Cast" or scale is None or scale.array is None:
        return None
    data = cast.inputs[0]
    if data is None or data.array is None or not is_integer(data.array.dtype):
        return None
    is_matrix = data.array.ndim == scale.array.ndim == 2 and 1 in scale.array.shape
    return Stored(data, scale, None, is_scaled=True) if is_matrix else None


def _stored_bias(match: Match, node: Node, size: int) -> list[Value | None] | None:
    """The bias of a convolution or Gemm with its scale and zero point; None if it is something else."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return []
    if bias.array is not None:
        return [bias] if bias.array.shape == (size,) else None
    stored = _stored(match, bias)
    if stored is None or stored.shape != (size,) or not stored.fits(0):
        return None
    return list(stored.values)


def _agree(weight: Stored, bias: Sequence[Value | None]) -> bool:
    """Whether a bias has a scale for each output where the weight has, and a zero point where it has one."""
    if len(bias) < 3 or bias[1] is None:
        return True
    is_alike = shape_of(bias[1]) == shape_of(weight.scale)
    return is_alike and (bias[2] is None) == (weight.zero_point is None)


# ------------------------------------------------------------------------------- layers
@rewrite("Conv")
def _conv(node: Node, match: Match) -> Value | None:
    """conv(x, dequantize(w), dequantize(b)) = quant_conv(x, w, b)"""
    weight = _stored(match, node.inputs[1])
    if weight is None or len(weight.shape) < 3 or not weight.fits(0):
        return None
    bias = _stored_bias(match, node, weight.shape[0])
    if bias is None or not _agree(weight, bias):
        return None
    given = (node.inputs[0], *weight.values, *bias)
    return match.make("QuantConv", *_trimmed(given), domain="burnx", **node.attributes)


def _trimmed(values: Sequence[Value | None]) -> Sequence[Value | None]:
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return values[:end]


@rewrite("MatMul", "Gemm")
def _product(node: Node, match: Match) -> Value | None:
    """x dequantize(w) = quant_linear(x, w), and the same of a Gemm with its bias"""
    weight = _stored(match, node.inputs[1])
    if weight is None or len(weight.shape) != 2:
        return None
    if node.operator == "MatMul":
        how = _how(weight, turned=False)
        given: Sequence[Value | None] = (node.inputs[0], *weight.values)
    else:
        bias = _stored_bias(match, node, weight.shape[0])
        if not _is_plain_gemm(node) or bias is None or not _agree(weight, bias):
            return None
        how = None if weight.block_size else _how(weight, turned=True)
        given = (node.inputs[0], *weight.values, *bias)
    if how is None:
        return None
    return match.make("QuantLinear", *_trimmed(given), domain="burnx", **how)


def _is_plain_gemm(node: Node) -> bool:
    wanted = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    given = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **node.attributes}
    return given == wanted


def _how(weight: Stored, turned: bool) -> dict[str, Any] | None:
    """The attributes that say how a matrix is stored; None if no layer stores it so."""
    found: dict[str, Any] = {"turned": 1} if turned else {}
    if weight.is_scaled:
        fits = not turned and shape_of(weight.scale) == (1, weight.shape[1])
        return {"scaled": 1} if fits else None
    if weight.block_size:
        if weight.axis != (1 if turned else 0):
            return None
        return found | {"block_size": weight.block_size}
    return found if weight.fits(0 if turned else 1) else None


@rewrite("Add")
def _biased(node: Node, match: Match) -> Value | None:
    """quant_linear(x, w) + b = quant_linear(x, w, b)"""
    found = _addend(node, match, "QuantLinear")
    if found is None or found[0].attributes.get("turned"):
        return None
    inner, bias = found
    given = list(inner.inputs) + [None] * (_BIAS + 1 - len(inner.inputs))
    if given[_BIAS] is not None:
        return None
    given[_BIAS] = bias
    return match.make("QuantLinear", *given, domain="burnx", like=inner, **inner.attributes)


def _addend(node: Node, match: Match, operator: str) -> tuple[Node, Value] | None:
    """A layer without a bias, and the bias that is added to what it gives."""
    for place in (0, 1):
        inner = match.inner(node.inputs[place], operator, "burnx")
        bias = node.inputs[1 - place]
        if inner is None or bias is None or bias.array is None or inner.inputs[1] is None:
            continue
        if bias.array.shape == shape_of(inner.inputs[1])[1:] and is_float(bias.array.dtype):
            return inner, bias
    return None


# ------------------------------------------------------------------------------- tables
@rewrite("DequantizeLinear")
def _rows(node: Node, match: Match) -> Value | None:
    """dequantize(gather(w, i)) = quant_embedding(w, i)"""
    gather = match.inner(node.inputs[0], "Gather")
    rows = None if gather is None else _looked_up(node, gather)
    return match.make("QuantEmbedding", *rows, domain="burnx", like=gather) if rows else None


@rewrite("DequantizeLinear")
def _moved_rows(node: Node, match: Match) -> Value | None:
    """dequantize(transpose(gather(w, i))) = transpose(quant_embedding(w, i)), of one scale"""
    turning = match.inner(node.inputs[0], "Transpose")
    if turning is None or turning.inputs[0] is None:
        return None
    inner = Match(turning, match.editor)
    gather = inner.inner(turning.inputs[0], "Gather")
    rows = None if gather is None else _looked_up(node, gather)
    if not rows:
        return None
    found = match.put("QuantEmbedding", *rows, domain="burnx", like=gather)
    return match.make("Transpose", found, like=turning, **turning.attributes) if found else None


def _looked_up(node: Node, gather: Node) -> list[Value | None]:
    """The inputs of an embedding of bytes with one scale; none if it is something else."""
    table, indices = gather.inputs
    scale, zero_point = [*node.inputs[1:], None][:2]
    if table is None or table.array is None or table.array.ndim < 2 or indices is None:
        return []
    if gather.attributes.get("axis", 0) or not _says_only(node, "axis") or indices.is_constant:
        return []
    if scale is None or scale.array is None or scale.array.size != 1:
        return []
    if zero_point is not None and (zero_point.array is None or zero_point.array.size != 1):
        return []
    return [table, _plain(scale), None if zero_point is None else _plain(zero_point), indices]


@rewrite("Gather")
def _scaled_rows(node: Node, match: Match) -> Value | None:
    """gather(cast(w) * scale, i) = quant_embedding(w, i)"""
    table, indices = _stored(match, node.inputs[0]), node.inputs[1]
    if table is None or not table.is_scaled or node.attributes.get("axis", 0):
        return None
    if indices is None or indices.is_constant or shape_of(table.scale) != (table.shape[0], 1):
        return None
    return match.make("QuantEmbedding", *table.values, indices, domain="burnx", scaled=1)


# ------------------------------------------------------------------------------- quantized while running
@rewrite("Mul")
def _dynamic(node: Node, match: Match) -> Value | None:
    """cast(mat_mul_integer(q, w, z, zw)) * (s * sw) = dynamic_quant_linear(x, w), q, s, z = dynamic_quantize(x)"""
    for place in (0, 1):
        cast = match.inner(node.inputs[place], "Cast")
        scales = match.inner(node.inputs[1 - place], "Mul")
        if cast is None or scales is None:
            continue
        product = Match(cast, match.editor).inner(cast.inputs[0], "MatMulInteger")
        source = None if product is None else _source(product, scales)
        if product is None or source is None:
            continue
        weight, scale = product.inputs[1], _weight_scale(scales)
        zero_point = product.inputs[3] if len(product.inputs) > 3 else None
        if weight is None or scale is None or not _is_of_columns(weight, scale, zero_point):
            continue
        zero_point = None if zero_point is None else _plain(zero_point)
        given = (source, weight, _plain(scale), zero_point)
        return match.make("DynamicQuantLinear", *_trimmed(given), domain="burnx", like=product)
    return None


def _source(product: Node, scales: Node) -> Value | None:
    """What was quantized by its own range for a product that takes all that this gave."""
    stored = product.inputs[0]
    quantizing = None if stored is None else stored.producer
    if quantizing is None or quantizing.operator != "DynamicQuantizeLinear":
        return None
    data, scale, zero_point = quantizing.outputs
    is_whole = stored is data and len(product.inputs) > 2 and product.inputs[2] is zero_point
    return quantizing.inputs[0] if is_whole and scale in scales.inputs else None


def _weight_scale(scales: Node) -> Value | None:
    return next((value for value in scales.inputs if value is not None and value.is_constant), None)


def _is_of_columns(weight: Value, scale: Value, zero_point: Value | None) -> bool:
    """Whether a constant matrix has one scale and zero point, or one of both for each column."""
    if weight.array is None or weight.array.ndim != 2 or scale.array is None:
        return False
    if zero_point is not None and zero_point.array is None:
        return False
    columns = (weight.array.shape[1],)
    shapes = {shape_of(_plain(each)) for each in (scale, zero_point) if each is not None}
    return shapes in ({()}, {columns})


@rewrite("Add")
def _biased_dynamic(node: Node, match: Match) -> Value | None:
    """dynamic_quant_linear(x, w) + b = dynamic_quant_linear(x, w, b)"""
    found = _addend(node, match, "DynamicQuantLinear")
    if found is None or len(found[0].inputs) > _BIAS:
        return None
    inner, bias = found
    given = [*inner.inputs, *[None] * (_BIAS - len(inner.inputs)), bias]
    return match.make("DynamicQuantLinear", *given, domain="burnx", like=inner)


# ------------------------------------------------------------------------------- rounded to bytes
@rewrite("DequantizeLinear")
def _rounded(node: Node, match: Match) -> Value | None:
    """dequantize(quantize(x)) = fake_quantize(x), and what follows a quantized layer is part of it"""
    quantizing = match.inner(node.inputs[0], "QuantizeLinear")
    if quantizing is None or not _says_only(node, "axis") or not _says_only(quantizing, "axis"):
        return None
    options = {} if node.attributes.get("axis", 1) == 1 else {"axis": node.attributes["axis"]}
    if quantizing.attributes.get("axis", 1) != node.attributes.get("axis", 1):
        return None
    scales = _one_scale([*quantizing.inputs, None][1:3], [*node.inputs, None][1:3])
    if scales is None:
        return None
    x = quantizing.inputs[0]
    layer = None if x is None else Match(quantizing, match.editor).enter(x)
    if layer is not None and _takes_output(layer, scales, match, quantizing):
        given = [*layer.inputs, *[None] * (OUTPUT_SCALE - len(layer.inputs)), *scales]
        given = list(_trimmed(given))
        return match.make(layer.operator, *given, domain="burnx", like=layer, **layer.attributes)
    given = list(_trimmed([x, *scales]))
    like = layer if layer is not None else quantizing
    return match.make("FakeQuantize", *given, domain="burnx", like=like, **options)


def _one_scale(
    left: Sequence[Value | None], right: Sequence[Value | None]
) -> list[Value | None] | None:
    """The scale and zero point of both, plain; None if they are not constant and the same."""
    found: list[Value | None] = []
    for a, b in zip(left, right, strict=True):
        if a is None and b is None:
            found.append(None)
            continue
        if a is None or b is None or a.array is None or b.array is None:
            return None
        same = a.array.dtype == b.array.dtype and a.array.shape == b.array.shape
        if not same or a.array.tobytes() != b.array.tobytes():
            return None
        found.append(_plain(a))
    scale, zero_point = found
    if scale is None or (zero_point is not None and shape_of(zero_point) != shape_of(scale)):
        return None
    return found


def _takes_output(layer: Node, scales: Sequence[Value | None], match: Match, reader: Node) -> bool:
    """Whether the result of a layer is rounded next, and by one scale."""
    if (layer.operator, layer.domain) not in (("QuantConv", "burnx"), ("QuantLinear", "burnx")):
        return False
    if scales[0] is None or shape_of(scales[0]) != () or len(layer.inputs) > OUTPUT_SCALE:
        return False
    is_late = layer.operator == "QuantLinear" and not layer.attributes.get("turned")
    if is_late and len(layer.inputs) > _BIAS and layer.inputs[_BIAS] is not None:
        return False  # the product alone would be rounded
    has_zero = len(layer.inputs) > 3 and layer.inputs[3] is not None
    if has_zero != (scales[1] is not None):
        return False
    return match.editor.is_only_used_by(layer.outputs[0], {reader})
