"""Tensors that are quantized and dequantized again: rounded to what bytes can say."""

from __future__ import annotations

from collections.abc import Sequence

from burnx.graph import Graph, Node, Value
from burnx.passes.quantized import add_bias
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.stored import BIAS, plain, says_only, shape_of, trimmed

OUTPUT_SCALE = 7  # its place among the inputs of QuantConv and QuantLinear


def lift_fake_quantize(graph: Graph) -> int:
    return rewrite_graph(graph, _rounded, add_bias)


@rewrite("DequantizeLinear")
def _rounded(node: Node, match: Match) -> Value | None:
    """dequantize(quantize(x)) = fake_quantize(x), and what follows a quantized layer is part of it"""
    quantizing = match.inner(node.inputs[0], "QuantizeLinear")
    if quantizing is None or not says_only(node, "axis") or not says_only(quantizing, "axis"):
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
        given = list(trimmed(given))
        return match.make(layer.operator, *given, domain="burnx", like=layer, **layer.attributes)
    given = list(trimmed([x, *scales]))
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
        found.append(plain(a))
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
    if is_late and len(layer.inputs) > BIAS and layer.inputs[BIAS] is not None:
        return False  # the product alone would be rounded
    has_zero = len(layer.inputs) > 3 and layer.inputs[3] is not None
    if has_zero != (scales[1] is not None):
        return False
    return match.editor.is_only_used_by(layer.outputs[0], {reader})
