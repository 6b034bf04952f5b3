"""Rows, scans, products and scattered writes in every form that they could take, against what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from burnx.dtype import DTYPES, DType, bool_, float32, int32, int64
from burnx.gpu.code import Form, Limits
from burnx.gpu.dialects import CUDA, OPENCL
from burnx.gpu.emitter import candidates, choose, write
from burnx.kernels.ir import (
    WORKER,
    Accumulator,
    Apply,
    Buffer,
    Carry,
    Cast,
    Constant,
    Contract,
    Fold,
    Inside,
    Kernel,
    Let,
    Load,
    Local,
    Lookup,
    Loop,
    Position,
    Statement,
    Store,
    Value,
)
from burnx.shape import symbol
from tests.unit.cpu.meaning import Meaning
from tests.unit.gpu.opencl_bench import LIMITS, WORKERS, Array, Built

ROWS, N = symbol("rows"), symbol("n")
ROW, COLUMN, K = (symbol(name) for name in "ijk")
GROUPS = [Form("group", 64), Form("threads", 64)]


def apply(function: str, *arguments: Value, dtype: DType = float32) -> Value:
    return Apply(function, arguments, dtype)


def agree(
    kernel: Kernel, arrays: Sequence[Array], sizes: dict[str, int], forms: Sequence[Form]
) -> None:
    """The last arrays that the kernel writes are the same in all forms; scratch is the last buffer of all, if any."""
    theirs = [x.copy() for x in arrays]
    with np.errstate(all="ignore"):
        meaning = Meaning(kernel, tuple(theirs), {**sizes, "worker": 0, "workers": 1})
    built = Built([(kernel, form) for form in dict.fromkeys(forms)])
    for place, code in enumerate(built.codes):
        mine = [x.copy() for x in arrays]
        assert built.run(place, mine, sizes) == meaning.error
        for buffer, one, two in zip(kernel.buffers, mine, theirs, strict=True):
            if buffer.name == "scratch":
                continue
            if one.dtype.kind == "f":
                loose = (
                    2e-6 if one.dtype.itemsize > 2 else 1e-3
                )  # a float16 may be rounded the other way
                np.testing.assert_allclose(one, two, loose, 1e-6, err_msg=code.text)
            else:
                np.testing.assert_array_equal(one, two, code.text)


def softmax(dtype: DType = float32) -> Kernel:
    """Each row's exponentials, kept in scratch memory, over their sum."""
    a, out, scratch = Buffer("a", dtype), Buffer("out", dtype), Buffer("scratch", float32)
    most, total = Local("f1", float32), Local("f2", float32)
    element: Value = Load(a, ROW * N + COLUMN)
    element = element if dtype == float32 else Cast(element, float32)
    power = apply("exp", apply("sub", element, most))
    worker = symbol(WORKER)
    quotient: Value = apply("div", Load(scratch, worker * N + K), total)
    body: tuple[Statement, ...] = (
        Fold((Accumulator("f1", "max", element),), (("j", N),), lanes=True),
        Fold(
            (Accumulator("f2", "add", power),),
            (("j", N),),
            (Store(scratch, worker * N + COLUMN, power),),
            lanes=True,
        ),
        Loop(
            "k",
            N,
            (Store(out, ROW * N + K, quotient if dtype == float32 else Cast(quotient, dtype)),),
            lanes=True,
        ),
    )
    return Kernel((a, out, scratch), ("rows", "n"), (Loop("i", ROWS, body, parallel=True),))


@pytest.mark.parametrize("name", ["float32", "float16"])
@pytest.mark.parametrize(("rows", "n"), [(5, 300), (1, 1), (7, 33), (0, 3), (3, 0)])
def test_rows_with_scratch_memory(name: str, rows: int, n: int) -> None:
    dtype = DTYPES[name]
    a = np.random.default_rng(0).standard_normal(rows * n).astype(dtype)
    scratch = np.zeros(WORKERS * 256 * max(n, 1), np.float32)
    others = [Form("group", 32), Form("group", 256)] if rows == 5 else []
    agree(softmax(dtype), [a, np.zeros_like(a), scratch], {"rows": rows, "n": n}, GROUPS + others)


