"""Linear models of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnx import waist
from burnx.dtype import float32
from burnx.errors import ModelError
from burnx.ops.kinds import T1, T2, Float32, T
from burnx.ops.ml_scores import (
    ML,
    Array,
    as_rows,
    classifier_types,
    is_above,
    label_list,
    named,
    paired,
    transformed,
    wide,
)
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor


def affine(
    rows: Tensor, coefficients: Sequence[float], intercepts: Sequence[float] | None, count: int
) -> Tensor:
    """Rows times coefficients, which stand score by score, plus an intercept for each.

    Shapes: (row, feature) -> (row, count).
    """
    if count < 1 or len(coefficients) % count:
        raise ModelError(f"{len(coefficients)} coefficients are not those of {count} scores")
    width, features = len(coefficients) // count, rows.shape[1]
    if isinstance(features, int) and features != width:
        raise ModelError(
            f"{count} scores of {features} features need {count * features} coefficients, "
            f"not {len(coefficients)}"
        )
    weights = np.asarray(coefficients, np.float32).reshape(count, width)
    product = waist.contract(rows, waist.constant(weights, rows.dtype), ((), ()), ((1,), (1,)))
    if not intercepts:
        return product
    if len(intercepts) != count:
        raise ModelError(f"{count} scores have as many intercepts, not {len(intercepts)}")
    offsets = np.asarray(intercepts, np.float32).reshape(1, count)
    return waist.map("add", product, waist.constant(offsets, rows.dtype))


def _read(rows: Tensor, coefficients: Sequence[float], count: int) -> Sequence[float]:
    """The coefficients that onnxruntime reads: files may have more, of a model that was cut to fewer features."""
    features = rows.shape[1]
    whole = count > 0 and len(coefficients) % count == 0
    return coefficients[: count * features] if whole and isinstance(features, int) else coefficients


@operator("LinearClassifier", since=(1,), domain=ML)
def linear_classifier(
    x: T1,
    *,
    coefficients: Sequence[float] = REQUIRED,  # type: ignore[assignment]
    intercepts: Sequence[float] | None = None,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[T2, Float32]:
    """The class with the greatest score, and the scores; ``multi_class`` changes neither.

    Shapes: (row, feature) -> (row), (row, class).
    Source: ai.onnx.ml LinearClassifier-1
    """
    labels = label_list(classlabels_ints, classlabels_strings)
    rows = as_rows(x, float32)
    count = len(intercepts) if intercepts else _score_count(rows, coefficients, labels)
    scores = affine(rows, _read(rows, coefficients, count), intercepts, count)
    if count == 1:
        chosen = named(is_above(scores, 0), _two_labels(labels))
        is_pair = len(labels) == 2
        return chosen, paired(scores, True, post_transform) if is_pair else transformed(
            scores, post_transform
        )
    if len(labels) < count:
        raise ModelError(f"{count} classes have as many labels, not {len(labels)}")
    best = waist.argreduce("max", scores, 1)
    return named(best, labels[:count]), transformed(scores, post_transform)


def _score_count(rows: Tensor, coefficients: Sequence[float], labels: Array) -> int:
    features = rows.shape[1]
    if isinstance(features, int) and features:
        return len(coefficients) // features
    return max(len(labels), 1)


def _two_labels(labels: Array) -> Array:
    """The labels of "no" and "yes" for a single score."""
    if len(labels) == 2:
        return labels
    if labels.dtype == object:
        return np.array(["0", "1"] if not len(labels) else ["", labels[0]], object)
    return np.array([0, labels[0] if len(labels) else 1], np.int64)


linear_classifier.infer(classifier_types)


@operator("LinearRegressor", since=(1,), domain=ML)
def linear_regressor(
    x: T,
    *,
    coefficients: Sequence[float] | None = None,
    intercepts: Sequence[float] | None = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Float32:
    """A weighted sum of the features for each target.

    Shapes: (row, feature) -> (row, targets).
    Source: ai.onnx.ml LinearRegressor-1
    """
    if not coefficients:
        raise ModelError("a LinearRegressor needs coefficients")
    rows = as_rows(x, wide(x))
    scores = affine(rows, _read(rows, coefficients, targets), intercepts, targets)
    return waist.cast_to(transformed(scores, post_transform), float32)
