"""Mixtures of experts by their formula: what onnxruntime does on no cpu, gates and layers side by side."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burnx.errors import BurnxError
from tests.unit.ops.contrib_quantized_linear_cases import real, whole
from tests.unit.ops.contrib_quantized_node import Array, Case, run_burnx

TOKENS, EXPERTS, HIDDEN, INNER = 5, 4, 16, 32


def run(op: str, inputs: dict[str, Array | None], **attributes: Any) -> Array:
    return run_burnx(Case(op, inputs, attributes))[0]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swiglu(gate: Array, value: Array, limit: float = np.inf, late: bool = False) -> Array:
    value = np.clip(value, -limit, limit)
    gate = gate if late else np.minimum(gate, limit)
    gate = gate * sigmoid(1.5 * gate)
    return (np.minimum(gate, limit) if late else gate) * (value + 0.5)


def shares_of(logits: Array, k: int, normalized: bool) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    shares = np.where(shares >= np.sort(shares, 1)[:, -k][:, None], shares, 0)
    return shares / shares.sum(1, keepdims=True) if normalized else shares


def mixture(x: Array, shares: Array, expert: Any) -> Array:
    return sum(shares[:, [e]] * expert(e, x) for e in range(EXPERTS))


LOGITS, X = real(TOKENS, EXPERTS), real(TOKENS, HIDDEN)
THIRD = {"w3": real(EXPERTS, INNER, HIDDEN), "b3": real(EXPERTS, INNER)}
ALPHA = {"activation_alpha": 1.5, "activation_beta": 0.5}
SPLIT = {
    1: lambda both: (both[:, ::2], both[:, 1::2]),
    2: lambda both: (both[:, :INNER], both[:, INNER:]),
}
# activation, attributes, what it makes of fc1 and fc3
GATES: list[tuple[str, dict[str, Any], Any]] = [
    ("relu2", {}, lambda a, _: np.maximum(a, 0) ** 2),
    ("silu", {"third": True}, lambda a, b: a * sigmoid(a) * b),
    ("gelu", {"third": True}, lambda a, b: gelu(a) * b),
    ("swiglu", {"third": True, **ALPHA}, swiglu),
    (
        "swiglu",
        {"third": True, "swiglu_limit": 0.7, **ALPHA},
        lambda a, b: swiglu(a, b, 0.7),
    ),
    ("swiglu", {"swiglu_fusion": 2, **ALPHA}, lambda a, _: swiglu(*SPLIT[2](a))),
    (
        "swiglu",
        {"swiglu_fusion": 1, "swiglu_limit": 0.7, "swiglu_limit_after_activation": 1, **ALPHA},
        lambda a, _: swiglu(*SPLIT[1](a), 0.7, late=True),
    ),
    ("geglu", {"swiglu_fusion": 1}, lambda a, _: gelu(SPLIT[1](a)[0]) * SPLIT[1](a)[1]),
    ("geglu", {"swiglu_fusion": 2}, lambda a, _: gelu(SPLIT[2](a)[0]) * SPLIT[2](a)[1]),
]


@pytest.mark.parametrize(("activation", "options", "formula"), GATES)
def test_gates(activation: str, options: dict[str, Any], formula: Any) -> None:
    options = dict(options)
    third = THIRD if options.pop("third", False) else {"w3": None, "b3": None}
    width = INNER * (2 if options.get("swiglu_fusion") else 1)
    w1, b1 = real(EXPERTS, width, HIDDEN), real(EXPERTS, width)
    w2, b2 = real(EXPERTS, HIDDEN, INNER), real(EXPERTS, HIDDEN)
    inputs = {"x": X, "r": LOGITS, "w1": w1, "b1": b1, "w2": w2, "b2": b2, **third}
    found = run("MoE", inputs, k=2, activation_type=activation, **options)

    def expert(e: int, x: Array) -> Array:
        beside = x @ THIRD["w3"][e].T + THIRD["b3"][e]
        return formula(x @ w1[e].T + b1[e], beside) @ w2[e].T + b2[e]

    wanted = mixture(X, shares_of(LOGITS, 2, False), expert)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_an_expert_that_nobody_chose_may_be_anything() -> None:
    logits = np.zeros((TOKENS, EXPERTS), np.float32)
    logits[:, 1] = 5
    w1, w2 = real(EXPERTS, INNER, HIDDEN), real(EXPERTS, HIDDEN, INNER)
    w1[[0, 2, 3]] = np.nan
    found = run("MoE", {"x": X, "r": logits, "w1": w1, "b1": None, "w2": w2})
    wanted = shares_of(logits, 1, False)[:, [1]] * (np.maximum(X @ w1[1].T, 0) @ w2[1].T)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_experts_of_16_bits(kind: Any) -> None:
    w1, w2 = (real(*s).astype(kind) for s in ((EXPERTS, INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)))
    x, logits = X.astype(kind), LOGITS.astype(kind)
    found = run("MoE", {"x": x, "r": logits, "w1": w1, "b1": None, "w2": w2})
    assert found.dtype == kind
    wide = [each.astype(np.float32) for each in (x, logits, w1, w2)]
    exact = run(
        "MoE", dict(zip(("x", "r", "w1", "b1", "w2"), (*wide[:3], None, wide[3]), strict=True))
    )
    np.testing.assert_array_equal(found, exact.astype(kind))


# ---------------------------------------------------------------- quantized
def quantized(inputs: dict[str, Array | None], **attributes: Any) -> Array:
    names = ("x", "r", "w1", "s1", "b1", "w2", "s2", "b2", "w3", "s3", "b3", "z1", "z2", "z3", "rw")
    names += ("g1", "g2")
    given = {"x": X, "r": LOGITS, **inputs}
    return run("QMoE", {name: given.get(name) for name in names}, **attributes)


def relu_mixture(w1: Array, w2: Array, normalized: bool, third: Array | None = None) -> Array:
    def expert(e: int, x: Array) -> Array:
        inner = np.maximum(x @ w1[e].T, 0)
        return (inner if third is None else inner * (x @ third[e].T)) @ w2[e].T

    return mixture(X, shares_of(LOGITS, 2, normalized), expert)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
def test_blocks_of_8_bits_are_exact(normalized: bool, zeros: bool) -> None:
    w1, w2 = whole(np.uint8, EXPERTS, INNER, HIDDEN), whole(np.uint8, EXPERTS, HIDDEN, INNER)
    s1, s2 = real(EXPERTS, INNER, 1) / 50, real(EXPERTS, HIDDEN, 2) / 50
    z1, z2 = whole(np.uint8, EXPERTS, INNER, 1), whole(np.uint8, EXPERTS, HIDDEN, 2)
    inputs = {"w1": w1, "s1": s1, "w2": w2, "s2": s2}
    inputs |= {"z1": z1, "z2": z2} if zeros else {}
    found = quantized(
        inputs,
        k=2,
        expert_weight_bits=8,
        block_size=16,
        normalize_routing_weights=int(normalized),
    )
    middle = [np.repeat(z, 16, 2).astype(np.float64) if zeros else 128.0 for z in (z1, z2)]
    left = (w1 - middle[0]) * np.repeat(s1, 16, 2)
    right = (w2 - middle[1]) * np.repeat(s2, 16, 2)
    np.testing.assert_allclose(found, relu_mixture(left, right, normalized), rtol=1e-3, atol=1e-3)


def test_each_layer_may_have_bits_of_its_own() -> None:
    w1, w2 = whole(np.uint8, EXPERTS, INNER, HIDDEN // 2), whole(np.uint8, EXPERTS, HIDDEN, INNER)
    w3 = whole(np.uint8, EXPERTS, INNER, HIDDEN // 4)
    scales = [real(EXPERTS, rows) / 50 for rows in (INNER, HIDDEN, INNER)]
    inputs = {"w1": w1, "s1": scales[0], "w2": w2, "s2": scales[1], "w3": w3, "s3": scales[2]}
    bits = {"fc2_expert_weight_bits": 8, "fc3_expert_weight_bits": 2}
    found = quantized(inputs, k=2, **bits)
    left = np.stack([w1 & 15, w1 >> 4], -1).reshape(EXPERTS, INNER, HIDDEN) - 8.0
    third = np.stack([w3 >> n & 3 for n in (0, 2, 4, 6)], -1).reshape(EXPERTS, INNER, HIDDEN) - 2.0
    real_ones = [x * s[..., None] for x, s in zip((left, w2 - 128.0, third), scales, strict=True)]
    wanted = relu_mixture(real_ones[0], real_ones[1], False, real_ones[2])
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("block", [0, 12])
def test_weights_of_float8(block: int) -> None:
    float8 = ml_dtypes.float8_e4m3fn
    w1, w2 = (real(*s).astype(float8) for s in ((EXPERTS, INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)))
    if block:
        scales = {"s1": real(EXPERTS, 3, 2), "s2": real(EXPERTS, 2, 3)}
        wide = [
            np.repeat(np.repeat(s, block, 1), block, 2)[:, : w.shape[1], : w.shape[2]]
            for s, w in zip(scales.values(), (w1, w2), strict=True)
        ]
        found = quantized({"w1": w1, "w2": w2, **scales}, k=2, quant_type="fp8", block_size=block)
    else:
        scales = {"g1": real(EXPERTS), "g2": real(EXPERTS)}
        wide = [s[:, None, None] for s in scales.values()]
        found = quantized({"w1": w1, "w2": w2, **scales}, k=2, quant_type="fp8")
    left, right = (w.astype(np.float64) * s for w, s in zip((w1, w2), wide, strict=True))
    np.testing.assert_allclose(found, relu_mixture(left, right, False), rtol=1e-3, atol=1e-3)


# ---------------------------------------------------------------- what is refused
PLAIN = {
    "x": X,
    "r": LOGITS,
    "w1": real(EXPERTS, INNER, HIDDEN),
    "b1": None,
    "w2": real(EXPERTS, HIDDEN, INNER),
}
PACKED = {
    "w1": whole(np.uint8, EXPERTS, INNER, HIDDEN // 2),
    "s1": real(EXPERTS, INNER),
    "w2": whole(np.uint8, EXPERTS, HIDDEN, INNER // 2),
    "s2": real(EXPERTS, HIDDEN),
}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"activation_type": "tanh"}, 'not "tanh"'),
        ({"use_sparse_mixer": 1, "k": 2}, "use_sparse_mixer"),
        ({"activation_type": "swiglu"}, "fc3 is missing"),
        ({"activation_type": "geglu"}, "fc3 is missing"),
        ({"swiglu_fusion": 1}, "not one of relu"),
        ({"swiglu_limit_after_activation": 1}, "one of swiglu, not of relu"),
    ],
)
def test_gates_that_do_not_fit_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(BurnxError, match=message):
        run("MoE", PLAIN, **attributes)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"expert_weight_bits": 3}, "2, 4 or 8 bits, not 3"),
        ({"quant_type": "nvfp4"}, 'here it is "nvfp4"'),
        ({"quant_type": "fp8"}, "else a global one"),
        ({"weights_prepacked": 1}, "not weights_prepacked 1"),
    ],
)
def test_weights_that_are_not_read_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(BurnxError, match=message):
        quantized(PACKED, **attributes)
