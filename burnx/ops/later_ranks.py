"""Ranks in operators of earlier versions, as numbers where they are known and else as tensors that running settles."""

from __future__ import annotations

import numpy as np

from burnx.ops.movement import concat, expand, has_rank, reshape, shape, size
from burnx.tensor import Tensor

ONE = np.ones(1, np.int64)


def rank_of(x: Tensor) -> int | Tensor:
    """The rank of a tensor, a scalar of int64 while it is not known."""
    return x.ndim if has_rank(x) else size(shape(x))


def with_ones(x: Tensor, sizes: object, count: Tensor) -> Tensor:
    """x, reshaped to some sizes and ``count`` axes of size 1 behind them."""
    return reshape(x, concat(sizes, expand(ONE, reshape(count, ONE)), axis=0))
