"""Elementwise kernels that take neighbouring elements at once: where they may, and that they give what they mean."""

from __future__ import annotations

import re

import numpy as np
import nvrtc
import pytest

from burnx.dtype import DTYPES, DType, bool_, float16, float32, int64
from burnx.gpu.code import Form, Limits
from burnx.gpu.dialects import CUDA, OPENCL
from burnx.gpu.emitter import candidates, choose, prelude, write
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Cast,
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
from burnx.shape import Dim, symbol
from tests.unit.gpu.test_forms import agree

AT, J, N, M, PITCH, START = (symbol(name) for name in ("i", "j", "n", "m", "pitch", "start"))
H200 = Limits(threads=1024, warp=32, units=132)


def widths(kernel: Kernel, sizes: dict[str, int]) -> set[int]:
    """The elements that threads take at once in the forms that are offered."""
    forms = candidates(kernel, H200, sizes)
    return {form.tile[1] if form.tile else 1 for form in forms if form.kind == "threads"}


def forms_of(kernel: Kernel, sizes: dict[str, int]) -> list[Form]:
    return candidates(kernel, Limits(), sizes)


def wide(value: Value) -> Value:
    return value if value.dtype == float32 else Cast(value, float32)


def flat(source: DType, target: DType, index: Dim = AT) -> Kernel:
    """out[i] = 2 a[index]"""
    a, out = Buffer("a", source), Buffer("out", target)
    double: Value = Apply("add", (wide(Load(a, index)),) * 2, float32)
    store = Store(out, AT, double if target == float32 else Cast(double, target))
    return Kernel((a, out), ("n", "start"), (Loop("i", N, (store,), parallel=True, lanes=True),))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000, 1003])
