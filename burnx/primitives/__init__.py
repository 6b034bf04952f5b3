"""The waist: what every device must be able to do.

Enters: types and attributes (``infer``), NumPy arrays (``evaluate``).  Leaves: types, arrays.
May import: program, types, shape, dtype, errors.
Start reading at ``core.py``; then ``scalar.py``, the table of scalar functions that ``map`` applies.
"""

from burnx.primitives import (
    contraction,
    control,
    creation,
    indexing,
    movement,
    ordering,
    reduction,
    scalar,
)
from burnx.primitives.core import PRIMITIVES, Primitive

__all__ = [
    "PRIMITIVES",
    "Primitive",
    "contraction",
    "control",
    "creation",
    "indexing",
    "movement",
    "ordering",
    "reduction",
    "scalar",
]
