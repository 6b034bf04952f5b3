"""Dropout."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import float32
from burnx.ops.conversion import cast
from burnx.ops.drawing import uniform
from burnx.ops.kinds import T1, Bool, T
from burnx.ops.operator import operator
from burnx.ops.precision import number, widen
from burnx.tensor import Tensor


@operator("Dropout", since=(1, 6, 7, 10, 12, 13, 22), outputs=1)
def dropout(
    data: T, ratio: T1 | None = None, training_mode: Bool | None = None, *, seed: int | None = None
) -> tuple[T, Bool]:
    """The data itself; in training, zeros for a ``ratio`` of it and the rest scaled up. Also what was kept.

    Source: ONNX Dropout-22
    """
    everything = waist.broadcast(waist.constant(True), data.shape)
    if training_mode is None:
        return data, everything
    training = waist.reshape(training_mode, ())
    if waist.is_known(training) and not bool(waist.const(training)):
        return data, everything
    share = _share(ratio)
    drawn = uniform(data.shape, (0.0, 1.0), None if seed is None else float(seed), float32)
    mask = waist.map("or", waist.map("le", share, drawn), waist.map("not", training))
    one = number(1, share)
    factor = waist.map("select", training, waist.map("div", one, one - share), one)
    wide = widen(data)
    kept = waist.map("select", mask, wide * waist.cast_to(factor, wide.dtype), number(0, wide))
    return waist.cast_to(kept, data.dtype), mask


def _share(ratio: Tensor | None) -> Tensor:
    if ratio is None:
        return waist.constant(0.5, float32)
    return waist.cast_to(waist.reshape(ratio, ()), float32)


@dropout.upgrade(from_version=9)
def dropout_7(data: T, *, ratio: float = 0.5, outputs: int | None = None) -> tuple[T, T]:
    """Dropout whose mask has the dtype of the data; it never trains."""
    result, mask = dropout(data, outputs=2)
    return result, mask if (outputs or 1) == 1 else cast(mask, to=data.dtype.name)


@dropout.upgrade(from_version=11)
def dropout_10(data: T, *, ratio: float = 0.5) -> tuple[T, Bool]:
    """Dropout with its ratio as an attribute; it never trains."""
    return dropout(data, outputs=2)
