"""Tile before opset 6: along one axis, both numbers of the type of the data."""

from __future__ import annotations

import numpy as np

from burnx.ops.arithmetic import add
from burnx.ops.conversion import cast
from burnx.ops.creation import range as range_
from burnx.ops.kinds import T
from burnx.ops.later_ranks import rank_of
from burnx.ops.logic import equal, less, where
from burnx.ops.movement import reshape, tile
from burnx.tensor import Tensor

_INT64 = 7
_SCALAR = np.zeros(0, np.int64)


@tile.upgrade(from_version=5)
def tile_1(input: T, tiles: Tensor, axis: Tensor) -> T:
    """Tile along one axis."""
    times, chosen = (reshape(cast(x, to=_INT64), _SCALAR) for x in (tiles, axis))
    rank = rank_of(input)
    chosen = where(less(chosen, 0), add(chosen, rank), chosen)
    places = np.arange(rank) if isinstance(rank, int) else range_(np.int64(0), rank, np.int64(1))
    mine = equal(places, chosen)
    return tile(input, where(mine, times, np.int64(1)))
