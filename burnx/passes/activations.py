"""Activations that exporters spell out: GELU, SiLU, hard swish and Mish."""

from __future__ import annotations

import math

from burnx.graph import Graph, Node, Value
from burnx.passes.patterns import Number, OneOf, Op, Operand, product, scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph

X = Operand("x")
HALF, ONE = Number(0.5), Number(1.0)
SCALED = OneOf(Op("Div", X, Number(math.sqrt(2))), Op("Mul", X, Number(1 / math.sqrt(2))))
GELU = OneOf(
    product(X, Op("Add", Op("Erf", SCALED), ONE), HALF),
    Op("Div", Op("Mul", X, Op("Add", Op("Erf", SCALED), ONE)), Number(2.0)),
    Op("Mul", X, Op("Add", Op("Mul", Op("Erf", SCALED), HALF), HALF)),
)

RATE, CUBIC = Number(math.sqrt(2 / math.pi)), Number(0.044715)
SQUARE = OneOf(Op("Mul", X, X), Op("Pow", X, Number(2.0)))
CUBE = OneOf(Op("Pow", X, Number(3.0)), Op("Mul", X, SQUARE))
INNER = OneOf(
    Op("Mul", Op("Add", X, Op("Mul", CUBE, CUBIC)), RATE),
    Op("Mul", Op("Add", X, OneOf(product(X, X, Op("Mul", X, CUBIC)))), RATE),
    product(X, RATE, Op("Add", OneOf(Op("Mul", SQUARE, CUBIC), product(X, X, CUBIC)), ONE)),
)
TANH_GELU = OneOf(
    product(X, Op("Add", Op("Tanh", INNER), ONE), HALF),
    Op("Mul", X, Op("Add", Op("Mul", Op("Tanh", INNER), HALF), HALF)),
)

SILU = OneOf(
    Op("Mul", X, Op("Sigmoid", X)),
    Op("Div", X, Op("Add", Op("Exp", Op("Neg", X)), ONE)),
)
SCALED_SILU = Op("Mul", X, Op("Sigmoid", Op("Mul", X, Number(name="alpha"))))

CLIPPED = Op("Clip", Op("Add", X, Number(3.0)), Number(0.0), Number(6.0))
HARD_SWISH = OneOf(
    Op("Mul", X, OneOf(Op("Div", CLIPPED, Number(6.0)), Op("Mul", CLIPPED, Number(1 / 6)))),
    Op("Div", Op("Mul", X, CLIPPED), Number(6.0)),
    product(X, CLIPPED, Number(1 / 6)),
)
GATED = Op("Mul", X, Op("HardSigmoid", X, name="gate"))
MISH = Op("Mul", X, Op("Tanh", Op("Softplus", X)))


@rewrite("Mul", "Div")
def _erf_gelu(node: Node, match: Match) -> Value | None:
    """x * (1 + erf(x / sqrt(2))) / 2 = gelu(x)"""
    found = match.find(GELU)
    return match.make("Gelu", found.values["x"]) if found else None


@rewrite("Mul")
def _tanh_gelu(node: Node, match: Match) -> Value | None:
    """x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 = gelu(x, "tanh")"""
    found = match.find(TANH_GELU)
    return match.make("Gelu", found.values["x"], approximate="tanh") if found else None


@rewrite("Mul", "Div")
def _silu(node: Node, match: Match) -> Value | None:
    """x * sigmoid(x) = x / (1 + exp(-x)) = swish(x)"""
    found = match.find(SILU)
    return match.make("Swish", found.values["x"]) if found else None


@rewrite("Mul")
def _scaled_silu(node: Node, match: Match) -> Value | None:
    """x * sigmoid(alpha * x) = swish(x, alpha)"""
    found = match.find(SCALED_SILU)
    alpha = scalar(found.values["alpha"]) if found else None
    return match.make("Swish", found.values["x"], alpha=alpha) if found else None


@rewrite("Mul", "Div")
def _hard_swish(node: Node, match: Match) -> Value | None:
    """x * min(max(x + 3, 0), 6) / 6 = hard_swish(x)"""
    found = match.find(HARD_SWISH)
    return match.make("HardSwish", found.values["x"]) if found else None


@rewrite("Mul")
def _gated_swish(node: Node, match: Match) -> Value | None:
    """x * hard_sigmoid(x, 1/6, 1/2) = hard_swish(x)"""
    found = match.find(GATED)
    if found is None:
        return None
    gate = found.named["gate"].attributes
    slope, offset = gate.get("alpha", 0.2), gate.get("beta", 0.5)
    if abs(slope - 1 / 6) > 1e-6 or offset != 0.5:
        return None
    return match.make("HardSwish", found.values["x"])


@rewrite("Mul")
def _mish(node: Node, match: Match) -> Value | None:
    """x * tanh(softplus(x)) = mish(x)"""
    found = match.find(MISH)
    return match.make("Mish", found.values["x"]) if found else None


def lift_gelu(graph: Graph) -> int:
    return rewrite_graph(graph, _erf_gelu, _tanh_gelu)


def lift_silu(graph: Graph) -> int:
    return rewrite_graph(graph, _silu, _scaled_silu)


def lift_hard_swish(graph: Graph) -> int:
    return rewrite_graph(graph, _hard_swish, _gated_swish)


def lift_mish(graph: Graph) -> int:
    return rewrite_graph(graph, _mish)
