"""Constant right operands of products, laid out before the program runs.

Each is derived from one array by a recipe, so a device that kept it from an earlier time need not lay it out again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name
from burnx.files import let_go
from burnx.fusion.storage import Storage
from burnx.kernels.packing import pack, pack_all
from burnx.kernels.winograd import Scheme, transform_weights

Array = np.ndarray[Any, Any]
Axes = Sequence[int]
Make = Callable[[], tuple[Array, str]]
# what a recipe, which says all of how, makes of an array: made anew, or the same from an earlier time; and a word on it
Derive = Callable[[Sequence[object], Array, Make], tuple[Array, str]]


def make_anew(recipe: Sequence[object], source: Array, make: Make) -> tuple[Array, str]:
    """A ``Derive`` of a device that keeps nothing."""
    return make()


def lay_out_product(
    source: Array, axes: tuple[Axes, Axes, Axes], packing: str, dtype: DType, derive: Derive
) -> tuple[Storage, int, str]:
    """(matrices packed one behind the other, the elements of each, as what they were packed).

    ``axes`` are those of batch, sums and columns.
    """
    batch, inner, free = axes
    sizes = [math.prod(source.shape[axis] for axis in part) for part in axes]
    if not sizes[0]:
        return Storage(dtype, (0,), "constant", array=np.empty(0, dtype)), 0, packing

    def matrices() -> Sequence[Array]:
        whole = source.transpose((*batch, *inner, *free)).reshape(sizes)
        return [each.astype(dtype, copy=False) for each in whole]

    recipe = ("product", packing, dtype_name(dtype), *map(list, axes))
    return _laid_out(source, sizes[0], packing, recipe, matrices, derive)


def lay_out_convolution(
    source: Array, groups: int, packing: str, dtype: DType, derive: Derive
) -> tuple[Storage, int, str]:
    """(matrices one behind the other, the elements of each, as what they were packed), one matrix a group.

    Shapes: (outputs, channels of a group, *kernel) -> groups of (kernel * channels, outputs of a group)
    """
    outputs = source.shape[0] // groups

    def matrices() -> Sequence[Array]:
        array = source.astype(dtype, copy=False).reshape((groups, outputs, *source.shape[1:]))
        moved = array.transpose((0, *range(3, source.ndim + 1), 2, 1))
        return list(moved.reshape((groups, -1, outputs)))

    recipe = ("convolution", packing, dtype_name(dtype), groups)
    return _laid_out(source, groups, packing, recipe, matrices, derive)


def lay_out_tiles(
    scheme: Scheme, source: Array, packing: str, dtype: DType, derive: Derive
) -> tuple[Storage, int]:
    """(what the numbers of a transformed tile are multiplied with, the elements of each matrix).

    Shapes: (outputs, channels, 3, 3) -> tile * tile of (channels, outputs)
    """

    def make() -> tuple[Array, str]:
        matrices = transform_weights(scheme, source.astype(dtype, copy=False))
        parts = [pack(each, packing) if packing else each.reshape(-1) for each in matrices]
        return np.concatenate(parts), packing

    made, _ = derive(("winograd", scheme.weights, packing, dtype_name(dtype)), source, make)
    return Storage(dtype, (int(made.size),), "constant", array=made), made.size // scheme.tile**2


def _laid_out(
    source: Array,
    count: int,
    packing: str,
    recipe: Sequence[object],
    matrices: Callable[[], Sequence[Array]],
    derive: Derive,
) -> tuple[Storage, int, str]:
    def make() -> tuple[Array, str]:
        if packing:
            joined, _, found = pack_all(matrices(), packing)
        else:
            joined, found = np.concatenate([each.reshape(-1) for each in matrices()]), ""
        let_go(source)
        return joined, found

    made, found = derive(recipe, source, make)
    storage = Storage(made.dtype, (int(made.size),), "constant", array=made)
    return storage, int(made.size) // count, found
