"""Kernels as text: equal but for their names means equal texts; whatever else differs shows."""

from __future__ import annotations

from typing import Any

from burnx.dtype import DTYPES, float16, float32, int32, int64
from burnx.kernels.clike import clike
from burnx.kernels.ir import (
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
    Store,
    Value,
)
from burnx.kernels.text import kernel_text
from burnx.shape import symbol


def everything(prefix: str = "", **changed: Any) -> Kernel:
    """A kernel with every kind of statement and value; ``changed`` parts of it differ."""

    def name(stem: str) -> str:
        return prefix + stem

    a, at, out = Buffer(name("a"), float32), Buffer(name("at"), int64), Buffer(name("out"), float32)
    n, i, j, k = (symbol(name(stem)) for stem in ("n", "i", "j", "k"))
    local = Local(name("t"), float32)
    element = Load(a, i * n + j)
    lookup = Lookup(name("k"), Load(at, i), changed.get("limit", n))
    padded = Inside(((0, i - 1, n),), Load(a, i - 1), Constant(changed.get("fill", 0.0), float32))
    fold = Fold(
        (Accumulator(name("t"), changed.get("function", "add"), element),),
        ((name("j"), n),),
        (Let(name("l"), padded),),
        lanes=changed.get("lanes", True),
    )
    half = Cast(Cast(local, changed.get("low", float16), changed.get("saturate", True)), float32)
    value = Apply("mul", (half, Cast(Position(k, int64), float32)), float32)
    loop = Loop(
        name("i"),
        n,
        (lookup, fold, Store(out, i, value, changed.get("combine", ""))),
        parallel=changed.get("parallel", True),
        unroll=changed.get("unroll", 1),
    )
    carry = Carry(
        ((name("c"), Constant(0, int32), Apply("add", (Local(name("c"), int32),) * 2, int32)),),
        name("i"),
        n,
        (Store(at, i, Cast(Local(name("c"), int32), int64)),),
    )
    contract = Contract(
        name("s"),
        ((name("i"), n),),
        (name("j"), n),
        ((name("k"), changed.get("inner", n)),),
        Load(a, i * n + k),
        Load(a, k * n + j),
        float32,
        (Store(out, i * n + j, Local(name("s"), float32)),),
        packing=changed.get("packing", ""),
    )
    return Kernel((a, at, out), (name("n"), name("m")), (loop, carry, contract))


def test_names_do_not_matter() -> None:
    assert kernel_text(everything()) == kernel_text(everything("zz_"))


def test_whatever_else_differs_is_in_the_text() -> None:
    changes: list[dict[str, Any]] = [
        {"limit": 7},
        {"fill": 1.0},
        {"fill": -0.0},
        {"function": "max"},
        {"lanes": False},
        {"low": DTYPES["bfloat16"]},
        {"saturate": False},
        {"combine": "add"},
        {"parallel": False},
        {"unroll": 4},
        {"inner": 3},
        {"packing": "panels"},
    ]
    texts = [kernel_text(everything(**change)) for change in [{}, *changes]]
    assert len(set(texts)) == len(texts)


def test_the_order_of_named_terms_does_not_matter() -> None:
    def kernel(one: str, other: str) -> Kernel:
        x = Buffer("x", float32)
        index = symbol(one) * 3 + symbol(other) * symbol(one)
        store = Store(x, index, Constant(1.0, float32))
        return Kernel((x,), ("n",), (Loop(one, symbol("n"), (Loop(other, 4, (store,)),)),))

    assert kernel_text(kernel("a", "b")) == kernel_text(kernel("z", "b"))


def test_shared_and_deep_values_stay_short() -> None:
    x = Buffer("x", float32)
    value: Value = Load(x, symbol("i"))
    for _ in range(500):
        value = Apply("add", (value, value), float32)
    loop = Loop("i", symbol("n"), (Store(x, symbol("i"), value),))
    kernel = Kernel((x,), ("n",), (loop,))
    assert len(kernel_text(kernel).splitlines()) < 510
    assert len(clike(kernel).splitlines()) < 510


def test_kernels_as_c() -> None:
    text = clike(everything())
    for part in (
        "void kernel(const float *a, int64_t *at, float *out, int64_t n, int64_t m)",
        "for (int64_t i = 0; i < n; i++) {",
        "int64_t k = checked_index(at[i], n);",
        "t += a[i*n + j];",
        "float l = 0 <= i - 1 && i - 1 < n ? a[i - 1] : 0.0f;",
        "int32_t next_c = c + c;",
        "s += a[i*n + k] * a[k*n + j];",
    ):
        assert part in text, f"{part}\nis not in\n{text}"
