"""com.microsoft: inverses, distances, complex products, Fourier transforms and whether all is finite."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import bool_, compute_dtype, int64
from burnx.errors import ModelError, ShapeError
from burnx.ops import spectral
from burnx.ops.contrib_fused import MICROSOFT, plus, scalar, times, widened
from burnx.ops.kinds import Bool, Count, Flag, T, V
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.reduction import fold_axes
from burnx.shape import product, shape_text
from burnx.tensor import Tensor


# ---------------------------------------------------------------------------------------- inverses
@operator("Inverse", since=(1,), domain=MICROSOFT, ranks={"x": -2})
def inverse(x: T) -> T:
    """The inverse of each matrix, by elimination with pivots.  Source: onnxruntime com.microsoft Inverse-1"""
    x = waist.with_size(x, -2, x.shape[-1], "Inverse takes square matrices")
    n, count = x.shape[-1], product(x.shape[:-2])
    wide = waist.reshape(waist.cast_to(x, compute_dtype(x.dtype)), (count, n, n))
    lines = waist.iota(n)
    same = waist.map("eq", waist.reshape(lines, (1, n, 1)), waist.reshape(lines, (1, 1, n)))
    unit = waist.broadcast(waist.cast_to(same, wide.dtype), (count, n, n))
    both = waist.concat([wide, unit], 2)

    def turn(k: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        return [waist.constant(True, bool_), _cleared(k, held)]

    (done,) = waist.repeat(waist.reshape(waist.sizes(n), ()), None, [both], turn)
    found = waist.reshape(waist.slice_axis(done, 2, n, n), x.shape)
    return waist.cast_to(found, x.dtype)


def _cleared(k: Tensor, held: Tensor) -> Tensor:
    """Bring the greatest of column k below to row k, and make the column that of the unit matrix.

    Shapes: (), (b, n, m) -> (b, n, m)
    """
    count, n, width = held.shape
    rows = waist.iota(n)
    column = waist.map("abs", waist.take(held, k, 2))
    done = waist.broadcast(waist.map("lt", rows, k), column.shape)
    column = waist.map("select", done, scalar(-1, column), column)
    place = waist.reshape(waist.argreduce("max", column, 1), (count, 1))
    order = waist.map("select", waist.map("eq", rows, place), k, rows)
    order = waist.map("select", waist.map("eq", rows, k), place, order)
    order = waist.broadcast(waist.reshape(order, (count, n, 1)), held.shape)
    swapped = waist.take_along(held, order, 1)
    row = waist.reshape(waist.take(swapped, k, 1), (count, 1, width))
    row = waist.map("div", row, waist.take(row, waist.reshape(k, (1,)), 2))
    factor = waist.reshape(waist.take(swapped, k, 2), (count, n, 1))
    cut = waist.map("sub", swapped, times(factor, row))
    own = waist.reshape(waist.map("eq", rows, k), (1, n, 1))
    return waist.map("select", own, row, cut)


# ---------------------------------------------------------------------------------------- distances
@operator("CDist", since=(1,), domain=MICROSOFT)
def c_dist(a: T, b: T, *, metric: str = "sqeuclidean") -> T:
    """The distance of each row of a from each row of b.  Source: onnxruntime com.microsoft CDist-1"""
    if metric not in ("sqeuclidean", "euclidean"):
        raise ModelError(f'CDist has the metrics sqeuclidean and euclidean, not "{metric}"')
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"CDist takes matrices: {shape_text(a.shape)} and {shape_text(b.shape)}")
    left = waist.reshape(a, (a.shape[0], 1, a.shape[1]))
    right = waist.reshape(b, (1, *b.shape))
    apart = waist.map("sub", left, right)
    squares = waist.reduce("sum", times(apart, apart), [2])
    return squares if metric == "sqeuclidean" else waist.map("sqrt", squares)


# ---------------------------------------------------------------------------------------- complex numbers
def _complex_product(a: Tensor, b: Tensor, sign: int) -> Tensor:
    """The products of pairs, b's second part with a sign."""
    dtype = a.dtype
    rule = "a complex number has 2 parts on the last axis"
    a, b = (waist.with_size(x, -1, 2, rule) for x in widened(a, b))

    def parts(x: Tensor) -> list[Tensor]:
        return [waist.slice_axis(x, x.ndim - 1, place, 1) for place in (0, 1)]

    (a0, a1), (b0, b1) = parts(a), parts(b)
    b1 = b1 if sign > 0 else waist.map("neg", b1)
    real = waist.map("sub", times(a0, b0), times(a1, b1))
    imaginary = plus(times(a0, b1), times(a1, b0))
    return waist.cast_to(waist.concat([real, imaginary], real.ndim - 1), dtype)


