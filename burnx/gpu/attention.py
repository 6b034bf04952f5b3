"""The form "attention": scores, softmax and weighted sums of some rows, keys after keys, in one group of threads.

``tile`` holds the numbers of an ``attention_frame.AttentionTile``; ``matrices`` the dtype of the operands where matrix units
multiply them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from burnx.gpu.attention_frame import (
    AttentionTile,
    attention_grid,
    attention_tile_of,
    scene_of,
)
from burnx.gpu.attention_parts import Attention, attention_of
from burnx.gpu.attention_plain import across_of, plain_bytes, write_plain_attention
from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import Unsupported
from burnx.gpu.frame import close_kernel, open_kernel
from burnx.gpu.tiles_choice import is_across
from burnx.gpu.tiles_frame import STATIC_BYTES
from burnx.gpu.tiles_product import Side, side_of
from burnx.kernels.ir import Kernel
from burnx.shape import Dim, evaluate

Sizes = Mapping[str, int]
_MOST_DEEP = 256  # elements of a query, or of a value
# rows, keys, rows and keys of a part
_PLAIN = ((64, 64, 4, 4), (32, 32, 2, 4), (32, 16, 4, 2), (16, 16, 2, 2), (8, 16, 1, 2))


def fit_attention(kernel: Kernel, limits: Limits, sizes: Sizes) -> list[Form]:
    """The forms of an attention, the one that should be fastest first; none for other kernels."""
    attention = attention_of(kernel)
    if attention is None:
        return []
    counts = [evaluate(each, sizes) for each in _counts(attention)]
    if min(counts) < 1 or max(counts[2:]) > _MOST_DEEP:
        return []
    return [
        Form("attention", threads, tile.numbers(), units)
        for units, threads, tile in _tiles(attention, limits, sizes)
    ]


def _counts(attention: Attention) -> tuple[Dim, ...]:
    return (
        attention.count,
        attention.scores.columns,
        attention.scores.inner,
        attention.sums.columns,
    )


def write_attention(kernel: Kernel, dialect: Dialect, form: Form) -> Code:
    """The kernel as a function whose groups each take some rows."""
    attention = attention_of(kernel)
    if attention is None:
        raise Unsupported("the form attention is of kernels that are one: this one is not")
    writer = open_kernel(kernel, dialect, form)
    scene = scene_of(writer, attention, attention_tile_of(form.tile), form.group)
    write_plain_attention(scene)
    size = plain_bytes(scene.tile)
    code = close_kernel(writer, attention_grid(attention, scene.tile))
    asked = dialect.name == "cuda" and size > STATIC_BYTES
    return replace(code, local_bytes=size) if asked else code


# --- choice ---------------------------------------------------------------------------------------------------------


def _tiles(
    attention: Attention, limits: Limits, sizes: Sizes
) -> Iterator[tuple[str, int, AttentionTile]]:
    """(units, threads, tile), the best first."""
    rows, _, deep, wide = (evaluate(each, sizes) for each in _counts(attention))
    outer = 1
    for _, extent in attention.outer:
        outer *= evaluate(extent, sizes)
    sides = _sides(attention, sizes)
    across = is_across(attention.sums.contract)
    found = []
    for place, (height, keys, part_rows, part_keys) in enumerate(_PLAIN):
        tile = AttentionTile(
            height,
            keys,
            _power(deep, 16),
            _power(wide, keys // part_keys),
            part_rows,
            part_keys,
            across,
            *(replace(side, vector=1) for side in sides),
        )
        threads = height // part_rows * across_of(tile)
        if threads <= limits.threads and plain_bytes(tile) + 8 * height <= limits.local_bytes:
            groups = -(-rows // height) * outer
            busy = -(-groups // (2 * limits.units)) * height / (part_rows * part_keys) ** 0.5
            found.append((busy, place, "", threads, tile))
    found.sort(key=lambda each: each[:2])
    for _, _, units, threads, tile in found:
        yield units, threads, tile


def _sides(attention: Attention, sizes: Sizes) -> tuple[Side, Side, Side]:
    scores, sums, outer = attention.scores, attention.sums, attention.outer
    one, other = scores.contract, sums.contract
    return (
        side_of(scores.left, one.rows, one.inner, outer, sizes),
        side_of(scores.right, (one.column,), one.inner, outer, sizes),
        side_of(sums.right, (other.column,), other.inner, outer, sizes),
    )


def _power(number: int, least: int) -> int:
    """The least power of two that is not below."""
    return max(1 << max(number - 1, 0).bit_length(), least)
