"""What a tile costs: a rough count of the clock cycles that a product takes with it.

The counts are those of a multiprocessor of compute capability 9.0, fitted to what ``benchmarks/gpu_products.py`` measured on
an H200; on other devices only their order matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from burnx.gpu.code import Limits
from burnx.gpu.tiles_form import WARP, Tile, is_wgmma, lanes_of


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a multiprocessor multiplies.

    ``rate``: multiplications of a cycle, as far as they are reached, by as many ``warps`` at least.  ``held``: registers of a
    sum.  ``narrow``: columns whose time each product of a part takes besides.  ``split``: bytes of a cycle that threads make
    what the units read; 0 where they read what was copied.  ``reads``: how often the units read an operand.
    """

    rate: float
    held: float
    warps: float
    narrow: float = 0
    split: float = 0
    reads: int = 1


@dataclass(frozen=True, slots=True)
class Delays:
    """Cycles ``around`` a step, until a tile is loaded (``load``), before and after the sums (``start``), for an element after
    its sum (``rest``) and for a copy to local memory; bytes of a cycle from ``local`` and from global memory.
    """

    step: float
    load: float
    start: float
    rest: float
    copy: float
    local: float
    outside: float


_PACES = {
    "": Pace(48, 1.2, 9.1),
    "float16": Pace(790, 0.724, 4.85),
    "bfloat16": Pace(790, 0.73, 4.85),
    "tfloat32": Pace(150, 0.9, 4.85),
    "float32x3": Pace(97, 1.72, 4.85),
    "wgmma_float16": Pace(1056, 1.03, 5.43, 7.17),
    "wgmma_bfloat16": Pace(1056, 1.03, 5.43, 7.17),
    "wgmma_tfloat32": Pace(160, 1.03, 9, 7.17, 25),
    "wgmma_float32x3": Pace(116, 2.09, 5.43, 7.17, 105, 3),
}
_BY_THREADS = Delays(144, 2340, 1660, 2.2, 0, 56.5, 14.5)
_BY_WARPS = Delays(398, 565, 2206, 0.198, 0.099, 132, 37.6)
_BY_WARPGROUPS = Delays(20.6, 1676, 173, 0.198, 0.099, 132, 37.6)
_CLUSTER = 1500  # cycles until all groups of a cluster have met twice
_BESIDE = 53  # registers of a thread, beside its sums
_LEAST_COPY, _SLOW = 4, 3  # bytes that are copied beside the work; how much longer fewer ones take
_MEMORY = 227 << 10  # local memory of all groups of a multiprocessor


@dataclass(frozen=True, slots=True)
class Extents:
    """What there is to do, in numbers."""

    rows: int
    columns: int
    inner: int
    outer: int
    size: int  # bytes of an element of the operands


def cycles(extents: Extents, units: str, tile: Tile, limits: Limits, local: int) -> float:
    """About how long a product takes: as long as all work of a multiprocessor, or as all of its groups' waiting."""
    delays = _delays(units)
    groups = -(-extents.rows // tile.rows) * -(-extents.columns // tile.columns) * extents.outer
    groups *= tile.spread
    steps = -(-extents.inner // (tile.inner * tile.spread))
    each = -(-groups // limits.units)
    together = min(_residents(units, tile, local), each)
    warps = together * tile.threads(units) / WARP
    step = _step(extents.size if units else 4, units, tile, warps) + delays.step
    elements = tile.rows * tile.columns
    sums = elements * (2 + tile.slices) * 4 / delays.local
    sums += elements * delays.rest * (0.4 + 0.6 / tile.together) / tile.spread
    if tile.spread > 1:
        sums += _CLUSTER + elements * 4 / delays.outside
    alone = steps * max(step, delays.load / _ahead(units, tile)) + delays.start + sums
    return max(each * (steps * step + sums), -(-each // together) * alone)


def _step(size: int, units: str, tile: Tile, warps: float) -> float:
    """Cycles of one stage of a tile: of the units, of local memory or of what is behind it."""
    pace, delays = _PACES[units], _delays(units)
    lines = tile.rows + tile.columns
    moved = lines * tile.inner * size
    read = tile.parts * (tile.part_rows + tile.part_columns) * tile.inner * size * pace.reads
    read = read // 4 if not units else read  # neighbouring threads read the same
    work = tile.rows * tile.columns * tile.inner / pace.rate * max(1.0, pace.warps / warps)
    work *= 1 + pace.narrow / tile.part_columns
    split = moved / pace.split if pace.split else 0
    copies = sum(
        tile.inner * free / side.vector * (1 if side.vector * size >= _LEAST_COPY else _SLOW)
        for side, free in ((tile.left, tile.rows), (tile.right, tile.columns))
    )
    return max(
        work,
        (read + moved) / delays.local + split,
        moved / delays.outside + copies * delays.copy,
    )


def _delays(units: str) -> Delays:
    if not units:
        return _BY_THREADS
    return _BY_WARPGROUPS if is_wgmma(units) else _BY_WARPS


def _ahead(units: str, tile: Tile) -> int:
    """Stages that are on their way while one is multiplied."""
    if _PACES[units].split:
        return tile.stages
    return tile.stages - (2 if is_wgmma(units) else 1)


def _residents(units: str, tile: Tile, local: int) -> int:
    """How many groups a multiprocessor holds at a time."""
    threads = tile.threads(units)
    sums = tile.part_rows * tile.part_columns // lanes_of(units)
    registers = min(int(sums * _PACES[units].held) + _BESIDE, 255)
    return max(1, min(2048 // threads, 65536 // (registers * threads), _MEMORY // (local + 1024)))
