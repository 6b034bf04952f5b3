"""Gradient: the rules of the primitives against finite differences in float64, and models of files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import ops

Array = np.ndarray[Any, Any]
STEP = 1e-6
ELEMENTS, MIXTURES = 6, 3


def numbers(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Array:
    """Numbers that differ, in no order, none of them 0."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(seed + count)
    values = np.linspace(low, high, count + 1)[:count] + (high - low) / (2 * count + 2)
    return rng.permutation(values).reshape(shape)


def directions(x: Array) -> list[Array]:
    """Where to look for a difference: along every element of a small array, else along some mixtures."""
    if x.size <= ELEMENTS:
        return list(np.eye(x.size).reshape(x.size, *x.shape))
    return list(np.random.default_rng(x.size).normal(size=(MIXTURES, *x.shape)))


def check(function: Callable[..., Any], *xs: Array, rtol: float = 1e-5) -> None:
    """Raises: AssertionError unless Gradient gives what central differences do."""

    def y(*given: Any) -> Any:
        return function(*given)

    def total(place: int, moved: Array) -> float:
        given = [ops.identity(moved if each is xs[place] else each) for each in xs]
        return float(function(*given).numpy().sum())

    names = [f"x{place}" for place in range(len(xs))]
    found = ops.gradient(*xs, xs=names, y=y)
    for place, (x, slopes) in enumerate(zip(xs, found, strict=True)):
        assert slopes.shape == x.shape
        for way in directions(x):
            ends = [total(place, x + sign * STEP * way) for sign in (1, -1)]
            wanted = (ends[0] - ends[1]) / (2 * STEP)
            np.testing.assert_allclose((slopes.numpy() * way).sum(), wanted, rtol=rtol, atol=1e-6)


INSIDE = numbers(3, 4, low=-0.9, high=0.9)
ABOVE = numbers(3, 4, low=1.1, high=3.0)
UNARY: dict[str, tuple[Callable[..., Any], Array]] = {
    name: (getattr(ops, name), x)
    for x, names in {
        "inside": (
            INSIDE,
            (
                "neg abs exp sin cos tan asin acos atan sinh cosh tanh asinh atanh erf sigmoid softplus "
                "relu leaky_relu elu selu gelu softsign mish hard_swish swish celu thresholded_relu "
                "softmax log_softmax floor sign round"
            ),
        ),
        "above": (ABOVE, "sqrt log acosh reciprocal ceil"),
    }.values()
    for name in names.split()
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name: str) -> None:
    function, x = UNARY[name]
    check(lambda given: function(given) * numbers(3, 4, seed=7), x)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "mod"])
def test_functions_of_two_numbers_and_broadcasting(name: str) -> None:
    options = {"fmod": 1} if name == "mod" else {}
    check(lambda a, b: getattr(ops, name)(a, b, **options), numbers(2, 1, 3), ABOVE[:1, :3])


def test_powers_by_base_and_exponent() -> None:
    check(ops.pow, ABOVE, numbers(4))
    found = ops.gradient(np.array([0.0, 3.0]), xs=["x"], y=lambda x: x**2.0)
    np.testing.assert_allclose(found[0].numpy(), [0.0, 6.0])