@pytest.mark.parametrize("source", ["float32", "float16", "bool", "uint8", "int64", "bfloat16"])
@pytest.mark.parametrize("target", ["float32", "float16", "bool", "float64"])
def test_one_loop_of_any_length(source: str, target: str, n: int) -> None:
    kernel, sizes = flat(DTYPES[source], DTYPES[target]), {"n": n, "start": 0}
    a = np.random.default_rng(0).integers(0, 2, n).astype(DTYPES[source])
    forms = forms_of(kernel, sizes)
    largest = max(DTYPES[source].itemsize, DTYPES[target].itemsize)
    assert {form.tile for form in forms} == {(1, min(16 // largest, 8)), ()}
    agree(kernel, [a, np.zeros(n, DTYPES[target])], sizes, forms)


def rows(index: Dim, body: tuple[Statement, ...] = ()) -> Kernel:
    """out[i, j] = a[index] + b[j], rows of the result one behind the other."""
    a, b, out = Buffer("a", float32), Buffer("b", float32), Buffer("out", float32)
    value = Apply("add", (Load(a, index), Load(b, J)), float32)
    inner = Loop("j", M, (*body, Store(out, AT * M + J, value)), lanes=True)
    return Kernel(
        (a, b, out), ("n", "m", "pitch", "start"), (Loop("i", N, (inner,), parallel=True),)
    )


def check_rows(kernel: Kernel, expected: set[int], **sizes: int) -> None:
    known = {"n": 3, "m": 8, "pitch": 12, "start": 4} | sizes
    assert widths(kernel, known) == expected
    random, count = np.random.default_rng(1), known["n"] * max(known["pitch"], 9) * known["m"] + 99
    arrays = [random.standard_normal(size).astype(np.float32) for size in (count, known["m"])]
    out = np.zeros(known["n"] * known["m"], np.float32)
    agree(kernel, [*arrays, out], known, forms_of(kernel, known))


def test_rows_whose_starts_are_multiples() -> None:
    kernel = rows(AT * PITCH + J + START)
    check_rows(kernel, {1, 4})
    check_rows(kernel, {1, 4}, m=20, pitch=20, start=0)
    check_rows(kernel, {1, 4}, n=700, m=256)
    check_rows(kernel, {1, 2}, m=6)
    check_rows(kernel, {1, 2}, start=2)
    check_rows(kernel, {1}, m=7)
    check_rows(kernel, {1}, start=3)
    check_rows(kernel, {1}, pitch=9)


def test_what_does_not_lie_side_by_side_is_taken_one_by_one() -> None:
    check_rows(rows(J * PITCH + AT), {1})
    check_rows(rows(J * 2 + AT * PITCH), {1})
    check_rows(rows((AT * M + J) // 2), {1})


def test_what_is_only_read_where_it_may_be_is_taken_one_by_one() -> None:
    a, out = Buffer("a", float32), Buffer("out", float32)
    padded = Inside(((0, AT - 4, N),), Load(a, AT - 4), Load(a, 0))
    loop = Loop("i", N + 8, (Store(out, AT, padded),), parallel=True, lanes=True)
    kernel = Kernel((a, out), ("n",), (loop,))
    assert widths(kernel, {"n": 1 << 22}) == {1}


def test_what_is_read_and_written_or_added_to_is_taken_one_by_one() -> None:
    a, out = Buffer("a", float32), Buffer("out", float32)
    for body in (
        (Store(out, AT, Load(a, AT), "add"),),
        (Store(out, AT, Load(a, AT)), Store(a, AT, Load(a, AT + 4))),
    ):
        kernel = Kernel((a, out), ("n",), (Loop("i", N, body, parallel=True, lanes=True),))
        assert widths(kernel, {"n": 1 << 22}) == {1}


def test_a_row_that_is_looked_up() -> None:
    """A lookup that is the same for all neighbours is made once; one of their own keeps them apart."""
    a, at, out = Buffer("a", float16), Buffer("at", int64), Buffer("out", float16)
    for place, expected in ((AT, {1, 8}), (J, {1})):
        found = Lookup("@k", Load(at, place), 9)
        index = symbol("@k") * M + J
        inner = Loop("j", M, (found, Store(out, AT * M + J, Load(a, index))), lanes=True)
        kernel = Kernel((a, at, out), ("n", "m"), (Loop("i", N, (inner,), parallel=True),))
        sizes = {"n": 16, "m": 16}
        assert widths(kernel, sizes) == expected
        random = np.random.default_rng(2)
        arrays = [random.standard_normal(144).astype(np.float16), random.integers(-9, 9, 16)]
        agree(kernel, [*arrays, np.zeros(256, np.float16)], sizes, forms_of(kernel, sizes))


def test_names_places_and_several_results() -> None:
    a, out, signs = Buffer("a", float32), Buffer("out", float32), Buffer("signs", bool_)
    value = Local("v", float32)
    body = (
        Let("w", Load(a, N)),
        Let("v", Apply("mul", (Load(a, AT), Position(AT, float32)), float32)),
        Store(out, AT, Apply("add", (value, Local("w", float32)), float32)),
        Store(signs, AT, Apply("lt", (value, Local("w", float32)), bool_)),
    )
    kernel = Kernel((a, out, signs), ("n",), (Loop("i", N, body, parallel=True, lanes=True),))
    numbers = np.random.default_rng(3).standard_normal(71).astype(np.float32)
    sizes = {"n": 70}
    assert widths(kernel, sizes) == {1, 4}
    arrays = [numbers, np.zeros(70, np.float32), np.zeros(70, np.bool_)]
    agree(kernel, arrays, sizes, forms_of(kernel, sizes))


def test_long_texts_are_not_written_for_every_element() -> None:
    a, out = Buffer("a", float16), Buffer("out", float16)
    value: Value = Cast(Load(a, AT), float32)
    for _ in range(100):
        value = Apply("add", (value, value), float32)
    store = Store(out, AT, Cast(value, float16))
    kernel = Kernel((a, out), ("n",), (Loop("i", N, (store,), parallel=True, lanes=True),))
    assert widths(kernel, {"n": 1 << 22}) == {1, 2}


def test_few_elements_are_taken_one_by_one_first() -> None:
    kernel = flat(float32, float32)
    assert choose(kernel, H200, {"n": 1 << 12, "start": 0}).tile == ()
    assert choose(kernel, H200, {"n": 1 << 20, "start": 0}).tile == (1, 4)


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize("name", ["float32", "float16", "uint8", "int64", "float64"])
def test_cuda_reads_and_writes_vectors(name: str) -> None:
    """Every instruction moves all bytes that a thread takes."""
    dtype = DTYPES[name]
    a, out = Buffer("a", dtype), Buffer("out", dtype)
    loop = Loop("j", M, (Store(out, AT * M + J, Load(a, AT * M + J)),), lanes=True)
    kernel = Kernel((a, out), ("n", "m"), (Loop("i", N, (loop,), parallel=True),))
    form = choose(kernel, H200, {"n": 1 << 12, "m": 1 << 12})
    width = min(16 // dtype.itemsize, 8)
    assert form.tile[1] == width
    code = write(kernel, CUDA, form)
    text = nvrtc.assembly_of(prelude(CUDA, code.needs) + code.text, CUDA.options)
    found = re.findall(r"(ld|st)\.global[.a-z]*?(?:\.v(\d))?\.[a-z](\d+)\s", text)
    assert {word for word, _, _ in found} == {"ld", "st"}
    sizes = {int(count or 1) * int(bits) // 8 for _, count, bits in found}
    assert sizes == {width * dtype.itemsize}, text
    assert ".local" not in text  # what a thread takes stays in registers


def test_opencl_moves_words() -> None:
    kernel = flat(float32, float16)
    code = write(kernel, OPENCL, choose(kernel, Limits(), {"n": 1 << 20, "start": 0}))
    assert "GLOBAL const word16 *" in code.text and "GLOBAL word8 *" in code.text
    assert "typedef uint4 word16;" in prelude(OPENCL, code.needs)
