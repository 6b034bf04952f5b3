"""Rotary embeddings that exporters spell out, and how they are written for opsets that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import Arrays, check, counts, floats, graph_of, only, run

from burnx.exporter.onnx_model import export_model
from burnx.graph import Graph
from tests.unit.exported import run_ort

NUMBERS: dict[str, Any] = {
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
    "four": np.array([4]),
    "eight": np.array([8]),
    "last": np.array([3]),
    "end": np.array([2**62]),
    "at2": np.int64(2),
    "n0": np.int64(0),
    "n1": np.int64(1),
    "rate": floats(1, 4),
    "plain": np.array([0, 0, 0, 8]),
    "pairs": np.array([0, 1, 0, 8]),
    "twice": np.array([1, 1, 1, 1, 2]),
    "five": np.array([4]),
}
# angles (1, 1, seq, 4)
ANGLES = """h = Shape(x) n = Gather(h, at2) r = Range(n0, n, n1) f = Cast<to = 1>(r) g = Unsqueeze(f, one)
a = Mul(g, rate) """
TWICE = "d = Concat<axis = -1>(a, a) c0 = Cos(d) s0 = Sin(d) c = Unsqueeze(c0, axes) s = Unsqueeze(s0, axes) "
HALVES = "x1 = Slice(x, zero, four, last) x2 = Slice(x, four, end, last) "
TURNED = "m = Neg(x2) t = Concat<axis = -1>(m, x1) p = Mul(x, c) q = Mul(t, s) y = Add(p, q)"


def lifted(text: str, inputs: Arrays, weights: Arrays) -> Graph:
    graph = check(text, inputs, weights=weights, tolerance=1e-5)
    expected = run(graph_of(text, weights=weights), inputs)
    for opset in (17, 20, 23):
        found = run_ort(export_model(graph, opset), dict(inputs)).values()
        for new, old in zip(found, expected, strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)
    return graph


def rotary(body: str, **weights: Any) -> Graph:
    text = f"g (float[b,3,n,8] x) => (float[b,3,n,8] y) {{ {body} }}"
    return lifted(text, {"x": floats(2, 3, 5, 8)}, {**NUMBERS, "axes": np.array([0, 1]), **weights})


@pytest.mark.parametrize(
    "halves", [HALVES, "x1, x2 = Split<axis = -1, num_outputs = 2>(x) "], ids=["slices", "split"]
)
def test_halves_are_turned(halves: str) -> None:
    graph = rotary(ANGLES + TWICE + halves + TURNED)
    assert counts(graph)["RotaryEmbedding"] == 1
    assert not counts(graph).keys() & {"Neg", "Concat"}
    assert only(graph, "RotaryEmbedding").attributes == {}


def test_what_is_turned_the_other_way_stays() -> None:
    body = (
        ANGLES + TWICE + HALVES + TURNED.replace("Neg(x2)", "Neg(x1)").replace("(m, x1)", "(x2, m)")
    )
    assert "RotaryEmbedding" not in counts(rotary(body))


def test_angles_that_differ_between_halves_stay() -> None:
    body = ANGLES + TWICE.replace("(a, a)", "(a, e)") + HALVES + TURNED
    assert "RotaryEmbedding" not in counts(
        rotary("e0 = Neg(rate) " + body.replace("d =", "e = Mul(g, e0) d ="))
    )


def test_tables_of_angles_are_halved() -> None:
    table = np.concatenate([floats(9, 4)] * 2, -1)
    body = (
        "c0 = Gather(table, i) s0 = Gather(other, i) c = Unsqueeze(c0, one) s = Unsqueeze(s0, one) "
    )
    text = "g (float[b,3,n,8] x, int64[b,n] i) => (float[b,3,n,8] y) { %s }" % (
        body + HALVES + TURNED
    )
    inputs = {"x": floats(2, 3, 5, 8), "i": np.arange(10).reshape(2, 5) % 9}
    graph = lifted(text, inputs, {**NUMBERS, "table": table, "other": table[::-1].copy()})
    assert counts(graph)["RotaryEmbedding"] == 1 and "Neg" not in counts(graph)


def test_neighbours_are_turned() -> None:
    twice = """w = Unsqueeze(a, two) d0 = Expand(w, twice) d = Reshape(d0, pairs) c0 = Cos(d) s0 = Sin(d)
    c = Unsqueeze(c0, axes) s = Unsqueeze(s0, axes) """
    halves = "x1 = Slice(x, zero, end, last, two) x2 = Slice(x, one, end, last, two) "
    turned = """m0 = Neg(x2) m = Unsqueeze(m0, five) k = Unsqueeze(x1, five) t0 = Concat<axis = -1>(m, k)
    t = Reshape(t0, plain) p = Mul(x, c) q = Mul(t, s) y = Add(p, q)"""
    graph = rotary(
        ANGLES + twice + halves + turned,
        pairs=np.array([-1, 8]),
        twice=np.array([1, 1, 2]),
    )
    assert only(graph, "RotaryEmbedding").attributes == {"interleaved": 1}


def test_halves_are_turned_apart() -> None:
    body = """c0 = Cos(a) s0 = Sin(a) c = Unsqueeze(c0, axes) s = Unsqueeze(s0, axes) k = Mul(x1, c)
    l = Mul(x2, s) m = Mul(x2, c) o = Mul(x1, s) p = Sub(k, l) q = Add(m, o) y = Concat<axis = -1>(p, q)"""
    assert counts(rotary(ANGLES + HALVES + body))["RotaryEmbedding"] == 1


def test_a_part_of_the_features_is_turned() -> None:
    halves = (
        """z = Slice(w, zero, eight, last) x = Identity(z) rest = Slice(w, eight, end, last) """
    )
    text = (
        """g (float[b,3,n,12] w) => (float[b,3,n,12] y) { %s y = Concat<axis = -1>(v, rest) }"""
        % (halves + ANGLES + TWICE + HALVES + TURNED.replace("y =", "v ="))
    )
    weights = {**NUMBERS, "axes": np.array([0, 1])}
    graph = lifted(text, {"w": floats(2, 3, 5, 12)}, weights)
    assert only(graph, "RotaryEmbedding").attributes == {"rotary_embedding_dim": 8}


def test_heads_are_split_after_the_turn() -> None:
    split = "u = Reshape(z, split) x = Transpose<perm = [0, 2, 1, 3]>(u) "
    text = "g (float[b,n,24] z) => (float[b,3,n,8] y) { %s }" % (
        split + ANGLES + TWICE + HALVES + TURNED
    )
    weights = {**NUMBERS, "axes": np.array([0, 1]), "split": np.array([0, 0, 3, 8])}
    graph = lifted(text, {"z": floats(2, 5, 24)}, weights)
    assert only(graph, "RotaryEmbedding").attributes == {"num_heads": 3}


def test_heads_that_come_last() -> None:
    text = (
        "g (float[b,n,24] z) => (float[b,n,3,8] y) { u = Reshape(z, split) x = Identity(u) %s }"
        % (ANGLES.replace("at2", "n1") + TWICE + HALVES + TURNED)
    )
    weights = {**NUMBERS, "axes": np.array([0, 2]), "split": np.array([0, 0, 3, 8])}
    graph = lifted(text, {"z": floats(2, 5, 24)}, weights)
    assert only(graph, "RotaryEmbedding").attributes == {"num_heads": 3}
