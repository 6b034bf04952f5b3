"""Normalizations that exporters spell out: layer norm and RMS norm.

A norm is lifted without its scale and bias first left alone: the product with a scale is lifted with the norm
inside it, then the bias is added to that, and what is left at the end has no scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx.dtype import float64
from burnx.graph import Graph, Node, Value, constant_value
from burnx.passes.patterns import Found, Number, OneOf, Op, Operand, Pattern, scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.shape import Shape
from burnx.types import TensorType

DEFAULT_EPSILON = 1e-5
X, EPSILON = Operand("x"), Number(name="epsilon")


def _square(value: Pattern) -> Pattern:
    return OneOf(Op("Pow", value, Number(2.0)), Op("Mul", value, value))


def _over(value: Pattern, variance: Pattern) -> Pattern:
    """value / sqrt(variance + epsilon), as it is written here and there."""
    root = Op("Sqrt", Op("Add", variance, EPSILON))
    inverse = OneOf(
        Op("Reciprocal", root),
        Op("Div", Number(1.0), root),
        Op("Pow", Op("Add", variance, EPSILON), Number(-0.5)),
    )
    return OneOf(Op("Div", value, root), Op("Mul", value, inverse))


CENTRED = Op("Sub", X, Op("ReduceMean", X, name="mean"))
LAYER = _over(CENTRED, Op("ReduceMean", _square(CENTRED), name="variance"))
RMS = _over(X, Op("ReduceMean", _square(X), name="variance"))
SCALE = Operand("scale")


@rewrite("Mul")
def _scaled_layer_norm(node: Node, match: Match) -> Value | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale = layer_normalization(x, scale)"""
    return _lift("LayerNormalization", match, match.find(Op("Mul", LAYER, SCALE)))


@rewrite("Add")
def _biased_layer_norm(node: Node, match: Match) -> Value | None:
    """layer_normalization(x, scale) + bias = layer_normalization(x, scale, bias)"""
    for place in (0, 1):
        norm = match.inner(node.inputs[place], "LayerNormalization")
        bias = node.inputs[1 - place]
        if norm is not None and len(norm.inputs) == 2 and bias is not None:
            x, scale = norm.inputs
            if scale is not None and bias.type == scale.type:
                return match.make("LayerNormalization", x, scale, bias, **norm.attributes)
    return None


@rewrite("Div", "Mul")
def _plain_layer_norm(node: Node, match: Match) -> Value | None:
    """(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) = layer_normalization(x, ones)"""
    return _lift("LayerNormalization", match, match.find(LAYER))


@rewrite("Mul")
def _scaled_rms_norm(node: Node, match: Match) -> Value | None:
    """x / sqrt(mean(x^2) + epsilon) * scale = rms_normalization(x, scale)"""
    return _lift("RMSNormalization", match, match.find(Op("Mul", RMS, SCALE)))


@rewrite("Div", "Mul")
def _plain_rms_norm(node: Node, match: Match) -> Value | None:
    """x / sqrt(mean(x^2) + epsilon) = rms_normalization(x, ones)"""
    return _lift("RMSNormalization", match, match.find(RMS))


def _lift(operator: str, match: Match, found: Found | None) -> Value | None:
    """The norm of what was found, if it goes over the last axes and its scale fits them."""
    if found is None:
        return None
    x, epsilon = found.values["x"], scalar(found.values["epsilon"])
    axes = [_last_axes(each, x) for each in found.named.values()]
    if epsilon is None or epsilon < 0 or axes[0] is None or axes != axes[:1] * len(axes):
        return None
    assert isinstance(x.type, TensorType) and x.type.shape is not None
    if x.type.dtype == float64:  # these norms compute in float32
        return None
    sizes: Shape = x.type.shape[-axes[0] :]
    wanted = TensorType(x.type.dtype, sizes)
    scale = found.values["scale"] if "scale" in found.values else _ones(wanted)
    if scale is None or scale.type != wanted:
        return None
    attributes: dict[str, Any] = {"axis": -axes[0]} if axes[0] != 1 else {}
    if abs(epsilon - DEFAULT_EPSILON) > 1e-6 * DEFAULT_EPSILON:
        attributes["epsilon"] = epsilon
    return match.make(operator, x, scale, **attributes)


def _ones(kind: TensorType) -> Value | None:
    sizes = [dim for dim in kind.shape or () if isinstance(dim, int)]
    if kind.shape is None or len(sizes) != len(kind.shape) or int(np.prod(sizes)) > 2**14:
        return None
    return constant_value(np.ones(sizes, kind.dtype))


def _last_axes(node: Node, x: Value) -> int | None:
    """How many of the last axes of ``x`` a reduction goes over; None if it is any other reduction."""
    if not isinstance(x.type, TensorType) or x.type.shape is None or not x.type.shape:
        return None
    rank = len(x.type.shape)
    if not node.attributes.get("keepdims", 1):
        return None
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None or given.array is None or not given.array.size:
        return None
    axes = sorted(int(axis) % rank for axis in given.array.reshape(-1))
    return len(axes) if axes == list(range(rank - len(axes), rank)) else None


def lift_layer_norm(graph: Graph) -> int:
    scaled = rewrite_graph(graph, _scaled_layer_norm, _biased_layer_norm)
    return scaled + rewrite_graph(graph, _plain_layer_norm)


def lift_rms_norm(graph: Graph) -> int:
    return rewrite_graph(graph, _scaled_rms_norm) + rewrite_graph(graph, _plain_rms_norm)
