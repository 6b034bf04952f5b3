"""Compiled kernels against what the kernel IR means, over shapes with odd tails, empty axes and odd addresses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnx.dtype import DTYPES, DType, bool_, float16, float32, float64, int8, int32, int64
from burnx.kernels.ir import (
    Accumulator,
    Apply,
    Buffer,
    Carry,
    Cast,
    Constant,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Position,
    Store,
)
from burnx.llvm.emitter import Unsupported, emit
from burnx.runtime.devices.cpu.target import describe_named, find_target
from burnx.shape import symbol

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Array, Compiled, apply, elementwise, misaligned, number
from meaning import Meaning

SIZES = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40])
S = symbol
SHORT = settings(max_examples=15, deadline=None)


def floats(count: int, seed: int = 0) -> Array:
    """Numbers of all kinds: NaN, infinities, zeros of both signs among them."""
    random = np.random.default_rng(seed)
    values = random.normal(size=count).astype(np.float32) * 4
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], np.float32)
    places = random.random(count) < 0.2
    values[places] = random.choice(special, int(places.sum()))
    return values


def check(
    compiled: Compiled, *arrays: Array, workers: int = 1, close: float = 0.0, **sizes: int
) -> None:
    """The kernel leaves in memory what it means, for arrays at addresses aligned to their element only."""
    mine, theirs = [misaligned(x) for x in arrays], [x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        meaning = Meaning(compiled.kernel, tuple(theirs), {**sizes, "worker": 0, "workers": 1})
    error = compiled.run(*mine, workers=workers, **sizes)
    assert error == meaning.error
    for found, exact in zip(mine, theirs, strict=True):
        if close and found.dtype.kind == "f":
            np.testing.assert_allclose(found, exact, rtol=close, atol=close)
        else:
            np.testing.assert_array_equal(found, exact)


def nest(loops: list[tuple[str, str]], *body: Any, lanes: bool = True, parallel: int = 0) -> Loop:
    """Loops over (variable, size), the innermost in lanes; the outermost ``parallel`` ones divided."""
    for depth in reversed(range(len(loops))):
        variable, extent = loops[depth]
        inner = lanes and depth == len(loops) - 1
        body = (Loop(variable, S(extent), body, parallel=depth < parallel, lanes=inner),)
    return body[0]


# --- lanes and workers ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flat() -> Compiled:
    return Compiled(
        elementwise(
            lambda a, b: apply("max", apply("mul", a, b), number(0.5)), [float32] * 2, float32, True
        )
    )


@SHORT
@given(n=st.one_of(SIZES, st.integers(0, 200)), workers=st.integers(1, 5))
def test_a_flat_loop_is_divided_among_workers(flat: Compiled, n: int, workers: int) -> None:
    check(flat, floats(n), floats(n, 1), np.zeros(n, np.float32), n=n, workers=workers)


@pytest.fixture(scope="module")
def chains() -> list[Compiled]:
    a, s, out = Buffer("a", float32), Buffer("s", float32), Buffer("out", float32)
    i, j, k = S("i"), S("j"), S("k")
    value = apply("add", Load(a, (i * S("q") + j) * S("r") + k), Load(s, j))
    store = Store(out, (j * S("p") + i) * S("r") + k, value)
    loops = [("i", "p"), ("j", "q"), ("k", "r")]
    return [
        Compiled(Kernel((a, s, out), ("p", "q", "r"), (nest(loops, store, parallel=many),)))
        for many in range(4)
    ]


@SHORT
@given(p=st.integers(0, 5), q=st.integers(0, 4), r=SIZES, workers=st.integers(1, 7))
def test_chains_of_parallel_loops(
    chains: list[Compiled], p: int, q: int, r: int, workers: int
) -> None:
    for compiled in chains:
        arrays = floats(p * q * r), floats(q, 1), np.zeros(p * q * r, np.float32)
        check(compiled, *arrays, p=p, q=q, r=r, workers=workers)


@pytest.mark.parametrize("step", [0, 1, -1, 2, 3, -2, "s"])
def test_strides_of_loads_and_stores(step: Any) -> None:
    a, out, back = Buffer("a", float32), Buffer("out", float32), Buffer("back", float32)
    stride = S("s") if step == "s" else step
    size, reach = 5 if step == "s" else step, 300
    start = reach if size < 0 else 0
    index = S("i") * stride + start
    body = Store(out, S("i"), Load(a, index)), Store(back, index, Load(a, index))
    compiled = Compiled(Kernel((a, out, back), ("n", "s"), (nest([("i", "n")], *body),)))
    for n in (0, 1, 7, 8, 9, 37):
        check(
            compiled,
            floats(reach + 1),
            np.zeros(n, np.float32),
            np.zeros(reach + 1, np.float32),
            n=n,
            s=5,
        )


def test_indices_with_division_and_remainder() -> None:
    a, out, i = Buffer("a", float32), Buffer("out", float32), S("i")
    indices = [i // 2, i % 3, (i * 7) // S("d") % S("m"), (i - 5) // 3 + 2, (i - 5) % 4]
    value = Load(a, indices[0])
    for index in indices[1:]:
        value = apply("add", apply("mul", value, number(3.0)), Load(a, index))
    compiled = Compiled(
        Kernel((a, out), ("n", "d", "m"), (nest([("i", "n")], Store(out, i, value)),))
    )
    source = np.arange(40, dtype=np.float32)
    for n in (0, 1, 8, 21):
        check(compiled, source, np.zeros(n, np.float32), n=n, d=3, m=5)


@pytest.mark.parametrize("dtype", [float32, float64, int32, int8, int64])
def test_positions(dtype: DType) -> None:
    out, half, i = Buffer("out", dtype), Buffer("half", dtype), S("i")
    body = (
        Store(out, i, Position(i * 3 - S("n"), dtype)),
        Store(half, i, Position(i // 3, dtype)),
    )
    compiled = Compiled(Kernel((out, half), ("n",), (nest([("i", "n")], *body),)))
    for n in (1, 5, 33):
        check(compiled, np.zeros(n, dtype), np.zeros(n, dtype), n=n)


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    deep = lambda a, b: apply("tanh", apply("mul", apply("exp", a), apply("erf", b)))  # noqa: E731
    compiled = Compiled(elementwise(deep, [float32] * 2, float32, True))
    a, b = floats(1003), floats(1003, 1)
    results = []
    for workers in (1, 2, 3, 7):
        out = np.zeros(1003, np.float32)
        compiled.run(a, b, out, workers=workers, n=1003)
        results.append(out.tobytes())
    assert len(set(results)) == 1


def test_a_kernel_without_parallel_loops_is_worker_0s() -> None:
    out = Buffer("out", int32)
    add = Store(out, S("i"), Constant(1, int32), combine="add")
    compiled = Compiled(Kernel((out,), ("n",), (nest([("i", "n")], add),)))
    numbers = np.zeros(9, np.int32)
    compiled.run(numbers, workers=4, n=9)
    np.testing.assert_array_equal(numbers, 1)


def test_serial_loops_unrolled() -> None:
    out, i = Buffer("out", int64), S("i")
    body = (Store(out, i, Position(i * i, int64)),)
    for side in (1, 2, 4):
        compiled = Compiled(Kernel((out,), ("n",), (Loop("i", S("n"), body, unroll=side),)))
        for n in (0, 1, 3, 4, 9):
            check(compiled, np.zeros(n, np.int64), n=n)


def test_long_and_shared_expressions() -> None:
    def make(a: Any) -> Any:
        value = a
        for _ in range(300):
            value = apply("add", value, value)
            value = apply("mul", value, number(0.5))
        return value

    compiled = Compiled(elementwise(make, [float32], float32))
    x, out = np.arange(21, dtype=np.float32), np.zeros(21, np.float32)
    compiled.run(x, out, n=21)
    np.testing.assert_array_equal(out, x)
    assert len(compiled.text.splitlines()) < 2000


# --- bounds ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def padded() -> Compiled:
    a, out, i, j = Buffer("a", float32), Buffer("out", float32), S("i"), S("j")
    checks = ((0, i - S("top"), S("h")), (0, j - S("left"), S("w")))
    inner = Load(a, (i - S("top")) * S("w") + j - S("left"))
    value = Inside(checks, apply("neg", inner), number(-1.0))
    store = Store(out, i * S("m") + j, value)
    loops = [("i", "n"), ("j", "m")]
    return Compiled(
        Kernel((a, out), ("n", "m", "h", "w", "top", "left"), (nest(loops, store, parallel=1),))
    )


@SHORT
@given(h=st.integers(0, 4), w=SIZES, top=st.integers(-2, 3), left=st.integers(-3, 12), more=SIZES)
def test_padding(padded: Compiled, h: int, w: int, top: int, left: int, more: int) -> None:
    n, m = max(h + top + 1, 0), max(w + left + more, 0)
    sizes = {"n": n, "m": m, "h": h, "w": w, "top": top, "left": left}
    check(padded, floats(h * w), np.zeros(n * m, np.float32), workers=2, **sizes)


@pytest.fixture(scope="module")
def joined() -> Compiled:
    parts, out, i = [Buffer(f"p{k}", float32) for k in range(3)], Buffer("out", float32), S("i")
    starts = [0, S("a"), S("a") + S("b")]
    value: Any = Load(parts[2], i - starts[2])
    for k in (1, 0):
        value = Inside(((starts[k], i, starts[k + 1]),), Load(parts[k], i - starts[k]), value)
    twice = apply("add", value, value)
    return Compiled(
        Kernel((*parts, out), ("a", "b", "n"), (nest([("i", "n")], Store(out, i, twice)),))
    )


@SHORT
@given(a=SIZES, b=SIZES, c=SIZES)
def test_joining(joined: Compiled, a: int, b: int, c: int) -> None:
    arrays = floats(a), floats(b, 1), floats(c, 2), np.zeros(a + b + c, np.float32)
    check(joined, *arrays, a=a, b=b, n=a + b + c)


def test_bounds_of_looked_up_indices() -> None:
    table, at, out, i = Buffer("t", float32), Buffer("at", int32), Buffer("out", float32), S("i")
    lookup = Lookup("k", Load(at, i), S("m"))
    value = Inside(((2, S("k"), 6),), Load(table, S("k")), Position(S("k"), float32))
    body = nest([("i", "n")], lookup, Store(out, i, value))
    compiled = Compiled(Kernel((table, at, out), ("n", "m"), (body,)))
    places = np.random.default_rng(3).integers(-8, 8, 29).astype(np.int32)
    check(compiled, floats(8), places, np.zeros(29, np.float32), n=29, m=8)


# --- lookups and scattered stores -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [int32, int64])
@pytest.mark.parametrize("outside", [False, True])
def test_lookups_in_lanes_and_along_rows(dtype: DType, outside: bool) -> None:
    table, at = Buffer("t", float32), Buffer("at", dtype)
    rows, column = Buffer("rows", float32), Buffer("column", float32)
    i, j = S("i"), S("j")
    along = Loop(
        "j", S("m"), (Store(rows, i * S("m") + j, Load(table, S("k") * S("m") + j)),), lanes=True
    )
    first = Loop("i", S("n"), (Lookup("k", Load(at, i), S("v")), along), parallel=True)
    each = nest(
        [("i", "n")],
        Lookup("k", Load(at, i), S("v")),
        Store(column, i, Load(table, S("k") * S("m") + 1)),
    )
    compiled = Compiled(Kernel((table, at, rows, column), ("n", "m", "v"), (first, each)))
    places = np.random.default_rng(4).integers(-6, 6, 21).astype(dtype)
    places[3] = 6 if outside else -6
    arrays = floats(66), places, np.zeros(21 * 11, np.float32), np.zeros(21, np.float32)
    check(compiled, *arrays, n=21, m=11, v=6, workers=2)


@pytest.mark.parametrize("function", ["", "add", "max", "mul"])
def test_scattered_stores_happen_in_order(function: str) -> None:
    at, values, out, i = Buffer("at", int64), Buffer("v", int32), Buffer("out", int32), S("i")
    lookup = Lookup("k", Load(at, i), S("m"))
    store = Store(out, S("k"), Load(values, i), combine=function)
    compiled = Compiled(Kernel((at, values, out), ("n", "m"), (nest([("i", "n")], lookup, store),)))
    random = np.random.default_rng(5)
    places, numbers = random.integers(-4, 4, 35), random.integers(-9, 9, 35).astype(np.int32)
    check(compiled, places, numbers, np.ones(4, np.int32), n=35, m=4)


def test_reading_what_was_written_before() -> None:
    x, i = Buffer("x", float32), S("i")
    doubled = apply("add", Load(x, i), Load(x, i))
    shared = Load(x, i)
    body = Store(x, i, doubled), Store(x, i, apply("mul", shared, number(3.0)))
    compiled = Compiled(Kernel((x,), ("n",), (nest([("i", "n")], *body),)))
    check(compiled, np.arange(19, dtype=np.float32), n=19)


# --- folds ----------------------------------------------------------------------------------------------------------

_FOLDS = [
    ("add", float32), ("mul", float32), ("max", float32), ("min", float32), ("add", float64),
    ("add", int32), ("max", int8), ("min", DTYPES["uint8"]), ("and", bool_), ("or", bool_),
    ("add", int64), ("max", bool_),
]  # fmt: skip


@pytest.mark.parametrize(("function", "dtype"), _FOLDS)
def test_folds_along_rows_and_across_them(function: str, dtype: DType) -> None:
    a, rows, columns = Buffer("a", dtype), Buffer("rows", dtype), Buffer("columns", dtype)
    i, j = S("i"), S("j")
    element = Load(a, i * S("m") + j)
    along = Loop(
        "i",
        S("n"),
        (
            Fold((Accumulator("t", function, element),), (("j", S("m")),), lanes=True),
            Store(rows, i, Local("t", dtype)),
        ),
        parallel=True,
    )
    across = Loop(
        "j",
        S("m"),
        (
            Fold((Accumulator("t", function, element),), (("i", S("n")),)),
            Store(columns, j, Local("t", dtype)),
        ),
        parallel=True,
        lanes=True,
    )
    compiled = Compiled(Kernel((a, rows, columns), ("n", "m"), (along, across)))
    random = np.random.default_rng(6)
    for n, m in ((3, 0), (0, 3), (1, 1), (3, 7), (5, 33), (9, 70)):
        source = (random.normal(size=n * m) * 3).astype(np.float32).astype(dtype)
        if dtype.kind == "f" and function in ("max", "min") and n * m > 20:
            source[13] = np.nan
        outs = np.zeros(n, dtype), np.zeros(m, dtype)
        check(compiled, source, *outs, n=n, m=m, workers=3, close=2e-5)


def test_a_dot_product_and_two_sums_at_once() -> None:
    a, b, out, i, j = (
        Buffer("a", float32),
        Buffer("b", float32),
        Buffer("out", float32),
        S("i"),
        S("j"),
    )
    product = apply("mul", Load(a, i * S("m") + j), Load(b, i * S("m") + j))
    fold = Fold(
        (Accumulator("dot", "add", product), Accumulator("sum", "add", Local("l", float32))),
        (("i", S("n")), ("j", S("m"))),
        (Let("l", apply("abs", Load(a, i * S("m") + j))),),
        lanes=True,
    )
    stores = Store(out, 0, Local("dot", float32)), Store(out, 1, Local("sum", float32))
    compiled = Compiled(Kernel((a, b, out), ("n", "m"), (fold, *stores)))
    random = np.random.default_rng(7)
    for n, m in ((2, 0), (1, 1), (3, 40), (2, 100)):
        sources = [random.normal(size=n * m).astype(np.float32) for _ in range(2)]
        check(compiled, *sources, np.zeros(2, np.float32), n=n, m=m, close=1e-4)


def softmax() -> Kernel:
    a, out, i, j = Buffer("a", float32), Buffer("out", float32), S("i"), S("j")
    element = Load(a, i * S("m") + j)
    grown = apply("exp", apply("sub", element, Local("top", float32)))
    body = (
        Fold((Accumulator("top", "max", element),), (("j", S("m")),), lanes=True),
        Loop("j", S("m"), (Store(out, i * S("m") + j, grown),), lanes=True),
        Fold((Accumulator("all", "add", Load(out, i * S("m") + j)),), (("j", S("m")),), lanes=True),
        Let("scale", apply("div", number(1.0), Local("all", float32))),
        Loop(
            "j",
            S("m"),
            (
                Store(
                    out,
                    i * S("m") + j,
                    apply("mul", Load(out, i * S("m") + j), Local("scale", float32)),
                ),
            ),
            lanes=True,
        ),
    )
    return Kernel((a, out), ("n", "m"), (Loop("i", S("n"), body, parallel=True),))


def test_softmax_of_rows() -> None:
    compiled = Compiled(softmax())
    random = np.random.default_rng(8)
    for n, m in ((1, 1), (3, 7), (2, 64), (3, 197)):
        source = (random.normal(size=n * m) * 20).astype(np.float32)
        check(compiled, source, np.zeros(n * m, np.float32), n=n, m=m, workers=2, close=1e-5)


def test_folds_inside_lanes_with_bounds() -> None:
    """A pooling window that reaches over the edge."""
    a, out, i, k = Buffer("a", float32), Buffer("out", float32), S("i"), S("k")
    at = i * 2 + k - 1
    value = Inside(((0, at, S("m")),), Load(a, at), number(-np.inf))
    fold = Fold((Accumulator("t", "max", value),), (("k", 3),))
    compiled = Compiled(
        Kernel(
            (a, out), ("n", "m"), (nest([("i", "n")], fold, Store(out, i, Local("t", float32))),)
        )
    )
    for n in (1, 8, 21):
        check(compiled, floats(2 * n), np.zeros(n, np.float32), n=n, m=2 * n)


def test_carried_values_in_lanes_and_alone() -> None:
    """A running sum along the rows, then the Fibonacci numbers."""
    a, out, fib = Buffer("a", float32), Buffer("out", float32), Buffer("fib", int64)
    i, j = S("i"), S("j")
    old, element = Local("t", float32), Load(a, j * S("n") + i)
    carry = Carry(
        (("t", number(0.0), apply("add", old, Local("x", float32))),),
        "j",
        S("m"),
        (Let("x", element), Store(out, j * S("n") + i, apply("add", old, Local("x", float32)))),
    )
    one, two = Local("one", int64), Local("two", int64)
    numbers = Carry(
        (
            ("one", Constant(1, int64), two),
            ("two", Constant(1, int64), apply("add", one, two, dtype=int64)),
        ),
        "j",
        S("m"),
        (Store(fib, j, one),),
    )
    compiled = Compiled(
        Kernel((a, out, fib), ("n", "m"), (nest([("i", "n")], carry, parallel=1), numbers))
    )
    for n, m in ((0, 3), (1, 1), (9, 4), (17, 5)):
        source = np.random.default_rng(9).normal(size=n * m).astype(np.float32)
        outs = np.zeros(n * m, np.float32), np.zeros(m, np.int64)
        check(compiled, source, *outs, n=n, m=m, workers=2)


# --- what is asked of the text --------------------------------------------------------------------------------------


def test_complex_numbers_are_not_supported() -> None:
    complex64 = DTYPES["complex64"]
    with pytest.raises(Unsupported, match="complex64"):
        emit(elementwise(lambda a: a, [complex64], complex64), find_target())


def test_low_floats_are_only_cast() -> None:
    half = elementwise(lambda a: Apply("add", (a, a), float16), [float16], float16)
    with pytest.raises(Unsupported, match="float16"):
        emit(half, find_target())


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "znver4"])
def test_other_processors_get_code_too(cpu: str) -> None:
    target = describe_named(find_target().triple, cpu)
    text = emit(elementwise(lambda a: Cast(apply("exp", a), float16), [float32], float16), target)
    assert f"<{target.lanes} x float>" in text
