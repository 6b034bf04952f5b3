"""com.microsoft: mixtures of experts, of which a router chooses a few for each token.

The experts are gone through one after the other, and one that no token has chosen costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, plus, scalar, times
from burnx.ops.kinds import Flag, T
from burnx.ops.operator import operator
from burnx.ops.reduction import fold_axes
from burnx.shape import product
from burnx.tensor import Tensor

# the weight of expert e and its bias, wide
Layer = Callable[[Tensor], tuple[Tensor, Tensor | None]]
Activation = Callable[[Tensor], Tensor]
SPARSE_MIXER = "use_sparse_mixer: no document says how it chooses"


@dataclass(frozen=True, slots=True)
class Gate:
    """What stands between the first and the second layer of an expert.

    ``fusion`` says where gate and value are: 0 in two layers, 1 in turn in one, 2 one half after the other;
    ``limit`` bounds both, the gate before it is activated or, ``late``, after.
    """

    activation: str
    fusion: int
    alpha: float
    beta: float
    limit: float | None
    late: bool


def sigmoid(x: Tensor) -> Tensor:
    return waist.map("div", scalar(1, x), plus(waist.map("exp", waist.map("neg", x)), scalar(1, x)))


def _relu(x: Tensor) -> Tensor:
    return waist.map("max", x, scalar(0, x))


def _relu_squared(x: Tensor) -> Tensor:
    positive = _relu(x)
    return times(positive, positive)


def _gelu(x: Tensor) -> Tensor:
    """By way of tanh, as onnxruntime has it."""
    cube = times(x, times(x, x))
    inner = times(plus(x, times(cube, scalar(0.044715, x))), scalar(0.7978845608, x))
    return times(times(x, scalar(0.5, x)), plus(waist.map("tanh", inner), scalar(1, x)))


PLAIN: dict[str, Activation] = {
    "relu": _relu,
    "relu2": _relu_squared,
    "gelu": _gelu,
    "silu": lambda x: times(x, sigmoid(x)),
    "identity": lambda x: x,
}


def check_gate(gate: Gate, has_third: bool) -> None:
    """Raises: ModelError for what activates nothing, or for layers that do not fit to it."""
    known = [*PLAIN, "swiglu", "geglu"]
    if gate.activation not in known:
        raise ModelError(f'an expert activates by {", ".join(known)}, not "{gate.activation}"')
    fused = gate.fusion in (1, 2)
    gated = gate.activation in ("swiglu", "geglu")
    if gate.fusion not in (0, 1, 2) or (fused and not gated):
        raise ModelError(f"swiglu_fusion {gate.fusion} is not one of {gate.activation}")
    if gated and fused == has_third:
        raise ModelError(
            f"{gate.activation} has its gate either in fc1 (swiglu_fusion 1, 2) or beside fc3 (0): "
            f"swiglu_fusion is {gate.fusion}, and fc3 is {'given' if has_third else 'missing'}"
        )
    if gate.activation == "geglu" and not fused:
        raise ModelError("geglu has its gate in fc1: swiglu_fusion is 1 or 2, not 0")
    if gate.late and gate.activation != "swiglu":
        raise ModelError(
            f"swiglu_limit_after_activation is one of swiglu, not of {gate.activation}"
        )


def _parted(x: Tensor, fusion: int) -> tuple[Tensor, Tensor]:
    """Gate and value of fused layers.  Shapes: (tokens, 2 n) -> (tokens, n) twice"""
    tokens, half = x.shape[0], x.shape[1] // 2
    if fusion == 2:
        return waist.slice_axis(x, 1, 0, half), waist.slice_axis(x, 1, half, half)
    pairs = waist.reshape(x, (tokens, half, 2))
    gate, value = (
        waist.reshape(waist.slice_axis(pairs, 2, place, 1), (tokens, half)) for place in (0, 1)
    )
    return gate, value


def _activated(first: Tensor, third: Tensor | None, gate: Gate) -> Tensor:
    if gate.activation in PLAIN:
        result = PLAIN[gate.activation](first)
        return result if third is None else times(result, third)
    if third is not None:
        left, right = first, third
    else:
        left, right = _parted(first, gate.fusion)
    if gate.activation == "geglu":
        return times(_gelu(left), right)
    if gate.limit is not None:
        top, bottom = scalar(gate.limit, left), scalar(-gate.limit, left)
        right = waist.map("min", waist.map("max", right, bottom), top)
        left = left if gate.late else waist.map("min", left, top)
    left = times(left, sigmoid(times(left, scalar(gate.alpha, left))))
    if gate.limit is not None and gate.late:
        left = waist.map("min", left, scalar(gate.limit, left))
    return times(left, plus(right, scalar(gate.beta, right)))


# ---------------------------------------------------------------------------------------- routing
def routes(logits: Tensor, k: int, normalize: bool, weights: Tensor | None = None) -> Tensor:
    """How much of each expert a token takes, 0 of all but k; of equals the last are chosen, as onnxruntime does.

    ``weights`` are taken in place of the softmax of the logits.  Shapes: (tokens, experts) -> (tokens, experts)
    """
    tokens, experts = logits.shape
    if isinstance(experts, int) and not 1 <= k <= experts:
        raise ModelError(f"k experts are chosen of {experts}, not {k}")
    wide = compute_dtype(logits.dtype)
    x = waist.cast_to(logits, wide)
    powers = waist.map("exp", waist.map("sub", x, fold_axes("max", x, (1,))))
    shares = waist.map("div", powers, fold_axes("sum", powers, (1,)))
    _, order = waist.sort(waist.flip(shares, [1]), 1, descending=True)
    last = waist.reshape(waist.sizes(experts - 1), ())
    chosen = waist.map("sub", last, waist.slice_axis(order, 1, 0, k))
    source = shares if weights is None else waist.cast_to(weights, wide)
    own = waist.take_along(source, chosen, 1)
    if normalize:
        own = waist.map("div", own, fold_axes("sum", own, (1,)))
    nothing = waist.broadcast(waist.constant(0, wide), (tokens, experts))
    return waist.scatter_along(nothing, chosen, own, 1, "none")


def mixed(
    x: Tensor, shares: Tensor, layers: tuple[Layer, Layer, Layer | None], gate: Gate
) -> Tensor:
    """What the experts make of the tokens, added up by their shares.

    Shapes: x (*s, hidden), shares (tokens, experts) -> (*s, hidden)
    """
    first, second, third = layers
    tokens = product(x.shape[:-1])
    wide = compute_dtype(x.dtype)
    rows = waist.cast_to(waist.reshape(x, (tokens, x.shape[-1])), wide)

    def expert(index: Tensor) -> Tensor:
        inner = _activated(
            _through(rows, first(index)), _through(rows, third(index)) if third else None, gate
        )
        return _through(inner, second(index))

    def body(index: Tensor, going: Tensor, total: Tensor) -> list[Tensor]:
        share = waist.take(shares, index, 1)
        used = waist.map("lt", scalar(0, share), share)
        column = waist.reshape(share, (tokens, 1))
        (grown,) = waist.branch(
            waist.reduce("or", used, [0]),
            lambda: [plus(total, _counted(column, expert(index)))],
            lambda: [total],
        )
        return [going, grown]

    start = waist.broadcast(waist.constant(0, wide), rows.shape)
    (total,) = waist.repeat(waist.reshape(waist.sizes(shares.shape[1]), ()), None, [start], body)
    return waist.cast_to(waist.reshape(total, x.shape), x.dtype)


def _counted(share: Tensor, result: Tensor) -> Tensor:
    """The result times its share; nothing where that is 0, whatever the result."""
    used = waist.broadcast(waist.map("lt", scalar(0, share), share), result.shape)
    return waist.map("select", used, times(result, share), scalar(0, result))


def _through(x: Tensor, layer: tuple[Tensor, Tensor | None]) -> Tensor:
    weight, bias = layer
    result = waist.contract(x, weight, ((), ()), ((1,), (1,)))
    return result if bias is None else plus(result, bias)


def bias_of(bias: Tensor | None, index: Tensor, like: Tensor) -> Tensor | None:
    return None if bias is None else waist.cast_to(waist.take(bias, index, 0), like.dtype)


def check_routing(use_sparse_mixer: int) -> None:
    if use_sparse_mixer:
        raise ModelError("experts are chosen by their logits, not by use_sparse_mixer")


# ---------------------------------------------------------------------------------------- MoE
@operator("MoE", since=(1,), domain=MICROSOFT)
def moe(
    input: T,
    router_probs: T,
    fc1_experts_weights: T,
    fc1_experts_bias: T | None,
    fc2_experts_weights: T,
    fc2_experts_bias: T | None = None,
    fc3_experts_weights: T | None = None,
    fc3_experts_bias: T | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: Flag = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    swiglu_limit_after_activation: int = 0,
    use_sparse_mixer: Flag = 0,
) -> T:
    """The k experts of each token, each two layers with an activation or a gate between, added up by the router.

    Shapes: input (*s, hidden), router_probs (tokens, experts), fc1 (experts, inner or 2 inner, hidden),
    fc2 (experts, hidden, inner), fc3 (experts, inner, hidden) -> (*s, hidden).
    Source: onnxruntime com.microsoft MoE-1
    """
    check_routing(use_sparse_mixer)
    late = bool(swiglu_limit_after_activation)
    gate = Gate(
        activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit, late
    )
    check_gate(gate, fc3_experts_weights is not None)

    def layer(weight: Tensor, bias: Tensor | None) -> Layer:
        def of(index: Tensor) -> tuple[Tensor, Tensor | None]:
            own = waist.cast_to(waist.take(weight, index, 0), compute_dtype(weight.dtype))
            return own, bias_of(bias, index, own)

        return of

    third = None if fc3_experts_weights is None else layer(fc3_experts_weights, fc3_experts_bias)
    layers = (
        layer(fc1_experts_weights, fc1_experts_bias),
        layer(fc2_experts_weights, fc2_experts_bias),
        third,
    )
    shares = routes(router_probs, k, bool(normalize_routing_weights))
    return mixed(input, shares, layers, gate)


moe.limit(SPARSE_MIXER, tests="moe.*sparse_mixer")
