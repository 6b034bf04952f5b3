"""Which tiles a product is worth: those of a menu that fit, in the order of what they cost (``tiles_cost.py``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from burnx.dtype import bfloat16, dtype_name, float16, float32
from burnx.gpu.code import Limits
from burnx.gpu.tiles_cost import Extents, cycles
from burnx.gpu.tiles_form import WARPGROUPS_OF, Tile, is_wgmma
from burnx.gpu.tiles_frame import PAD
from burnx.gpu.tiles_product import Product, Side, side_of
from burnx.gpu.tiles_rest import together_of
from burnx.kernels.affine import coefficient
from burnx.kernels.ir import Contract, Store, walk
from burnx.shape import Expr, Symbol, evaluate

Sizes = Mapping[str, int]
Numbers = tuple[int, int, int, int, int, int, int]
Menu = tuple[Numbers, ...]
# rows, columns, inner, rows and columns of a part, slices, stages
_PLAIN: Menu = (
    (128, 128, 8, 8, 8, 1, 2), (128, 64, 16, 8, 4, 1, 2), (64, 128, 16, 4, 8, 1, 2), (64, 64, 16, 4, 4, 1, 2),
    (64, 32, 16, 4, 4, 2, 2), (32, 64, 16, 4, 4, 2, 2), (32, 32, 32, 4, 4, 4, 2), (16, 64, 32, 4, 4, 4, 2),
    (64, 16, 32, 4, 4, 4, 2), (16, 16, 32, 2, 4, 8, 2), (8, 64, 32, 4, 4, 8, 2), (8, 32, 64, 2, 4, 8, 2),
    (4, 64, 64, 2, 4, 8, 2), (4, 32, 64, 2, 2, 8, 2), (1, 64, 64, 1, 2, 8, 2), (1, 32, 64, 1, 1, 8, 2),
    (64, 8, 32, 4, 4, 8, 2), (64, 4, 64, 4, 2, 8, 2), (64, 1, 64, 2, 1, 8, 2),
)  # fmt: skip
# parts are those of warps
_HALF: Menu = (
    (128, 256, 32, 64, 64, 1, 4), (256, 128, 32, 64, 64, 1, 4), (128, 128, 64, 64, 64, 1, 3),
    (128, 128, 32, 64, 64, 1, 4), (128, 128, 32, 64, 32, 1, 2), (128, 64, 64, 32, 32, 1, 2),
    (64, 128, 64, 32, 32, 1, 2), (64, 64, 64, 32, 32, 1, 2), (128, 64, 32, 64, 32, 1, 3),
    (64, 64, 128, 32, 32, 4, 3), (32, 64, 64, 32, 32, 2, 5), (32, 32, 64, 16, 16, 1, 6),
    (16, 16, 256, 16, 16, 8, 3), (128, 256, 64, 64, 64, 1, 3), (256, 128, 64, 64, 64, 1, 3),
    (128, 192, 64, 64, 64, 1, 3), (64, 128, 128, 32, 32, 2, 3), (128, 64, 128, 32, 32, 2, 3),
    (64, 128, 64, 32, 32, 1, 4), (128, 128, 64, 32, 32, 1, 4), (256, 64, 64, 64, 32, 1, 3),
    (128, 64, 64, 64, 32, 1, 3), (64, 256, 64, 32, 64, 1, 2), (128, 128, 64, 64, 32, 1, 2),
    (128, 128, 32, 64, 32, 1, 4), (128, 128, 64, 64, 32, 1, 3), (128, 64, 64, 32, 32, 1, 3),
    (64, 128, 64, 32, 32, 1, 3), (64, 64, 64, 32, 32, 1, 4), (64, 32, 64, 32, 16, 1, 4),
    (32, 64, 64, 16, 32, 1, 4), (64, 64, 64, 32, 32, 2, 4), (32, 64, 128, 32, 32, 2, 3),
    (64, 32, 128, 32, 32, 2, 3), (32, 32, 128, 32, 32, 4, 3), (16, 64, 128, 16, 32, 4, 3),
    (16, 32, 128, 16, 32, 8, 3), (64, 16, 128, 32, 16, 4, 3), (32, 16, 128, 32, 16, 8, 3),
    (128, 32, 16, 32, 32, 1, 2), (128, 96, 16, 32, 96, 1, 2), (128, 96, 32, 32, 48, 1, 2),
    (128, 64, 16, 32, 64, 1, 2), (64, 96, 16, 32, 48, 1, 2), (256, 32, 32, 64, 32, 1, 2),
    (128, 48, 32, 32, 48, 1, 2), (64, 192, 32, 32, 96, 1, 2), (128, 16, 32, 32, 16, 1, 2),
)  # fmt: skip
_SINGLE: Menu = (
    (128, 128, 16, 32, 32, 1, 4), (128, 128, 32, 32, 32, 1, 3), (128, 64, 16, 32, 32, 1, 4),
    (128, 64, 16, 32, 32, 1, 2), (64, 64, 16, 32, 32, 1, 4), (64, 64, 32, 32, 32, 1, 2),
    (64, 64, 64, 32, 32, 4, 3), (32, 64, 32, 32, 32, 2, 5), (32, 32, 32, 16, 16, 1, 6),
    (16, 16, 128, 16, 16, 8, 3), (64, 64, 32, 32, 16, 1, 3), (64, 64, 64, 32, 32, 2, 3),
    (64, 128, 32, 32, 32, 2, 3), (64, 128, 32, 32, 32, 1, 4), (64, 128, 32, 32, 32, 1, 2),
    (128, 64, 32, 64, 32, 1, 3),
    (128, 128, 16, 64, 32, 1, 3), (128, 128, 32, 64, 32, 1, 3), (128, 64, 32, 32, 32, 1, 3),
    (64, 128, 32, 32, 32, 1, 3), (64, 64, 32, 32, 32, 1, 3), (64, 32, 32, 32, 16, 1, 4),
    (32, 64, 32, 16, 32, 1, 4), (64, 64, 32, 32, 32, 2, 3), (32, 64, 64, 32, 32, 2, 3),
    (64, 32, 64, 32, 32, 2, 3), (32, 32, 64, 32, 32, 4, 3), (16, 64, 64, 16, 32, 4, 3),
    (16, 32, 64, 16, 32, 8, 3), (64, 16, 64, 32, 16, 4, 3), (32, 16, 64, 32, 16, 8, 3),
)  # fmt: skip
# parts are those of warpgroups
_WGMMA: Menu = (
    (192, 192, 64, 64, 192, 1, 4), (128, 256, 64, 64, 256, 1, 4), (256, 128, 64, 128, 128, 1, 4),
    (128, 192, 64, 64, 192, 1, 4), (192, 128, 64, 64, 128, 1, 4), (128, 128, 64, 64, 128, 1, 5),
    (128, 128, 64, 64, 128, 1, 3), (256, 64, 64, 64, 64, 1, 4), (128, 64, 64, 64, 64, 1, 4),
    (64, 192, 64, 64, 192, 1, 4), (64, 128, 64, 64, 128, 1, 3), (64, 64, 64, 64, 64, 1, 4),
    (64, 64, 128, 64, 64, 2, 4), (64, 128, 128, 64, 128, 2, 4), (256, 128, 64, 64, 128, 1, 4),
    (256, 64, 64, 128, 64, 1, 4), (128, 128, 64, 128, 128, 1, 3), (64, 64, 64, 64, 64, 1, 6),
    (128, 64, 64, 64, 64, 1, 3), (64, 64, 64, 64, 64, 1, 3), (128, 64, 64, 128, 64, 1, 3),
)  # fmt: skip
_WGMMA_SINGLE: Menu = (
    (192, 96, 32, 64, 96, 1, 2), (128, 128, 32, 64, 128, 1, 2), (192, 64, 32, 64, 64, 1, 2),
    (128, 128, 32, 64, 64, 1, 2), (128, 64, 32, 64, 64, 1, 2), (64, 64, 32, 64, 64, 1, 2),
    (64, 64, 32, 64, 64, 1, 6),
)  # fmt: skip
_SPREADS = (2, 4, 8)  # groups of a cluster; more are not portable
_LEAST_COPY = 4  # bytes; fewer are not copied beside the work
_FEWEST = 8192  # multiplications; below them there is nothing to share


def ranked(product: Product, limits: Limits, sizes: Sizes) -> list[tuple[str, Tile]]:
    """(units, tile) for a product, those that should be fastest first."""
    extents = _extents(product, sizes)
    work = extents.rows * extents.columns * extents.inner
    if work * extents.outer < _FEWEST or extents.inner < 8 or extents.rows * extents.columns == 0:
        return []
    found = [
        (cycles(extents, units, tile, limits, _local(tile, units, product)), place, units, tile)
        for place, (units, tile) in enumerate(_all_tiles(product, limits, sizes))
    ]
    found.sort(key=lambda each: each[:2])
    return [(units, tile) for _, _, units, tile in found]


def _extents(product: Product, sizes: Sizes) -> Extents:
    outer = math.prod(evaluate(extent, sizes) for _, extent in product.outer)
    rows, columns = evaluate(product.rows, sizes), evaluate(product.columns, sizes)
    size = product.left.buffer.dtype.itemsize
    return Extents(rows, columns, evaluate(product.inner, sizes), outer, size)


def units_of(product: Product, limits: Limits) -> list[str]:
    """What the operands can be multiplied on; "" stands for no matrix units."""
    left, right = product.left.buffer.dtype, product.right.buffer.dtype
    if product.contract.dtype != float32 or left != right or limits.capability < 80:
        return [""]
    if left in (float16, bfloat16):
        return [*_half_units(dtype_name(left), limits), ""]
    if left != float32:
        return [""]
    name = "tfloat32" if "tfloat32" in limits.matrices else "float32x3"
    on_groups = [f"wgmma_{name}"] if limits.capability == WARPGROUPS_OF else []
    return [*on_groups, name, *([""] if name == "float32x3" else [])]


def _half_units(name: str, limits: Limits) -> list[str]:
    if name not in limits.matrices:
        return []
    return [f"wgmma_{name}", name] if limits.capability == WARPGROUPS_OF else [name]


def _all_tiles(product: Product, limits: Limits, sizes: Sizes) -> Iterator[tuple[str, Tile]]:
    contract, extents = product.contract, _extents(product, sizes)
    inner, outer = contract.inner, product.outer
    left = side_of(product.left, contract.rows, inner, outer, sizes)
    right = side_of(product.right, (contract.column,), inner, outer, sizes)
    across = is_across(contract)
    together = together_of(product, sizes) if across and limits.capability else 1
    for units in units_of(product, limits):
        for rows, columns, deep, part_rows, part_columns, slices, stages in _menu(units):
            one = _fitting(left, rows, deep, product, units)
            other = _fitting(right, columns, deep, product, units)
            numbers = (rows, columns, deep, part_rows, part_columns, slices, stages)
            tile = Tile(*numbers, across, one, other, math.gcd(together, columns))
            if _fits(tile, units, product, limits):
                yield units, tile
                for spread in _spreads(tile, units, extents, limits):
                    yield units, replace(tile, spread=spread)


def _spreads(tile: Tile, units: str, extents: Extents, limits: Limits) -> list[int]:
    """Over how many groups a tile's inner extent may be spread: where tiles are fewer than multiprocessors."""
    if _menu(units) is not _WGMMA:
        return []
    groups = -(-extents.rows // tile.rows) * -(-extents.columns // tile.columns) * extents.outer
    return [
        each
        for each in _SPREADS
        if groups * each <= 2 * limits.units and extents.inner >= 2 * each * tile.inner
    ]


def _menu(units: str) -> Menu:
    if not units:
        return _PLAIN
    if is_wgmma(units):
        return _WGMMA if units in ("wgmma_float16", "wgmma_bfloat16") else _WGMMA_SINGLE
    return _HALF if units in ("float16", "bfloat16") else _SINGLE


def _fitting(side: Side, free: int, deep: int, product: Product, units: str) -> Side:
    """A way of loading for a tile's extents; numbers that are cast on their way are loaded one by one."""
    operand, sums = product.left.buffer.dtype, product.contract.dtype
    if not units and not (operand == product.right.buffer.dtype == sums):
        return replace(side, vector=1)
    return replace(side, vector=min(side.vector, deep if side.along_inner else free))


def _fits(tile: Tile, units: str, product: Product, limits: Limits) -> bool:
    threads = tile.threads(units)
    if is_wgmma(units) and not _suits_warpgroups(tile, product):
        return False
    sides = ((tile.left, tile.rows), (tile.right, tile.columns))
    wide = any(
        (tile.inner if side.along_inner else free) // side.vector > threads for side, free in sides
    )
    return (
        not wide
        and threads <= limits.threads
        and _local(tile, units, product) <= limits.local_bytes
    )


def _suits_warpgroups(tile: Tile, product: Product) -> bool:
    """Whether copies run beside the work, and columns that lie next to each other fill blocks."""
    size = product.left.buffer.dtype.itemsize
    if size == 4:
        return True
    narrow = any(side.vector * size < _LEAST_COPY for side in (tile.left, tile.right))
    return not narrow and (tile.right.along_inner or tile.part_columns % 64 == 0)


def _local(tile: Tile, units: str, product: Product) -> int:
    """Bytes of local memory, about."""
    size = product.left.buffer.dtype.itemsize if units else product.contract.dtype.itemsize
    lines = tile.rows + tile.columns
    operands = tile.stages * (tile.inner + PAD) * (lines + 2 * PAD) * size
    if is_wgmma(units):  # nothing lies beside the operands; parts of float32 lie behind them, twice
        parts = {"wgmma_float32x3": 4, "wgmma_tfloat32": 2}.get(units, 0)
        operands = (tile.stages + parts) * tile.inner * lines * size
    sums = tile.slices * tile.rows * (tile.columns + PAD) * product.contract.dtype.itemsize
    places = 4 * tile.rows * len(product.contract.rows)
    return max(operands, sums) + places


def is_across(contract: Contract) -> bool:
    """Whether columns, not rows, lie next to each other where most is stored."""
    column, row = (_symbol(name) for name in (contract.column[0], contract.rows[-1][0]))
    stores = [each for each in walk(contract.body) if isinstance(each, Store)]
    along = [
        sum(coefficient(each.index, name)[0] == 1 for each in stores) for name in (column, row)
    ]
    return along[0] >= along[1]


def _symbol(name: str) -> Expr:
    return Expr({(Symbol(name),): 1})
