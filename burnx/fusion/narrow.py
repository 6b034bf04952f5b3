"""Products of bytes: operands that were only widened to be summed in 32 bits are multiplied as the bytes they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx.dtype import DType, int8, int32, uint8
from burnx.fusion.clusters import Uses
from burnx.fusion.expressions import dtype_of
from burnx.program import Var

Array = np.ndarray[Any, Any]
BYTES = (uint8, int8)


def as_bytes(uses: Uses, var: Var) -> Var | None:
    """The bytes that a value was widened from, or None."""
    maker = uses.makers.get(var)
    if dtype_of(var) in BYTES:
        return var
    if maker is None or maker.primitive != "cast" or dtype_of(var) != int32:
        return None
    source = maker.inputs[0]
    return source if source is not None and dtype_of(source) in BYTES else None


def weight_as_bytes(var: Var) -> DType | None:
    """The dtype of bytes that holds all of a constant, or None."""
    array = var.array
    if array is None or array.dtype.kind not in "iu" or array.size == 0:
        return array.dtype if array is not None and array.dtype in BYTES else None
    low, high = int(array.min()), int(array.max())
    for dtype in (int8, uint8):
        info = np.iinfo(dtype)
        if info.min <= low and high <= info.max:
            return dtype
    return None
