"""Linear: what a matrix product with a weight, and a bias added to it, are lifted to.  Not an ONNX operator."""

from __future__ import annotations

from burnx import waist
from burnx.ops.kinds import T
from burnx.ops.operator import operator


@operator("Linear", since=(1,), domain="burnx")
def linear(x: T, weight: T, bias: T | None = None) -> T:
    """x weight^T + bias, over the last axis of ``x``.

    Shapes: (*s, in), (out, in), (out) -> (*s, out).
    """
    result = waist.contract(x, weight, ((), ()), ((x.ndim - 1,), (1,)))
    return result if bias is None else waist.map("add", result, bias)