@operator("ComplexMul", since=(1,), domain=MICROSOFT, ranks={"a": -1, "b": -1})
def complex_mul(a: T, b: T) -> T:
    """Products of complex numbers, pairs on the last axis.  Source: onnxruntime com.microsoft ComplexMul-1"""
    return _complex_product(a, b, 1)


@operator("ComplexMulConj", since=(1,), domain=MICROSOFT, ranks={"a": -1, "b": -1})
def complex_mul_conj(a: T, b: T) -> T:
    """Products of complex numbers with conjugates.  Source: onnxruntime com.microsoft ComplexMulConj-1"""
    return _complex_product(a, b, -1)


def _check_transform(name: str, onesided: int, normalized: int, dims: int) -> None:
    if not onesided or normalized or dims not in (1, 2, 3):
        raise ModelError(
            f"{name} has onesided 1, normalized 0 and signal_ndim 1 to 3, "
            f"not {onesided}, {normalized} and {dims}"
        )


@operator("Rfft", since=(1,), domain=MICROSOFT)
def rfft(x: T, *, normalized: Flag = 0, onesided: Flag = 1, signal_ndim: Count = 1) -> T:
    """The first half of the spectrum of real signals over the last axes.

    Shapes: (*b, n) -> (*b, n / 2 + 1, 2).  Source: onnxruntime com.microsoft Rfft-1
    """
    _check_transform("Rfft", onesided, normalized, signal_ndim)
    signal = waist.reshape(x, (*x.shape, 1))
    found: Tensor = spectral.dft(signal, None, waist.constant(-2, int64), onesided=1)
    for place in range(1, signal_ndim):
        found = spectral.dft(found, None, waist.constant(-2 - place, int64))
    return found


@operator("Irfft", since=(1,), domain=MICROSOFT)
def irfft(
    x: T,
    *,
    normalized: Flag = 0,
    onesided: Flag = 1,
    signal_ndim: Count = REQUIRED,  # type: ignore[assignment]
) -> T:
    """The real signals of even length whose spectra begin so.

    Shapes: (*b, n / 2 + 1, 2) -> (*b, n).  Source: onnxruntime com.microsoft Irfft-1
    """
    _check_transform("Irfft", onesided, normalized, signal_ndim)
    for place in range(1, signal_ndim):
        x = spectral.dft(x, None, waist.constant(-2 - place, int64), inverse=1)
    found: Tensor = spectral.dft(x, None, waist.constant(-2, int64), inverse=1, onesided=1)
    return waist.reshape(found, found.shape[:-1])


@operator("IsAllFinite", since=(1,), domain=MICROSOFT)
def is_all_finite(*input: V, isinf_only: Flag = 0, isnan_only: Flag = 0) -> Bool:
    """Whether no element is infinite or no number; one of the two alone is looked for if asked.

    Source: onnxruntime com.microsoft IsAllFinite-1
    """
    if isinf_only and isnan_only:
        raise ModelError("IsAllFinite looks for one kind alone or for both")
    kinds = [] if isnan_only else ["is_inf"]
    kinds += [] if isinf_only else ["is_nan"]
    bad = waist.constant(False, bool_)
    for x in input:
        for kind in kinds:
            found = fold_axes("or", waist.map(kind, x), tuple(range(x.ndim)), 0)
            bad = waist.map("or", bad, found)
    return waist.map("not", bad)
