"""Broadcasting before opset 7: on request only, and of the second operand alone, from ``axis`` on."""

from __future__ import annotations

from burnx.errors import ShapeError
from burnx.ops import arithmetic, logic
from burnx.ops.movement import reshape
from burnx.ops.operator import Operator
from burnx.shape import shape_text
from burnx.tensor import Tensor


def _aligned(a: Tensor, b: Tensor, broadcast: int, axis: int | None) -> Tensor:
    """b, shaped so that today's broadcasting does what the attributes ask for."""
    if not broadcast:
        if a.ndim != b.ndim or any(n == 1 != m for n, m in zip(b.shape, a.shape, strict=True)):
            raise ShapeError(
                "operands have one shape before opset 7 unless broadcast is 1: "
                f"{shape_text(a.shape)} and {shape_text(b.shape)}"
            )
        return b
    behind = 0 if axis is None else a.ndim - (axis + a.ndim if axis < 0 else axis) - b.ndim
    if behind < 0:
        raise ShapeError(
            f"{shape_text(b.shape)} does not fit into {shape_text(a.shape)} from axis {axis} on"
        )
    return reshape(b, [0] * b.ndim + [1] * behind) if behind else b


def _register(entry: Operator) -> None:
    """Register a binary operator as it was up to opset 6."""

    @entry.upgrade(from_version=6)
    def binary_1(a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0) -> Tensor:
        return entry(a, _aligned(a, b, broadcast, axis))


for _entry in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div, arithmetic.pow):
    _register(_entry)
for _entry in (logic.equal, logic.less, logic.greater, logic.and_, logic.or_, logic.xor):
    _register(_entry)
