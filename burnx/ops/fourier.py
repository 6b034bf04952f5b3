"""The discrete Fourier transform in terms of the waist, in float64.

A short one is a product with a matrix.  A long one of fixed length is split into a factor and the rest, or, without
a small factor, made a convolution whose length has one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import float64
from burnx.ops.selection import along, dim_tensor
from burnx.shape import Dim
from burnx.tensor import Tensor

Array = np.ndarray[Any, Any]
DENSE = 128
Complex = tuple[Tensor, Tensor | None]


def transform(x: Complex, length: Dim, shown: Dim, inverse: bool) -> tuple[Tensor, Tensor]:
    """The sums of x[n] e^(∓2πi k n / length) along the last axis, for the first ``shown`` k.

    Shapes: (*b, length) -> (*b, shown), real and imaginary parts apart; no imaginary part means zero.
    """
    if not isinstance(length, int) or length <= DENSE:
        return _dense(x, *_waves(length, shown, inverse))
    real, imaginary = _long(x, length, inverse)
    if shown == length:
        return real, imaginary
    last = real.ndim - 1
    return waist.slice_axis(real, last, 0, shown), waist.slice_axis(imaginary, last, 0, shown)


def _long(x: Complex, length: int, inverse: bool) -> tuple[Tensor, Tensor]:
    if length <= DENSE:
        return _dense(x, *_waves(length, length, inverse))
    factor = next((n for n in range(DENSE, 1, -1) if length % n == 0), None)
    if factor is None:
        return _by_convolution(x, length, inverse)
    return _split(x, length, factor, inverse)


def _waves(length: Dim, shown: Dim, inverse: bool) -> tuple[Tensor, Tensor]:
    """cos and ∓sin of 2π k n / length.

    Shapes: (length, shown) each.
    """
    if isinstance(length, int) and isinstance(shown, int):
        turns = np.outer(np.arange(length), np.arange(shown)) % max(length, 1)
        return _unit(turns / max(length, 1), inverse)
    steps = waist.map("mul", along(length, 0, 2), along(shown, 1, 2))
    steps = waist.map("floor_mod", steps, dim_tensor(length))
    unit = waist.map(
        "div", waist.constant(2 * math.pi, float64), waist.cast_to(dim_tensor(length), float64)
    )
    angles = waist.map("mul", waist.cast_to(waist.iota(length), float64), unit)
    sine = waist.map("sin", angles)
    sine = sine if inverse else waist.map("neg", sine)
    return waist.take(waist.map("cos", angles), steps, 0), waist.take(sine, steps, 0)


def _unit(turns: Array, inverse: bool) -> tuple[Tensor, Tensor]:
    """e^(∓2πi turns) as constants."""
    angles = 2 * math.pi * turns * (1 if inverse else -1)
    return waist.constant(np.cos(angles)), waist.constant(np.sin(angles))


def _dense(x: Complex, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    real, imaginary = _times(x[0], cosine), _times(x[0], sine)
    if x[1] is not None:
        real = waist.map("sub", real, _times(x[1], sine))
        imaginary = waist.map("add", imaginary, _times(x[1], cosine))
    return real, imaginary


def _times(x: Tensor, matrix: Tensor) -> Tensor:
    """Shapes: (*b, n), (n, m) -> (*b, m)."""
    return waist.contract(x, matrix, ((), ()), ((x.ndim - 1,), (0,)))


def _product(x: Complex, real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
    """Elementwise, of complex numbers."""
    if x[1] is None:
        return waist.map("mul", x[0], real), waist.map("mul", x[0], imaginary)
    return (
        waist.map("sub", waist.map("mul", x[0], real), waist.map("mul", x[1], imaginary)),
        waist.map("add", waist.map("mul", x[0], imaginary), waist.map("mul", x[1], real)),
    )


def _split(x: Complex, length: int, factor: int, inverse: bool) -> tuple[Tensor, Tensor]:
    """X[a + p b] = Σ_j w_n^(a j) w_q^(b j) Σ_i w_p^(a i) x[i q + j], with n = p q.

    Source: Cooley and Tukey 1965
    """
    rest = length // factor
    batch = x[0].shape[:-1]

    def columns(part: Tensor | None) -> Tensor | None:
        return None if part is None else _swapped(waist.reshape(part, (*batch, factor, rest)))

    first = columns(x[0])
    assert first is not None
    inner = _dense((first, columns(x[1])), *_waves(factor, factor, inverse))
    turns = np.outer(np.arange(rest), np.arange(factor)) / length
    turned = _product(inner, *_unit(turns, inverse))
    outer = _long((_swapped(turned[0]), _swapped(turned[1])), rest, inverse)
    real, imaginary = (waist.reshape(_swapped(part), (*batch, length)) for part in outer)
    return real, imaginary


def _swapped(x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    last = x.ndim - 1
    return waist.transpose(x, [*range(last - 1), last, last - 1])


def _by_convolution(x: Complex, length: int, inverse: bool) -> tuple[Tensor, Tensor]:
    """n k = (n² + k² - (k - n)²) / 2 makes the sum a convolution with a chirp.

    Source: Bluestein 1970
    """
    size = 1 << (2 * length - 2).bit_length()
    squares = np.arange(length, dtype=np.int64) ** 2 % (2 * length)
    chirp = np.exp((1j if inverse else -1j) * math.pi * squares / length)
    kernel = np.zeros(size, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[size - length + 1 :] = chirp.conj()[:0:-1]
    spectrum = np.fft.fft(kernel) / size
    parts = waist.constant(chirp.real.copy()), waist.constant(chirp.imag.copy())
    turned = _product(x, *parts)
    low = [0] * turned[0].ndim
    high = [*low[:-1], size - length]
    zero = waist.constant(0.0, float64)
    real, imaginary = (waist.pad(part, zero, low, high) for part in turned)
    wide = _long((real, imaginary), size, inverse=False)
    kernels = waist.constant(spectrum.real.copy()), waist.constant(spectrum.imag.copy())
    back = _long(_product(wide, *kernels), size, inverse=True)
    last = len(low) - 1
    real, imaginary = (waist.slice_axis(part, last, 0, length) for part in back)
    return _product((real, imaginary), *parts)
