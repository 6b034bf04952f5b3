"""Which class a forest names, and the scores it gives: the top class, and rules of its own for two classes.

The standard says that base values are added to the scores and that the top class is given; that rules wherever
leaves vote for more than one class.  Where all leaves vote for one of two classes it says nothing: that class then
has a score or, if no weight is negative, a probability, as onnxruntime has it.
"""

from __future__ import annotations

import numpy as np

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.ml_scores import Array, is_above, named, paired, transformed
from burnx.ops.trees import Votes
from burnx.tensor import Tensor


def classify(
    polled: tuple[Tensor, Tensor], votes: Votes, base: Array, labels: Array, name: str
) -> tuple[Tensor, Tensor]:
    """The label and the final scores of every row; ``polled`` is what the trees say, and whether they do.

    Shapes: both (row, class) -> (row), (row, class).
    """
    scores, given = polled
    voted = np.flatnonzero(votes.given.any(0))
    if len(labels) == 1:
        if labels.dtype == object or len(base) > 1:
            raise ModelError(
                "a classifier of one class has a number for its label, and one base value"
            )
        single = _added(scores, base)
        # of a single number onnxruntime says whether, of a single text nothing
        answers = labels[[0, 0]] if labels.dtype == object else np.array([0, 1], np.int64)
        return named(is_above(single, 0), answers), transformed(single, name)
    if len(labels) == 2 and len(voted) <= 1 and len(base) < 2:
        return _one_of_two(scores, votes, base, labels, name)
    if len(base) == 1 and len(labels) == 2:
        base = np.append(base, 0)
    elif len(base) not in (0, len(labels)):
        raise ModelError(f"base_values has one number for each of {len(labels)} classes")
    total = _added(scores, base)
    least = waist.constant(-np.inf, total.dtype)
    known = total if len(base) else waist.map("select", given, total, least)
    return named(waist.argreduce("max", known, 1), labels), transformed(total, name)


def _one_of_two(
    scores: Tensor, votes: Votes, base: Array, labels: Array, name: str
) -> tuple[Tensor, Tensor]:
    """Two classes of which leaves know one only."""
    is_probability = bool((votes.weights >= 0).all())
    limit = 0.5 if is_probability else 0.0
    if votes.given[:, 1].any():
        second = waist.slice_axis(scores, 1, 1, 1)
        return named(is_above(second, limit), labels), transformed(scores, name)
    first = _added(waist.slice_axis(scores, 1, 0, 1), base)
    return named(is_above(first, limit), labels), paired(first, is_probability, name)


def _added(scores: Tensor, base: Array) -> Tensor:
    """Scores with the base values, if there are any, added."""
    if not len(base):
        return scores
    return waist.map("add", scores, waist.constant(base[None], scores.dtype))
