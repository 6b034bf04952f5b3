"""Attentions as models have them, and what is like one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnx import ops

Array = np.ndarray[Any, Any]
Model = Callable[..., Any]
random = np.random.default_rng(11)


def make(*shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


Q, K, V = make(2, 4, 37, 64), make(2, 4, 41, 64), make(2, 4, 41, 64)
ROWS = make(2, 37, 3, 4, 64)  # a row's queries, keys and values of all heads
OF_HEADS, OF_COLUMNS = make(4, 37, 37), make(2, 1, 1, 37)
CAUSAL = np.triu(np.full((37, 37), -np.inf, np.float32), k=1)
HIDDEN = np.where(np.arange(37)[:, None] == 5, np.float32(-np.inf), np.float32(0)) + make(37, 41)
FAINT = np.where(np.arange(37)[:, None] == 5, np.float32(-30000), make(37, 41))


def like(number: Any, x: Any) -> Any:
    return ops.cast_like(np.asarray(number, np.float32), x)


def same(x: Any) -> Any:
    return x


def attend(q: Any, k: Any, v: Any, change: Model = same, seen: Model = same) -> Any:
    scores = change(ops.mat_mul(q, ops.transpose(k, perm=[0, 1, 3, 2])))
    return ops.mat_mul(seen(ops.softmax(scores, axis=-1)), v)


def side_by_side(x: Any, change: Model = same) -> Any:
    """As models have it: heads lie beside one another before and behind."""
    q, k, v = (ops.transpose(x[:, :, place], perm=[0, 2, 1, 3]) for place in range(3))
    made = attend(q, k, v, lambda s: change(s * like(0.125, s)))
    return ops.reshape(ops.transpose(made, perm=[0, 2, 1, 3]), [2, 37, 256])


def shared(q: Any, k: Any, v: Any) -> Any:
    """Two heads of queries for each of keys and values."""
    q = ops.reshape(q, [2, 2, 2, 37, 64])
    k, v = (ops.unsqueeze(each[:, :2], np.array([2], np.int64)) for each in (k, v))
    weights = ops.softmax(ops.mat_mul(q, ops.transpose(k, perm=[0, 1, 2, 4, 3])), axis=-1)
    return ops.mat_mul(weights, v)


MODELS: dict[str, tuple[Model, tuple[Array, ...]]] = {
    "plain": (attend, (Q / 8, K, V)),
    "times": (lambda q, k, v: attend(q, k, v, lambda s: s * like(0.125, s)), (Q, K, V)),
    "over": (lambda q, k, v: attend(q, k, v, lambda s: s / like(8, s)), (Q, K, V)),
    "scaled operands": (lambda q, k, v: attend(q * like(0.25, q), k * like(0.5, k), v), (Q, K, V)),
    "side by side": (side_by_side, (ROWS,)),
    "causal": (lambda x: side_by_side(x, lambda s: s + like(CAUSAL, s)), (ROWS,)),
    "of heads": (
        lambda x: side_by_side(x, lambda s: like(OF_HEADS, s) + s),
        (ROWS,),
    ),
    "of columns": (
        lambda x: side_by_side(x, lambda s: s + like(OF_COLUMNS, s)),
        (ROWS,),
    ),
    "other width": (attend, (Q / 8, K, make(2, 4, 41, 80))),
    "odd batch": (attend, (make(4, 1, 33, 80) / 9, make(4, 1, 31, 80), make(4, 1, 31, 80))),
}


REFUSED: dict[str, tuple[Model, tuple[Array, ...], str]] = {
    "float32": (attend, (Q / 8, K, V), "float32"),
    "a mask that comes in": (
        lambda q, k, v, m: attend(q, k, v, lambda s: s + m),
        (Q / 8, K, V, make(2, 1, 1, 41)),
        "float16",
    ),
    "a row with nothing to see": (
        lambda q, k, v: attend(q, k, v, lambda s: s + like(HIDDEN, s)),
        (Q / 8, K, V),
        "float16",
    ),
    "a row that is all but hidden": (
        lambda q, k, v: attend(q, k, v, lambda s: s + like(FAINT, s)),
        (Q / 8, K, V),
        "float16",
    ),
    "a negative factor": (
        lambda q, k, v: attend(q, k, v, lambda s: s * like(-0.125, s)),
        (Q, K, V),
        "float16",
    ),
    "a factor behind the mask": (
        lambda x: side_by_side(x, lambda s: (s + like(CAUSAL, s)) * like(0.5, s)),
        (ROWS,),
        "float16",
    ),
    "something else done to scores": (
        lambda q, k, v: attend(q, k, v, lambda s: ops.tanh(s)),
        (Q / 8, K, V),
        "float16",
    ),
    "a narrow row": (attend, (Q[..., :60] / 8, K[..., :60], V), "float16"),
    "a wide row": (attend, (make(1, 2, 37, 136), make(1, 2, 41, 136), V[:1, :2]), "float16"),
    "columns of keys side by side": (
        lambda q, k, v: ops.mat_mul(ops.softmax(ops.mat_mul(q, k), axis=-1), v),
        (Q / 8, make(2, 4, 64, 41), V),
        "float16",
    ),
    "weights that are no numbers": (
        lambda q, k, v: attend(q, k, v, seen=_seen),
        (Q / 8, K, V),
        "float16",
    ),
    "something done to sums": (
        lambda q, k, v: ops.relu(attend(q, k, v)),
        (Q / 8, K, V),
        "float16",
    ),
}


def _seen(weights: Any) -> Any:
    return ops.where(ops.is_nan(weights), like(0, weights), weights)
