"""Attention that exporters spell out: what is lifted gives the same, and what only looks alike stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pass_checks import RNG, Arrays, check, counts, floats, graph_of, only, run

from burnx.exporter.onnx_model import export_model
from burnx.graph import Graph
from burnx.passes import run_passes
from tests.unit.exported import run_ort

FAR = np.float32(-3.4028235e38)
NUMBERS: dict[str, Any] = {
    "scale": np.float32(0.25),
    "half": np.float32(0.5),
    "root": np.float32(4),
    "zero": np.float32(0),
    "far": FAR,
    "infinity": np.float32(-np.inf),
    "one": np.array([1]),
    "two": np.array([2]),
}
SIZES = (2, 3, 5, 16)


def in_ort(graph: Graph, inputs: Arrays, opset: int) -> list[Any]:
    return list(run_ort(export_model(graph, opset), dict(inputs)).values())


def lifted(text: str, inputs: Arrays, weights: Arrays = NUMBERS, tolerance: float = 1e-5) -> Graph:
    """The graph after the passes, run here and, written without Attention, by onnxruntime."""
    graph = check(text, inputs, weights=weights, tolerance=tolerance)
    expected = run(graph_of(text, weights=weights), inputs)
    for opset in (17, 20):
        for new, old in zip(in_ort(graph, inputs, opset), expected, strict=True):
            np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance)
    return graph


def heads(body: str, extra: str = "", kind: str = "float") -> str:
    given = ", ".join(f"{kind}[b,3,n,16] {name}" for name in "qkv") + extra
    return f"g ({given}) => ({kind}[b,3,n,16] y) {{ {body} }}"


def qkv(dtype: Any = np.float32) -> dict[str, Any]:
    return {name: floats(*SIZES).astype(dtype) for name in "qkv"}


TURN = "t = Transpose<perm = [0, 1, 3, 2]>(k) "
END = "p = Softmax<axis = -1>(s) y = MatMul(p, v)"
SCALED = {
    "on the product": TURN + "m = MatMul(q, t) s = Mul(m, scale) " + END,
    "by division": TURN + "m = MatMul(q, t) s = Div(m, root) " + END,
    "on queries": TURN + "a = Mul(q, scale) s = MatMul(a, t) " + END,
    "on keys": TURN + "a = Mul(scale, t) s = MatMul(q, a) " + END,
    "before the transpose": "a = Div(k, root) t = Transpose<perm = [0, 1, 3, 2]>(a) s = MatMul(q, t) "
    + END,
    "on both": TURN + "a = Mul(q, half) c = Mul(t, half) s = MatMul(a, c) " + END,
}


@pytest.mark.parametrize("form", SCALED)
def test_scales_are_taken_in(form: str) -> None:
    graph = lifted(heads(SCALED[form]), qkv())
    assert counts(graph) == {"Attention": 1}
    assert graph.nodes[0].attributes == {}


def test_another_scale_is_said() -> None:
    graph = lifted(heads(TURN + "s = MatMul(q, t) " + END), qkv())
    assert only(graph, "Attention").attributes == {"scale": 1.0}


def test_a_pass_that_is_off_lifts_nothing() -> None:
    graph = graph_of(heads(SCALED["on both"]), weights=NUMBERS)
    run_passes(graph, ["attention"])
    assert "Attention" not in counts(graph)


# ------------------------------------------------------------------------------- masks
SCORES = TURN + "m = MatMul(q, t) d = Mul(m, scale) "
FLAGS = {"w": RNG.random((2, 1, 5, 5)) < 0.7}
MASKED = {
    "added": ("bool[b,1,n,n] w", "a = Where(w, zero, far) s = Add(d, a) ", 5),
    "added first": ("bool[b,1,n,n] w", "a = Where(w, zero, far) s = Add(a, d) ", 5),
    "in place": ("bool[b,1,n,n] w", "s = Where(w, d, far) ", 5),
    "turned": ("bool[b,1,n,n] w", "s = Where(w, far, d) ", 5),
}


@pytest.mark.parametrize("form", MASKED)
@pytest.mark.parametrize("hides_all", [False, True])
def test_masks_of_the_lowest_number(form: str, hides_all: bool) -> None:
    extra, body, _ = MASKED[form]
    flags = np.zeros((2, 1, 5, 5), bool) if hides_all else FLAGS["w"]
    graph = lifted(heads(SCORES + body + END, f", {extra}"), {**qkv(), "w": flags})
    assert counts(graph)["Attention"] == 1 and "Softmax" not in counts(graph)


GUARD = "p = Softmax<axis = -1>(s) n = IsNaN(p) o = Where(n, zero, p) y = MatMul(o, v)"
ROW_GUARD = """p = Softmax<axis = -1>(s) g = ReduceMax(s, last) n = Equal(g, infinity) o = Where(n, zero, p)
y = MatMul(o, v)"""


@pytest.mark.parametrize("guard", [GUARD, ROW_GUARD])
@pytest.mark.parametrize(
    "body",
    [
        "s = Where(w, d, infinity) ",
        "u = Not(w) s = Where(u, infinity, d) ",
        "a = Where(w, zero, infinity) s = Add(d, a) ",
    ],
)
def test_infinite_masks_are_lifted_with_their_guard(body: str, guard: str) -> None:
    weights = {**NUMBERS, "last": np.array([-1])}
    flags = FLAGS["w"].copy()
    flags[0, 0, 2] = False
    text = heads(SCORES + body + guard, ", bool[b,1,n,n] w")
    graph = lifted(text, {**qkv(), "w": flags}, weights)
    assert counts(graph)["Attention"] == 1 and "Softmax" not in counts(graph)


@pytest.mark.parametrize(
    "body",
    [
        "s = Where(w, d, infinity) ",
        "a = Where(w, zero, infinity) s = Add(d, a) ",
    ],
)
def test_infinite_masks_without_a_guard_stay(body: str) -> None:
    text = heads(SCORES + body + END, ", bool[b,1,n,n] w")
    flags = np.zeros((2, 1, 5, 5), bool)
    assert "Attention" not in counts(check(text, {**qkv(), "w": flags}, weights=NUMBERS))


def test_a_mask_that_is_given_as_floats_stays_as_it_may_be_infinite() -> None:
    text = heads(SCORES + "s = Add(d, w) " + END, ", float[b,1,n,n] w")
    inputs = {**qkv(), "w": np.full((2, 1, 5, 5), -np.inf, np.float32)}
    assert "Attention" not in counts(check(text, inputs, weights=NUMBERS))
    guarded = heads(SCORES + "s = Add(d, w) " + GUARD, ", float[b,1,n,n] w")
    assert counts(lifted(guarded, inputs)) == {"Attention": 1}


MASK_SHAPES = [("b,1,1,n", (2, 1, 1, 5)), ("1,3,n,n", (1, 3, 5, 5)), ("n,n", (5, 5)), ("n", (5,))]


@pytest.mark.parametrize(("dims", "shape"), MASK_SHAPES)
def test_masks_of_other_shapes(dims: str, shape: tuple[int, ...]) -> None:
    text = heads(SCORES + "a = Where(w, zero, far) s = Add(d, a) " + END, f", bool[{dims}] w")
    graph = lifted(text, {**qkv(), "w": RNG.random(shape) < 0.6})
    assert counts(graph)["Attention"] == 1


@pytest.mark.parametrize(
    ("dims", "shape"), [("b,3,n,1", (2, 3, 5, 1)), ("b,1,1,1", (2, 1, 1, 1)), ("1", (1,))]
)
def test_a_mask_without_an_axis_for_keys_stays(dims: str, shape: tuple[int, ...]) -> None:
    text = heads(SCORES + "a = Where(w, zero, far) s = Add(d, a) " + END, f", bool[{dims}] w")
    graph = check(text, {**qkv(), "w": RNG.random(shape) < 0.6}, weights=NUMBERS)
    assert "Attention" not in counts(graph)


def test_a_mask_that_spreads_the_scores_stays() -> None:
    body = SCORES + "a = Where(w, zero, far) s = Add(d, a) " + END
    text = heads(body, ", bool[b,1,n,n] w")
    for name in "qkv":
        text = text.replace(f"[b,3,n,16] {name}", f"[1,3,n,16] {name}")
    inputs = {**{name: floats(1, 3, 5, 16) for name in "qkv"}, "w": FLAGS["w"]}
    assert "Attention" not in counts(check(text, inputs, weights=NUMBERS))


@pytest.mark.parametrize("fill", [FAR, np.float32(-np.inf)])
@pytest.mark.parametrize("form", ["added", "in place", "counted"])
def test_causal_masks(fill: Any, form: str) -> None:
    lower = np.tril(np.ones((5, 5), bool))
    weights = {
        **NUMBERS,
        "fill": fill,
        "lower": lower,
        "bias": np.where(lower, np.float32(0), fill),
    }
    counted = """h = Shape(q) i = Gather(h, at) r = Range(start, i, step) c = Unsqueeze(r, first)
        e = Unsqueeze(r, last) w = LessOrEqual(c, e) """
    weights |= {"at": np.int64(2), "start": np.int64(0), "step": np.int64(1)}
    weights |= {"first": np.array([0]), "last": np.array([1])}
    body = {
        "added": "s = Add(d, bias) ",
        "in place": "s = Where(lower, d, fill) ",
        "counted": counted + "a = Where(w, zero, fill) s = Add(d, a) ",
    }[form]
    text = heads(SCORES + body + END).replace("n,16", "n,16" if form == "counted" else "5,16")
    graph = lifted(text, qkv(), weights)
    assert counts(graph)["Attention"] == 1
    assert only(graph, "Attention").attributes == {"is_causal": 1}


def test_half_precision_masks_that_may_hide_a_row_stay() -> None:
    half = {name: np.float16(NUMBERS[name]) for name in ("scale", "zero")}
    half["far"] = np.float16(-65504)
    text = heads(
        SCORES + "a = Where(w, zero, far) s = Add(d, a) " + END, ", bool[b,1,n,n] w", "float16"
    )
    inputs = {**qkv(np.float16), "w": np.zeros((2, 1, 5, 5), bool)}
    assert "Attention" not in counts(check(text, inputs, weights=half, tolerance=3e-3))


def test_half_precision_without_a_mask() -> None:
    half = {"scale": np.float16(0.25)}
    graph = lifted(heads(SCALED["on the product"], kind="float16"), qkv(np.float16), half, 3e-3)
    assert counts(graph) == {"Attention": 1}


def test_a_softmax_in_another_precision_is_said() -> None:
    half = {"scale": np.float16(0.25)}
    body = (
        SCORES
        + "s = Cast<to = 1>(d) u = Softmax<axis = -1>(s) p = Cast<to = 10>(u) y = MatMul(p, v)"
    )
    graph = lifted(heads(body, kind="float16"), qkv(np.float16), half, 3e-3)
    assert only(graph, "Attention").attributes == {"softmax_precision": 1}


# ------------------------------------------------------------------------------- heads
SPLIT = "%s4 = Reshape(%s, split) %sh = Transpose<perm = [0, 2, 1, 3]>(%s4) "
JOIN = "o = MatMul(p, vh) j = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(j, join)"
HEADS = {**NUMBERS, "split": np.array([0, 0, 3, 16]), "join": np.array([0, 0, 48])}


def packed(middle: str, keys: str = "m", end: str = JOIN) -> str:
    splits = "".join(SPLIT % ((name,) * 4) for name in "qkv")
    return f"""g (float[b,n,48] q, float[b,{keys},48] k, float[b,{keys},48] v) => (float[b,n,48] y) {{
        {splits} t = Transpose<perm = [0, 1, 3, 2]>(kh) {middle} p = Softmax<axis = -1>(s) {end} }}"""


def packed_inputs(keys: int = 7) -> dict[str, Any]:
    return {"q": floats(2, 5, 48), "k": floats(2, keys, 48), "v": floats(2, keys, 48)}


def test_heads_are_taken_in() -> None:
    graph = lifted(packed("m = MatMul(qh, t) s = Mul(m, scale)"), packed_inputs(), HEADS)
    assert counts(graph) == {"Attention": 1}
    assert graph.nodes[0].attributes == {"q_num_heads": 3, "kv_num_heads": 3}


def test_keys_that_are_turned_at_once() -> None:
    text = packed("u = Transpose<perm = [0, 2, 3, 1]>(k4) m = MatMul(qh, u) s = Mul(m, scale)")
    assert counts(lifted(text, packed_inputs(), HEADS)) == {"Attention": 1}


def test_keys_through_a_batch_of_heads() -> None:
    weights = {**HEADS, "flat": np.array([-1, 7, 16]), "back": np.array([2, 3, 16, 7])}
    text = packed(
        """f = Reshape(kh, flat) u = Transpose<perm = [0, 2, 1]>(f) w = Reshape(u, back) a = Mul(qh, half)
        c = Mul(w, half) s = MatMul(a, c)""",
        "7",
    ).replace("[b,", "[2,")
    assert counts(lifted(text, packed_inputs(), weights)) == {"Attention": 1}


FOLDED = {
    **NUMBERS,
    "parts": np.array([0, 0, 3, 16]),
    "folded": np.array([-1, 7, 16]),
    "apart": np.array([2, 3, 7, 16]),
    "joined": np.array([2, 7, 48]),
    "spread": np.array([2, 3, 7, 7]),
    "rows": np.array([6, 7, 7]),
}


def folded(middle: str) -> str:
    """Heads that are part of the batch, as products of rank 3 want them."""
    splits = "".join(
        f"""{x}4 = Reshape({x}, parts) {x}t = Transpose<perm = [0, 2, 1, 3]>({x}4) {x}f = Reshape({x}t, folded) """
        for x in "qkv"
    )
    return f"""g (float[2,7,48] q, float[2,7,48] k, float[2,7,48] v, bool[2,1,7,7] w) => (float[2,7,48] y) {{
        {splits} t = Transpose<perm = [0, 2, 1]>(kf) m = MatMul(qf, t) d = Mul(m, scale) {middle}
        p = Softmax<axis = -1>(s) o = MatMul(p, vf) a = Reshape(o, apart) j = Transpose<perm = [0, 2, 1, 3]>(a)
        y = Reshape(j, joined) }}"""


@pytest.mark.parametrize(
    "middle",
    [
        "s = Identity(d)",
        "f = Where(w, zero, far) e = Expand(f, spread) r = Reshape(e, rows) s = Add(d, r)",
    ],
)
def test_heads_that_are_part_of_the_batch(middle: str) -> None:
    inputs = {x: floats(2, 7, 48) for x in "qkv"} | {"w": RNG.random((2, 1, 7, 7)) < 0.7}
    graph = lifted(folded(middle), inputs, FOLDED)
    attributes = only(graph, "Attention").attributes
    assert (attributes["q_num_heads"], attributes["kv_num_heads"]) == (3, 3)
    assert not counts(graph).keys() & {"Reshape", "Transpose", "Expand"}


def test_one_head_without_an_axis_of_its_own() -> None:
    text = f"""g (float[b,n,16] q, float[b,m,16] k, float[b,m,16] v) => (float[b,n,16] y) {{
        t = Transpose<perm = [0, 2, 1]>(k) d = MatMul(q, t) s = Mul(d, scale) {END} }}"""
    graph = lifted(text, {"q": floats(2, 5, 16), "k": floats(2, 7, 16), "v": floats(2, 7, 16)})
    assert only(graph, "Attention").attributes == {"q_num_heads": 1, "kv_num_heads": 1}


@pytest.mark.parametrize("order", ["queries first", "keys first"])
def test_einsums_of_keras(order: str) -> None:
    scores = {
        "queries first": 'm = Einsum<equation = "abcd,aecd->acbe">(q, k)',
        "keys first": 'm = Einsum<equation = "aecd,abcd->acbe">(k, q)',
    }[order]
    text = f"""g (float[b,n,3,16] q, float[b,m,3,16] k, float[b,m,3,16] v) => (float[b,n,48] y) {{
        {scores} s = Mul(m, scale) p = Softmax<axis = -1>(s) o = Einsum<equation = "acbe,aecd->abcd">(p, v)
        y = Reshape(o, join) }}"""
    inputs = {"q": floats(2, 5, 3, 16), "k": floats(2, 7, 3, 16), "v": floats(2, 7, 3, 16)}
    graph = lifted(text, inputs, {**NUMBERS, "join": np.array([0, 0, 48])})
    assert only(graph, "Attention").attributes["q_num_heads"] == 3
    assert not counts(graph).keys() & {"Einsum", "Transpose"}


def test_doubles_with_a_scale_that_floats_cannot_say_stay() -> None:
    inputs = qkv(np.float64)
    body = heads(SCALED["on the product"], kind="double")
    for scale, is_lifted in ((0.25, True), (0.5, True), (0.3, False)):
        graph = check(body, inputs, weights={"scale": np.float64(scale)}, tolerance=1e-12)
        assert ("Attention" in counts(graph)) == is_lifted


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_mask_gives_the_same(data: st.DataObject) -> None:
    dims, shape = data.draw(st.sampled_from([*MASK_SHAPES, ("b,3,n,n", (2, 3, 5, 5))]))
    fill = data.draw(st.sampled_from(["far", "infinity", "some"]))
    body = data.draw(
        st.sampled_from(
            [
                f"a = Where(w, zero, {fill}) s = Add(d, a) ",
                f"s = Where(w, d, {fill}) ",
                f"s = Where(w, {fill}, d) ",
            ]
        )
    )
    guard = data.draw(st.sampled_from([END, GUARD]))
    share = data.draw(st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    weights = {**NUMBERS, "some": np.float32(-10000)}
    inputs = {
        **qkv(),
        "w": np.random.default_rng(data.draw(st.integers(0, 99))).random(shape) < share,
    }
    check(
        heads(SCORES + body + guard, f", bool[{dims}] w"), inputs, weights=weights, tolerance=1e-5
    )


def test_nan_as_a_fill_stays() -> None:
    text = heads(SCORES + "s = Where(w, d, odd) " + END, ", bool[b,1,n,n] w")
    weights = {**NUMBERS, "odd": np.float32(np.nan)}
    graph = check(text, {**qkv(), "w": FLAGS["w"]}, weights=weights)
    assert "Attention" not in counts(graph)


def test_heads_that_are_joined_in_another_order_stay_apart() -> None:
    end = "o = MatMul(p, vh) y = Reshape(o, join)"
    weights = {**HEADS, "join": np.array([2, 5, 48])}
    text = (
        packed("m = MatMul(qh, t) s = Mul(m, scale)", end=end)
        .replace("[b,", "[2,")
        .replace("[2,n", "[2,5")
    )
    graph = lifted(text, packed_inputs(), weights)
    assert "q_num_heads" not in only(graph, "Attention").attributes


def test_shared_heads_are_taken_in() -> None:
    weights = {
        **NUMBERS,
        "split": np.array([0, 0, 6, 8]),
        "few": np.array([0, 0, 3, 8]),
        "again": np.array([1, 1, 2, 1, 1]),
        "many": np.array([0, 6, -1, 8]),
        "join": np.array([0, 0, 48]),
    }
    kv = "".join(
        f"""{x}4 = Reshape({x}, few) {x}t = Transpose<perm = [0, 2, 1, 3]>({x}4) {x}u = Unsqueeze({x}t, two)
        {x}e = Expand({x}u, again) {x}h = Reshape({x}e, many) """
        for x in "kv"
    )
    text = f"""g (float[b,n,48] q, float[b,m,24] k, float[b,m,24] v) => (float[b,n,48] y) {{
        {SPLIT % (("q",) * 4)} {kv} t = Transpose<perm = [0, 1, 3, 2]>(kh) d = MatMul(qh, t) s = Mul(d, scale)
        p = Softmax<axis = -1>(s) {JOIN} }}"""
    inputs = {"q": floats(2, 5, 48), "k": floats(2, 7, 24), "v": floats(2, 7, 24)}
    graph = lifted(text, inputs, weights)
    assert counts(graph) == {"Attention": 1}
    given = {"q_num_heads": 6, "kv_num_heads": 3, "scale": 0.25}
    assert only(graph, "Attention").attributes == given


def test_repeated_heads_that_are_not_neighbours_stay_repeated() -> None:
    weights = {**NUMBERS, "again": np.array([2, 1, 1, 1]), "many": np.array([0, 6, -1, 16])}
    kv = "".join(
        f"{x}u = Unsqueeze({x}, one) {x}e = Expand({x}u, again5) {x}h = Reshape({x}e, many) "
        for x in "kv"
    )
    weights["again5"] = np.array([1, 2, 1, 1, 1])
    text = f"""g (float[b,6,n,16] q, float[b,3,n,16] k, float[b,3,n,16] v) => (float[b,6,n,16] y) {{
        {kv} t = Transpose<perm = [0, 1, 3, 2]>(kh) d = MatMul(q, t) s = Mul(d, scale)
        p = Softmax<axis = -1>(s) y = MatMul(p, vh) }}"""
    inputs = {"q": floats(2, 6, 5, 16), "k": floats(2, 3, 5, 16), "v": floats(2, 3, 5, 16)}
    assert counts(lifted(text, inputs, weights))["Expand"] == 2


def test_a_cache_of_keys_and_values_is_taken_in() -> None:
    text = """g (float[b,3,n,16] q, float[b,3,n,16] k, float[b,3,n,16] v, float[b,3,past,16] pk,
        float[b,3,past,16] pv) => (float[b,3,n,16] y, float[b,3,total,16] a, float[b,3,total,16] c) {
        a = Concat<axis = 2>(pk, k) c = Concat<axis = -2>(pv, v) t = Transpose<perm = [0, 1, 3, 2]>(a)
        m = MatMul(q, t) s = Mul(m, scale) p = Softmax<axis = -1>(s) y = MatMul(p, c) }"""
    inputs = {**qkv(), "pk": floats(2, 3, 4, 16), "pv": floats(2, 3, 4, 16)}
    graph = lifted(text, inputs)
    assert counts(graph) == {"Attention": 1}
    assert len(only(graph, "Attention").outputs) == 3


def test_a_stack_of_queries_keys_and_values_is_split() -> None:
    weights = {
        **NUMBERS,
        "stack": np.array([0, 0, 3, 2, 16]),
        "join": np.array([0, 0, 32]),
        **{f"i{place}": np.int64(place) for place in range(3)},
    }
    text = """g (float[b,n,96] x) => (float[b,n,32] y) { r = Reshape(x, stack)
        z = Transpose<perm = [2, 0, 3, 1, 4]>(r) q = Gather(z, i0) k = Gather(z, i1) v = Gather(z, i2)
        t = Transpose<perm = [0, 1, 3, 2]>(k) m = MatMul(q, t) s = Mul(m, scale) p = Softmax<axis = -1>(s)
        o = MatMul(p, v) j = Transpose<perm = [0, 2, 1, 3]>(o) y = Reshape(j, join) }"""
    graph = lifted(text, {"x": floats(2, 5, 96)}, weights)
    assert counts(graph) == {"Split": 1, "Attention": 1}


def test_a_softmax_over_another_axis_stays() -> None:
    text = heads(SCORES + "p = Softmax<axis = 2>(d) y = MatMul(p, v)")
    assert "Attention" not in counts(check(text, qkv(), weights=NUMBERS))


def test_scores_that_are_an_output_stay() -> None:
    text = heads(SCORES + "s = Identity(d) " + END).replace("y) {", "y, float[b,3,n,n] p) {")
    assert "Attention" not in counts(check(text, qkv(), weights=NUMBERS))
