"""float32 products by the matrix unit of x86: as exact as others, wild numbers, any number of threads."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnx.dtype import float32
from burnx.kernels.packing import pack
from burnx.llvm.emitter import emit
from burnx.runtime.devices.cpu import target as processor
from burnx.runtime.devices.cpu.target import describe_named, find_target

sys.path.insert(0, str(Path(__file__).parent))
from running import aligned, build, random, run
from test_contract import convolution, product_kernel

SAPPHIRE = describe_named("x86_64-unknown-linux-gnu", "sapphirerapids")
DTYPES = (float32,) * 3
multiplies = pytest.mark.skipif(
    find_target().bfloat16 != "amx", reason="this processor has no matrix unit for bfloat16"
)


@cache
def product(width):
    packing = f"float32:{width}"
    return build(product_kernel(DTYPES, "packed", packing)), packing


def multiply(a, b, width=32, workers=1):
    function, packing = product(width)
    sizes = a.shape[0], b.shape[1], a.shape[1]
    c = np.full(sizes[:2], 7, np.float32)
    run(function, (a, aligned(pack(b, packing)), c), sizes, workers)
    return c


def off_by(found, a, b):
    """How far results are from exact ones, in parts of what is added up."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return np.abs(found - exact) / (np.abs(a).astype(np.float64) @ np.abs(b)).clip(1e-30)


def test_it_is_only_taken_where_it_is_there():
    kernel = product_kernel(DTYPES, "packed", "float32:32")
    assert "llvm.x86.tdpbf16ps" in emit(kernel, SAPPHIRE)
    assert "tdpbf16ps" not in emit(product_kernel(DTYPES, "packed", "float32:48"), SAPPHIRE)
    for cpu in ("haswell", "icelake-server"):
        target = describe_named("x86_64-unknown-linux-gnu", cpu)
        assert "tdpbf16ps" not in emit(kernel, target)


def test_without_permission_numbers_are_not_cut(monkeypatch):
    monkeypatch.setattr(processor, "_describe_host", lambda: SAPPHIRE)
    monkeypatch.setattr(processor, "_may_use_squares", lambda: False)
    assert processor._find_host().bfloat16 == ""


@multiplies
@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from((16, 32)),
    st.tuples(st.integers(0, 300), st.integers(0, 200), st.integers(0, 200)),
    st.integers(1, 3),
)
def test_any_sizes(width, sizes, workers):
    rows, columns, inner = sizes
    a, b = random(1, (rows, inner), float32), random(2, (inner, columns), float32)
    assert off_by(multiply(a, b, width, workers), a, b).max(initial=0) < 1e-6


@multiplies
@pytest.mark.parametrize("inner", [1023, 1024, 1025, 3100])
@pytest.mark.parametrize("rows", [33, 230])
def test_more_k_than_are_taken_at_a_time(rows, inner):
    a, b = random(1, (rows, inner), float32), random(2, (inner, 100), float32)
    assert off_by(multiply(a, b, workers=2), a, b).max() < 1e-6


@multiplies
@pytest.mark.parametrize("inner", [64, 768, 3072])
def test_sums_are_as_exact_as_without_it(inner):
    a, b = random(1, (128, inner), float32), random(2, (inner, 256), float32)
    few = np.concatenate([multiply(a[row : row + 8], b) for row in range(0, 128, 8)])
    assert (few != multiply(a, b)).any()  # a few rows are multiplied as they are
    ours, others = (np.sqrt((off_by(each, a, b) ** 2).mean()) for each in (multiply(a, b), few))
    assert ours < others


@multiplies
def test_numbers_of_any_size_that_do_not_overflow():
    a, b = random(1, (64, 96), float32), random(2, (96, 64), float32)
    a *= np.float32(10) ** np.linspace(-25, 17, 64, dtype=np.float32)[:, None]
    b *= np.float32(10) ** np.linspace(-12, 17, 64, dtype=np.float32)
    assert off_by(multiply(a, b), a, b).max() < 1e-6


@multiplies
@pytest.mark.parametrize("inner", [768, 2050])
def test_rows_and_panels_of_tiny_numbers(inner):
    """The matrix unit takes parts for 0 that are below the least normal number."""
    a, b = random(1, (130, inner), float32), random(2, (inner, 256), float32)
    big = np.float32(1e15)
    few = a.copy()
    few[::3] *= np.float32(1e-37)
    assert off_by(multiply(few, b * big), few, b * big).max() < 1e-6
    thin = b.copy()
    thin[:, 100:132] *= np.float32(1e-37)
    assert off_by(multiply(a * big, thin), a * big, thin).max() < 1e-6
    few[:, :] = 0
    assert not multiply(few, b).any()


@multiplies
@pytest.mark.parametrize("inner", [45, 1100])
def test_wild_numbers_are_what_they_are_elsewhere(inner):
    a, b = random(1, (70, inner), float32), random(2, (inner, 150), float32)
    b[:, ::3] = 1
    a[3, 4], a[5, 6], a[40, 0] = np.inf, -np.inf, np.nan
    a[41, 44], a[42, 1] = 1e38, 3e19
    a[43, 2:4] = np.inf, -np.inf
    b[inner - 1, 70], b[0, 71] = np.inf, -3e38
    with np.errstate(all="ignore"):
        expected = a @ b
    found = multiply(a, b)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@multiplies
def test_the_same_bits_for_any_number_of_threads():
    a, b = random(1, (250, 1500), float32), random(2, (1500, 300), float32)
    a[7, 8], b[9, 40] = np.inf, np.nan
    one = multiply(a, b)
    for workers in (2, 3, 5):
        np.testing.assert_array_equal(multiply(a, b, workers=workers), one)


@multiplies
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("channels", "ky", "kx", "step"),
    [(3, 7, 7, 2), (40, 3, 3, 1), (530, 3, 3, 2), (3, 33, 11, 1), (20, 27, 2, 1), (1, 40, 33, 1)],
)
def test_windows(merged, channels, ky, kx, step):
    """Of the long ones the last k are fewer than those before, and end in the middle of a square."""
    function, packing = convolution(True, merged)
    height, width, outputs = 9, 10, 70
    high, wide = (height - 1) * step + ky, (width - 1) * step + kx
    x = random(1, (2, high, wide, channels), float32)
    w = random(2, (ky * kx * channels, outputs), float32)
    y = np.zeros((2, height, width, outputs), np.float32)
    sizes = (2, height, width, channels, ky, kx, step, wide, high, outputs)
    run(function, (x, aligned(pack(w, packing)), y), sizes, 2)
    windows = np.lib.stride_tricks.sliding_window_view(x, (ky, kx), (1, 2))
    windows = windows[:, ::step, ::step].transpose(0, 1, 2, 4, 5, 3).reshape(-1, len(w))
    assert off_by(y.reshape(-1, outputs), windows, w).max() < 1e-6
