"""The numbers of a tile, as ``Form.tile`` holds them."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from burnx.gpu.tiles_product import Side

WARP, WARPGROUP = 32, 128
WARPGROUPS_OF = 90  # the only capability whose warpgroups multiply


def lanes_of(units: str) -> int:
    """Threads that take a part together: one, a warp of ``mma``, four warps of ``wgmma``."""
    if not units:
        return 1
    return WARPGROUP if is_wgmma(units) else WARP


def is_wgmma(units: str) -> bool:
    """Whether warpgroups multiply; such units are called by what they multiply behind this word."""
    return units.startswith("wgmma_")


@dataclass(frozen=True, slots=True)
class Tile:
    """What a group of threads takes of a product, and how.

    ``rows``, ``columns``, ``inner``: of the tile that lies in local memory.  ``part_rows``, ``part_columns``: what one
    thread (with matrix units: one warp, or warpgroup) sums up.  ``slices``: how many threads (warps, warpgroups) share the inner extent of one
    part.  ``stages``: tiles in local memory at a time.  ``across``: neighbouring threads finish neighbouring columns.
    ``left``, ``right``: how the operands are loaded.  ``together``: neighbouring columns that a thread finishes.
    ``spread``: groups, a cluster, that share the inner extent of the tile, and then finish some of its rows each.
    """

    rows: int
    columns: int
    inner: int
    part_rows: int
    part_columns: int
    slices: int
    stages: int
    across: bool
    left: Side
    right: Side
    together: int = 1
    spread: int = 1

    @property
    def parts(self) -> int:
        """How many parts a tile has."""
        return self.rows // self.part_rows * (self.columns // self.part_columns)

    def threads(self, units: str) -> int:
        """Threads of a group."""
        return self.parts * self.slices * lanes_of(units)

    def numbers(self) -> tuple[int, ...]:
        """As ``Form.tile``."""
        *own, left, right, together, spread = astuple(self)
        return tuple(map(int, (*own, *left, *right, together, spread)))


def tile_of(numbers: tuple[int, ...]) -> Tile:
    """The tile that ``Form.tile`` holds."""
    rows, columns, inner, part_rows, part_columns, slices, stages, across, *sides = numbers
    left, right = (
        Side(vector, bool(along_inner), joined)
        for vector, along_inner, joined in (sides[:3], sides[3:6])
    )
    return Tile(
        rows,
        columns,
        inner,
        part_rows,
        part_columns,
        slices,
        stages,
        bool(across),
        left,
        right,
        *sides[6:],
    )
