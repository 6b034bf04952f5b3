"""The numbers of a convolution, and a transposed one taken apart into plain ones.

A transposed convolution puts ``spread - 1`` zeros between elements of its data.  Results whose places have the same rest
modulo ``spread`` meet elements under the same taps of the kernel: they are a convolution with these taps alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as combinations

import numpy as np

from burnx.dtype import is_float
from burnx.files import let_go
from burnx.fusion.expressions import shape_of
from burnx.fusion.indices import divide
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape
from burnx.types import TensorType

Pads = tuple[tuple[int, int], ...]
Numbers = tuple[int, ...]
PARTS_MOST = 1024  # of a transposed convolution: steps


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's numbers; sizes are (n, c, *s), (m, c / groups, *k) and (n, m, *o).

    Of each axis of the whole result, ``every`` so many places are this convolution's, from ``first`` on.
    """

    source: Shape
    weight: Shape
    result: Shape
    strides: Numbers
    dilations: Numbers
    pads: Pads
    spread: Numbers
    groups: int
    weights: Var
    first: Numbers
    every: Numbers
    fill: int = 0  # what stands around the data

    @property
    def kernel(self) -> Shape:
        return self.weight[2:]

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.weight[1] == 1 and self.weight[0] == self.groups

    @property
    def is_spread(self) -> bool:
        return any(step > 1 for step in self.spread)

    @property
    def margin(self) -> Pads:
        """How many elements stand around each axis of the data."""
        return ((0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in self.pads))

    def place(self, rows: list[Dim]) -> list[Dim]:
        """Where a result lies in the whole."""
        return [
            each * step + start
            for each, step, start in zip(rows, self.every, self.first, strict=True)
        ]


def geometry(seed: Instruction) -> Geometry:
    """The numbers of a convolution; of a transposed one as its parts read the data, where it can be taken apart."""
    x, w = seed.inputs
    assert x is not None and w is not None
    given, ones = seed.attributes, (1,) * (len(shape_of(x)) - 2)
    whole = Geometry(
        shape_of(x),
        shape_of(w),
        shape_of(seed.outputs[0]),
        given["strides"],
        given["dilations"],
        given["pads"],
        given["spread"],
        given["groups"],
        w,
        (0,) * len(ones),
        ones,
        given.get("fill", 0),
    )
    if not whole.is_spread or not _has_parts(whole):
        return whole
    pads = tuple(
        (low // step, high // step)
        for (low, high), step in zip(whole.pads, whole.spread, strict=True)
    )
    return replace(whole, pads=pads, spread=ones, every=whole.spread)


def _has_parts(whole: Geometry) -> bool:
    array = whole.weights.array
    plain = all(
        spread == 1 or stride == 1
        for spread, stride in zip(whole.spread, whole.strides, strict=True)
    )
    if array is None or not plain or math.prod(whole.spread) > PARTS_MOST:
        return False
    return not is_float(array.dtype) or bool(np.isfinite(array).all())  # zeros times these are 0


def parts(seed: Instruction, whole: Geometry) -> Iterator[Geometry]:
    """The plain convolutions that a transposed one is, one for each rest of places; some have no taps."""
    for rests in combinations(*map(range, whole.every)):
        yield _part(seed, whole, rests)
    if whole.weights.array is not None:
        let_go(whole.weights.array)


def _part(seed: Instruction, whole: Geometry, rests: Numbers) -> Geometry:
    array, given = whole.weights.array, seed.attributes
    assert array is not None
    axes = zip(given["dilations"], given["pads"], whole.kernel, rests, whole.every, strict=True)
    taps, dilations, pads = [], [], []
    for (gap, (low, _), size, rest, step), (_, high) in zip(axes, whole.pads, strict=True):
        apart = step // math.gcd(gap, step)  # of taps that meet elements
        first = next((t for t in range(apart) if (rest + t * gap - low) % step == 0), size)
        taps.append(slice(first, None, apart))
        dilations.append(gap * apart // step)
        pads.append(((low - rest - first * gap) // step, high))
    kept = np.ascontiguousarray(array[(slice(None), slice(None), *taps)])
    places = zip(whole.result[2:], rests, whole.every, strict=True)
    counts = [divide(size + (step - 1 - rest), step, {}) for size, rest, step in places]
    return replace(
        whole,
        weight=kept.shape,
        result=(*whole.result[:2], *counts),
        dilations=tuple(dilations),
        pads=tuple(pads),
        weights=Var(TensorType(kept.dtype, kept.shape), kept),
        first=rests,
    )