FOLDS = [
    *(
        ("add", each)
        for each in ("float32", "float64", "int8", "uint16", "int32", "int64", "uint64")
    ),
    *((function, each) for function in ("min", "max") for each in ("float32", "int8", "uint64")),
    *(("mul", each) for each in ("int32", "int64")),
    *(("and", "bool"), ("or", "bool")),
]


@pytest.mark.parametrize(("function", "name"), FOLDS)
def test_folds_of_every_kind(function: str, name: str) -> None:
    dtype = DTYPES[name]
    a, b = Buffer("a", dtype), Buffer("b", dtype)
    fold = Fold((Accumulator("f", function, Load(a, ROW * N + COLUMN)),), (("j", N),), lanes=True)
    loop = Loop("i", ROWS, (fold, Store(b, ROW, Local("f", dtype))), parallel=True)
    kernel = Kernel((a, b), ("rows", "n"), (loop,))
    random = np.random.default_rng(1)
    numbers = random.integers(0, 2 if dtype == bool_ else 100, 4 * 131).astype(dtype)
    if dtype.kind == "f":
        numbers[140] = np.nan
    agree(kernel, [numbers, np.zeros(4, dtype)], {"rows": 4, "n": 131}, GROUPS)


def test_the_whole_is_one_row() -> None:
    """No loop around the fold: the sum and the first place of the greatest, in one group or one thread."""
    a, b, c = Buffer("a", float32), Buffer("b", float32), Buffer("c", int64)
    hit = apply("eq", Load(a, COLUMN), Local("m", float32), dtype=bool_)
    far = Constant(2**62, int64)
    body: tuple[Statement, ...] = (
        Fold(
            (Accumulator("s", "add", Load(a, COLUMN)), Accumulator("m", "max", Load(a, COLUMN))),
            (("j", N),),
            lanes=True,
        ),
        Fold(
            (
                Accumulator(
                    "p", "min", apply("select", hit, Position(COLUMN, int64), far, dtype=int64)
                ),
            ),
            (("j", N),),
            lanes=True,
        ),
        Let("twice", apply("mul", Local("s", float32), Constant(2.0, float32))),
        Store(b, 0, Local("twice", float32)),
        Store(c, 0, Local("p", int64)),
    )
    numbers = np.random.default_rng(2).integers(-50, 50, 5000).astype(np.float32)
    arrays = [numbers, np.zeros(1, np.float32), np.zeros(1, np.int64)]
    kernel = Kernel((a, b, c), ("n",), body)
    chosen = choose(kernel, Limits(threads=1024, units=100), {"n": 5000})
    assert (chosen.kind, chosen.group) == ("group", 1024)
    agree(kernel, arrays, {"n": 5000}, [*GROUPS, *candidates(kernel, LIMITS, {"n": 5000})])


def test_columns_are_summed_by_groups_where_they_are_few() -> None:
    a, b, batch = Buffer("a", float32), Buffer("b", float32), symbol("batch")
    element = Load(a, (batch * ROWS + K) * N + COLUMN)
    fold = Fold((Accumulator("f", "add", element),), (("k", ROWS),))
    store = Store(b, batch * N + COLUMN, Local("f", float32))
    lanes = Loop("j", N, (fold, store), lanes=True)
    kernel = Kernel((a, b), ("rows", "n"), (Loop("batch", 2, (lanes,), parallel=True),))
    few = candidates(kernel, Limits(units=100), {"rows": 9000, "n": 8})
    assert (few[0].kind, few[0].tile) == ("group", (1,))
    assert choose(kernel, Limits(units=1), {"rows": 9000, "n": 800}).kind == "threads"
    numbers = np.random.default_rng(3).integers(-5, 5, 2 * 700 * 8).astype(np.float32)
    agree(kernel, [numbers, np.zeros(16, np.float32)], {"rows": 700, "n": 8}, few)


