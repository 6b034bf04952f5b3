"""Derivatives of products and convolutions: products and convolutions again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from burnx import waist
from burnx.gradients.movement import placed
from burnx.gradients.rules import Cotangents, Step, number, rule
from burnx.shape import Dim
from burnx.tensor import Tensor


@rule("contract")
def contract_rule(step: Step, by: Tensor) -> Cotangents:
    left, right = step.inputs
    batch, sum_over = step.attributes["batch"], step.attributes["sum_over"]
    free = [
        [axis for axis in range(each.ndim) if axis not in (*batch[side], *sum_over[side])]
        for side, each in enumerate((left, right))
    ]
    lead, width = len(batch[0]), len(free[0])
    first = list(range(lead, lead + width))
    second = list(range(lead + width, by.ndim))
    return [
        _by_operand(by, (left, right), (batch, sum_over), free, second, 0),
        _by_operand(by, (left, right), (batch, sum_over), free, first, 1),
    ]


def _by_operand(
    by: Tensor,
    operands: tuple[Tensor, Tensor],
    axes: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    free: Sequence[Sequence[int]],
    summed: Sequence[int],
    side: int,
) -> Tensor:
    """The derivative by the operand at ``side``: that by the result times the other one, over its free axes."""
    (batch, sum_over), own, other = axes, operands[side], operands[1 - side]
    lead = tuple(range(len(batch[0])))
    given = waist.cast_to(other, by.dtype)
    pairs = (lead, tuple(batch[1 - side])), (tuple(summed), tuple(free[1 - side]))
    found = waist.contract(by, given, *pairs)
    # axes of the result: batch, own free ones, then the summed ones in the order of the other operand
    ranked = sorted(range(len(sum_over[0])), key=lambda place: sum_over[1 - side][place])
    order = [*batch[side], *free[side], *(sum_over[side][place] for place in ranked)]
    turned = waist.transpose(found, [order.index(axis) for axis in range(own.ndim)])
    return waist.cast_to(turned, own.dtype)


@rule("conv")
def conv_rule(step: Step, by: Tensor) -> Cotangents:
    x, w = step.inputs
    return [
        waist.cast_to(_by_data(step, by, w), x.dtype),
        waist.cast_to(_by_weight(step, by, x, w), w.dtype),
    ]


def _by_data(step: Step, by: Tensor, w: Tensor) -> Tensor:
    """The convolution of the derivatives, set apart, with the kernel turned round, its channels exchanged.

    Padding goes as far as any window could; what lies behind the data is cut off.
    """
    strides, pads, dilations, spread, groups = (
        step.attributes[key] for key in ("strides", "pads", "dilations", "spread", "groups")
    )
    (x, _), kernel = step.inputs, waist.static_shape(w)[2:]
    outer, inner = w.shape[0], w.shape[1]
    axes = list(range(2, w.ndim))
    split = waist.reshape(waist.flip(w, axes), (groups, outer // groups, inner, *kernel))
    swapped = waist.transpose(split, (0, 2, 1, *(axis + 1 for axis in axes)))
    turned = waist.reshape(swapped, (inner * groups, outer // groups, *kernel))
    around = [
        (gap * (size - 1) - pad[0], gap * (size - 1) - pad[1] + stride - 1)
        for gap, size, pad, stride in zip(dilations, kernel, pads, strides, strict=True)
    ]
    found = waist.conv(
        by, waist.cast_to(turned, by.dtype), spread, around, dilations, strides, groups
    )
    return waist.slice_(found, [0] * x.ndim, x.shape, [1] * x.ndim)


def _by_weight(step: Step, by: Tensor, x: Tensor, w: Tensor) -> Tensor:
    """For each place of the kernel the product of the derivatives with the data that it met."""
    strides, pads, dilations, spread, groups = (
        step.attributes[key] for key in ("strides", "pads", "dilations", "spread", "groups")
    )
    kernel = waist.static_shape(w)[2:]
    batch, channels, outer, inner = x.shape[0], x.shape[1], w.shape[0], w.shape[1]
    # the last element is not followed by zeros
    behind: list[Dim] = [pad[1] - (gap - 1) for pad, gap in zip(pads, spread, strict=True)]
    low: list[Dim] = [0, 0, *(pad[0] for pad in pads)]
    data = placed(waist.cast_to(x, by.dtype), [1, 1, *spread], low, [0, 0, *behind])
    grouped = waist.reshape(by, (batch, groups, outer // groups, *by.shape[2:]))
    spatial = tuple(range(3, grouped.ndim))
    parts = []
    for offset in itertools.product(*map(range, kernel)):
        starts = [0, 0, *(at * gap for at, gap in zip(offset, dilations, strict=True))]
        sizes = (batch, channels, *by.shape[2:])
        met = waist.slice_(data, starts, sizes, [1, 1, *strides])
        met = waist.reshape(met, (batch, groups, inner, *by.shape[2:]))
        parts.append(waist.contract(grouped, met, ((1,), (1,)), ((0, *spatial), (0, *spatial))))
    rows = [waist.reshape(each, (outer, inner, 1)) for each in parts]
    return waist.reshape(waist.concat(rows, 2), w.shape) if rows else number(0, w)
