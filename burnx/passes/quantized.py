"""Layers whose weight is stored as bytes: it is dequantized, or cast and multiplied by its scales, and used.

Each is lifted to an operator of burnx whose body calls the very operators that it was, so that it is bit for bit the
same, and is those operators again when it is exported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx.graph import Graph, Node, Value
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.passes.stored import (
    BIAS,
    Stored,
    find_addend,
    find_stored,
    plain,
    says_only,
    shape_of,
    trimmed,
)


def lift_quantized_layers(graph: Graph) -> int:
    return rewrite_graph(graph, _conv, _product, add_bias, _rows, _moved_rows, _scaled_rows)


def _stored_bias(match: Match, node: Node, size: int) -> list[Value | None] | None:
    """The bias of a convolution or Gemm with its scale and zero point; None if it is something else."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return []
    if bias.array is not None:
        return [bias] if bias.array.shape == (size,) else None
    stored = find_stored(match, bias)
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
    weight = find_stored(match, node.inputs[1])
    if weight is None or len(weight.shape) < 3 or not weight.fits(0):
        return None
    bias = _stored_bias(match, node, weight.shape[0])
    if bias is None or not _agree(weight, bias):
        return None
    given = (node.inputs[0], *weight.values, *bias)
    return match.make("QuantConv", *trimmed(given), domain="burnx", **node.attributes)


@rewrite("MatMul", "Gemm")
def _product(node: Node, match: Match) -> Value | None:
    """x dequantize(w) = quant_linear(x, w), and the same of a Gemm with its bias"""
    weight = find_stored(match, node.inputs[1])
    if weight is None or len(weight.shape) != 2:
        return None
    if node.operator == "MatMul":
        how = _how(weight, turned=False)
        given: Sequence[Value | None] = (node.inputs[0], *weight.values)
    else:
        bias = _stored_bias(match, node, weight.shape[0])
        if not _is_simple_gemm(node) or bias is None or not _agree(weight, bias):
            return None
        how = None if weight.block_size else _how(weight, turned=True)
        given = (node.inputs[0], *weight.values, *bias)
    if how is None:
        return None
    return match.make("QuantLinear", *trimmed(given), domain="burnx", **how)


def _is_simple_gemm(node: Node) -> bool:
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
def add_bias(node: Node, match: Match) -> Value | None:
    """quant_linear(x, w) + b = quant_linear(x, w, b)"""
    found = find_addend(node, match, "QuantLinear")
    if found is None or found[0].attributes.get("turned"):
        return None
    inner, bias = found
    given = list(inner.inputs) + [None] * (BIAS + 1 - len(inner.inputs))
    if given[BIAS] is not None:
        return None
    given[BIAS] = bias
    return match.make("QuantLinear", *given, domain="burnx", like=inner, **inner.attributes)


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
    if gather.attributes.get("axis", 0) or not says_only(node, "axis") or indices.is_constant:
        return []
    if scale is None or scale.array is None or scale.array.size != 1:
        return []
    if zero_point is not None and (zero_point.array is None or zero_point.array.size != 1):
        return []
    return [table, plain(scale), None if zero_point is None else plain(zero_point), indices]


@rewrite("Gather")
def _scaled_rows(node: Node, match: Match) -> Value | None:
    """gather(cast(w) * scale, i) = quant_embedding(w, i)"""
    table, indices = find_stored(match, node.inputs[0]), node.inputs[1]
    if table is None or not table.is_scaled or node.attributes.get("axis", 0):
        return None
    if indices is None or indices.is_constant or shape_of(table.scale) != (table.shape[0], 1):
        return None
    return match.make("QuantEmbedding", *table.values, indices, domain="burnx", scaled=1)
