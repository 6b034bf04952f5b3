"""Right matrices of contractions laid out beforehand.

A packing is text: what an element is, and the width of a panel: ``f32:16``.  Panels lie one after the other; a panel
holds, for every k, its columns next to each other; columns past the last are zero.  ``8x2`` and ``8x4`` are bytes
of which 2 or 4 neighbouring k of one column lie together; k past the last is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name

Array = np.ndarray[Any, Any]

# what a packing's element is called -> how many k lie together
_TOGETHER = {"8x2": 2, "8x4": 4}


def name_packing(dtype: DType, width: int, together: int = 1) -> str:
    """The packing of elements of a dtype in panels of ``width`` columns, ``together`` k at a time."""
    element = f"8x{together}" if together > 1 else dtype_name(dtype)
    return f"{element}:{width}"


def panel_width(packing: str) -> int:
    """How many columns a panel has."""
    return int(packing.partition(":")[2])


def together(packing: str) -> int:
    """How many k of one column lie together."""
    return _TOGETHER.get(packing.partition(":")[0], 1)


def packed_size(inner: int, columns: int, packing: str) -> int:
    """How many elements a packed matrix of ``inner`` rows takes."""
    width, group = panel_width(packing), together(packing)
    return -(-columns // width) * -(-inner // group) * group * width


def pack(matrix: Array, packing: str) -> Array:
    """A matrix laid out in panels, in its own dtype.

    Shapes: (inner, columns) -> (panels * groups * width * together,)
    """
    width, group = panel_width(packing), together(packing)
    inner, columns = matrix.shape
    panels, groups = -(-columns // width), -(-inner // group)
    result = np.empty((panels, groups, width, group), matrix.dtype)
    whole = columns // width if inner % group == 0 else 0
    _fill_panels(result[:whole], matrix[:, : whole * width])
    if whole < panels:  # what does not fill a panel, or a group, is followed by zeros
        rest = matrix[:, whole * width :]
        padded = np.zeros((groups * group, (panels - whole) * width), matrix.dtype)
        padded[:inner, : rest.shape[1]] = rest
        _fill_panels(result[whole:], padded)
    return result.reshape(-1)


def _fill_panels(panels: Array, matrix: Array) -> None:
    count, groups, width, group = panels.shape
    panels[...] = matrix.reshape(groups, group, count, width).transpose(2, 0, 3, 1)
