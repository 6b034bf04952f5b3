"""Fourier transforms of every kind of length, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from burnx.errors import BurnxError
from tests.unit.ops.text_model import run

RNG = np.random.default_rng(3)


def as_complex(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("length", [1, 12, 127, 129, 256, 131, 1021, 4096])
@pytest.mark.parametrize("inverse", [0, 1])
def test_short_long_and_prime_lengths(length: int, inverse: int) -> None:
    text = (
        f"g (double[a, n, 2] x) => (double[a, m, 2] y) {{ y = DFT<axis=1, inverse={inverse}>(x) }}"
    )
    x = RNG.standard_normal((2, length, 2))
    y = as_complex(run(text, opset=17, x=x))
    expected = (np.fft.ifft if inverse else np.fft.fft)(as_complex(x), axis=1)
    assert np.abs(y - expected).max() <= 1e-12 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("length", [6, 7, 300])
def test_the_one_sided_inverse_undoes_the_one_sided_transform(length: int) -> None:
    text = (
        "g (float[n, 1] x, int64 k, int64 axis) => (float[n, 1] y) "
        "{ s = DFT<onesided=1>(x, k, axis)\n y = DFT<onesided=1, inverse=1>(s, k, axis) }"
    )
    x = RNG.standard_normal((length, 1)).astype(np.float32)
    y = run(text, opset=20, x=x, k=np.array(length), axis=np.array(0))
    assert np.allclose(y, x, atol=1e-6)


def test_a_length_of_its_own_cuts_or_fills() -> None:
    text = "g (float[n, 1] x, int64 k) => (float[m, 2] y) { y = DFT(x, k) }"
    x = RNG.standard_normal((5, 1)).astype(np.float32)
    for length in (3, 8):
        y = as_complex(run(text, opset=20, x=x, k=np.array(length)))
        assert np.allclose(y, np.fft.fft(x[:, 0], length), atol=1e-5)


def test_frames_of_a_signal_of_any_length() -> None:
    text = (
        "g (float[b, n, 1] x, int64 step, float[w] win) => (float[b, f, k, 2] y) "
        "{ y = STFT(x, step, win) }"
    )
    x, window = RNG.standard_normal((1, 11, 1)).astype(np.float32), np.hanning(4)
    y = as_complex(run(text, x=x, step=np.array(3), win=window.astype(np.float32)))
    frames = [np.fft.rfft(x[0, at : at + 4, 0] * window) for at in (0, 3, 6)]
    assert np.allclose(y[0], frames, atol=1e-5)


def test_the_last_axis_is_not_transformed() -> None:
    text = "g (float[n, 1] x, int64 a) => (float[m, 2] y) { y = DFT(x, , a) }"
    with pytest.raises(BurnxError, match="axis"):
        run(text, opset=20, x=np.ones((2, 1), np.float32), a=np.array(-1))
