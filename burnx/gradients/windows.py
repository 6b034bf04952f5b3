"""Derivatives of windows that move over the last axes."""

from __future__ import annotations

from itertools import product

from burnx import waist
from burnx.gradients.movement import placed
from burnx.gradients.rules import Cotangents, Step, filled, number, rule, where
from burnx.primitives.reduction import REDUCERS
from burnx.shape import Dim
from burnx.tensor import Tensor


@rule("window_reduce")
def window_rule(step: Step, by: Tensor) -> Cotangents:
    name = step.attributes["function"]
    if name == "sum":
        return [_sums(step, by)]
    if name in ("max", "min"):
        return [_extremes(step, by)]
    raise step.refuse(f"the window reduction {name}")


def _sums(step: Step, by: Tensor) -> Tensor:
    """Every element gets what all windows over it get: a window the other way, over derivatives set apart."""
    (x,) = step.inputs
    window, strides, dilations, pads = (
        step.attributes[key] for key in ("window", "strides", "dilations", "pads")
    )
    lead = x.ndim - len(window)
    low: list[Dim] = [0] * lead
    high: list[Dim] = [0] * lead
    places = zip(window, strides, dilations, pads, strict=True)
    for axis, (size, stride, gap, pad) in enumerate(places, lead):
        reach = gap * (size - 1)
        low.append(reach - pad[0])
        high.append(x.shape[axis] - by.shape[axis] * stride + pad[0])
    apart = placed(by, [*[1] * lead, *strides], low, high)
    ones, none = [1] * len(window), [(0, 0)] * len(window)
    return waist.window_reduce("sum", apart, window, ones, dilations, none)


def _extremes(step: Step, by: Tensor) -> Tensor:
    """To the first element of each window that equals its result."""
    (x,) = step.inputs
    window, strides, dilations, pads = (
        step.attributes[key] for key in ("window", "strides", "dilations", "pads")
    )
    lead = x.ndim - len(window)
    low, high = ([*[0] * lead, *(pad[side] for pad in pads)] for side in (0, 1))
    neutral = REDUCERS[step.attributes["function"]].neutral(x.dtype)
    padded = waist.pad(x, number(neutral, x), low, high)
    steps, sizes = [*[1] * lead, *strides], by.shape
    zero, total, taken = filled(0, by), None, None
    for offset in product(*map(range, window)):
        starts = [*[0] * lead, *(at * gap for at, gap in zip(offset, dilations, strict=True))]
        here = waist.map("eq", waist.slice_(padded, starts, sizes, steps), step.output)
        first = here if taken is None else waist.map("and", here, waist.map("not", taken))
        taken = here if taken is None else waist.map("or", taken, here)
        ends = [
            n - start - size * gap
            for n, start, size, gap in zip(padded.shape, starts, sizes, steps, strict=True)
        ]
        share = placed(where(first, by, zero), steps, starts, ends)
        total = share if total is None else waist.map("add", total, share)
    assert total is not None
    return waist.pad(total, number(0, x), [-each for each in low], [-each for each in high])
