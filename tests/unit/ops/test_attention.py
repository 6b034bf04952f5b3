"""Attention beyond the standard's cases: sizes of the run, grouped heads, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import run_node

from burnx.errors import ModelError, ShapeError

RNG = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def expected(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None
) -> np.ndarray:
    each = q.shape[1] // k.shape[1]
    k, v = k.repeat(each, 1), v.repeat(each, 1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("opset", [23, 24, 25])
def test_grouped_heads_with_a_past_of_any_length(opset: int) -> None:
    q, k, v = numbers(2, 6, 3, 8), numbers(2, 2, 3, 8), numbers(2, 2, 3, 5)
    names = {"Q": ["b", 6, "s", 8], "K": ["b", 2, "s", 8], "V": ["b", 2, "s", 5]}
    names |= {"past_key": ["b", 2, "p", 8], "past_value": ["b", 2, "p", 5]}
    inputs = ["Q", "K", "V", "", "past_key", "past_value"]
    for past in (0, 4):
        feeds = {"Q": q, "K": k, "V": v}
        feeds |= {"past_key": numbers(2, 2, past, 8), "past_value": numbers(2, 2, past, 5)}
        y, keys, values = run_node(
            "Attention", feeds, opset=opset, inputs=inputs, outputs=3, dims=names, is_causal=1
        )
        all_keys = np.concatenate([feeds["past_key"], k], 2)
        all_values = np.concatenate([feeds["past_value"], v], 2)
        np.testing.assert_array_equal(keys, all_keys)
        np.testing.assert_array_equal(values, all_values)
        seen = np.arange(3 + past) <= np.arange(3)[:, None] + past
        np.testing.assert_allclose(y, expected(q, all_keys, all_values, seen), rtol=1e-4, atol=1e-5)


def test_a_masked_key_has_no_say_even_if_it_is_infinite() -> None:
    q, k, v = numbers(1, 1, 2, 4), numbers(1, 1, 3, 4), numbers(1, 1, 3, 4)
    k[0, 0, 2] = np.inf
    for mask in (np.array([[True, True, False]]), np.array([[0, 0, -np.inf]], np.float32)):
        (y,) = run_node("Attention", {"Q": q, "K": k, "V": v, "M": mask.repeat(2, 0)}, opset=24)
        np.testing.assert_allclose(y, expected(q, k[:, :, :2], v[:, :, :2]), rtol=1e-5)


def test_the_scores_shown_without_a_mode_are_those_before_the_softcap() -> None:
    feeds = {"Q": numbers(1, 1, 2, 4) * 9, "K": numbers(1, 1, 3, 4), "V": numbers(1, 1, 3, 4)}
    shown = [
        run_node("Attention", feeds, opset=24, outputs=4, softcap=2.0, qk_matmul_output_mode=mode)[
            3
        ]
        for mode in (0, 1)
    ]
    np.testing.assert_allclose(shown[1], 2 * np.tanh(shown[0] / 2), rtol=1e-5)


def test_numbers_of_heads_with_rank_four_are_refused_from_opset_25() -> None:
    feeds = {"Q": numbers(1, 2, 2, 4), "K": numbers(1, 2, 2, 4), "V": numbers(1, 2, 2, 4)}
    given = {"q_num_heads": 2, "kv_num_heads": 2}
    assert run_node("Attention", feeds, opset=24, **given)[0].shape == (1, 2, 2, 4)
    with pytest.raises(ModelError, match="numbers of heads"):
        run_node("Attention", feeds, opset=25, **given)


@pytest.mark.parametrize(
    ("heads", "attributes", "error"),
    [
        ((6, 4), {}, ShapeError),
        ((4, 4), {"qk_matmul_output_mode": 4}, ModelError),
        ((4, 4), {"left_window_size": -2}, ModelError),
    ],
)
def test_what_does_not_fit_is_refused(
    heads: tuple[int, int], attributes: dict[str, Any], error: type[Exception]
) -> None:
    q, k = numbers(1, heads[0], 2, 4), numbers(1, heads[1], 2, 4)
    with pytest.raises(error):
        run_node("Attention", {"Q": q, "K": k, "V": k}, opset=25, **attributes)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotation_keeps_the_length_of_pairs(interleaved: int) -> None:
    x, angle = numbers(2, 3, 5, 8), RNG.uniform(0, 7, (6, 4)).astype(np.float32)
    ids = RNG.integers(0, 6, (2, 5))
    feeds = {"X": x, "cos": np.cos(angle), "sin": np.sin(angle), "ids": ids}
    names = {"X": ["b", 3, "s", 8], "ids": ["b", "s"]}
    (y,) = run_node("RotaryEmbedding", feeds, opset=23, dims=names, interleaved=interleaved)
    pair = (4, 2) if interleaved else (2, 4)
    axis = -1 if interleaved else -2
    lengths = [(each.reshape(2, 3, 5, *pair) ** 2).sum(axis) for each in (x, y)]
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-4)
    assert not np.allclose(x, y)


def test_linear_attention_with_sizes_of_the_run_continues_from_its_state() -> None:
    q, k, v = numbers(2, 6, 8), numbers(2, 6, 8), numbers(2, 6, 8)
    names = {name: ["b", "t", 8] for name in ("q", "k", "v")}
    given = {
        "opset": 27,
        "outputs": 2,
        "q_num_heads": 2,
        "kv_num_heads": 2,
        "update_rule": "linear",
    }
    whole, last = run_node("LinearAttention", {"q": q, "k": k, "v": v}, dims=names, **given)
    parts: list[np.ndarray] = []
    held = np.zeros((2, 2, 4, 4), np.float32)
    for start, stop in ((0, 2), (2, 6)):
        feeds = {"q": q[:, start:stop], "k": k[:, start:stop], "v": v[:, start:stop], "past": held}
        part, held = run_node("LinearAttention", feeds, dims=names, **given)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(held, last, rtol=1e-4, atol=1e-5)


def test_an_update_rule_without_its_input_is_refused() -> None:
    feeds = {name: numbers(1, 2, 4) for name in ("q", "k", "v")}
    with pytest.raises(ModelError, match="needs decay"):
        run_node("LinearAttention", feeds, opset=27, outputs=2, q_num_heads=1, kv_num_heads=1)
