"""Linear layers whose input is quantized by its own range."""

from __future__ import annotations

from burnx.graph import Graph, Node, Value
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.stored import BIAS, find_addend, plain, shape_of, trimmed


def lift_dynamic_quantization(graph: Graph) -> int:
    return rewrite_graph(graph, _dynamic, _biased_dynamic)


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
        zero_point = None if zero_point is None else plain(zero_point)
        given = (source, weight, plain(scale), zero_point)
        return match.make("DynamicQuantLinear", *trimmed(given), domain="burnx", like=product)
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
    shapes = {shape_of(plain(each)) for each in (scale, zero_point) if each is not None}
    return shapes in ({()}, {columns})


@rewrite("Add")
def _biased_dynamic(node: Node, match: Match) -> Value | None:
    """dynamic_quant_linear(x, w) + b = dynamic_quant_linear(x, w, b)"""
    found = find_addend(node, match, "DynamicQuantLinear")
    if found is None or len(found[0].inputs) > BIAS:
        return None
    inner, bias = found
    given = [*inner.inputs, *[None] * (BIAS - len(inner.inputs)), bias]
    return match.make("DynamicQuantLinear", *given, domain="burnx", like=inner)