def test_sums_of_chosen_values() -> None:
    """A value that is a choice stands beside the sum as a whole."""
    a, b = Buffer("a", int32), Buffer("b", int32)
    low = Apply("lt", (Load(a, COLUMN), Constant(5, int32)), bool_)
    chosen = apply("select", low, Load(a, COLUMN), Constant(-1, int32), dtype=int32)
    bounded = Inside(((1, COLUMN, N),), Load(a, COLUMN - 1), Constant(7, int32))
    body = (
        Fold(
            (Accumulator("s", "add", chosen), Accumulator("m", "mul", bounded)),
            (("j", N),),
            lanes=True,
        ),
        Store(b, 0, Local("s", int32), "mul"),
        Store(b, 1, Local("m", int32)),
        Store(b, 2, Inside(((0, N, 1),), Load(a, 0), Constant(-1, int32)), "mul"),
    )
    numbers = np.arange(1, 41, dtype=np.int32)[::-1].copy()
    kernel = Kernel((a, b), ("n",), body)
    agree(kernel, [numbers, np.full(3, 3, np.int32)], {"n": 40}, GROUPS)


def test_what_statements_share_is_not_kept_beyond_a_store() -> None:
    """exp(a) is stored, read by the next statement, and worked out anew once a has changed, in a loop's next turn too."""
    a, b = Buffer("a", float32), Buffer("b", float32)
    power = apply("exp", Load(a, ROW))
    half = apply("mul", power, Constant(0.5, float32))
    body: tuple[Statement, ...] = (
        Store(b, ROW, power),
        Store(b, ROW + 8, half),
        Loop("j", 3, (Store(b, ROW + 8 * COLUMN + 16, power), Store(a, ROW, half))),
        Store(b, ROW + 40, power),
    )
    kernel = Kernel((a, b), (), (Loop("i", 8, body, parallel=True),))
    numbers = np.linspace(-2, 1, 8).astype(np.float32)
    form = Form("threads", 64)
    agree(kernel, [numbers, np.zeros(48, np.float32)], {}, [form])
    assert write(kernel, OPENCL, form).text.count("exp(") == 3


def test_running_sums() -> None:
    a, b = Buffer("a", int32), Buffer("b", int32)
    old, new = Local("c", int32), Local("v", int32)
    body = (
        Let("v", apply("add", old, Load(a, ROW * N + COLUMN), dtype=int32)),
        Store(b, ROW * N + COLUMN, new),
    )
    carry = Carry((("c", Constant(3, int32), new),), "j", N, body)
    kernel = Kernel((a, b), ("rows", "n"), (Loop("i", ROWS, (carry,), parallel=True),))
    numbers = np.random.default_rng(4).integers(-9, 9, 6 * 41).astype(np.int32)
    agree(kernel, [numbers, np.zeros_like(numbers)], {"rows": 6, "n": 41}, GROUPS)


@pytest.mark.parametrize(
    "names", ["float32 float32 float32", "float16 float16 float32", "int8 uint8 int32"]
)
def test_products(names: str) -> None:
    """A batch of products with a bias behind them."""
    left, right, sums = (DTYPES[name] for name in names.split())
    a, b, c, out = Buffer("a", left), Buffer("b", right), Buffer("c", sums), Buffer("out", sums)
    batch, columns = symbol("batch"), symbol("columns")
    total = apply("add", Local("p", sums), Load(c, COLUMN), dtype=sums)
    contract = Contract(
        "p",
        (("i", ROWS),),
        ("j", columns),
        (("k", N),),
        Load(a, (batch * ROWS + ROW) * N + K),
        Load(b, (batch * N + K) * columns + COLUMN),
        sums,
        (Store(out, (batch * ROWS + ROW) * columns + COLUMN, total),),
    )
    loop = Loop("batch", 2, (contract,), parallel=True)
    sizes = {"rows": 5, "columns": 37, "n": 19}
    kernel = Kernel((a, b, c, out), tuple(sizes), (loop,))
    random = np.random.default_rng(5)
    arrays = [
        random.integers(0, 9, count).astype(dtype)
        for count, dtype in ((2 * 5 * 19, left), (2 * 19 * 37, right), (37, sums), (370, sums))
    ]
    agree(
        kernel, arrays, sizes, [*GROUPS, Form("threads", 32, (1, 1)), Form("threads", 32, (2, 1))]
    )


