"""The numbers of a tile, as ``Form.tile`` holds them."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from burnx.gpu.tiles_product import Side


@dataclass(frozen=True, slots=True)
class Tile:
    """What a group of threads takes of a product, and how.

    ``rows``, ``columns``, ``inner``: of the tile that lies in local memory.  ``part_rows``, ``part_columns``: what one
    thread (with matrix units: one warp) sums up.  ``slices``: how many threads (warps) share the inner extent of one
    part.  ``stages``: tiles in local memory at a time.  ``across``: neighbouring threads finish neighbouring columns.
    ``left``, ``right``: how the operands are loaded.  ``together``: neighbouring columns that a thread finishes.
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

    @property
    def parts(self) -> int:
        """How many parts a tile has."""
        return self.rows // self.part_rows * (self.columns // self.part_columns)

    def threads(self, on_units: bool) -> int:
        """Threads of a group; on matrix units a warp takes a part."""
        return self.parts * self.slices * (32 if on_units else 1)

    def numbers(self) -> tuple[int, ...]:
        """As ``Form.tile``."""
        *own, left, right, together = astuple(self)
        return tuple(map(int, (*own, *left, *right, together)))


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
        sides[6],
    )
