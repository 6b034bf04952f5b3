"""``Contract`` on the cpu against NumPy: sizes with tails, layouts, dtypes, what follows the sums, threads."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnx.dtype import DTYPES, float32, int32
from burnx.errors import UsageError
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Contract,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Store,
)
from burnx.kernels.packing import pack
from burnx.llvm.contractions.plan import choose_packing
from burnx.llvm.emitter import Unsupported, emit
from burnx.llvm.target import describe
from burnx.runtime.devices.cpu import target as processor
from burnx.runtime.devices.cpu.compile import compile_object
from burnx.runtime.devices.cpu.target import describe_named, find_target
from burnx.shape import symbol

sys.path.insert(0, str(Path(__file__).parent))
from running import aligned, build, random, run, run_one

M, N, K = symbol("M"), symbol("N"), symbol("K")
m, n, k = symbol("m"), symbol("n"), symbol("k")


def sized(low=0, high=70):
    return st.integers(low, high)


# --- matrix products ------------------------------------------------------------------------------------------------


@cache
def matrix_product(left, right, total, layout, parallel=True):
    dtypes = DTYPES[left], DTYPES[right], DTYPES[total]
    packing = choose_packing(find_target(), *dtypes) if layout == "packed" else ""
    return build(product_kernel(dtypes, layout, packing, parallel)), packing


def product_kernel(dtypes, layout, packing, parallel=True):
    """``c = a @ b``; ``layout``: packed, rows (b is K x N), columns (b is N x K), spread (every second column)."""
    a, b, c = (Buffer(name, dtype) for name, dtype in zip("abc", dtypes, strict=True))
    where = {"packed": 0, "rows": k * N + n, "columns": n * K + k, "spread": (k * N + n) * 2}
    statement = Contract(
        "sum",
        (("m", M),),
        ("n", N),
        (("k", K),),
        Load(a, m * K + k),
        Load(b, where[layout]),
        dtypes[2],
        (Store(c, m * N + n, Local("sum", dtypes[2])),),
        packing,
        parallel,
    )
    return Kernel((a, b, c), ("M", "N", "K"), (statement,))


def lay_out(b, layout, packing):
    if layout == "packed":
        return aligned(pack(b, packing))
    if layout == "columns":
        return np.ascontiguousarray(b.T)
    return np.repeat(b, 2, axis=1) if layout == "spread" else b


def check_product(names, layout, sizes, seed=0):
    rows, columns, inner = sizes
    left, right, total = (DTYPES[name] for name in names)
    function, packing = matrix_product(*names, layout)
    a, b = random(seed, (rows, inner), left), random(seed + 1, (inner, columns), right)
    c = np.full((rows + 1, columns), 77, total)
    run(function, (a, lay_out(b, layout, packing), c), sizes)
    assert np.all(c[rows] == 77), "wrote past the last row"
    if total.kind in "iu":
        np.testing.assert_array_equal(c[:rows], a.astype(total) @ b.astype(total))
    else:
        expected = a.astype(np.float64) @ b.astype(np.float64)
        scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
        close = 1e-6 if total == float32 else 1e-14
        assert np.all(np.abs(c[:rows] - expected) <= close * scale + 1e-30)


LAYOUTS = ("packed", "rows", "columns", "spread")


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(LAYOUTS), st.tuples(sized(), sized(), sized()))
def test_product_of_any_size_is_numpys(layout, sizes):
    check_product(("float32", "float32", "float32"), layout, sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(1, 200, 300), (300, 16, 9), (13, 1000, 5000), (500, 33, 64)])
def test_large_products_are_numpys(layout, sizes):
    check_product(("float32", "float32", "float32"), layout, sizes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("columns", [7, 32, 63, 64, 65, 96, 130, 256, 261])
def test_few_rows_take_several_panels(layout, rows, columns):
    check_product(("float32", "float32", "float32"), layout, (rows, columns, 37))


NUMBERS = (
    ("float64", "float64", "float64"),
    ("float16", "float16", "float32"),
    ("float32", "float16", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "bfloat16", "float32"),
    ("int32", "int32", "int32"),
    ("int64", "int64", "int64"),
    ("uint8", "int8", "int32"),
    ("int8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("int8", "uint8", "int32"),
)


@pytest.mark.parametrize("layout", ["packed", "rows", "columns"])
@pytest.mark.parametrize("names", NUMBERS, ids="-".join)
def test_products_of_other_dtypes(names, layout):
    for sizes in [(7, 35, 19), (1, 70, 33), (26, 16, 64), (3, 5, 0), (13, 40, 1), (2, 75, 21)]:
        check_product(names, layout, sizes)


@pytest.mark.parametrize("names", NUMBERS[7:], ids="-".join)
@pytest.mark.parametrize("extreme", ["min", "max"])
def test_bytes_of_the_largest_size_do_not_saturate(names, extreme):
    left, right, total = (DTYPES[name] for name in names)
    a = np.full((9, 130), getattr(np.iinfo(left), extreme), left)
    for b in (np.iinfo(right).min, np.iinfo(right).max):
        matrix = np.full((130, 21), b, right)
        function, packing = matrix_product(*names, "packed")
        c = np.zeros((9, 21), total)
        run(function, (a, aligned(pack(matrix, packing)), c), (9, 21, 130))
        np.testing.assert_array_equal(c, a.astype(total) @ matrix.astype(total))


@pytest.mark.parametrize("names", [NUMBERS[0], ("float32",) * 3, NUMBERS[7]], ids="-".join)
@pytest.mark.parametrize("sizes", [(130, 300, 70), (1, 900, 130), (3, 910, 130), (700, 20, 33)])
def test_same_bits_on_any_number_of_threads(names, sizes):
    rows, columns, inner = sizes
    left, right, total = (DTYPES[name] for name in names)
    function, packing = matrix_product(*names, "packed")
    a = random(3, (rows, inner), left)
    b = aligned(pack(random(4, (inner, columns), right), packing))
    found = []
    for workers in (1, 2, 3):
        c = np.full((rows, columns), 77, total)
        run(function, (a, b, c), sizes, workers)
        found.append(c)
    assert all(np.array_equal(found[0], each) for each in found)


@pytest.mark.parametrize("sizes", [(196, 64, 33), (900, 192, 20), (48, 700, 40)])
def test_what_a_thread_works_out_alone_is_one_part(sizes):
    """With nothing left to be taken as it comes: rows where there are many, else columns."""
    rows, columns, inner = sizes
    function, packing = matrix_product("float32", "float32", "float32", "packed")
    a = random(3, (rows, inner), float32)
    b = aligned(pack(random(4, (inner, columns), float32), packing))
    found = []
    for worker in (0, 1):
        c = np.full((rows, columns), np.nan, np.float32)
        run_one(function, (a, b, c), sizes, worker, 2)
        found.append(~np.isnan(c))
    assert not np.any(found[0] & found[1])
    axis = 1 if 2 * rows >= columns else 0
    halves = [np.flatnonzero(each.any(axis=axis)) for each in found]
    assert all(len(each) for each in halves)
    assert halves[0].max() < halves[1].min()


# --- what follows the sums ------------------------------------------------------------------------------------------


@cache
def product_with_body(stored, columns=None):
    """relu(a @ b + bias + residual), cast to ``stored``; and the sums themselves.  Panels fit so many columns."""
    a, b, bias, residual, sums = (Buffer(name, float32) for name in ("a", "b", "e", "r", "s"))
    c = Buffer("c", DTYPES[stored])
    total = Local("sum", float32)
    biased = Apply("add", (total, Load(bias, n)), float32)
    added = Apply("add", (biased, Load(residual, m * N + n)), float32)
    body = (
        Let("kept", Apply("max", (added, Constant(0.0, float32)), float32)),
        Store(c, m * N + n, Cast(Local("kept", float32), DTYPES[stored])),
        Store(sums, n * M + m, total),
    )
    packing = choose_packing(find_target(), float32, float32, float32, columns)
    left, right = Load(a, m * K + k), Load(b, 0)
    rows, inner = (("m", M),), (("k", K),)
    statement = Contract("sum", rows, ("n", N), inner, left, right, float32, body, packing, True)
    return build(Kernel((a, b, bias, residual, c, sums), ("M", "N", "K"), (statement,))), packing


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(("float32", "float16", "uint8")), st.tuples(sized(), sized(), sized()))
def test_body_sees_rows_columns_and_sums(stored, sizes):
    check_product_with_body(stored, sizes)


@pytest.mark.parametrize("vectors", [1, 2, 3, 6])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 23, 49, 245])
@pytest.mark.parametrize("inner", [0, 16, 27])
def test_bodies_behind_whole_panels_of_any_width(vectors, rows, inner):
    width = vectors * find_target().lanes
    for columns in (width, width + 1):
        check_product_with_body("float32", (rows, columns, inner), width)


def check_product_with_body(stored, sizes, fitting=None):
    rows, columns, inner = sizes
    function, packing = product_with_body(stored, fitting)
    a, b = random(1, (rows, inner), float32), random(2, (inner, columns), float32)
    bias, residual = random(3, (columns,), float32), random(4, (rows, columns), float32)
    c, sums = np.zeros((rows, columns), DTYPES[stored]), np.zeros((columns, rows), np.float32)
    run(function, (a, aligned(pack(b, packing)), bias, residual, c, sums), sizes)
    np.testing.assert_allclose(sums.T, a @ b, rtol=1e-4, atol=1e-4)
    expected = np.maximum(sums.T + bias + residual, 0)
    np.testing.assert_array_equal(c, expected.astype(DTYPES[stored]))


# --- convolutions ---------------------------------------------------------------------------------------------------

SIZES = ("images", "height", "width", "channels", "ky", "kx", "step", "wide", "high", "outputs")


@cache
def convolution(packed, merged):
    """NHWC; ``merged``: kx and the channels are one loop."""
    of = {name: symbol(name) for name in SIZES}
    x, w, y = (Buffer(name, float32) for name in "xwy")
    image, row, column, output = (symbol(name) for name in ("b", "i", "j", "o"))
    u, v, c = (symbol(name) for name in "uvc")
    place = (image * of["high"] + row * of["step"] + u) * of["wide"] + column * of["step"]
    if merged:
        inner = (("u", of["ky"]), ("c", of["kx"] * of["channels"]))
        left, flat = place * of["channels"] + c, u * of["kx"] * of["channels"] + c
    else:
        inner = (("u", of["ky"]), ("v", of["kx"]), ("c", of["channels"]))
        left = (place + v) * of["channels"] + c
        flat = (u * of["kx"] + v) * of["channels"] + c
    rows = (("b", of["images"]), ("i", of["height"]), ("j", of["width"]))
    where = ((image * of["height"] + row) * of["width"] + column) * of["outputs"] + output
    packing = choose_packing(find_target(), float32, float32, float32) if packed else ""
    statement = Contract(
        "sum",
        rows,
        ("o", of["outputs"]),
        inner,
        Load(x, left),
        Load(w, 0 if packed else flat * of["outputs"] + output),
        float32,
        (Store(y, where, Local("sum", float32)),),
        packing,
        True,
    )
    return build(Kernel((x, w, y), SIZES, (statement,))), packing


@settings(deadline=None, max_examples=40)
@given(
    st.booleans(),
    st.booleans(),
    st.tuples(sized(1, 3), sized(1, 9), sized(1, 9), sized(1, 6)),
    st.tuples(sized(1, 3), sized(1, 3), sized(1, 3)),
    sized(1, 40),
)
def test_convolutions_are_products_of_windows(packed, merged, outer, window, outputs):
    images, height, width, channels = outer
    ky, kx, step = window
    high, wide = (height - 1) * step + ky, (width - 1) * step + kx
    function, packing = convolution(packed, merged)
    x = random(1, (images, high, wide, channels), float32)
    w = random(2, (ky * kx * channels, outputs), float32)
    y = np.zeros((images, height, width, outputs), np.float32)
    right = aligned(pack(w, packing)) if packed else w
    run(function, (x, right, y), (*outer, ky, kx, step, wide, high, outputs), 2)
    windows = np.lib.stride_tricks.sliding_window_view(x, (ky, kx), (1, 2))[:, ::step, ::step]
    flat = windows.transpose(0, 1, 2, 4, 5, 3).reshape(images, height, width, -1)
    np.testing.assert_allclose(y, flat @ w, rtol=1e-4, atol=1e-4)


# --- inside loops ---------------------------------------------------------------------------------------------------


@cache
def batched_product(parallel):
    """c[g] = a[g] @ b[g], with packed b."""
    a, b, c = (Buffer(name, float32) for name in "abc")
    group, panel = symbol("g"), symbol("size")
    packing = choose_packing(find_target(), float32, float32, float32)
    statement = Contract(
        "sum",
        (("m", M),),
        ("n", N),
        (("k", K),),
        Load(a, (group * M + m) * K + k),
        Load(b, group * panel),
        float32,
        (Store(c, (group * M + m) * N + n, Local("sum", float32)),),
        packing,
        not parallel,
    )
    loop = Loop("g", symbol("groups"), (statement,), parallel=parallel)
    return build(Kernel((a, b, c), ("groups", "M", "N", "K", "size"), (loop,))), packing


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_groups_are_a_loop_around(parallel, workers):
    function, packing = batched_product(parallel)
    a, b = random(1, (5, 14, 30), float32), random(2, (5, 30, 41), float32)
    c = np.zeros((5, 14, 41), np.float32)
    packed = aligned(np.stack([pack(each, packing) for each in b]))
    run(function, (a, packed, c), (5, 14, 41, 30, packed[0].size), workers)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_packing_fills_up_with_zeros():
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
    packed = pack(matrix, "float32:2").reshape(2, 2, 2)
    assert packed.tolist() == [[[1, 2], [4, 5]], [[3, 0], [6, 0]]]


def test_bytes_are_packed_with_their_k_together():
    matrix = np.arange(6, dtype=np.int8).reshape(3, 2) + 1
    assert pack(matrix, "8x2:2").tolist() == [1, 3, 2, 4, 5, 0, 6, 0]


def test_squares_of_bytes_have_64_k():
    matrix = np.arange(65 * 3, dtype=np.int8).reshape(65, 3)
    packed = pack(matrix, "8t4:16").reshape(32, 16, 4)
    rows = packed.transpose(0, 2, 1).reshape(128, 16)
    np.testing.assert_array_equal(rows[:65, :3], matrix)
    assert not rows[65:].any() and not rows[:, 3:].any()


def test_bfloat16_is_a_dtype_of_weights():
    packed = pack(np.ones((2, 2), ml_dtypes.bfloat16), "bfloat16:8")
    assert packed.dtype == ml_dtypes.bfloat16 and packed.size == 16


# --- other processors -----------------------------------------------------------------------------------------------

TARGETS = {
    "amx": describe_named("x86_64-unknown-linux-gnu", "sapphirerapids"),
    "avx512-vnni": describe_named("x86_64-unknown-linux-gnu", "icelake-server"),
    "avx512": describe_named("x86_64-unknown-linux-gnu", "skylake-avx512"),
    "sse2": describe("x86_64-unknown-linux-gnu", "x86-64", set(), ""),
    "neon": describe("aarch64-unknown-linux-gnu", "neoverse-n1", set(), ""),
}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("names", [("float32",) * 3, *NUMBERS[1:2], *NUMBERS[7:9]], ids="-".join)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_other_processors_have_code(target, names, packed):
    dtypes = tuple(DTYPES[name] for name in names)
    packing = choose_packing(target, *dtypes) if packed else ""
    kernel = product_kernel(dtypes, "packed" if packed else "columns", packing)
    assert len(compile_object(emit(kernel, target), target)) > 500


def test_a_packing_of_another_processor_is_refused():
    neon = TARGETS["neon"]
    dtypes = DTYPES["uint8"], DTYPES["int8"], DTYPES["int32"]
    with pytest.raises(Unsupported, match="does not take the packing 8x4:64"):
        emit(product_kernel(dtypes, "packed", "8x4:64"), neon)


@pytest.mark.parametrize(
    ("names", "instruction"),
    [("us", "tdpbusd"), ("ss", "tdpbssd"), ("uu", "tdpbuud"), ("su", "tdpbsud")],
)
def test_squares_are_multiplied_with_their_signs(names, instruction):
    dtypes = (*({"u": DTYPES["uint8"], "s": DTYPES["int8"]}[name] for name in names), int32)
    packing = choose_packing(TARGETS["amx"], *dtypes)
    assert packing == "8t4:32"
    assert instruction in emit(product_kernel(dtypes, "packed", packing), TARGETS["amx"])


def test_without_permission_there_are_no_squares(monkeypatch):
    monkeypatch.setattr(processor, "_describe_host", lambda: TARGETS["amx"])
    monkeypatch.setattr(processor, "_may_use_squares", lambda: False)
    assert processor._find_host().int8 == "vnni"
    processor.find_target.cache_clear()
    with pytest.raises(UsageError, match="code for it does not run on this"):
        processor.find_target("sapphirerapids")
    assert processor.find_target("icelake-server").int8 == "vnni"
    processor.find_target.cache_clear()
