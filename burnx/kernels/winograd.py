"""Convolutions with 3 × 3 kernels and stride 1 by fewer multiplications, several results at a time.

A tile of 6 × 6 (4 × 4) elements is transformed; each of its 36 (16) numbers is, over all tiles, one matrix product with
weights that were transformed beforehand; the sums of a tile are transformed back to 4 × 4 (2 × 2) results.

Source: Lavin and Gray 2015, "Fast Algorithms for Convolutional Neural Networks", F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from burnx.kernels.ir import Apply, Constant, Value

Line: TypeAlias = Sequence[Value]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Scheme:
    """``step`` results along an axis come from a tile of ``tile`` elements.

    ``forward`` and ``backward`` transform along one axis, and ``weights`` does it with a kernel.
    """

    step: int
    weights: tuple[tuple[float, ...], ...]
    forward: Callable[[Line], list[Value]]
    backward: Callable[[Line], list[Value]]

    @property
    def tile(self) -> int:
        return self.step + 2


def transform_weights(scheme: Scheme, weights: Array) -> Array:
    """The matrices that transformed tiles are multiplied with.

    Shapes: (outputs, channels, 3, 3) -> (tile * tile, channels, outputs)
    """
    matrix = np.array(scheme.weights)
    both = np.kron(matrix, matrix).astype(weights.dtype)
    outputs, channels = weights.shape[:2]
    taps = np.ascontiguousarray(weights.reshape(outputs, channels, 9).transpose(2, 1, 0))
    return (both @ taps.reshape(9, -1)).reshape(-1, channels, outputs)


def _forward4(d: Line) -> list[Value]:
    even, odd = _minus(d[4], _times(d[2], 4)), _minus(d[3], _times(d[1], 4))
    low, high = _minus(d[4], d[2]), _times(_minus(d[3], d[1]), 2)
    return [
        _plus(_minus(_times(d[0], 4), _times(d[2], 5)), d[4]),
        _plus(even, odd),
        _minus(even, odd),
        _plus(low, high),
        _minus(low, high),
        _plus(_minus(_times(d[1], 4), _times(d[3], 5)), d[5]),
    ]


def _backward4(m: Line) -> list[Value]:
    ones, ones_apart = _plus(m[1], m[2]), _minus(m[1], m[2])
    twos, twos_apart = _plus(m[3], m[4]), _minus(m[3], m[4])
    return [
        _plus(_plus(m[0], ones), twos),
        _plus(ones_apart, _times(twos_apart, 2)),
        _plus(ones, _times(twos, 4)),
        _plus(_plus(ones_apart, _times(twos_apart, 8)), m[5]),
    ]


def _plus(left: Value, right: Value) -> Value:
    return Apply("add", (left, right), left.dtype)


def _minus(left: Value, right: Value) -> Value:
    return Apply("sub", (left, right), left.dtype)


def _times(value: Value, factor: int) -> Value:
    return Apply("mul", (value, Constant(float(factor), value.dtype)), value.dtype)


def _forward2(d: Line) -> list[Value]:
    return [_minus(d[0], d[2]), _plus(d[1], d[2]), _minus(d[2], d[1]), _minus(d[1], d[3])]


def _backward2(m: Line) -> list[Value]:
    return [_plus(_plus(m[0], m[1]), m[2]), _minus(_minus(m[1], m[2]), m[3])]


FOUR = Scheme(
    4,
    (
        (1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1),
    ),
    _forward4,
    _backward4,
)
TWO = Scheme(
    2, ((1, 0, 0), (1 / 2, 1 / 2, 1 / 2), (1 / 2, -1 / 2, 1 / 2), (0, 0, 1)), _forward2, _backward2
)

SCHEMES = {"four": FOUR, "two": TWO}

FEW_ROWS = 20  # with fewer rows a product takes as long: its weights come from memory
GAIN = 0.7  # of the time of the next best: the transforms keep memory busy, too
TILE_WORK = 150  # multiplications that a tile's transforms take as long as, for a channel and an output each


def choose_scheme(height: int, width: int, channels: int, outputs: int) -> Scheme | None:
    """What is likely fastest for so many results of one image; None for a plain convolution."""
    best, least = None, 9 * max(height * width, FEW_ROWS) * channels * outputs
    for scheme in (FOUR, TWO):
        if not fits(scheme, height, width) or min(channels, outputs) < 16:
            continue
        tiles = -(-height // scheme.step) * -(-width // scheme.step)
        work = scheme.tile**2 * max(tiles, FEW_ROWS) * channels * outputs
        work += tiles * TILE_WORK * (channels + outputs) * scheme.tile**2 // 36
        if work < GAIN * least:
            best, least = scheme, work
    return best


def fits(scheme: Scheme, height: int, width: int) -> bool:
    """Whether so many results are a tile at least."""
    return height >= scheme.step and width >= scheme.step
