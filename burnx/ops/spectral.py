"""Fourier transforms of signals, windows, and the mel scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from burnx import waist
from burnx.dtype import dtype_of_code, float64, int64
from burnx.errors import ShapeError
from burnx.ops.fourier import transform
from burnx.ops.kinds import T1, T2, T3, Flag, Int64
from burnx.ops.operator import operator
from burnx.ops.selection import along, dim_tensor, scalar_dim
from burnx.shape import Dim, minimum
from burnx.tensor import Tensor, Undetermined
from burnx.types import TensorType


def _number(value: float) -> Tensor:
    return waist.constant(value, float64)


@operator("DFT", since=(17, 20))
def dft(
    input: T1,
    dft_length: T2 | None = None,
    axis: Int64 | None = None,
    *,
    inverse: Flag = 0,
    onesided: Flag = 0,
) -> T1:
    """The discrete Fourier transform along an axis; the last axis holds real and imaginary parts.

    ``onesided`` gives the first half of a real signal's spectrum or, with ``inverse``, takes it.
    Shapes: (*a, n, *b, 1 or 2) -> (*a, m, *b, 2), or (*a, m, *b, 1) for the one-sided inverse.
    Source: ONNX DFT-20
    """
    place = -2 if axis is None else int(waist.const(axis).reshape(()))
    place = _signal_axis(place, input.ndim)
    if dft_length is not None:
        length = scalar_dim(waist.cast_to(dft_length, int64))
    elif inverse and onesided:
        length = 2 * (input.shape[place] - 1)
    else:
        length = input.shape[place]
    wide = waist.cast_to(input, float64)
    if inverse and onesided:
        wide = _whole_spectrum(wide, place, length)
    wide = _fitted(wide, place, length)
    # a product with a matrix, which would do for any length, is too much for a long signal
    if not isinstance(length, int):
        if dft_length is None:
            raise Undetermined(input.ref, "shape")
        raise Undetermined(dft_length.ref, "value")
    shown = length // 2 + 1 if onesided and not inverse else length
    result = _transform(wide, place, length, shown, bool(inverse))
    if inverse:
        result = waist.map("div", result, waist.cast_to(dim_tensor(length), float64))
        if onesided:
            result = waist.slice_axis(result, result.ndim - 1, 0, 1)
    return waist.cast_to(result, input.dtype)


@dft.infer
def _rank_alone(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """As many axes as the signal has."""
    signal = inputs[0]
    if signal.shape is None:
        return [signal]
    return [TensorType(signal.dtype, (None,) * len(signal.shape))]  # type: ignore[arg-type]


dft.limit(
    "the standard names no rounding: the zeros of an inverse are exact here, where the expected values hold what NumPy's "
    "transform in float32 leaves of them (1.9e-7)",
    r"^test_dft_inverse(_opset19)?$",
)


@dft.upgrade(from_version=19)
def dft_17(
    input: T1, dft_length: T2 | None = None, *, axis: int = 1, inverse: Flag = 0, onesided: Flag = 0
) -> T1:
    """DFT with its axis as an attribute."""
    where = np.array(axis, np.int64)
    return dft(input, dft_length, where, inverse=inverse, onesided=onesided)


def _signal_axis(axis: int, rank: int) -> int:
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < rank - 1:
        raise ShapeError(f"DFT runs along an axis of rank {rank} but the last, not {axis}")
    return place


def _parts(x: Tensor) -> list[Tensor]:
    """The real part, and the imaginary one where there is one, with a last axis of 1."""
    count = x.shape[-1]
    if not isinstance(count, int):
        raise Undetermined(x.ref, "shape")
    if count not in (1, 2):
        raise ShapeError(f"a signal has 1 or 2 parts on its last axis, not {count}")
    return [waist.slice_axis(x, x.ndim - 1, part, 1) for part in range(count)]


def _fitted(x: Tensor, axis: int, length: Dim) -> Tensor:
    """Cut or filled with zeros to ``length``."""
    if x.shape[axis] == length:
        return x
    high: list[Dim] = [0] * x.ndim
    high[axis] = length - x.shape[axis]
    return waist.pad(x, _number(0.0), [0] * x.ndim, high)


def _whole_spectrum(x: Tensor, axis: int, length: Dim) -> Tensor:
    """The other half of a real signal's spectrum is the conjugate of the first, backwards."""
    first = _fitted(x, axis, length // 2 + 1)
    rest = length - (length // 2 + 1)
    mirrored = waist.flip(waist.slice_axis(first, axis, minimum(1, rest), rest), [axis])
    parts = _parts(mirrored)
    if len(parts) == 2:
        parts[1] = waist.map("neg", parts[1])
    return waist.concat([first, waist.concat(parts, x.ndim - 1)], axis)


def _transform(x: Tensor, axis: int, length: Dim, shown: Dim, inverse: bool) -> Tensor:
    """The transform along an axis of a signal whose last axis holds its parts.

    Shapes: (*a, length, *b, 1 or 2) -> (*a, shown, *b, 2).
    """
    last = x.ndim - 1
    there = [*(each for each in range(last) if each != axis), axis]
    back = [*range(axis), last - 1, *range(axis, last - 1), last]
    parts = [waist.transpose(waist.reshape(part, x.shape[:-1]), there) for part in _parts(x)]
    found = transform((parts[0], parts[1] if len(parts) == 2 else None), length, shown, inverse)
    wide = [waist.reshape(part, (*part.shape, 1)) for part in found]
    return waist.transpose(waist.concat(wide, last), back)


@operator("STFT", since=(17,))
def stft(
    signal: T1,
    frame_step: T2,
    window: T1 | None = None,
    frame_length: T2 | None = None,
    *,
    onesided: Flag = 1,
) -> T1:
    """The transform of every frame of a signal, under a window.

    Shapes: (batch, n, 1 or 2) -> (batch, frames, bins, 2).
    Source: ONNX STFT-17
    """
    if signal.ndim == 2:  # real, its last axis left out, as PyTorch writes it
        signal = waist.reshape(signal, (*signal.shape, 1))
    step = scalar_dim(waist.cast_to(frame_step, int64))
    if frame_length is not None:
        length = scalar_dim(waist.cast_to(frame_length, int64))
    else:
        length = signal.shape[1] if window is None else window.shape[0]
    wide = waist.cast_to(signal, float64)
    frames = (signal.shape[1] - length) // step + 1
    starts = waist.map("mul", along(frames, 0, 2), dim_tensor(step))
    pieces = waist.take(wide, waist.map("add", starts, along(length, 1, 2)), 1)
    if window is not None:
        shape = waist.reshape(waist.cast_to(window, float64), (1, 1, length, 1))
        pieces = waist.map("mul", pieces, shape)
    shown = length // 2 + 1 if onesided else length
    return waist.cast_to(_transform(pieces, 2, length, shown, False), signal.dtype)


def _cosine_window(size: Tensor, periodic: int, code: int, weights: Sequence[float]) -> Tensor:
    """The sum of weights[k] cos(2πkn / N), N the size or, if not periodic, one less."""
    count = scalar_dim(waist.cast_to(size, int64))
    spans = waist.cast_to(dim_tensor(count if periodic else count - 1), float64)
    place = waist.map("div", waist.cast_to(waist.iota(count), float64), spans)
    total: Tensor | None = None
    for order, weight in enumerate(weights):
        angle = waist.map("mul", place, _number(2 * math.pi * order))
        term = waist.map("mul", waist.map("cos", angle), _number(weight))
        total = term if total is None else waist.map("add", total, term)
    assert total is not None
    return waist.cast_to(total, dtype_of_code(code))


@operator("HannWindow", since=(17,))
def hann_window(size: T1, *, output_datatype: int = 1, periodic: Flag = 1) -> T2:
    """0.5 - 0.5 cos(2πn / N).  Source: ONNX HannWindow-17"""
    return _cosine_window(size, periodic, output_datatype, (0.5, -0.5))


@operator("HammingWindow", since=(17,))
def hamming_window(size: T1, *, output_datatype: int = 1, periodic: Flag = 1) -> T2:
    """25/46 - 21/46 cos(2πn / N).  Source: ONNX HammingWindow-17"""
    return _cosine_window(size, periodic, output_datatype, (25 / 46, -21 / 46))


@operator("BlackmanWindow", since=(17,))
def blackman_window(size: T1, *, output_datatype: int = 1, periodic: Flag = 1) -> T2:
    """0.42 - 0.5 cos(2πn / N) + 0.08 cos(4πn / N).  Source: ONNX BlackmanWindow-17"""
    return _cosine_window(size, periodic, output_datatype, (0.42, -0.5, 0.08))


@operator("MelWeightMatrix", since=(17,))
def mel_weight_matrix(
    num_mel_bins: T1,
    dft_length: T1,
    sample_rate: T1,
    lower_edge_hertz: T2,
    upper_edge_hertz: T2,
    *,
    output_datatype: int = 1,
) -> T3:
    """Triangles of height 1, evenly spaced on the mel scale, over the bins of a spectrum.

    Shapes: () -> (dft_length // 2 + 1, num_mel_bins).
    Source: ONNX MelWeightMatrix-17
    """
    bins = scalar_dim(waist.cast_to(num_mel_bins, int64))
    length = scalar_dim(waist.cast_to(dft_length, int64))
    low, high = (_mel(waist.reshape(each, ())) for each in (lower_edge_hertz, upper_edge_hertz))
    spacing = waist.map(
        "div", waist.map("sub", high, low), waist.cast_to(dim_tensor(bins + 2), float64)
    )
    mels = waist.map("mul", waist.cast_to(waist.iota(bins + 2), float64), spacing)
    edges = _spectrum_bins(waist.map("add", mels, low), length, sample_rate)
    left, center, right = (
        waist.reshape(waist.slice_axis(edges, 0, first, bins), (1, bins)) for first in range(3)
    )
    spot = waist.cast_to(along(length // 2 + 1, 0, 2), float64)
    result = _triangles(spot, left, center, right)
    return waist.cast_to(result, dtype_of_code(output_datatype))


def _mel(hertz: Tensor) -> Tensor:
    """2595 log10(1 + f / 700)."""
    share = waist.map("div", waist.cast_to(hertz, float64), _number(700.0))
    return waist.map("mul", waist.map("log1p", share), _number(2595 / math.log(10)))


def _spectrum_bins(mels: Tensor, length: Dim, sample_rate: Tensor) -> Tensor:
    """The bin of the spectrum at each place on the mel scale."""
    grown = waist.map("expm1", waist.map("mul", mels, _number(math.log(10) / 2595)))
    hertz = waist.map("mul", grown, _number(700.0))
    scaled = waist.map("mul", hertz, waist.cast_to(dim_tensor(length + 1), float64))
    rate = waist.cast_to(waist.reshape(sample_rate, ()), float64)
    return waist.map("floor", waist.map("div", scaled, rate))


def _triangles(spot: Tensor, left: Tensor, center: Tensor, right: Tensor) -> Tensor:
    """Up from left to center, 1 there, and down to right; nothing outside."""
    one, zero = _number(1.0), _number(0.0)
    width_up, width_down = waist.map("sub", center, left), waist.map("sub", right, center)
    up = waist.map("div", waist.map("sub", spot, left), waist.map("max", width_up, one))
    down = waist.map("div", waist.map("sub", right, spot), waist.map("max", width_down, one))
    rising = waist.map("and", waist.map("le", left, spot), waist.map("lt", spot, center))
    falling = waist.map("and", waist.map("lt", center, spot), waist.map("lt", spot, right))
    sides = waist.map("select", rising, up, waist.map("select", falling, down, zero))
    return waist.map("select", waist.map("eq", spot, center), one, sides)


def _typed(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """The dtype that an attribute names."""
    return [TensorType(dtype_of_code(attributes.get("output_datatype", 1)), None)]


for _operator in (hann_window, hamming_window, blackman_window, mel_weight_matrix):
    _operator.infer(_typed)
