"""Where rows end: the last vector of a loop or fold may reach back over elements that were done before."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from burnx.dtype import float32
from burnx.kernels.ir import Accumulator, Buffer, Fold, Kernel, Load, Local, Loop, Store
from burnx.shape import symbol

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Compiled, apply, number

n, m = symbol("n"), symbol("m")


def kept_softmax() -> Kernel:
    """In place, with the exponentials kept in a row of their own while they are added up."""
    x, row, out, i, j = (
        Buffer("x", float32),
        Buffer("row", float32),
        Buffer("out", float32),
        *map(symbol, "ij"),
    )
    grown = apply("exp", apply("sub", Load(x, i * m + j), Local("top", float32)))
    share = apply("div", Load(row, j), Local("all", float32))
    body = (
        Fold((Accumulator("top", "max", Load(x, i * m + j)),), (("j", m),), lanes=True),
        Fold((Accumulator("all", "add", grown),), (("j", m),), (Store(row, j, grown),), True),
        Loop("j", m, (Store(x, i * m + j, share),), lanes=True),
        Store(out, i, Local("all", float32)),
    )
    return Kernel((x, row, out), ("n", "m"), (Loop("i", n, body),))


def test_the_last_vector_reaches_back_and_counts_nothing_twice() -> None:
    compiled = Compiled(kept_softmax())
    random = np.random.default_rng(9)
    for width in (*range(40), 49, 197):
        x = random.normal(size=(3, width)).astype(np.float32)
        grown = np.exp(x - x.max(axis=1, keepdims=True, initial=-np.inf))
        sums = np.zeros(3, np.float32)
        compiled.run(x, np.zeros(width, np.float32), sums, n=3, m=width)
        np.testing.assert_allclose(sums, grown.sum(axis=1), rtol=1e-6)
        np.testing.assert_allclose(x, grown / sums[:, None], rtol=1e-6)


def test_what_reads_its_own_result_runs_once() -> None:
    x, i = Buffer("x", float32), symbol("i")
    root = apply("sqrt", apply("div", Load(x, i), number(3.0)))
    compiled = Compiled(Kernel((x,), ("n",), (Loop("i", n, (Store(x, i, root),), lanes=True),)))
    for count in (5, 8, 13, 31):
        found = np.arange(count, dtype=np.float32)
        compiled.run(found, n=count)
        np.testing.assert_array_equal(
            found, np.sqrt(np.arange(count, dtype=np.float32) / np.float32(3))
        )
