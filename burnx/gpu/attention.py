"""The form "attention": scores, softmax and weighted sums of some rows, keys after keys, in one group of threads.

``tile`` holds the numbers of an ``attention_frame.AttentionTile``; ``matrices`` the dtype of the operands where matrix units
multiply them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from burnx.dtype import dtype_name
from burnx.gpu.attention_frame import (
    AttentionTile,
    attention_grid,
    attention_tile_of,
    scene_of,
)
from burnx.gpu.attention_matrix import room_of, write_matrix_attention
from burnx.gpu.attention_parts import Attention, attention_of
from burnx.gpu.attention_plain import across_of, plain_bytes, write_plain_attention
from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import Dialect
from burnx.gpu.dtypes import Unsupported
from burnx.gpu.frame import close_kernel, open_kernel
from burnx.gpu.tiles_blocks import HIGH, WARP
from burnx.gpu.tiles_choice import is_across
from burnx.gpu.tiles_frame import STATIC_BYTES
from burnx.gpu.tiles_product import Side, side_of
from burnx.gpu.tiles_rest import together_of
from burnx.gpu.tiles_units import UNITS
from burnx.kernels.ir import Kernel
from burnx.shape import Dim, evaluate

Sizes = Mapping[str, int]
_MOST_DEEP = 128  # elements of a query, or of a value
# rows, keys, rows and keys of a part
_PLAIN = ((64, 64, 4, 4), (32, 32, 2, 4), (32, 16, 4, 2), (16, 16, 2, 2), (8, 16, 1, 2))
_MATRIX = (
    (128, 64, 16, 64),
    (64, 64, 16, 64),
    (64, 32, 16, 32),
    (32, 64, 16, 64),
    (16, 64, 16, 64),
)
_AROUND = 48  # rows in whose time a group loads and begins


def fit_attention(kernel: Kernel, limits: Limits, sizes: Sizes) -> list[Form]:
    """The forms of an attention, the one that should be fastest first; none for other kernels."""
    attention = attention_of(kernel)
    if attention is None:
        return []
    counts = [evaluate(each, sizes) for each in _counts(attention)]
    if min(counts) < 1 or max(counts[2:]) > _MOST_DEEP:
        return []
    return list(_forms(attention, limits, sizes))


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
    if form.matrices:
        writer.needs.add(UNITS)
        write_matrix_attention(scene)
        size = room_of(scene).all
    else:
        write_plain_attention(scene)
        size = plain_bytes(scene.tile)
    code = close_kernel(writer, attention_grid(attention, scene.tile))
    asked = dialect.name == "cuda" and size > STATIC_BYTES
    return replace(code, local_bytes=size) if asked else code


# --- choice ---------------------------------------------------------------------------------------------------------


def _forms(attention: Attention, limits: Limits, sizes: Sizes) -> Iterator[Form]:
    """The forms that fit, those on matrix units first, and of each kind the best first."""
    rows = evaluate(attention.count, sizes)
    outer = math.prod(evaluate(extent, sizes) for _, extent in attention.outer)
    for units in _units(attention, limits):
        found = []
        for height, keys, part_rows, part_keys in _MATRIX if units else _PLAIN:
            tile = _tile(
                attention, sizes, (height, keys, part_rows, part_keys), units, limits.capability > 0
            )
            threads = height // HIGH * WARP if units else height // part_rows * across_of(tile)
            if _fits(tile, units, threads, limits):
                groups = -(-rows // height) * outer
                cycles = -(-groups // limits.units) * (height + _AROUND)
                found.append((cycles, Form("attention", threads, tile.numbers(), units)))
        found.sort(key=lambda each: each[0])
        yield from (form for _, form in found)


def _units(attention: Attention, limits: Limits) -> list[str]:
    """What the operands can be multiplied on; "" stands for no matrix units."""
    walks = (attention.scores.left, attention.scores.right, attention.sums.right)
    dtypes = {walk.buffer.dtype for walk in walks}
    if len(dtypes) != 1 or limits.capability < 80:
        return [""]
    name = dtype_name(dtypes.pop())
    return [name, ""] if name in limits.matrices and name != "tfloat32" else [""]


def _tile(
    attention: Attention,
    sizes: Sizes,
    block: tuple[int, int, int, int],
    units: str,
    on_cuda: bool,
) -> AttentionTile:
    height, keys, part_rows, part_keys = block
    _, _, deep, wide = (evaluate(each, sizes) for each in _counts(attention))
    query, key, value = _sides(attention, sizes)
    room = _power(deep, 16), _power(wide, 16 if units else keys // part_keys)
    query, key, value = (
        _fitting(side, free, inner, units)
        for side, free, inner in (
            (query, height, room[0]),
            (key, keys, room[0]),
            (value, room[1], keys),
        )
    )
    across = is_across(attention.sums.contract)
    apart = not across or not on_cuda
    together = 1 if apart else math.gcd(together_of(attention.sums, sizes), room[1])
    return AttentionTile(
        height, keys, *room, part_rows, part_keys, across, query, key, value, together
    )


def _fitting(side: Side, free: int, inner: int, units: str) -> Side:
    """A way of loading for a tile's extents; numbers that are cast on their way are loaded one by one."""
    most = (inner if side.along_inner else free) if units else 1
    return replace(side, vector=min(side.vector, most))


def _fits(tile: AttentionTile, units: str, threads: int, limits: Limits) -> bool:
    """Whether a device can run it, and each turn of loading takes whole rows."""
    loads = (
        (tile.query, tile.rows, tile.deep),
        (tile.key, tile.keys, tile.deep),
        (tile.value, tile.wide, tile.keys),
    )
    if any(
        (deep if side.along_inner else free) // side.vector > threads for side, free, deep in loads
    ):
        return False
    return threads <= limits.threads and _size(tile, units) <= limits.local_bytes


def _size(tile: AttentionTile, units: str) -> int:
    """Bytes of local memory, about."""
    if not units:
        return plain_bytes(tile) + 8 * tile.rows
    room = (tile.rows + 8) * (tile.deep + 8) + 2 * (tile.keys + 8) * (tile.deep + tile.wide + 16)
    return max(2 * room, 4 * tile.rows * (tile.wide + 8)) + 8 * tile.rows


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
