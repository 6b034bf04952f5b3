"""Random numbers from counters: what an element gets follows from its place and the key, so every device draws the same.

Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", Threefry-2x32 of 20 rounds;
Box and Muller 1958 for normal numbers.
"""

from __future__ import annotations

import math

from burnx import waist
from burnx.dtype import DType, compute_dtype, float32, float64, uint32
from burnx.ops.precision import number
from burnx.shape import Shape, product
from burnx.tensor import Tensor

Words = tuple[Tensor, Tensor]
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))  # bits by which four rounds turn, one after the other
_PARITY = 0x1BD11BDA


def uniform(shape: Shape, ends: tuple[float, float], seed: float | None, dtype: DType) -> Tensor:
    """Numbers from the first end up to the second; with a seed the same ones in every call."""
    part = _shares(shape, waist.draw_key(seed), dtype)
    low, high = (number(end, part) for end in ends)
    between = (
        low * (number(1, part) - part) + high * part
    )  # the ends may be too far apart to subtract
    between = waist.map("min", waist.map("max", between, low), high)
    return waist.cast_to(waist.reshape(between, shape), dtype)


def normal(shape: Shape, moments: tuple[float, float], seed: float | None, dtype: DType) -> Tensor:
    """Normal numbers of a mean and a deviation; with a seed the same ones in every call."""
    radius, angle = _pairs(shape, waist.draw_key(seed), dtype)
    mean, deviation = (number(moment, radius) for moment in moments)
    length = waist.map("sqrt", number(-2, radius) * waist.map("log", radius))
    drawn = length * waist.map("cos", number(2 * math.pi, angle) * angle)
    return waist.cast_to(waist.reshape(mean + deviation * drawn, shape), dtype)


def _shares(shape: Shape, key: Tensor, dtype: DType) -> Tensor:
    """Numbers from 0 up to 1, of 24 or 53 bits.

    Shapes: (*s), (2) -> (product of s).
    """
    return _share(threefry(key, waist.iota(product(shape))), _wide(dtype))


def _pairs(shape: Shape, key: Tensor, dtype: DType) -> Words:
    """Numbers above 0 up to 1, and numbers from 0 up to 1.

    Shapes: (*s), (2) -> (product of s), (product of s).
    """
    place, wide = waist.iota(product(shape)), _wide(dtype)
    if wide == float64:
        twice = place + place
        first = _share(threefry(key, twice), wide)
        return number(1, first) - first, _share(threefry(key, twice + number(1, twice)), wide)
    words = threefry(key, place)
    first = waist.cast_to(words[0], wide)
    return (first + number(0.5, first)) * number(2.0**-32, first), _share((words[1],) * 2, wide)


def _wide(dtype: DType) -> DType:
    return float64 if compute_dtype(dtype) == float64 else float32


def _share(words: Words, wide: DType) -> Tensor:
    """The high bits of words as a number from 0 up to 1 that the dtype holds exactly."""
    if wide == float32:
        return _high(words[0], 8, wide) * waist.constant(2.0**-24, wide)
    high, low = _high(words[0], 5, wide), _high(words[1], 6, wide)
    return (high * number(2.0**26, high) + low) * number(2.0**-53, high)


def _high(word: Tensor, dropped: int, wide: DType) -> Tensor:
    return waist.cast_to(waist.map("shift_right", word, number(dropped, word)), wide)


# --- the counter's words ---------------------------------------------------------------------------------------------


def threefry(key: Tensor, counter: Tensor) -> Words:
    """Two random words for each counter, of which the lower one counts first.

    Shapes: (2), (n) int64 -> (n) uint32, (n) uint32.
    """
    first, second = waist.slice_axis(key, 0, 0, 1), waist.slice_axis(key, 0, 1, 1)
    both = waist.map("bit_xor", first, second)
    keys = first, second, waist.map("bit_xor", both, number(_PARITY, both))
    low = waist.cast_to(counter, uint32)
    high = waist.cast_to(waist.map("shift_right", counter, number(32, counter)), uint32)
    x, y = _sum(low, keys[0]), _sum(high, keys[1])
    for step in range(1, 6):
        for bits in _TURNS[(step - 1) % 2]:
            x = _sum(x, y)
            y = waist.map("bit_xor", _turn(y, bits), x)
        x = _sum(x, keys[step % 3])
        y = _sum(y, _sum(keys[(step + 1) % 3], number(step, y)))
    return x, y


def _sum(one: Tensor, other: Tensor) -> Tensor:
    return waist.map("add", one, other)


def _turn(word: Tensor, bits: int) -> Tensor:
    """A word whose high bits come back at its low end."""
    left = waist.map("shift_left", word, number(bits, word))
    return waist.map("bit_or", left, waist.map("shift_right", word, number(32 - bits, word)))
