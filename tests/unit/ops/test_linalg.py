"""Matrix products, Einsum and determinants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import run_node

from burnx.errors import BurnxError

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((3,), (2, 5, 3, 4)),
        ((2, 3), (3,)),
        ((2, 5, 4, 3), (3,)),
        ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (1, 1, 3, 4)),
        ((5, 1, 2, 3), (1, 6, 3, 4)),
        ((6, 2, 3), (5, 1, 3, 4)),
        ((0, 2, 3), (3, 4)),
        ((2, 0), (0, 4)),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_matmul_is_numpys(left: tuple[int, ...], right: tuple[int, ...], symbolic: bool) -> None:
    a, b = numbers(*left), numbers(*right)
    names = {"a": [f"a{n}" for n in left], "b": [f"b{n}" for n in right]}
    dims = {"dims": names} if symbolic else {}
    (y,) = run_node("MatMul", {"a": a, "b": b}, **dims)
    assert y.shape == np.matmul(a, b).shape
    np.testing.assert_allclose(y, np.matmul(a, b), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_matmul_of_integers_wraps(dtype: Any) -> None:
    top = np.iinfo(dtype).max
    a, b = np.array([[top, 2]], dtype), np.array([[2], [3]], dtype)
    (y,) = run_node("MatMul", {"a": a, "b": b})
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, np.matmul(a, b))


@pytest.mark.parametrize("opset", [6, 7, 13])
def test_gemm_scales_and_broadcasts(opset: int) -> None:
    a, b, c = numbers(3, 2), numbers(4, 3), numbers(4)
    options = {"broadcast": 1} if opset == 6 else {}
    feeds = {"a": a, "b": b, "c": c}
    (y,) = run_node("Gemm", feeds, opset=opset, alpha=0.5, beta=2.0, transA=1, transB=1, **options)
    np.testing.assert_allclose(y, 0.5 * (a.T @ b.T) + 2 * c, rtol=1e-5, atol=1e-6)


def test_gemm_of_integers_scales_in_float64() -> None:
    a, b, c = np.array([[3, 1]]), np.array([[5], [2]]), np.array([[4]])
    (y,) = run_node("Gemm", {"a": a, "b": b, "c": c}, alpha=0.5, beta=0.25)
    assert y.dtype == np.int64 and y.tolist() == [[9]]


def test_gemm_refuses_a_c_that_is_larger_than_the_product() -> None:
    feeds = {"a": numbers(1, 2), "b": numbers(2, 1), "c": numbers(2, 2)}
    with pytest.raises(BurnxError, match="Gemm broadcasts c"):
        run_node("Gemm", feeds)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iji->j", [(3, 2, 3)]),
        ("iijj->ij", [(2, 2, 3, 3)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("ij,kj,lj->ikl", [(2, 3), (4, 3), (5, 3)]),
        ("a,b,c->cab", [(2,), (3,), (4,)]),
        ("i...,i...->...", [(3, 2), (3, 2)]),
        ("ab,b->", [(2, 3), (3,)]),
        (",i->i", [(), (3,)]),
        (" i j , j k -> k i ", [(2, 3), (3, 4)]),
        ("Ab,bA", [(2, 3), (3, 2)]),
        ("bA->", [(2, 3)]),
        ("Ba", [(2, 3)]),
        ("ij,ij->ij", [(2, 3), (2, 1)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]], symbolic: bool) -> None:
    feeds = {f"x{place}": numbers(*shape) for place, shape in enumerate(shapes)}
    dims = {name: [f"d{n}" if n > 1 else 1 for n in array.shape] for name, array in feeds.items()}
    options = {"dims": dims} if symbolic else {}
    (y,) = run_node("Einsum", feeds, equation=equation, **options)
    expected = np.einsum(equation.replace(" ", ""), *feeds.values())
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("equation", ["ij,jk->iz", "ij->ii", "i", "ij,", "i1->i"])
def test_wrong_equations_are_refused(equation: str) -> None:
    with pytest.raises(BurnxError):
        run_node("Einsum", {"x": numbers(2, 3)}, equation=equation)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("symbolic", [False, True])
def test_det_of_a_batch(n: int, symbolic: bool) -> None:
    x = RNG.normal(size=(2, 3, n, n))
    x[0, 0] = np.eye(n)[::-1]
    x[1, 2] = 0
    options = {"dims": {"x": ["a", "b", n, n]}} if symbolic else {}
    (y,) = run_node("Det", {"x": x}, **options)
    np.testing.assert_allclose(y, np.linalg.det(x), rtol=1e-9, atol=1e-12)
