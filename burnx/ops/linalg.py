"""Matrix products and determinants."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import bool_, compute_dtype, float64, int64, is_integer
from burnx.errors import ShapeError
from burnx.ops.kinds import Flag, T
from burnx.ops.operator import operator
from burnx.ops.windows import number
from burnx.shape import broadcast_shapes, product, shape_text
from burnx.tensor import Tensor


@operator("MatMul", since=(1, 9, 13))
def mat_mul(a: T, b: T) -> T:
    """NumPy's matmul: matrices in the last two axes, the others broadcast, a vector stands for a row or column.

    Source: ONNX MatMul-13
    """
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError("MatMul takes vectors, matrices and stacks of them, not a scalar")
    if a.ndim == 1 or b.ndim <= 2 or all(dim == 1 for dim in b.shape[:-2]):
        return _flat_product(a, b)
    if b.ndim == 1:
        return waist.contract(a, b, ((), ()), ([a.ndim - 1], [0]))
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = waist.broadcast(a, (*batch, *a.shape[-2:]))
    right = waist.broadcast(b, (*batch, *b.shape[-2:]))
    axes, last = tuple(range(len(batch))), len(batch)
    return waist.contract(left, right, (axes, axes), ([last + 1], [last]))


mat_mul.limit(
    "the standard names no rounding: float16 is added up in float32 and rounded once, where expected values that NumPy "
    "has rounded after every step of an attention differ by one step of float16",
    r"^test_attention_4d_causal_fp16_expanded$",
)


def _flat_product(a: Tensor, b: Tensor) -> Tensor:
    """A product in which at most one side has a batch."""
    if a.ndim == 1:
        inner = 0 if b.ndim == 1 else b.ndim - 2
        return waist.contract(a, b, ((), ()), ([0], [inner]))
    extra = b.ndim - 2 if b.ndim > 2 else 0
    flat = waist.reshape(b, b.shape[-2:]) if extra else b
    y = waist.contract(a, flat, ((), ()), ([a.ndim - 1], [0]))
    rank = max(a.ndim, b.ndim)
    return waist.reshape(y, (*[1] * (rank - y.ndim), *y.shape)) if extra else y


@operator("Gemm", since=(1, 6, 7, 9, 11, 13), ranks={"a": 2, "b": 2})
def gemm(
    a: T,
    b: T,
    c: T | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: Flag = 0,
    transB: Flag = 0,
) -> T:
    """alpha * a @ b + beta * c, with c broadcast to the product.  Source: ONNX Gemm-13"""
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"Gemm takes matrices: {shape_text(a.shape)} and {shape_text(b.shape)}")
    wide = compute_dtype(a.dtype)
    inner = ([0 if transA else 1], [1 if transB else 0])
    y = waist.contract(a, b, ((), ()), inner, wide)
    y = _scaled(y, alpha)
    if c is None or beta == 0:
        return waist.cast_to(y, a.dtype)
    shape = y.shape
    bias = _scaled(waist.cast_to(c, wide), beta)
    wider = zip(broadcast_shapes(shape, bias.shape), shape, strict=False)
    if len(bias.shape) > 2 or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in wider
    ):
        raise ShapeError(
            f"Gemm broadcasts c to the product: {shape_text(bias.shape)} to {shape_text(shape)}"
        )
    if bias.dtype != y.dtype:
        y, bias = waist.cast_to(y, float64), waist.cast_to(bias, float64)
    return waist.cast_to(y + bias, a.dtype)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """x times a number; integers become float64 where the number is not whole."""
    if factor == 1:
        return x
    if is_integer(x.dtype):
        if factor != int(factor):
            return waist.cast_to(x, float64) * factor
        factor = int(factor)
    return x * factor


@gemm.upgrade(from_version=6)
def gemm_1(
    a: T,
    b: T,
    c: T,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: Flag = 0,
    transB: Flag = 0,
) -> T:
    """Gemm that says whether c broadcasts."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Det", since=(11, 22), ranks={"x": -2})
def det(x: T) -> T:
    """The determinant of each matrix in the last two axes, by elimination with pivots.  Source: ONNX Det-22"""
    x = waist.with_size(x, -2, x.shape[-1], "Det takes square matrices")
    batch, n = x.shape[:-2], x.shape[-1]
    wide = waist.cast_to(x, compute_dtype(x.dtype))
    matrices = waist.reshape(wide, (product(batch), n, n))
    ones = waist.broadcast(waist.constant(1, wide.dtype), matrices.shape[:1])

    def turn(k: Tensor, going: Tensor, rest: Tensor, total: Tensor) -> list[Tensor]:
        return [waist.constant(True, bool_), *_eliminate(k, rest, total)]

    _, result = waist.repeat(number(n, int64), None, [matrices, ones], turn)
    return waist.cast_to(waist.reshape(result, batch), x.dtype)


def _eliminate(k: Tensor, rest: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
    """Bring the greatest of column k to row k and take multiples of that row from those below.

    Shapes: (), (b, n, n), (b) -> (b, n, n), (b).
    """
    count, n = rest.shape[:2]
    rows = waist.iota(n)
    column = waist.map("abs", waist.take(rest, k, 2))
    below = waist.broadcast(waist.map("lt", rows, k), column.shape)
    minus = waist.constant(-1, rest.dtype)
    pivot_row = waist.argreduce("max", waist.map("select", below, minus, column), 1)
    place = waist.reshape(pivot_row, (count, 1))
    moved = waist.map("select", waist.map("eq", rows, place), k, rows)
    order = waist.map("select", waist.map("eq", rows, k), place, moved)
    order = waist.broadcast(waist.reshape(order, (count, n, 1)), rest.shape)
    swapped = waist.take_along(rest, order, 1)
    row, column = waist.take(swapped, k, 1), waist.take(swapped, k, 2)
    pivot = waist.take(row, k, 1)
    zero, one = waist.constant(0, rest.dtype), waist.constant(1, rest.dtype)
    divisor = waist.map("select", waist.map("eq", pivot, zero), one, pivot)
    factor = waist.map("div", column, waist.reshape(divisor, (count, 1)))
    factor = waist.map("select", waist.map("lt", k, rows), factor, zero)
    cut = waist.reshape(factor, (count, n, 1)) * waist.reshape(row, (count, 1, n))
    sign = waist.map("select", waist.map("eq", pivot_row, k), one, waist.map("neg", one))
    return swapped - cut, total * pivot * sign
