"""Derivatives of what moves elements: they move the other way, and meet where elements were repeated."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.gradients.rules import Cotangents, Step, is_same, number, rule
from burnx.shape import Dim
from burnx.tensor import Tensor


@rule("broadcast")
def broadcast_rule(step: Step, by: Tensor) -> Cotangents:
    (x,) = step.inputs
    lead = by.ndim - x.ndim
    axes = list(range(lead))
    for axis, (have, want) in enumerate(zip(x.shape, by.shape[lead:], strict=True)):
        is_repeated = have == 1 or (have != want and not is_same(have, want, x))
        if is_repeated and want != 1:
            axes.append(lead + axis)
    return [waist.reshape(waist.reduce("sum", by, axes) if axes else by, x.shape)]


@rule("reshape")
def reshape_rule(step: Step, by: Tensor) -> Cotangents:
    return [waist.reshape(by, step.inputs[0].shape)]


@rule("transpose")
def transpose_rule(step: Step, by: Tensor) -> Cotangents:
    perm = step.attributes["perm"]
    return [waist.transpose(by, [perm.index(axis) for axis in range(len(perm))])]


@rule("flip")
def flip_rule(step: Step, by: Tensor) -> Cotangents:
    return [waist.flip(by, step.attributes["axes"])]


@rule("slice")
def slice_rule(step: Step, by: Tensor) -> Cotangents:
    (x,) = step.inputs
    places = zip(
        *(step.attributes[name] for name in ("starts", "sizes", "steps")), x.shape, strict=True
    )
    backwards = [axis for axis, step_ in enumerate(step.attributes["steps"]) if step_ < 0]
    by = waist.flip(by, backwards)
    low, high, gaps = [], [], []
    for start, size, gap, length in places:
        first = start if gap > 0 else start + (size - 1) * gap
        gaps.append(abs(gap))
        low.append(first)
        high.append(length - first - size * abs(gap))
    return [placed(by, gaps, low, high)]


def placed(x: Tensor, gaps: Sequence[int], low: Sequence[Dim], high: Sequence[Dim]) -> Tensor:
    """Every element followed by ``gaps - 1`` zeros, then zeros around it all; negative widths cut off.

    Shapes: (*s) -> (low + s · gaps + high), per axis.
    """
    zero = number(0, x)
    for axis, gap in enumerate(gaps):
        if gap == 1:
            continue
        lead, rest = x.shape[: axis + 1], x.shape[axis + 1 :]
        single = waist.reshape(x, (*lead, 1, *rest))
        none: list[int] = [0] * single.ndim
        behind = none.copy()
        behind[axis + 1] = gap - 1
        spread = waist.pad(single, zero, none, behind)
        x = waist.reshape(spread, (*lead[:-1], lead[-1] * gap, *rest))
    is_plain = all(isinstance(width, int) and width == 0 for width in (*low, *high))
    return x if is_plain else waist.pad(x, zero, low, high)


@rule("pad")
def pad_rule(step: Step, by: Tensor) -> Cotangents:
    value = step.inputs[1]
    low, high = step.attributes["low"], step.attributes["high"]
    inside = waist.pad(by, number(0, by), [-each for each in low], [-each for each in high])
    total = waist.reduce("sum", by, range(by.ndim))
    kept = waist.reduce("sum", inside, range(by.ndim))
    return [inside, waist.reshape(waist.map("sub", total, kept), value.shape)]


@rule("concat")
def concat_rule(step: Step, by: Tensor) -> Cotangents:
    axis, start = step.attributes["axis"], 0
    parts: list[Tensor | None] = []
    for each in step.inputs:
        size: Dim = each.shape[axis]
        parts.append(waist.slice_axis(by, axis, start, size))
        start = start + size  # type: ignore[assignment]
    return parts
