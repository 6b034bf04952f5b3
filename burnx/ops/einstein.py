"""Einsum: products of tensors written with a letter for each axis."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError, ShapeError
from burnx.ops.kinds import T
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, Shape, broadcast_dim, broadcast_shapes, shape_text
from burnx.tensor import Tensor

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor and the label of each of its axes."""

    tensor: Tensor
    labels: tuple[str, ...]


@operator("Einsum", since=(12, 28))
def einsum(*inputs: T, equation: str = REQUIRED) -> T:  # type: ignore[assignment]
    """Sums of products, by an equation such as ``"...ij,...jk->...ik"``.  Source: ONNX Einsum-28"""
    left, arrow, right = equation.replace(" ", "").partition("->")
    written = left.split(",")
    if len(written) != len(inputs):
        raise ModelError(
            f"the equation {equation!r} is of {len(written)} inputs, not {len(inputs)}"
        )
    split = [_letters(part, equation) for part in written]
    ranks = [_hidden(labels, x, equation) for labels, x in zip(split, inputs, strict=True)]
    widest = builtins.max(ranks)
    terms = [
        Term(waist.cast_to(x, compute_dtype(x.dtype)), _expanded(labels, hidden, widest))
        for labels, hidden, x in zip(split, ranks, inputs, strict=True)
    ]
    result = _letters(right, equation) if arrow else _implicit(split)
    output = _expanded(result, widest, widest)
    sizes = _sizes(terms, equation)
    if len(set(output)) != len(output) or not set(output) <= set(sizes):
        raise ModelError(f"the output of {equation!r} has each label once, and from the inputs")
    total = _multiply([_fit(_diagonal(term), sizes) for term in terms], output)
    return waist.cast_to(_arrange(total, output, sizes), inputs[0].dtype)


def _letters(part: str, equation: str) -> tuple[str, ...]:
    """The labels of one term; the ellipsis is one."""
    before, dots, after = part.partition(ELLIPSIS)
    if any(not (letter.isascii() and letter.isalpha()) for letter in before + after):
        raise ModelError(f"an equation has letters, commas, an arrow and ellipses: {equation!r}")
    return (*before, *([ELLIPSIS] if dots else []), *after)


def _implicit(terms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The ellipsis, then in order the letters that stand once on the left."""
    every = [label for labels in terms for label in labels]
    letters = sorted(label for label in set(every) if label != ELLIPSIS and every.count(label) == 1)
    return (*([ELLIPSIS] if ELLIPSIS in every else []), *letters)


def _hidden(labels: tuple[str, ...], x: Tensor, equation: str) -> int:
    """How many axes the ellipsis of a term stands for."""
    spelled = len(labels) - labels.count(ELLIPSIS)
    if x.ndim < spelled or (x.ndim > spelled and ELLIPSIS not in labels):
        raise ShapeError(
            f"{''.join(labels)!r} of {equation!r} does not name the axes of {shape_text(x.shape)}"
        )
    return x.ndim - spelled


def _expanded(labels: tuple[str, ...], hidden: int, widest: int) -> tuple[str, ...]:
    """The labels with ``.0``, ``.1`` … for an ellipsis, aligned at the last axis."""
    if ELLIPSIS not in labels:
        return labels
    place = labels.index(ELLIPSIS)
    dots = [f".{number}" for number in range(widest - hidden, widest)]
    return (*labels[:place], *dots, *labels[place + 1 :])


def _sizes(terms: Sequence[Term], equation: str) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for term in terms:
        for label, dim in zip(term.labels, term.tensor.shape, strict=True):
            try:
                sizes[label] = broadcast_dim(sizes.get(label, 1), dim)
            except ShapeError:
                raise ShapeError(
                    f"label {label!r} of {equation!r} has sizes {sizes[label]} and {dim}"
                ) from None
    return sizes


def _diagonal(term: Term) -> Term:
    """A label that stands twice in a term walks along the diagonal."""
    x, labels = term.tensor, list(term.labels)
    while len(set(labels)) < len(labels):
        again = next(place for place, label in enumerate(labels) if label in labels[:place])
        first = labels.index(labels[again])
        n = x.shape[first]
        x = waist.with_size(x, again, n, f"a diagonal needs axes {first} and {again} of one size")
        shape: list[Dim] = [1] * x.ndim
        shape[first] = n
        line = waist.reshape(waist.iota(n), shape)
        wide = (*x.shape[:again], 1, *x.shape[again + 1 :])
        taken = waist.take_along(x, waist.broadcast(line, wide), again)
        x = waist.reshape(taken, (*x.shape[:again], *x.shape[again + 1 :]))
        del labels[again]
    return Term(x, tuple(labels))


def _fit(term: Term, sizes: dict[str, Dim]) -> Term:
    """Drop axes of size 1 that others broadcast; widen those that may differ while running."""
    pairs = list(zip(term.labels, term.tensor.shape, strict=True))
    kept = [(label, dim) for label, dim in pairs if dim != 1 or sizes[label] == 1]
    x = waist.reshape(term.tensor, [dim for _, dim in kept])
    wide = waist.broadcast(x, tuple(sizes[label] for label, _ in kept))
    return Term(wide, tuple(label for label, _ in kept))


def _multiply(terms: Sequence[Term], output: tuple[str, ...]) -> Term:
    """Multiply from left to right, adding up each label as soon as nothing else needs it."""
    total = terms[0]
    for place, term in enumerate(terms[1:], 1):
        later = {label for other in terms[place + 1 :] for label in other.labels}
        needed = later | set(output)
        total = _sum_out(total, needed | set(term.labels))
        term = _sum_out(term, needed | set(total.labels))
        total = _product(total, term, needed)
    return _sum_out(total, set(output))


def _sum_out(term: Term, needed: set[str]) -> Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    labels = tuple(label for label in term.labels if label in needed)
    return Term(waist.reduce("sum", term.tensor, axes), labels)


def _product(left: Term, right: Term, needed: set[str]) -> Term:
    shared = [label for label in left.labels if label in right.labels]
    summed = [label for label in shared if label not in needed]
    if not summed:
        labels = (*left.labels, *(each for each in right.labels if each not in left.labels))
        return Term(_aligned(left, labels) * _aligned(right, labels), labels)
    batch = [label for label in shared if label in needed]
    y = waist.contract(
        left.tensor,
        right.tensor,
        ([left.labels.index(each) for each in batch], [right.labels.index(each) for each in batch]),
        (
            [left.labels.index(each) for each in summed],
            [right.labels.index(each) for each in summed],
        ),
    )
    free = [each for each in (*left.labels, *right.labels) if each not in shared]
    return Term(y, (*batch, *free))


def _aligned(term: Term, labels: Sequence[str]) -> Tensor:
    """The tensor with an axis for each of ``labels``, of size 1 where it has none."""
    found = [label for label in labels if label in term.labels]
    x = waist.transpose(term.tensor, [term.labels.index(label) for label in found])
    sizes = dict(zip(found, x.shape, strict=True))
    return waist.reshape(x, [sizes.get(label, 1) for label in labels])


def _arrange(term: Term, output: Sequence[str], sizes: dict[str, Dim]) -> Tensor:
    """The axes in the order of the output."""
    shape: Shape = tuple(sizes[label] for label in output)
    x = _aligned(term, output)
    return waist.broadcast(x, broadcast_shapes(x.shape, shape))
