"""Passes change how a graph is written and never what it gives."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checks import check, counts, floats, graph_of, only

from burnx.errors import UsageError
from burnx.graph import Graph
from burnx.passes import PASSES, run_passes


# ------------------------------------------------------------------------------- registry
def test_unknown_pass_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UsageError, match='no pass "gulu"; known are fold, clean.*linear'):
        run_passes(Graph(), ["gulu"])


def test_skipped_pass_does_nothing() -> None:
    text = "g (float[n] x) => (float[n] y) { s = Sigmoid(x) y = Mul(x, s) }"
    graph = graph_of(text)
    assert "silu" not in run_passes(graph, ["silu"])
    assert counts(graph) == {"Sigmoid": 1, "Mul": 1}


def test_a_second_run_changes_nothing() -> None:
    graph = graph_of(
        "g (float[n,4] x) => (float[n,2] y) { m = MatMul(x, w) i = Identity(m) y = Add(i, b) }",
        weights={"w": floats(4, 2), "b": floats(2)},
    )
    assert run_passes(graph)["linear"] == 2
    assert not any(run_passes(graph).values())
    assert set(run_passes(graph)) == set(PASSES)


# ------------------------------------------------------------------------------- folding
def test_known_sizes_fold() -> None:
    text = """g (float[2,3] x) => (float[3,2] y, int64[1] z) {
        s = Shape(x) i = Constant<value = int64[1] {1}>() n = Gather(s, i)
        r = Constant<value = int64[1] {-1}>() t = Concat<axis = 0>(n, r) y = Reshape(x, t) z = Neg(n)
    }"""
    graph = check(text, {"x": floats(2, 3)})
    assert counts(graph) == {"Reshape": 1}
    assert graph.outputs[1].array is not None and graph.outputs[1].array.tolist() == [-3]


def test_constant_arithmetic_folds() -> None:
    text = "g (float[4] x) => (float[4] y) { c = Mul(a, b) d = Sqrt(c) y = Add(x, d) }"
    graph = check(text, {"x": floats(4)}, weights={"a": floats(4) ** 2, "b": np.float32(2)})
    assert counts(graph) == {"Add": 1}


def test_folding_stays_within_64_kib_of_what_it_came_from() -> None:
    text = """g (float[1] x) => (float[300,300] y) {
        e = Expand(a, s) f = Mul(e, e) y = Add(f, x)
    }"""
    weights = {"a": floats(300), "s": np.array([300, 300])}
    graph = check(text, {"x": floats(1)}, weights=weights)
    assert counts(graph) == {"Expand": 1, "Mul": 1, "Add": 1}


def test_growth_is_counted_over_a_chain() -> None:
    text = """g (float[1] x) => (float[n] y) {
        b = Concat<axis = 0>(a, a, a, a) c = Concat<axis = 0>(b, b, b, b) y = Add(c, x)
    }"""
    graph = check(text, {"x": floats(1)}, weights={"a": floats(4000)})
    assert counts(graph) == {"Concat": 1, "Add": 1}
    (folded,) = {value for value in only(graph, "Concat").inputs if value is not None}
    assert folded.array is not None and folded.array.shape == (16000,)


@pytest.mark.parametrize("seed", ["", ", seed = 1.0"])
def test_random_numbers_do_not_fold(seed: str) -> None:
    text = "g () => (float[2] y) { r = RandomNormal<shape = [2]%s>() y = Neg(r) }"
    graph = graph_of(text % seed)
    run_passes(graph)
    assert counts(graph) == {"RandomNormal": 1, "Neg": 1}


def test_equal_random_nodes_stay_apart() -> None:
    text = """g () => (float[2] y) {
        r = RandomNormal<shape = [2]>() s = RandomNormal<shape = [2]>() y = Sub(r, s)
    }"""
    graph = graph_of(text)
    run_passes(graph)
    assert counts(graph)["RandomNormal"] == 2


def test_a_node_that_fails_is_left_alone() -> None:
    graph = graph_of(
        "g (float[1] x) => (float[1] y) { q = Gather(a, i) y = Add(q, x) }",
        weights={"a": floats(2000), "i": np.array([9999])},
    )
    run_passes(graph)
    assert counts(graph) == {"Gather": 1, "Add": 1}


BRANCHES = """g (float[n] x) => (float[n] y, float[n] z) {
    a = Abs(x)
    y = If (c) <
        then_branch = t () => (float[n] p) { q = Neg(a) p = Add(q, x) },
        else_branch = e () => (float[n] r) { r = Exp(x) }
    >
    z = Mul(y, y)
}"""


@pytest.mark.parametrize("taken", [True, False])
def test_if_with_a_constant_condition_is_inlined(taken: bool) -> None:
    graph = check(BRANCHES, {"x": floats(3)}, weights={"c": np.array(taken)})
    assert counts(graph) == (
        {"Abs": 1, "Neg": 1, "Add": 1, "Mul": 1} if taken else {"Exp": 1, "Mul": 1}
    )


def test_nodes_inside_bodies_fold_and_captures_stay() -> None:
    text = """g (float[n] x, bool c) => (float[n] y) {
        k = Add(a, a)
        i = Identity(x)
        y = If (c) <
            then_branch = t () => (float[n] p) { p = Mul(i, k) },
            else_branch = e () => (float[n] r) { m = Mul(k, k) r = Add(i, m) }
        >
    }"""
    for condition in (True, False):
        inputs = {"x": floats(3), "c": np.array(condition)}
        graph = check(text, inputs, weights={"a": np.float32(3)})
    assert counts(graph) == {"If": 1, "Mul": 1, "Add": 1}


LOOP = """g (float[n] x, int64 m) => (float[n] y, float[k,n] ys) {
    s = Sigmoid(x)
    u = Mul(x, s)
    y, ys = Loop (m, "", u) <
        body = b (int64 i, bool going, float[n] v) => (bool on, float[n] w, float[n] item) {
            on = Identity(going) t = Sigmoid(v) w = Mul(v, t) d = Add(u, s) item = Identity(d)
        }
    >
}"""


def test_loop_bodies_are_rewritten_and_what_they_capture_stays() -> None:
    text = LOOP.replace('Loop (m, "", u)', "Loop (m, , u)")
    graph = check(text, {"x": floats(3), "m": np.array(2)})
    body = next(only(graph, "Loop").subgraphs())
    assert [node.operator for node in body.nodes] == ["Swish", "Add"]
    assert [node.operator for node in graph.nodes] == ["Sigmoid", "Mul", "Loop"]


# ------------------------------------------------------------------------------- shapes
FLATTEN = """g (float[batch,seq,8] x) => (float[batch,k,4] y) {
    s = Shape(x)
    i = Constant<value = int64 {0}>() n = Gather(s, i) a = Constant<value = int64[1] {0}>()
    u = Unsqueeze(n, a)
    j = Constant<value = int64 {1}>() m = Gather(s, j) two = Constant<value = int64 {2}>()
    d = Mul(m, two) v = Unsqueeze(d, a)
    f = Constant<value = int64[1] {4}>()
    t = Concat<axis = 0>(u, v, f)
    y = Reshape(x, t)
}"""


def test_shape_arithmetic_becomes_sizes() -> None:
    graph = check(FLATTEN, {"x": floats(2, 3, 8)})
    assert counts(graph) == {"Sizes": 1, "Reshape": 1}
    sizes = only(graph, "Sizes")
    assert [str(dim) for dim in sizes.attributes["dims"]] == ["batch", "2*seq", "4"]
    assert sizes.inputs == [graph.inputs[0]]
    assert sizes.attributes["sources"] == {"batch": "0.0", "seq": "0.1"}


def test_scalar_sizes_stay_scalars() -> None:
    text = """g (float[n] x) => (int64[n] y) {
        s = Shape(x) z = Constant<value = int64 {0}>() n = Gather(s, z)
        one = Constant<value = int64 {1}>() y = Range(z, n, one)
    }"""
    graph = check(text, {"x": floats(5)})
    assert counts(graph) == {"Sizes": 1, "Squeeze": 1, "Range": 1}


def test_sizes_of_outer_values_reach_into_bodies() -> None:
    text = """g (float[n,4] x, bool c) => (float[k] y) {
        h = Exp(x)
        y = If (c) <
            then_branch = t () => (float[k] p) {
                s = Shape(h) i = Constant<value = int64[1] {0}>() n = Gather(s, i)
                f = Constant<value = int64[1] {4}>() m = Mul(n, f) p = ConstantOfShape(m)
            },
            else_branch = e () => (float[k] r) { q = Constant<value = int64[1] {-1}>() r = Reshape(x, q) }
        >
    }"""
    for condition in (True, False):
        graph = check(text, {"x": floats(3, 4), "c": np.array(condition)})
    assert only(graph, "Sizes").inputs == [graph.inputs[0]]
    assert "Shape" not in counts(graph)


def test_sizes_that_depend_on_data_are_read_where_they_arise() -> None:
    text = """g (float[n] x) => (int64[k,1] y) {
        z = NonZero(x) s = Shape(z) i = Constant<value = int64[1] {1}>() n = Gather(s, i)
        one = Constant<value = int64[1] {1}>() t = Concat<axis = 0>(n, one) y = Reshape(z, t)
    }"""
    graph = check(text, {"x": np.array([0, 1, 2, 0], np.float32)})
    assert counts(graph) == {"NonZero": 1, "Sizes": 1, "Reshape": 1}
    assert only(graph, "Sizes").inputs == only(graph, "NonZero").outputs


def test_a_shape_that_is_an_output_stays_a_shape() -> None:
    graph = check("g (float[n,2] x) => (int64[2] y) { y = Shape(x) }", {"x": floats(3, 2)})
    assert counts(graph) == {"Shape": 1}


# ------------------------------------------------------------------------------- cleaning
def test_what_changes_nothing_goes() -> None:
    text = """g (float[n,3] x) => (float[n,3] y) {
        a = Identity(x) b = Cast<to = 1>(a) c = Transpose<perm = [0, 1]>(b)
        d, m = Dropout(c) s = Shape(x) e = Expand(d, s) f = Reshape(e, s)
        z = Constant<value = int64[1] {0}>() i = Constant<value = int64[1] {9223372036854775807}>()
        h = Slice(f, z, i, z) dead = Exp(h) y = Neg(h)
    }"""
    assert counts(check(text, {"x": floats(2, 3)})) == {"Neg": 1}


def test_a_reversing_slice_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { y = Slice(x, a, b, z, a) }"
    weights = {"a": np.array([-1]), "b": np.array([-(2**62)]), "z": np.array([0])}
    assert counts(check(text, {"x": floats(3)}, weights=weights)) == {"Slice": 1}


def test_dropout_in_training_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { y = Dropout(x, r, t) }"
    graph = graph_of(text, weights={"r": np.float32(0.5), "t": np.array(True)})
    run_passes(graph)
    assert counts(graph) == {"Dropout": 1}


def test_a_cast_to_another_dtype_stays() -> None:
    text = "g (float[n] x) => (float[n] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }"
    assert counts(check(text, {"x": floats(3)})) == {"Cast": 2}


def test_outputs_that_are_one_value_keep_their_names() -> None:
    text = "g (float[n] x) => (float[n] a, float[n] b, float[n] c) { a = Identity(x) b = Identity(a) c = Neg(b) }"
    graph = check(text, {"x": floats(3)})
    assert graph.output_names == ["a", "b", "c"]
    assert graph.outputs[:2] == [graph.inputs[0]] * 2
    assert counts(graph) == {"Neg": 1}


def test_transposes_and_reshapes_merge() -> None:
    text = """g (float[2,3,4] x) => (float[8,3] y, float[4,3,2] z) {
        a = Transpose<perm = [1, 0, 2]>(x) b = Transpose<perm = [2, 0, 1]>(a)
        c = Unsqueeze(b, o) y = Reshape(c, s) d = Transpose<perm = [2, 1, 0]>(a) e = Identity(d)
        z = Transpose<perm = [0, 2, 1]>(e)
    }"""
    weights = {"o": np.array([0]), "s": np.array([-1, 3])}
    graph = check(text, {"x": floats(2, 3, 4)}, weights=weights)
    assert counts(graph)["Reshape"] == 1 and "Unsqueeze" not in counts(graph)


def test_a_transpose_of_a_transpose_back_goes() -> None:
    text = """g (float[a,b] x) => (float[a,b] y) { s = Transpose(x) t = Transpose(s) y = Neg(t) }"""
    assert counts(check(text, {"x": floats(2, 3)})) == {"Neg": 1}


def test_a_reshape_that_copies_a_size_keeps_its_meaning() -> None:
    text = "g (float[2,3,4] x) => (float[6,4] y) { a = Reshape(x, s) y = Reshape(a, t) }"
    weights = {"s": np.array([6, 2, 2]), "t": np.array([0, -1])}
    assert counts(check(text, {"x": floats(2, 3, 4)}, weights=weights)) == {"Reshape": 1}


def test_duplicates_merge() -> None:
    text = """g (float[n] x) => (float[n] y, float[n] b) {
        a = Mul(x, k) b = Mul(x, l) c = Add(x, k) y = Sub(a, c)
    }"""
    weights = {"k": np.float32(2), "l": np.float32(2)}
    graph = check(text, {"x": floats(3)}, weights=weights)
    assert counts(graph) == {"Mul": 1, "Add": 1, "Sub": 1}


def test_nodes_that_differ_in_an_attribute_stay_apart() -> None:
    text = "g (float[n] x) => (float[n] y) { a = Elu<alpha = 1.0>(x) b = Elu<alpha = 2.0>(x) y = Sub(a, b) }"
    assert counts(check(text, {"x": floats(3)}))["Elu"] == 2


# ------------------------------------------------------------------------------- size
def test_time_grows_with_the_graph_and_no_faster() -> None:
    steps = "".join(f"a{i} = Sigmoid(x{i}) x{i + 1} = Mul(x{i}, a{i}) " for i in range(1500))
    graph = graph_of(f"g (float[n] x0) => (float[n] x1500) {{ {steps} }}")
    assert run_passes(graph)["silu"] == 1500
    assert counts(graph) == {"Swish": 1500}
