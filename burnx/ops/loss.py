"""Losses of classification."""

from __future__ import annotations

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.along_axis import log_softmax_along
from burnx.ops.kinds import T, Tind
from burnx.ops.operator import operator
from burnx.ops.precision import number, widen
from burnx.ops.reduction import mean_along
from burnx.tensor import Tensor


def _likelihood_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignored: int | None
) -> Tensor:
    """-weight[target] * scores[target] for each place, 0 where the target is ignored, and what that adds up to."""
    if reduction not in ("none", "sum", "mean"):
        raise ModelError(f'a loss reduces by "none", "sum" or "mean", not "{reduction}"')
    zero, one = number(0, scores), number(1, scores)
    left_out = None
    if ignored is not None:
        left_out = waist.map("eq", target, number(ignored, target))
        target = waist.map("select", left_out, number(0, target), target)
    place = waist.reshape(target, [target.shape[0], 1, *target.shape[1:]])
    loss = -waist.reshape(waist.take_along(scores, place, 1), target.shape)
    factor = waist.broadcast(one, target.shape) if weight is None else waist.take(weight, target, 0)
    if left_out is not None:
        factor = waist.map("select", left_out, zero, factor)
        loss = waist.map("select", left_out, zero, loss)
    loss = loss * factor
    axes = tuple(range(loss.ndim))
    if reduction == "none":
        return loss
    if reduction == "sum":
        return waist.reduce("sum", loss, axes)
    if weight is None and left_out is None:
        return mean_along(loss, axes, 0)
    return waist.reduce("sum", loss, axes) / waist.reduce("sum", factor, axes)


@operator(
    "NegativeLogLikelihoodLoss", since=(12, 13, 22), ranks={"input": -2, "target": -1, "weight": 1}
)
def negative_log_likelihood_loss(
    input: T,
    target: Tind,
    weight: T | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> T:
    """-weight[target] * input[target]; the mean is weighted.  Source: ONNX NegativeLogLikelihoodLoss-22"""
    wide_weight = None if weight is None else widen(weight)
    loss = _likelihood_loss(widen(input), target, wide_weight, reduction, ignore_index)
    return waist.cast_to(loss, input.dtype)


@operator(
    "SoftmaxCrossEntropyLoss",
    since=(12, 13),
    outputs=1,
    ranks={"scores": -2, "labels": -1, "weights": 1},
)
def softmax_cross_entropy_loss(
    scores: T,
    labels: Tind,
    weights: T | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[T, T]:
    """The loss of log_softmax(scores) along axis 1, and that.  Source: ONNX SoftmaxCrossEntropyLoss-13"""
    logs = log_softmax_along(widen(scores), 1)
    wide_weights = None if weights is None else widen(weights)
    loss = _likelihood_loss(logs, labels, wide_weights, reduction, ignore_index)
    return waist.cast_to(loss, scores.dtype), waist.cast_to(logs, scores.dtype)
