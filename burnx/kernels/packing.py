"""Right matrices of contractions laid out beforehand.

A packing is text: what an element is, and the width of a panel: ``f32:16``.  Panels lie one after the other; a panel
holds, for every k, its columns next to each other; columns past the last are zero.  ``8x2`` and ``8x4`` are bytes
of which 2 or 4 neighbouring k of one column lie together; k past the last is zero.  ``8t4`` is ``8x4`` with k up to a
multiple of 64, for processors that multiply squares of bytes.

``8p4`` is for processors that multiply unsigned bytes with signed ones and add two products in 16 bits.  Two numbers are
packed so that this holds their products; what they are too large by is spilled: packed once more behind the panel.
A matrix starts with 64 bytes, the first four how many groups every panel has spilled.  Behind a panel lie those
groups, 128 times the sum of every column as int32, and as int32 which four k of the left side each spilled group is
multiplied with, in bytes, up to a multiple of 64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name

Array = np.ndarray[Any, Any]

# what a packing's element is called -> how many k lie together
_TOGETHER = {"8x2": 2, "8x4": 4, "8p4": 4, "8t4": 4}
SQUARE_ROWS, SQUARE_BYTES = (
    16,
    64,
)  # of a register of processors that multiply squares, and of one of its rows
PAIR_MOST = 128  # two weights together: 255 times that are held by 16 bits
HEAD_BYTES = 64
SPILLED_MOST = 2  # one group in so many: more are as slow as pairs of 16-bit numbers


def name_packing(dtype: DType, width: int, bytes_as: str = "") -> str:
    """The packing of elements of a dtype, bytes perhaps as a kind of their own, in panels of ``width`` columns."""
    return f"{bytes_as or dtype_name(dtype)}:{width}"


def element(packing: str) -> str:
    """What a packing's element is called."""
    return packing.partition(":")[0]


def panel_width(packing: str) -> int:
    """How many columns a panel has."""
    return int(packing.partition(":")[2])


def together(packing: str) -> int:
    """How many k of one column lie together."""
    return _TOGETHER.get(element(packing), 1)


def spills(packing: str) -> bool:
    """Whether what two weights are too large by lies behind each panel."""
    return element(packing) == "8p4"


def squares(packing: str) -> bool:
    """Whether squares of bytes are multiplied."""
    return element(packing) == "8t4"


def pack(matrix: Array, packing: str) -> Array:
    """A matrix laid out in panels, in its own dtype.

    Shapes: (inner, columns) -> (panels * groups * width * together,), and what is spilled
    """
    panels = _in_panels(matrix, packing)
    return _with_spilled([panels])[0] if spills(packing) else panels.reshape(-1)


def pack_all(matrices: Sequence[Array], packing: str) -> tuple[Array, int, str]:
    """(matrices of one shape packed one behind the other, the elements of each, their packing).

    It is another packing than the given one where too much would be spilled.
    """
    parts = [_in_panels(matrix, packing) for matrix in matrices]
    if spills(packing):
        parts = _with_spilled(parts, SPILLED_MOST)
        if not parts:
            width = panel_width(packing)
            return pack_all(matrices, name_packing(matrices[0].dtype, width, "8x2"))
    flat = [part.reshape(-1) for part in parts]
    return np.concatenate(flat) if len(flat) > 1 else flat[0], int(flat[0].size), packing


def _in_panels(matrix: Array, packing: str) -> Array:
    """Shapes: (inner, columns) -> (panels, groups, width, together)"""
    width, group = panel_width(packing), together(packing)
    inner, columns = matrix.shape
    deep = group * (SQUARE_ROWS if squares(packing) else 1)
    panels, groups = -(-columns // width), -(-inner // deep) * (deep // group)
    result = np.empty((panels, groups, width, group), matrix.dtype)
    whole = columns // width if inner % deep == 0 else 0
    _fill_panels(result[:whole], matrix[:, : whole * width])
    if whole < panels:  # what does not fill a panel, or a group, is followed by zeros
        rest = matrix[:, whole * width :]
        padded = np.zeros((groups * group, (panels - whole) * width), matrix.dtype)
        padded[:inner, : rest.shape[1]] = rest
        _fill_panels(result[whole:], padded)
    return result


def _fill_panels(panels: Array, matrix: Array) -> None:
    count, groups, width, group = panels.shape
    panels[...] = matrix.reshape(groups, group, count, width).transpose(2, 0, 3, 1)


# --- bytes whose products are added in 16 bits ----------------------------------------------------------------------


def _with_spilled(matrices: Sequence[Array], most: int = 0) -> list[Array]:
    """Packed matrices with what two of their numbers are too large by; none if that is more than one group in ``most``.

    Shapes: (panels, groups, width, 4) -> (bytes,)
    """
    sums = [128 * matrix.sum((1, 3), np.int32) for matrix in matrices]
    taken = [_take_excess(matrix) for matrix in matrices]
    count = max((int(counts.max(initial=0)) for _, counts in taken), default=0)
    if most and any(count * most > matrix.shape[1] for matrix in matrices):
        return []
    return [
        _joined(matrix, spilled, total, count)
        for matrix, (spilled, _), total in zip(matrices, taken, sums, strict=True)
    ]


def _take_excess(panels: Array) -> tuple[tuple[Array, ...], Array]:
    """((panel, group, column, k, number) of what is taken from pairs, how many groups of each panel these are in)."""
    pairs = np.add(panels[..., ::2], panels[..., 1::2], dtype=np.int16)
    found = np.nonzero((pairs > PAIR_MOST) | (pairs < -PAIR_MOST))
    excess = pairs[found]
    excess -= np.clip(excess, -PAIR_MOST, PAIR_MOST)
    panel, group, column, pair = found
    panels[panel, group, column, 2 * pair + 1] -= excess.astype(np.int8)
    spilled = np.zeros(panels.shape[:2], bool)
    spilled[panel, group] = True
    return (panel, group, column, 2 * pair + 1, excess), spilled.sum(1)


def _joined(panels: Array, spilled: tuple[Array, ...], sums: Array, count: int) -> Array:
    """The bytes of a matrix whose panels have ``count`` spilled groups each."""
    total, groups, width, _ = panels.shape
    panel, group, column, k, excess = spilled
    keys, entry = np.unique(panel * groups + group, return_inverse=True)
    owner = keys // max(groups, 1)
    place = np.arange(len(keys)) - np.searchsorted(owner, owner)
    behind = np.zeros((total, count, width, 4), np.int8)
    behind[panel, place[entry], column, k] = excess
    offsets = np.zeros((total, -(-count // 16) * 16), np.int32)
    offsets[owner, place] = (keys - owner * groups) * 4
    parts = [part.reshape(total, math.prod(part.shape[1:])) for part in (panels, behind)]
    parts += [sums.view(np.int8), offsets.view(np.int8)]
    ends = np.cumsum([0, *(part.shape[1] for part in parts)])
    result = np.zeros(HEAD_BYTES + total * int(ends[-1]), np.int8)
    result[:4].view(np.int32)[0] = count
    body = result[HEAD_BYTES:].reshape(total, int(ends[-1]))
    for part, start, end in zip(parts, ends, ends[1:], strict=False):
        body[:, start:end] = part
    return result