WEIGHTS = numbers(2, 3, 4, seed=3)
MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: ops.reshape(x, [4, 6]) * WEIGHTS.reshape(4, 6),
    "transpose": lambda x: x.transpose(2, 0, 1) * WEIGHTS.transpose(2, 0, 1).copy(),
    "expand": lambda x: ops.expand(x[:, :1], [2, 3, 4]) * WEIGHTS,
    "slice": lambda x: ops.slice(x, [0, 1, 3], [2, 3, -9], [0, 1, 2], [1, 1, -2]) ** 2.0,
    "slice with steps": lambda x: x[:, ::2, 1::2] ** 2.0,
    "pad": lambda x: ops.pad(x, [0, 1, 2, 1, 0, 0]) ** 2.0,
    "reflect": lambda x: ops.pad(x, [0, 1, 2, 0, 0, 1], mode="reflect") ** 2.0,
    "crop": lambda x: ops.pad(x, [0, -1, 0, 0, 0, -2]) ** 2.0,
    "concat": lambda x: ops.concat(x, x[:, :1] * 2.0, axis=1) ** 2.0,
    "split": lambda x: ops.split(x, num_outputs=2, outputs=2, axis=2)[1] ** 2.0,
    "tile": lambda x: ops.tile(x, [1, 2, 1]) ** 3.0,
    "gather": lambda x: ops.gather(x, np.array([[0, 2], [2, -1]]), axis=1) ** 2.0,
    "gather elements": lambda x: ops.gather_elements(x, np.array([[[0, 0, 1, 1]]]), axis=2) ** 2.0,
    "gather nd": lambda x: (
        ops.gather_nd(x, np.array([[[1], [1]], [[0], [2]]]), batch_dims=1) ** 2.0
    ),
    "where": lambda x: ops.where(WEIGHTS > 0, x, x * x),
    "clip": lambda x: ops.clip(x, -0.4, 0.5) * WEIGHTS,
    "depth to space": lambda x: (
        ops.space_to_depth(ops.reshape(x, [1, 2, 2, 6]), blocksize=2) ** 2.0
    ),
    "cumsum": lambda x: ops.cum_sum(x, 1, exclusive=1, reverse=1) ** 2.0,
    "cumprod": lambda x: ops.cum_prod(x, 2) * WEIGHTS,
    "cumprod back": lambda x: ops.cum_prod(x, 1, exclusive=1, reverse=1) * WEIGHTS,
    "top k": lambda x: ops.top_k(x, [2], axis=2, outputs=2)[0] ** 2.0,
    "trilu": lambda x: ops.trilu(x) ** 2.0,
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name: str) -> None:
    check(MOVES[name], numbers(2, 3, 4))


REDUCTIONS = ["sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum_exp"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    check(lambda x: getattr(ops, f"reduce_{name}")(x, [0, 2], keepdims=0) ** 2.0, numbers(2, 3, 2))


def test_products_keep_their_slope_where_factors_are_zero() -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]])
    check(lambda x: ops.reduce_prod(x, [1]), x)
    check(lambda x: ops.cum_prod(x, 1), x)


def test_equal_greatest_elements_share() -> None:
    (found,) = ops.gradient(np.array([1.0, 3.0, 3.0]), xs=["x"], y=lambda x: ops.reduce_max(x))
    np.testing.assert_array_equal(found.numpy(), [0.0, 0.5, 0.5])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering(reduction: str) -> None:
    places = np.array([[0, 2], [1, 3]])
    check(
        lambda x, u: ops.scatter_elements(x, places, u, axis=1, reduction=reduction) ** 2.0,
        numbers(2, 4),
        numbers(2, 2),
    )
    rows = np.array([[2], [0]])
    check(
        lambda x, u: ops.scatter_nd(x, rows, u, reduction=reduction) ** 2.0,
        numbers(3, 4),
        numbers(2, 4),
    )


def test_updates_that_meet_at_one_place() -> None:
    places = np.array([[0, 0, 1, 1, 1]])
    x, updates = np.array([[2.0, 3.0]]), np.array([[0.0, 5.0, 0.0, 0.0, 7.0]])
    options = {"indices": places, "axis": 1}
    for reduction, wanted in {
        "mul": ([[0.0, 0.0]], [[10.0, 0.0, 0.0, 0.0, 0.0]]),
        "max": ([[0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0, 1.0]]),
        "min": ([[0.0, 0.0]], [[1.0, 0.0, 0.5, 0.5, 0.0]]),
    }.items():

        def y(x: Any, updates: Any, how: str = reduction) -> Any:
            return ops.scatter_elements(x, updates=updates, reduction=how, **options)

        found = ops.gradient(x, updates, xs=["x", "updates"], y=y)
        for slopes, right in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(slopes.numpy(), right)


EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bkj->bki": ((2, 3, 4), (2, 5, 4)),
    "ij,ik->jk": ((3, 2), (3, 4)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_products(equation: str) -> None:
    left, right = EQUATIONS[equation]
    check(
        lambda a, b: ops.einsum(a, b, equation=equation) ** 2.0,
        numbers(*left),
        numbers(*right, seed=1),
    )


def test_matmul_of_stacks_and_vectors() -> None:
    check(lambda a, b: ops.mat_mul(a, b) ** 2.0, numbers(2, 3, 4), numbers(4, 2))
    check(lambda a, b: ops.mat_mul(a, b) ** 2.0, numbers(2, 3, 4), numbers(4))
    check(
        lambda a, b, c: ops.gemm(a, b, c, transA=1, alpha=0.5),
        numbers(3, 2),
        numbers(3, 4),
        numbers(4),
    )


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 5, 6), (4, 3, 3, 2), {}),
    "strides": ((1, 2, 7, 6), (2, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "dilated groups": ((1, 4, 7), (6, 2, 3), {"group": 2, "dilations": [2], "strides": [2]}),
    "depthwise": ((1, 3, 5), (3, 1, 3), {"group": 3, "pads": [1, 1]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    x, w, options = CONVOLUTIONS[name]
    check(lambda x, w: ops.conv(x, w, **options) ** 2.0, numbers(*x), numbers(*w, seed=2))


TURNED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((1, 2, 3, 4), (2, 3, 3, 2), {}),
    "strides": ((1, 2, 3), (2, 1, 4), {"strides": [3], "pads": [1, 2], "output_padding": [1]}),
    "groups": ((1, 4, 3), (4, 2, 3), {"group": 2, "dilations": [2], "strides": [2]}),
}


@pytest.mark.parametrize("name", TURNED)
def test_transposed_convolutions(name: str) -> None:
    x, w, options = TURNED[name]
    check(lambda x, w: ops.conv_transpose(x, w, **options) ** 2.0, numbers(*x), numbers(*w, seed=2))


POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: ops.max_pool(x, kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1]),
    "dilated max": lambda x: ops.max_pool(x, kernel_shape=[2, 2], dilations=[2, 1]),
    "average": lambda x: ops.average_pool(
        x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 0]
    ),
    "lp": lambda x: ops.lp_pool(x, kernel_shape=[2, 2], p=2),
    "global": ops.global_average_pool,
}


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    check(lambda x: POOLS[name](x) ** 2.0, numbers(1, 2, 5, 6))


def test_normalization_and_attention() -> None:
    check(
        lambda x, s, b: ops.layer_normalization(x, s, b, stash_type=11) ** 2.0,
        numbers(3, 4),
        ABOVE[0],
        numbers(4),
        rtol=1e-4,
    )
    shapes = [numbers(1, 2, 3, 4, seed=place) for place in range(3)]
    check(lambda q, k, v: ops.attention(q, k, v) ** 2.0, *shapes, rtol=1e-4)


def test_loss() -> None:
    labels = np.array([1, 0, 2])
    check(lambda x: ops.softmax_cross_entropy_loss(x, labels), numbers(3, 4))


def test_second_derivatives() -> None:
    def cube(x: Any) -> Any:
        return x**3.0

    def slope(x: Any) -> Any:
        return ops.gradient(x, xs=["x"], y=cube)[0]

    (found,) = ops.gradient(np.array([1.0, 2.0]), xs=["x"], y=slope)
    np.testing.assert_allclose(found.numpy(), [6.0, 12.0])


RECURRENT = {"lstm": 4, "gru": 3, "rnn": 1}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    gates, size = RECURRENT[name], 2

    def layer(x: Any, w: Any, r: Any) -> Any:
        return getattr(ops, name)(x, w, r, hidden_size=size, outputs=2)[0] ** 2.0

    check(
        layer, numbers(3, 2, 2), numbers(1, gates * size, 2, seed=1), numbers(1, gates * size, size)
    )


def test_scans_backwards() -> None:
    def model(x: Any, start: Any) -> Any:
        def body(state: Any, row: Any) -> tuple[Any, Any]:
            state = state * 0.5 + row * row
            return state, state * row

        final, rows = burnx.scan(body, [start], [x], backwards=[1])
        return ops.reduce_sum(rows) + final

    check(model, numbers(3, 2), numbers(2))


def test_second_derivatives_through_a_loop() -> None:
    def powers(x: Any) -> Any:
        def body(turn: Any, going: Any, value: Any) -> tuple[Any, Any]:
            return going, value * x

        return burnx.loop(body, x, trips=2)

    def slope(x: Any) -> Any:
        return ops.gradient(x, xs=["x"], y=powers)[0]

    (found,) = ops.gradient(np.array([1.0, 2.0]), xs=["x"], y=slope)
    np.testing.assert_allclose(found.numpy(), [6.0, 12.0])