@pytest.mark.parametrize("combine", ["", "add", "mul", "max"])
@pytest.mark.parametrize("outside", [False, True])
def test_scattered_writes_are_in_order(combine: str, outside: bool) -> None:
    """Several updates of one element, the last of which counts, or all in their order."""
    a, at, out = Buffer("a", float32), Buffer("at", int64), Buffer("out", float32)
    place = symbol("@k") * 4 + COLUMN
    body = (
        Lookup("@k", Load(at, ROW), 7),
        Loop("j", 4, (Store(out, place, Load(a, ROW * 4 + COLUMN), combine),)),
    )
    kernel = Kernel((a, at, out), ("n",), (Loop("i", N, body),))
    random = np.random.default_rng(6)
    places = random.integers(-7, 7 + 5 * outside, 300)
    updates = random.standard_normal(1200).astype(np.float32)
    arrays = [updates, places, np.ones(28, np.float32)]
    theirs = [x.copy() for x in arrays]
    Meaning(kernel, tuple(theirs), {"n": 300})
    built = Built([(kernel, Form("threads", 64))])
    mine = [x.copy() for x in arrays]
    assert built.run(0, mine, {"n": 300}) == outside
    np.testing.assert_array_equal(mine[2], theirs[2])


def test_several_nests_side_by_side() -> None:
    a, b, c = Buffer("a", float32), Buffer("b", float32), Buffer("c", float32)
    body = (
        Lookup("@k", Constant(-2, int64), N),
        Loop("i", N, (Store(b, ROW, Load(a, ROW)),), parallel=True, lanes=True),
        Loop(
            "j",
            N,
            (Loop("i", N, (Store(c, ROW * N + COLUMN, Load(a, symbol("@k"))),), parallel=True),),
        ),
    )
    kernel = Kernel((a, b, c), ("n",), body)
    a_, c_ = np.arange(90, dtype=np.float32), np.zeros(8100, np.float32)
    agree(kernel, [a_, np.zeros_like(a_), c_], {"n": 90}, [Form("threads", 64)])


def test_wide_indices_fixed_sizes_and_guards() -> None:
    kernel = softmax()
    assert choose(kernel, LIMITS, {"rows": 1 << 20, "n": 1 << 12}).wide
    assert not choose(kernel, LIMITS, {"rows": 1 << 18, "n": 1 << 12}).wide
    forms = [replace(form, wide=True) for form in GROUPS]
    forms += [replace(form, fixed=(("n", 70),)) for form in GROUPS]
    a = np.random.default_rng(0).standard_normal(210).astype(np.float32)
    scratch = np.zeros(WORKERS * 256 * 70, np.float32)
    agree(kernel, [a, np.zeros_like(a), scratch], {"rows": 3, "n": 70}, forms)
    guarded = choose(kernel, LIMITS, {"rows": 3, "n": 70}, (True, False))
    assert guarded.guards == (True, False)
    text = write(kernel, OPENCL, guarded).text
    assert "if ((g0[0] != 0) != 1) return;" in text and "if ((g1[0] != 0) != 0) return;" in text


def test_the_text_depends_on_the_kernel_not_on_its_names() -> None:
    form = choose(softmax(), LIMITS, {"rows": 5, "n": 300})
    for dialect in (OPENCL, CUDA):
        assert write(softmax(), dialect, form) == write(softmax(), dialect, form)
    assert (
        write(softmax(), OPENCL, form).name != write(softmax(DTYPES["float16"]), OPENCL, form).name
    )


def test_no_variable_is_called_as_a_type_is() -> None:
    """Loops enough for the names i8, i16 and i32; inside of them numbers of these types are cast."""
    a, out = Buffer("a", DTYPES["int8"]), Buffer("out", DTYPES["int8"])
    element: Value = Load(a, 0)
    for _ in range(3):
        element = apply("add", element, element, dtype=DTYPES["int8"])
    body: tuple[Statement, ...] = (Store(out, 0, element, "add"),)
    for place in range(40):
        body = (Loop(f"l{place}", 1, body),)
    kernel = Kernel((a, out), (), body)
    form = Form("threads", 32)
    agree(kernel, [np.array([3], np.int8), np.array([1], np.int8)], {}, [form])
    text = write(kernel, OPENCL, form).text
    assert "i32 i7 = " in text and "i32 i8 = " not in text


def test_other_batches_have_equal_forms() -> None:
    limits = Limits(threads=1024, warp=32, units=132)
    for n in (768, 1024, 4096):
        forms = {choose(softmax(), limits, {"rows": rows, "n": n}) for rows in (4096, 8192, 65536)}
        assert len(forms) == 1
