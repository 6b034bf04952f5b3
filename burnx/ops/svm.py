"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from burnx import waist
from burnx.dtype import DType, float32, int64
from burnx.errors import ModelError
from burnx.ops.coupling import coupled
from burnx.ops.kinds import T1, T2, Float32, T
from burnx.ops.ml_linear import affine
from burnx.ops.ml_scores import (
    ML,
    Array,
    as_rows,
    classifier_types,
    label_list,
    named,
    paired,
    transformed,
    wide,
)
from burnx.ops.operator import operator
from burnx.tensor import Tensor

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def kernel(rows: Tensor, vectors: Array, kind: str, params: Sequence[float] | None) -> Tensor:
    """How alike every row and every support vector are.

    Shapes: (row, feature), (vector, feature) -> (row, vector).
    """
    if kind not in KERNELS:
        raise ModelError(f'kernel_type is one of {", ".join(KERNELS)}, not "{kind}"')
    features = rows.shape[1]
    if isinstance(features, int) and features != vectors.shape[1]:
        raise ModelError(
            f"rows have as many features as support vectors, {vectors.shape[1]}, not {features}"
        )
    gamma, shift, degree = (*(params or ()), 0.0, 0.0, 0.0)[:3]

    def number(value: float) -> Tensor:
        return waist.constant(np.float32(value), rows.dtype)

    held = waist.constant(vectors, rows.dtype)
    if kind == "RBF":
        left = waist.reshape(rows, (rows.shape[0], 1, rows.shape[1]))
        apart = waist.map("sub", left, waist.constant(vectors[None], rows.dtype))
        distance = waist.reduce("sum", waist.map("mul", apart, apart), [2])
        return waist.map("exp", waist.map("mul", number(-gamma), distance))
    product = waist.contract(rows, held, ((), ()), ((1,), (1,)))
    if kind == "LINEAR":
        return product
    inner = waist.map("add", waist.map("mul", number(gamma), product), number(shift))
    if kind == "SIGMOID":
        return waist.map("tanh", inner)
    return waist.map("pow", inner, number(degree))


def _vectors(values: Sequence[float] | None, count: int) -> Array:
    """Shapes: (count · feature) -> (count, feature)."""
    if not values or len(values) % count:
        raise ModelError(f"{len(values or ())} numbers are not {count} support vectors")
    return np.asarray(values, np.float32).reshape(count, -1)


@operator("SVMRegressor", since=(1,), domain=ML)
def svm_regressor(
    x: T,
    *,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
) -> Float32:
    """A weighted sum of likenesses to support vectors, or of features without such; ``one_class`` gives its sign.

    Shapes: (row, feature) -> (row, 1).
    Source: ai.onnx.ml SVMRegressor-1
    """
    if not coefficients or not rho:
        raise ModelError("an SVMRegressor needs coefficients and rho")
    found = as_rows(x, wide(x))
    if n_supports > 0:
        found = kernel(found, _vectors(support_vectors, n_supports), kernel_type, kernel_params)
    score = affine(found, coefficients, rho[:1], 1)
    if one_class:
        above = waist.map("lt", waist.constant(0, score.dtype), score)
        ones = (waist.constant(sign, score.dtype) for sign in (1, -1))
        score = waist.map("select", above, *ones)
    return waist.cast_to(transformed(score, post_transform), float32)


@operator("SVMClassifier", since=(1,), domain=ML)
def svm_classifier(
    x: T1,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float] | None = None,
    kernel_params: Sequence[float] | None = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Sequence[float] | None = None,
    prob_b: Sequence[float] | None = None,
    rho: Sequence[float] | None = None,
    support_vectors: Sequence[float] | None = None,
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[T2, Float32]:
    """The class that wins the most duels, and the duels' scores or, with ``prob_a`` and ``prob_b``, probabilities.

    Without support vectors every class has a linear score, and the greatest wins.
    Shapes: (row, feature) -> (row), (row, score).
    Source: ai.onnx.ml SVMClassifier-1
    """
    labels = label_list(classlabels_ints, classlabels_strings)
    if not len(labels) or not coefficients or not rho:
        raise ModelError("an SVMClassifier needs labels of classes, coefficients and rho")
    if len(prob_a or ()) != len(prob_b or ()):
        raise ModelError("prob_a and prob_b have the same length")
    rows = as_rows(x, float32)
    if not sum(vectors_per_class or ()):
        scores = affine(rows, coefficients, [rho[0]] * len(labels), len(labels))
        best = _best_linear(scores, coefficients, bool(prob_a))
        return named(best, labels), transformed(scores, post_transform)
    assert vectors_per_class is not None
    alike = kernel(
        rows, _vectors(support_vectors, sum(vectors_per_class)), kernel_type, kernel_params
    )
    duels = _duels(alike, coefficients, vectors_per_class, rho)
    best = waist.argreduce("max", _votes(duels, len(labels)), 1)
    if prob_a:
        odds = _odds(duels, prob_a, prob_b or ())
        return named(best, labels), transformed(coupled(odds, len(labels)), post_transform)
    if len(labels) == 2:
        return named(best, labels), paired(duels, post_transform != "NONE", post_transform)
    return named(best, labels), transformed(duels, post_transform)


