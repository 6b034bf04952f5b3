"""Broadcasting before opset 7: on request only, and of the second operand alone, from ``axis`` on."""

from __future__ import annotations

import numpy as np

from burnx.errors import ShapeError
from burnx.ops import arithmetic, logic
from burnx.ops.activations import prelu
from burnx.ops.kinds import T
from burnx.ops.later_ranks import ONE, rank_of, with_ones
from burnx.ops.movement import has_rank, reshape, shape
from burnx.ops.operator import Operator
from burnx.shape import shape_text
from burnx.tensor import Tensor


def _aligned(a: Tensor, b: Tensor, broadcast: int, axis: int | None) -> Tensor:
    """b, shaped so that today's broadcasting does what the attributes ask for."""
    if axis is None and broadcast:
        return b
    if not (has_rank(a) and has_rank(b)):
        return _aligned_later(a, b, axis) if axis is not None and broadcast else b
    if not broadcast:
        if a.ndim != b.ndim or any(n == 1 != m for n, m in zip(b.shape, a.shape, strict=True)):
            raise ShapeError(
                "operands have one shape before opset 7 unless broadcast is 1: "
                f"{shape_text(a.shape)} and {shape_text(b.shape)}"
            )
        return b
    assert axis is not None
    behind = a.ndim - (axis + a.ndim if axis < 0 else axis) - b.ndim
    if behind < 0 or axis < -a.ndim:
        raise ShapeError(
            f"{shape_text(b.shape)} does not fit into {shape_text(a.shape)} from axis {axis} on"
        )
    return reshape(b, [0] * b.ndim + [1] * behind) if behind else b


def _aligned_later(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """The same, of operands whose ranks only running knows."""
    rank = rank_of(a)
    first = arithmetic.add(axis, rank) if axis < 0 else axis
    return with_ones(b, shape(b), arithmetic.sub(arithmetic.sub(rank, first), rank_of(b)))


def _register(entry: Operator) -> None:
    """Register a binary operator as it was up to opset 6."""

    @entry.upgrade(from_version=6)
    def binary_1(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        return entry(a, _aligned(a, b, broadcast, axis))


for _entry in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div, arithmetic.pow):
    _register(_entry)
for _entry in (logic.equal, logic.less, logic.greater, logic.and_, logic.or_, logic.xor):
    _register(_entry)


@prelu.upgrade(from_version=6)
def prelu_6(x: T, slope: T) -> T:
    """PRelu with one slope, or one for each channel, which is axis 1."""
    if has_rank(x):
        return prelu(x, reshape(slope, [-1] + [1] * max(x.ndim - 2, 0)))
    behind = arithmetic.max(arithmetic.sub(rank_of(x), np.int64(2)), np.int64(0))
    return prelu(x, with_ones(slope, -ONE, behind))
