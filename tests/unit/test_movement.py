"""Moves, grids, ranges and targets: what is merged or rewritten gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pass_checks import RNG, check, counts, floats, graph_of, only

from burnx.passes import run_passes


# ------------------------------------------------------------------------------- chains
@st.composite
def chains(draw: st.DrawFn) -> tuple[str, dict[str, Any], tuple[int, ...]]:
    """A chain of moves as text, its constants, and the shape it begins with."""
    first = shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=2, max_size=4)))
    lines, weights, before = [], {}, "x"
    for step in range(draw(st.integers(2, 5))):
        kind, after = (
            draw(st.sampled_from(["split", "merge", "turn", "squeeze", "unsqueeze"])),
            f"v{step}",
        )
        name = f"c{step}"
        if kind == "turn":
            perm = draw(st.permutations(range(len(shape))))
            lines.append(f"{after} = Transpose<perm = {list(perm)}>({before})")
            shape = tuple(shape[axis] for axis in perm)
        elif kind == "squeeze" and 1 in shape:
            axis = shape.index(1)
            lines.append(f"{after} = Squeeze({before}, {name})")
            weights[name] = np.array([axis])
            shape = (*shape[:axis], *shape[axis + 1 :])
        elif kind == "unsqueeze":
            axis = draw(st.integers(0, len(shape)))
            lines.append(f"{after} = Unsqueeze({before}, {name})")
            weights[name] = np.array([axis])
            shape = (*shape[:axis], 1, *shape[axis:])
        else:
            shape = _regrouped(draw, shape, kind)
            lines.append(f"{after} = Reshape({before}, {name})")
            weights[name] = np.array(shape)
        before = after
    dims = ",".join(map(str, shape))
    given = ",".join(map(str, first))
    return (
        f"g (float[{given}] x) => (float[{dims}] y) {{ {' '.join(lines)} y = Exp({before}) }}",
        weights,
        first,
    )


def _regrouped(draw: st.DrawFn, shape: tuple[int, ...], kind: str) -> tuple[int, ...]:
    axis = draw(st.integers(0, max(len(shape) - 2, 0)))
    if kind == "merge" and len(shape) > 1:
        return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    if shape and shape[axis] % 2 == 0:
        return (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
    return (*shape, 1)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(chains())
def test_merged_chains_move_alike(chain: tuple[str, dict[str, Any], tuple[int, ...]]) -> None:
    text, weights, shape = chain
    before = len(graph_of(text, weights=weights).nodes)
    assert len(check(text, {"x": floats(*shape)}, weights=weights).nodes) <= before


def test_moves_that_cancel_go() -> None:
    text = """g (float[b,n,6] x) => (float[b,n,6] y) { s = Reshape(x, split) t = Transpose<perm = [0, 2, 1, 3]>(s)
        u = Transpose<perm = [0, 2, 1, 3]>(t) j = Reshape(u, join) y = Exp(j) }"""
    weights = {"split": np.array([0, 0, 2, 3]), "join": np.array([0, 0, 6])}
    assert counts(check(text, {"x": floats(2, 5, 6)}, weights=weights)) == {"Exp": 1}


def test_rows_that_are_made_one_axis_for_a_layer_are_left() -> None:
    text = """g (float[b,n,6] x) => (float[b,n,4] y) { f = Reshape(x, flat) m = MatMul(f, w) a = Add(m, c)
        h = Shape(x) s = Slice(h, zero, two) t = Concat<axis = 0>(s, four) y = Reshape(a, t) }"""
    weights = {"flat": np.array([-1, 6]), "w": floats(6, 4), "c": floats(4)}
    weights |= {"zero": np.array([0]), "two": np.array([2]), "four": np.array([4])}
    assert counts(check(text, {"x": floats(2, 5, 6)}, weights=weights)) == {"Linear": 1}


def test_softmax_over_rows_that_were_made_one_axis() -> None:
    text = """g (float[b,n,6] x) => (float[b,n,6] y) { f = Reshape(x, flat) s = Softmax<axis = -1>(f)
        h = Shape(x) y = Reshape(s, h) }"""
    graph = check(text, {"x": floats(2, 5, 6)}, weights={"flat": np.array([-1, 6])})
    assert counts(graph) == {"Softmax": 1}


@pytest.mark.parametrize(
    ("parts", "perm", "given"),
    [
        ([2, 3, 2, 2, 4, 5], [0, 1, 4, 2, 5, 3], {"blocksize": 2, "mode": "CRD"}),
        ([2, 2, 2, 3, 4, 5], [0, 3, 4, 1, 5, 2], {"blocksize": 2}),
        ([2, 3, 2, 2, 4, 5], [0, 1, 4, 3, 5, 2], None),
    ],
)
def test_pixel_shuffle(parts: list[int], perm: list[int], given: Any) -> None:
    text = f"""g (float[2,12,4,5] x) => (float[2,3,8,10] y) {{ s = Reshape(x, parts)
        t = Transpose<perm = {perm}>(s) y = Reshape(t, whole) }}"""
    weights = {"parts": np.array(parts), "whole": np.array([2, 3, 8, 10])}
    graph = check(text, {"x": floats(2, 12, 4, 5)}, weights=weights)
    assert counts(graph)["DepthToSpace"] == int(given is not None)
    if given is not None:
        assert only(graph, "DepthToSpace").attributes == given


# ------------------------------------------------------------------------------- grids
GRID = {
    "n0": np.int64(0),
    "n1": np.int64(1),
    "i0": np.int64(0),
    "i1": np.int64(1),
    "rows": np.array([1, 2, 3, 4]),
    "keys": np.array([0, 1, 2, 4]),
    "last": np.array([-1]),
    "v0": np.array([0]),
    "v1": np.array([1]),
    "mid": np.array([1, 1]),
    "mid1": np.array([1]),
}
INDICES = """h = Shape(x) b = Gather(h, i0) n = Gather(h, i1) rb = Range(n0, b, n1) rn = Range(n0, n, n1)
u = Unsqueeze(rb, rows) k = Unsqueeze(rn, keys) hb = Gather(h, v0) hn = Gather(h, v1) full = Concat<axis = 0>(hb, mid, hn, mid1)
ub = Expand(u, full) kb = Expand(k, full) i = Concat<axis = -1>(ub, kb) """


def test_a_lookup_of_every_element_is_the_value() -> None:
    text = f"g (float[b,n] x) => (float[b,1,1,n] y) {{ {INDICES} y = GatherND(x, i) }}"
    graph = check(text, {"x": floats(2, 5)}, weights=GRID)
    assert "GatherND" not in counts(graph)


def test_a_lookup_of_elements_in_another_order_stays() -> None:
    swapped = INDICES.replace("(ub, kb)", "(kb, ub)")
    text = f"g (float[5,5] x) => (float[5,1,1,5] y) {{ {swapped} y = GatherND(x, i) }}"
    assert counts(check(text, {"x": floats(5, 5)}, weights=GRID))["GatherND"] == 1


def test_a_constant_lookup_of_every_element() -> None:
    places = np.stack(np.meshgrid([0], np.arange(5), indexing="ij"), -1)[:, None]
    text = "g (float[1,5] x) => (float[1,1,5] y) { y = GatherND(x, i) }"
    assert "GatherND" not in counts(check(text, {"x": floats(1, 5)}, weights={"i": places}))
    graph = check(text, {"x": floats(1, 5)}, weights={"i": places[:, :, ::-1].copy()})
    assert "GatherND" in counts(graph)


def test_rows_of_a_flat_value_in_order() -> None:
    text = """g (float[b,n] x) => (float[b,1,n] y) { h = Shape(x) b = Gather(h, i0) n = Gather(h, i1)
        rb = Range(n0, b, n1) rn = Range(n0, n, n1) c = Unsqueeze(rb, axes) m = Mul(c, n) a = Add(m, rn)
        f = Reshape(x, last) y = Gather(f, a) }"""
    weights = {**GRID, "axes": np.array([1, 2])}
    assert "Gather" not in counts(check(text, {"x": floats(3, 5)}, weights=weights))


def test_what_is_always_true_is_left_out() -> None:
    text = """g (bool[n] x) => (bool[n] y) { h = Shape(x) s = Squeeze(h) r = Range(n0, s, n1)
        t = GreaterOrEqual(r, n0) a = And(t, x) y = And(a, yes) }"""
    weights = {**GRID, "yes": np.array(True)}
    graph = check(text, {"x": RNG.random(5) < 0.5}, weights=weights)
    assert "And" not in counts(graph)


# ------------------------------------------------------------------------------- ranges and targets
def test_ranges_of_floats_count_integers() -> None:
    text = """g (float[n] x) => (float[n] y) { h = Shape(x) s = Squeeze(h) l = Cast<to = 1>(s)
        r = Range(zero, l, one) y = Add(x, r) }"""
    weights = {"zero": np.float32(0), "one": np.float32(1)}
    graph = check(text, {"x": floats(5)}, weights=weights)
    ranges = only(graph, "Range")
    assert str(ranges.outputs[0].type) == "int64(n)"


@pytest.mark.parametrize("step", [0.5, 0.0])
def test_ranges_by_parts_of_one_stay(step: float) -> None:
    text = """g (int64 s) => (float[n] y) { l = Cast<to = 1>(s) r = Range(zero, l, step) y = Exp(r) }"""
    weights = {"zero": np.float32(0), "step": np.float32(step)}
    graph = graph_of(text, weights=weights)
    run_passes(graph)
    assert str(only(graph, "Range").outputs[0].type).startswith("float32")


def test_known_sizes_are_numbers() -> None:
    text = "g (float[2,12,5] x) => (float[2,3,4,5] y) { y = Reshape(x, t) }"
    graph = check(text, {"x": floats(2, 12, 5)}, weights={"t": np.array([0, 3, -1, 5])})
    target = only(graph, "Reshape").inputs[1]
    assert target is not None and target.array is not None and target.array.tolist() == [2, 3, 4, 5]


# ------------------------------------------------------------------------------- what changes nothing
NEUTRAL = {
    "pad": "y = Pad(x, none)",
    "concat": "y = Concat<axis = 0>(x)",
    "times": "y = Mul(one, x)",
    "over": "y = Div(x, one)",
    "less": "m = Cast<to = 7>(x) s = Sub(m, zero) y = Cast<to = 1>(s)",
    "where": "y = Where(yes, x, other)",
}


@pytest.mark.parametrize("form", NEUTRAL)
def test_what_changes_nothing_goes(form: str) -> None:
    weights = {"none": np.zeros(4, np.int64), "one": np.float32(1), "zero": np.int64(0)}
    weights |= {"yes": np.ones((1, 4), bool), "other": floats(3, 4)}
    text = f"g (float[3,4] x) => (float[3,4] y) {{ {NEUTRAL[form]} }}"
    graph = check(text, {"x": floats(3, 4)}, weights=weights)
    assert not counts(graph).keys() & {"Pad", "Concat", "Mul", "Div", "Sub", "Where"}


def test_zero_that_makes_minus_zero_plus_zero_stays() -> None:
    text = "g (float[2] x) => (float[2] y) { y = Add(x, zero) }"
    graph = check(text, {"x": np.float32([-0.0, 1])}, weights={"zero": np.float32(0)})
    assert counts(graph) == {"Add": 1}
