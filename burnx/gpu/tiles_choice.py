"""Which tiles a product is worth: a rough count of the clock cycles that each takes.

The counts are those of a multiprocessor of compute capability 9.0, fitted to what ``benchmarks/gpu_products.py`` measured on
an H200; on other devices only their order matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from burnx.dtype import bfloat16, dtype_name, float16, float32
from burnx.gpu.code import Limits
from burnx.gpu.tiles_form import Tile
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
# multiplications of a multiprocessor in a cycle, as far as they are reached
_RATES = {"float16": 1200, "bfloat16": 1200, "tfloat32": 500, "float32x3": 105, "": 96}
_LOCAL, _GLOBAL = 113, 29  # bytes of a cycle
_DELAY, _AROUND = 1170, 830  # cycles until a tile is loaded, and before and after the sums
_STEP, _REST = 72, 1.1  # cycles around a step; those of an element after its sum
_WARPS = 9.1  # that keep a multiprocessor busy
_HELD = {
    "float16": 0.73,
    "bfloat16": 0.73,
    "tfloat32": 1.2,
    "float32x3": 1.72,
    "": 1.2,
}  # registers of a sum
_BESIDE = 70  # registers of a thread, beside
_MEMORY = 227 << 10  # local memory of all groups of a multiprocessor
_FEWEST = 8192  # multiplications; below them there is nothing to share
WARP = 32


@dataclass(frozen=True, slots=True)
class Extents:
    """What there is to do, in numbers."""

    rows: int
    columns: int
    inner: int
    outer: int
    size: int  # bytes of an element of the operands


def ranked(product: Product, limits: Limits, sizes: Sizes) -> list[tuple[str, Tile]]:
    """(units, tile) for a product, those that should be fastest first."""
    extents = _extents(product, sizes)
    work = extents.rows * extents.columns * extents.inner
    if work * extents.outer < _FEWEST or extents.inner < 8 or extents.rows * extents.columns == 0:
        return []
    found = [
        (_cycles(extents, units, tile, limits, _local(tile, units, product)), place, units, tile)
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
        return [name for name in (dtype_name(left),) if name in limits.matrices] + [""]
    if left != float32:
        return [""]
    if "tfloat32" in limits.matrices:
        return ["tfloat32"]
    return ["float32x3", ""]


def _all_tiles(product: Product, limits: Limits, sizes: Sizes) -> Iterator[tuple[str, Tile]]:
    contract = product.contract
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


def _menu(units: str) -> Menu:
    if not units:
        return _PLAIN
    return _HALF if units in ("float16", "bfloat16") else _SINGLE


def _fitting(side: Side, free: int, deep: int, product: Product, units: str) -> Side:
    """A way of loading for a tile's extents; numbers that are cast on their way are loaded one by one."""
    operand, sums = product.left.buffer.dtype, product.contract.dtype
    if not units and not (operand == product.right.buffer.dtype == sums):
        return replace(side, vector=1)
    return replace(side, vector=min(side.vector, deep if side.along_inner else free))


def _fits(tile: Tile, units: str, product: Product, limits: Limits) -> bool:
    threads = tile.threads(bool(units))
    sides = ((tile.left, tile.rows), (tile.right, tile.columns))
    wide = any(
        (tile.inner if side.along_inner else free) // side.vector > threads for side, free in sides
    )
    return (
        not wide
        and threads <= limits.threads
        and _local(tile, units, product) <= limits.local_bytes
    )


def _local(tile: Tile, units: str, product: Product) -> int:
    """Bytes of local memory, about."""
    size = product.left.buffer.dtype.itemsize if units else product.contract.dtype.itemsize
    operands = tile.stages * (tile.inner + PAD) * (tile.rows + tile.columns + 2 * PAD) * size
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


def _cycles(extents: Extents, units: str, tile: Tile, limits: Limits, local: int) -> float:
    """About how long a product takes: as long as all work of a multiprocessor, or as all of its groups' waiting."""
    groups = -(-extents.rows // tile.rows) * -(-extents.columns // tile.columns) * extents.outer
    steps = -(-extents.inner // tile.inner)
    each = -(-groups // limits.units)
    together = min(_residents(units, tile, local), each)
    warps = together * tile.threads(bool(units)) / WARP
    size = extents.size if units else 4
    moved = (tile.rows + tile.columns) * tile.inner * size
    read = tile.parts * (tile.part_rows + tile.part_columns) * tile.inner * size
    read = read // 4 if not units else read  # neighbouring threads read the same
    work = tile.rows * tile.columns * tile.inner / _RATES[units] * max(1.0, _WARPS / warps)
    step = max(work, (read + moved) / _LOCAL, moved / _GLOBAL) + _STEP
    elements = tile.rows * tile.columns
    sums = elements * (2 + tile.slices) * 4 / _LOCAL + elements * _REST * _rest_share(tile)
    alone = steps * max(step, _DELAY / (tile.stages - 1)) + _AROUND + sums
    return max(each * (steps * step + sums), -(-each // together) * alone)


def _rest_share(tile: Tile) -> float:
    """What an element costs after its sum, as part of what it costs alone."""
    return 0.4 + 0.6 / tile.together


def _residents(units: str, tile: Tile, local: int) -> int:
    """How many groups a multiprocessor holds at a time."""
    threads = tile.threads(bool(units))
    sums = tile.part_rows * tile.part_columns // (WARP if units else 1)
    registers = min(int(sums * _HELD[units]) + _BESIDE, 255)
    return max(1, min(2048 // threads, 65536 // (registers * threads), _MEMORY // (local + 1024)))
