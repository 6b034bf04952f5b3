"""Operators of com.microsoft, and forms of them, that onnxruntime does not compute on the cpu, against formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.ops.contrib_attention_cases import B, D, L, N, S, attention, flags, multi_head, past
from tests.unit.ops.contrib_layer_cases import case, causal, linear
from tests.unit.ops.contrib_models import Array, Case, ints, numbers, run_burnx
from tests.unit.ops.contrib_query_cases import STEP, query


def found(op: str, *inputs: Array | None, outputs: int = 1, **given: Any) -> list[Array]:
    return run_burnx(case(op, *inputs, outputs=outputs, given=given))


def near(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def gelu(x: Array) -> Array:
    from math import erf

    return np.asarray(x * (1 + np.vectorize(erf)(x / 2**0.5)) / 2, np.float32)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


# ---------------------------------------------------------------------------------------- biases and gates
X, C = numbers(2, 6, 8), numbers(8)


def test_biases() -> None:
    near(found("BiasAdd", X, C, X)[0], 2 * X + C)
    left, right = np.split(X + C, 2, -1)
    near(found("BiasSplitGelu", X, C)[0], left * gelu(right))
    w = numbers(8, 3)
    inner = X @ w + C[:3]
    near(
        found("GemmFastGelu", X, w, C[:3])[0],
        inner / 2 * (1 + np.tanh(0.7978845608 * (inner + 0.044715 * inner**3))),
    )


@pytest.mark.parametrize(
    ("data", "bias", "inner", "aligned"),
    [
        ((2, 3, 4, 5), (2, 1, 1, 5), 1, None),
        ((6, 4, 5), (4, 5), 0, None),
        ((2, 3, 5), (2, 5), 1, (2, 1, 5)),
    ],
)
def test_biased_softmax(data: Any, bias: Any, inner: int, aligned: Any) -> None:
    x, b = numbers(*data), numbers(*bias)
    got = found("BiasSoftmax", x, b, axis=len(data) - 1, is_inner_broadcast=inner)[0]
    near(got, softmax(x + b.reshape(aligned or bias)))


def group_norm(x: Array, gamma: Array, beta: Array, groups: int) -> Array:
    """Of data whose channels are last."""
    split = x.reshape(*x.shape[:-1], groups, -1)
    axes = (1, 2, 4)
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    return np.asarray(((split - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * gamma + beta)


@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("channels_last", [0, 1])
def test_group_norm(activation: int, channels_last: int) -> None:
    x, skip, gamma, beta = numbers(2, 3, 4, 8), numbers(2, 8), numbers(8), numbers(8)
    order = (0, 1, 2, 3) if channels_last else (0, 3, 1, 2)
    given = {"groups": 2, "activation": activation, "channels_last": channels_last}

    def wanted(data: Array) -> Array:
        normal = group_norm(data, gamma, beta, 2)
        return (normal * sigmoid(normal) if activation else normal).transpose(order)

    near(found("GroupNorm", x.transpose(order), gamma, beta, **given)[0], wanted(x))
    total = x + skip[:, None, None] + C
    got = found("SkipGroupNorm", x.transpose(order), gamma, beta, skip, C, outputs=2, **given)
    near(got[0], wanted(total))
    near(got[1], total.transpose(order))


def test_clamped_swiglu() -> None:
    gate, up = numbers(2, 4), numbers(2, 4)
    g, u = np.minimum(gate, 0.5), np.clip(up, -0.5, 0.5)
    given = {"limit": 0.5, "activation_alpha": 1.7, "activation_beta": 1.0}
    want = g * sigmoid(1.7 * g) * (u + 1)
    near(found("SwiGLU", gate, up, **given)[0], want)
    near(found("SwiGLU", np.concatenate([gate, up], 1), **given)[0], want)


# ---------------------------------------------------------------------------------------- numbers
def test_complex_numbers_and_spectra() -> None:
    a, b = numbers(2, 3, 2), numbers(3, 2)
    one, two = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for op, want in (("ComplexMul", one * two), ("ComplexMulConj", one * two.conj())):
        near(found(op, a, b)[0], np.stack([want.real, want.imag], -1).astype(np.float32))
    x = numbers(2, 6, 8)
    for dims, axes in ((1, (-1,)), (2, (-2, -1))):
        spectrum = np.fft.rfftn(x, axes=axes)
        pairs = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
        near(found("Rfft", x, signal_ndim=dims)[0], pairs)
        near(found("Irfft", pairs, signal_ndim=dims)[0], x)


def test_finite() -> None:
    good, bad, worse = numbers(3), np.array([1, np.nan], np.float32), np.array([np.inf], np.float32)
    assert found("IsAllFinite", good, good)[0]
    assert not found("IsAllFinite", good, bad)[0]
    assert found("IsAllFinite", bad, isinf_only=1)[0]
    assert not found("IsAllFinite", good, worse, isinf_only=1)[0]
    assert found("IsAllFinite", worse, isnan_only=1)[0]


def test_integers() -> None:
    a = np.array([[200, 3], [7, 255]], np.uint8)
    zero = np.array(10, np.uint8)
    wide = a.astype(np.int32)
    got = found("MulInteger", a, zero, a, None)[0]
    np.testing.assert_array_equal(got, (wide - 10) * wide)
    got = found("ReduceSumInteger", a.astype(np.int8), axes=[1], keepdims=0)[0]
    np.testing.assert_array_equal(got, a.astype(np.int8).sum(1, dtype=np.int32))
    assert found("TorchEmbedding", X[0], np.array([3, 1]))[0].tolist() == X[0][[3, 1]].tolist()


def test_convolution_with_channels_last() -> None:
    x, w, b = numbers(1, 4, 5, 5), numbers(4, 2, 3, 3), numbers(4)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    given = {"group": 2, "pads": [1, 0, 1, 0]}
    want = found("FusedConv", x, w, b, activation="Relu", **given)[0].transpose(0, 2, 3, 1)
    near(np.maximum(found("NhwcConv", last, w, b, **given)[0], 0), want)
    near(found("NhwcFusedConv", last, w, b, activation="Relu", **given)[0], want)


# ---------------------------------------------------------------------------------------- positions
@pytest.mark.parametrize("both_ways", [0, 1])
def test_relative_positions(both_ways: int) -> None:
    table, size, count, farthest = numbers(8, 2), 20, 8, 16
    count = count // 2 if both_ways else count
    want = np.zeros((1, 2, size, size), np.float32)
    for query_at, key_at in np.ndindex(size, size):
        apart = key_at - query_at
        bucket = count if both_ways and apart > 0 else 0
        apart = abs(apart) if both_ways else max(-apart, 0)
        exact = count // 2
        if apart >= exact:
            share = np.float32(np.log(apart / exact)) / np.float32(np.log(farthest / exact))
            apart = min(exact + int(share * (count - exact)), count - 1)
        want[0, :, query_at, key_at] = table.reshape(2, 8)[:, bucket + apart]
    lengths = np.array([size]), np.array([size])
    got = found(
        "RelativePositionBias", table, *lengths, max_distance=farthest, is_bidirectional=both_ways
    )[0]
    near(got, want)


@pytest.mark.parametrize("is_packed", [False, True])
def test_gated_positions(is_packed: bool) -> None:
    rows, bias, places = numbers(2, 3, 8), numbers(8), numbers(1, 2, 3, 3)
    weight, shift, scale = numbers(4, 6), numbers(6), numbers(1, 2, 1, 1)
    tokens, offsets = rows, None
    if is_packed:
        rows[1, 2] = 0
        tokens, offsets = rows.reshape(6, 8)[:5], ints([0, 1, 2], [3, 4, 5])
    heads = (rows + bias).reshape(2, 3, 2, 4).transpose(0, 2, 1, 3)
    gates = sigmoid((heads @ weight + shift).reshape(2, 2, 3, 2, 3).sum(-1))
    u, r = gates[..., :1], gates[..., 1:]
    want = (u * (r * scale - 1) + 2) * places
    given = (tokens, bias, places, weight, shift, scale, offsets)
    near(found("GatedRelativePositionBias", *given, num_heads=2)[0], want.astype(np.float32))


# ---------------------------------------------------------------------------------------- attention
def run(one: Case) -> list[Array]:
    return run_burnx(one)


def test_packed_queries_keys_and_values() -> None:
    q, k, v = numbers(B, L, N, 4), numbers(B, L, N, 4), numbers(B, L, N, 4)
    flat = [each.reshape(B, L, D) for each in (q, k, v)]
    bias = numbers(3 * D)
    (want,) = run(multi_head("apart", q=flat[0], k=flat[1], v=flat[2], b=bias))
    packed = multi_head("packed", q=np.stack([q, k, v], 3), k=None, v=None, b=bias)
    near(run(packed)[0], want)
    half = multi_head("half", q=flat[0], k=np.stack([k, v], 3), v=None, b=bias)
    near(run(half)[0], want)


def test_masks_of_four_axes_are_read_from_the_past_on() -> None:
    mask, before = flags(B, 1, 9, 9), past()
    inputs = {"x": numbers(B, S, D), "w": numbers(D, 3 * D), "b": None, "past": before}
    (want,) = run(attention("three", mask=mask[:, 0, 4:7, :7].copy(), **inputs))
    near(run(attention("four", mask=mask, **inputs))[0], want)


def test_a_buffer_is_a_past_and_room() -> None:
    inputs = {"x": numbers(B, S, D), "w": numbers(D, 3 * D), "b": None}
    buffer = numbers(2, B, N, 10, 4)
    want = run(attention("past", 2, past=buffer[:, :, :, :4].copy(), **inputs))
    shared = {"past_present_share_buffer": 1}
    got = run(attention("buffer", 2, shared, past=buffer, length=ints(4), **inputs))
    near(got[0], want[0])
    near(got[1], np.concatenate([want[1], buffer[:, :, :, 7:]], 3))


def test_rotary_attention_turns_halves() -> None:
    x, w = numbers(1, 3, D), numbers(D, 3 * D)
    q, k, v = (each.reshape(1, 3, N, 4) for each in np.split(x @ w, 3, -1))
    angles = np.arange(3)[:, None] * 10000.0 ** (-np.arange(2) / 2)
    cos, sin = np.cos(angles)[None, :, None], np.sin(angles)[None, :, None]

    def turned(rows: Array) -> Array:
        one, two = np.split(rows, 2, -1)
        both = [one * cos - two * sin, one * sin + two * cos]
        return np.concatenate(both, -1).reshape(1, 3, D).astype(np.float32)

    (want,) = run(multi_head("turned", q=turned(q), k=turned(k), v=v.reshape(1, 3, D)))
    near(run(attention("rotary", given={"do_rotary": 1}, x=x, w=w, b=None))[0], want)


def test_normed_heads_are_queries_and_keys_of_one_length() -> None:
    weights = {"qn": numbers(8), "kn": numbers(8)}
    plain = query("plain", STEP)
    normed = query("normed", STEP, **plain.inputs | weights)

    def of(rows: Array, weight: Array) -> Array:
        heads = rows.reshape(*rows.shape[:2], -1, 8)
        root = np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6)
        return (heads / root * weight).reshape(rows.shape).astype(np.float32)

    q, k = of(plain.feeds["q"], weights["qn"]), of(plain.feeds["k"], weights["kn"])
    for got, want in zip(
        run(normed), run(query("by-hand", STEP, **plain.inputs | {"q": q, "k": k})), strict=True
    ):
        near(got, want)


# ---------------------------------------------------------------------------------------- windows of states
@pytest.mark.parametrize("window", [2, 5, 7])
def test_states_after_the_last_steps(window: int) -> None:
    inputs = linear("linear").inputs
    output, states = run(linear("linear", {"state_window": window}, **inputs))
    cut = [
        {name: None if x is None else x[:, :count] for name, x in inputs.items()}
        for count in range(1, 6)
    ]
    want = np.stack([run(linear("linear", **each))[1] for each in cut])[-window:]
    near(output, run(linear("linear", **inputs))[0])
    near(states[-len(want) :], want)
    assert not states[: -len(want)].any()


@pytest.mark.parametrize("window", [2, 8])
def test_convolution_states_after_the_last_steps(window: int) -> None:
    inputs = causal(state=numbers(2, 3, 3)).inputs
    held = np.stack([inputs["state"]] * window)
    _, states = run(causal({"state_window": window}, **inputs | {"state": held}))
    want = [run(causal(**inputs | {"x": inputs["x"][:, :, :count]}))[1] for count in range(1, 7)][
        -window:
    ]
    near(states[-len(want) :], np.stack(want))
    assert not states[: -len(want)].any()
