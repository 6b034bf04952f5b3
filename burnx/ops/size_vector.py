"""Sizes of tensors as a vector: what ``x.reshape(x.shape[0], -1)`` records.  Not an ONNX operator; export spells it."""

from __future__ import annotations

from collections.abc import Mapping

from burnx import waist
from burnx.ops.kinds import Int64, T
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Shape, substitute


@operator("Sizes", since=(1,), domain="burnx")
def sizes(
    *tensors: T,
    dims: Shape = REQUIRED,  # type: ignore[assignment]
    sources: Mapping[str, str] = REQUIRED,  # type: ignore[assignment]
) -> Int64:
    """Dimensions over the sizes of ``tensors``: ``sources`` says which tensor and axis each symbol is ("0.1")."""
    values = {}
    for name, place in sources.items():
        tensor, axis = place.split(".")
        values[name] = tensors[int(tensor)].shape[int(axis)]
    return waist.sizes(*(substitute(dim, values) for dim in dims))