svm_classifier.infer(classifier_types)


def _best_linear(scores: Tensor, coefficients: Sequence[float], has_odds: bool) -> Tensor:
    """The class with the greatest score; of two classes the second if that score is large enough, as onnxruntime has it."""
    best = waist.argreduce("max", scores, 1)
    if scores.shape[1] != 2 or has_odds:
        return best
    top = waist.reduce("max", scores, [1])
    if min(coefficients) >= 0:
        is_sure = waist.map("le", waist.constant(0.5, scores.dtype), top)
    else:
        is_sure = waist.map("lt", waist.constant(0, scores.dtype), top)
    return waist.map("select", is_sure, waist.constant(1, int64), best)


def _duels(
    alike: Tensor, coefficients: Sequence[float], counts: Sequence[int], rho: Sequence[float]
) -> Tensor:
    """The score of every pair of classes: above 0 the first of them wins.

    Row ``k`` of the coefficients holds, for a vector of class ``i``, its weight against class ``k``, or ``k + 1`` from
    ``i`` on.
    Shapes: (row, vector) -> (row, pair).
    """
    total, classes = sum(counts), len(counts)
    pairs = list(combinations(range(classes), 2))
    if len(coefficients) < (classes - 1) * total or len(rho) < len(pairs):
        raise ModelError(
            f"{classes} classes with {total} support vectors need {(classes - 1) * total} coefficients "
            f"and {len(pairs)} rho, not {len(coefficients)} and {len(rho)}"
        )
    given = np.asarray(coefficients, np.float32)[: (classes - 1) * total].reshape(-1, total)
    ends = np.cumsum(counts)
    spans = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    weights = np.zeros((len(pairs), total), np.float32)
    for place, (one, other) in enumerate(pairs):
        weights[place, spans[one]] = given[other - 1, spans[one]]
        weights[place, spans[other]] = given[one, spans[other]]
    return affine(alike, weights.reshape(-1).tolist(), list(rho[: len(pairs)]), len(pairs))


def _votes(duels: Tensor, classes: int) -> Tensor:
    """How many duels each class wins.

    Shapes: (row, pair) -> (row, class).
    """
    first, second = (
        np.eye(classes, dtype=np.float32)[[pair[side] for pair in combinations(range(classes), 2)]]
        for side in (0, 1)
    )
    won = waist.cast_to(waist.map("lt", waist.constant(0, duels.dtype), duels), duels.dtype)
    lost = waist.map("sub", waist.constant(1, duels.dtype), won)
    wins = [
        waist.contract(side, waist.constant(matrix, duels.dtype), ((), ()), ((1,), (0,)))
        for side, matrix in ((won, first), (lost, second))
    ]
    return waist.map("add", *wins)


def _odds(duels: Tensor, prob_a: Sequence[float], prob_b: Sequence[float]) -> Tensor:
    """The probability that the first of each pair is right, by Platt's sigmoid.

    Shapes: (row, pair) -> (row, pair).
    """
    dtype: DType = duels.dtype
    pairs = duels.shape[1]
    a, b = (np.asarray(each, np.float32)[None, :pairs] for each in (prob_a, prob_b))
    scaled = waist.map("mul", duels, waist.constant(a, dtype))
    exponent = waist.map("add", scaled, waist.constant(b, dtype))
    one = waist.constant(1, dtype)
    odds = waist.map("div", one, waist.map("add", one, waist.map("exp", exponent)))
    least, most = (
        waist.constant(1e-7, dtype),
        waist.constant(np.float32(1) - np.float32(1e-7), dtype),
    )
    return waist.map("min", waist.map("max", odds, least), most)
