"""Random kernels against what they mean: nested loops, bounds, lookups, folds and shared values in any mixture."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from burnx.dtype import DType, bool_, dtype_name, float32, int8, int32
from burnx.kernels.clike import clike
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
    Statement,
    Store,
    Value,
)
from burnx.kernels.text import kernel_text
from burnx.shape import Dim, floordiv, maximum, minimum, mod, symbol

sys.path.insert(0, str(Path(__file__).parent))
from kernels import Compiled, misaligned
from meaning import Meaning

_LENGTH = 64  # elements of every source; indices are brought into it
_UNARY = {int32: ["neg", "abs", "sign", "bit_not"], float32: ["neg", "abs", "floor", "sign"]}
_BINARY = {
    int32: ["add", "sub", "mul", "min", "max", "floor_mod", "div", "bit_xor"],
    float32: ["add", "sub", "min", "max"],
}


class Maker:
    """Makes kernels; ``names`` are the index symbols and ``locals`` the values that may be used."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sources = [Buffer("a", int32), Buffer("b", float32), Buffer("c", int8)]
        self.names: list[str] = ["n"]
        self.locals: list[tuple[str, DType]] = []
        self.made: list[Value] = []
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def dim(self, depth: int = 2) -> Dim:
        """Some index, of any size and sign."""
        choice = self.random.randrange(9 if depth else 3)
        if choice < 3:
            return (
                symbol(self.random.choice(self.names)) if choice else self.random.randrange(-3, 9)
            )
        one, other = self.dim(depth - 1), self.dim(depth - 1)
        if choice < 6:
            return one + other * self.random.choice([1, 1, 1, 2, -1, 3])
        number = self.random.choice([2, 3, 4, 7])
        return [floordiv(one, number), mod(one, number), minimum(one, other)][choice - 6]

    def element(self, dtype: DType) -> Value:
        """A load that is within its buffer, by a check, by a remainder, or by being bounded."""
        buffer = next(each for each in self.sources if each.dtype == dtype)
        index = self.dim()
        kind = self.random.randrange(3)
        if kind == 0:
            return Load(buffer, mod(index, _LENGTH))
        if kind == 1:
            return Load(buffer, maximum(0, minimum(index, _LENGTH - 1)))
        checks = [(0, index, _LENGTH)]
        if self.random.random() < 0.5:
            checks.append((self.dim(1), self.dim(), self.dim(1)))
        inner = Load(buffer, index)
        value = Apply("neg", (inner,), dtype) if self.random.random() < 0.3 else inner
        return Inside(tuple(checks), value, self.value(dtype, 0))

    def value(self, dtype: DType, depth: int) -> Value:
        shared = [each for each in self.made if each.dtype == dtype]
        if shared and self.random.random() < 0.2:
            return self.random.choice(shared)
        result = self.compound(dtype, depth) if depth else self.leaf(dtype)
        self.made.append(result)
        return result

    def leaf(self, dtype: DType) -> Value:
        names = [name for name, other in self.locals if other == dtype]
        if names and self.random.random() < 0.5:
            return Local(self.random.choice(names), dtype)
        if self.random.random() < 0.5:
            return Constant(self.random.randrange(-5, 6), dtype)
        return Position(self.dim(), dtype)

    def compound(self, dtype: DType, depth: int) -> Value:
        kind = self.random.randrange(6)
        if kind == 0:
            return Apply(self.random.choice(_UNARY[dtype]), (self.value(dtype, depth - 1),), dtype)
        if kind == 1:
            pair = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
            condition = Apply("lt", pair, bool_)
            return Apply("select", (condition, *pair), dtype)
        if kind == 2:
            other = float32 if dtype == int32 else int32
            return Cast(Cast(self.value(other, depth - 1), int8), dtype)
        if kind == 3:
            return self.element(dtype)
        pair = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        return Apply(self.random.choice(_BINARY[dtype]), pair, dtype)

    # --- statements ---------------------------------------------------------------------------------------------

    def some(self) -> DType:
        return self.random.choice([int32, float32])

    def let(self) -> list[Statement]:
        dtype, name = self.some(), self.fresh("v")
        statement = Let(name, self.value(dtype, 2))
        self.locals.append((name, dtype))
        return [statement]

    def lookup(self) -> list[Statement]:
        value = Apply("trunc_mod", (self.value(int32, 1), Constant(21, int32)), int32)
        name = self.fresh("k")
        self.names.append(name)
        return [Lookup(name, value, 20)]

    def fold(self, lanes: bool) -> list[Statement]:
        loops = [(self.fresh("f"), self.random.choice([0, 1, 3, 17, symbol("n")]))]
        if self.random.random() < 0.4:
            loops.insert(0, (self.fresh("f"), 2))
        kept = len(self.names), len(self.locals), len(self.made)
        self.names += [name for name, _ in loops]
        body = tuple(self.let()) if self.random.random() < 0.4 else ()
        functions = [("add", int32), ("max", int32), ("min", float32), ("max", float32)]
        chosen = self.random.sample(functions, self.random.choice([1, 1, 2]))
        accumulators = tuple(
            Accumulator(self.fresh("t"), function, self.value(dtype, 2))
            for function, dtype in chosen
        )
        self.forget(kept)
        self.locals += [
            (each.name, dtype) for each, (_, dtype) in zip(accumulators, chosen, strict=True)
        ]
        return [Fold(accumulators, tuple(loops), body, lanes and self.random.random() < 0.6)]

    def carry(self) -> list[Statement]:
        name, variable = self.fresh("c"), self.fresh("i")
        first = self.value(int32, 1)
        kept = len(self.names), len(self.locals), len(self.made)
        self.names.append(variable)
        self.locals.append((name, int32))
        following = Apply("sub", (self.value(int32, 2), Local(name, int32)), int32)
        self.forget(kept)
        self.locals.append((name, int32))
        return [Carry(((name, first, following),), variable, self.random.choice([0, 1, 5]), ())]

    def forget(self, kept: tuple[int, int, int]) -> None:
        del self.names[kept[0] :], self.locals[kept[1] :], self.made[kept[2] :]

    def kernel(self) -> Kernel:
        """Two nested loops with some statements at each level, the results stored at places of their own."""
        outs = [Buffer("x", int32), Buffer("y", float32)]
        outer, inner = self.fresh("i"), self.fresh("j")
        self.names.append(outer)
        body: list[Statement] = []
        for _ in range(self.random.randrange(3)):
            make = self.random.choice([self.let, self.lookup, lambda: self.fold(True)])
            body += make()
        self.names.append(inner)
        inside: list[Statement] = []
        for _ in range(self.random.randrange(4)):
            makes = [self.let, self.lookup, lambda: self.fold(False), self.carry]
            inside += self.random.choice(makes)()
        place = symbol(outer) * symbol("n") + symbol(inner)
        inside += [Store(out, place, self.value(out.dtype, 3)) for out in outs]
        parallel = self.random.randrange(3)
        lanes = Loop(inner, symbol("n"), tuple(inside), not body and parallel == 2, lanes=True)
        loop = Loop(outer, 2, (*body, lanes), parallel > 0)
        return Kernel((*self.sources, *outs), ("n",), (loop,))


def check(seed: int) -> None:
    kernel = Maker(seed).kernel()
    compiled = Compiled(kernel)
    numbers = np.random.default_rng(seed)
    for n in (0, 1, 7, 8, 19):
        sources = [
            misaligned(numbers.integers(-50, 50, _LENGTH).astype(each.dtype))
            for each in kernel.buffers[:3]
        ]
        sources[1][::5] = [np.nan, np.inf, -np.inf, -0.0, 3e38, *[0.5] * 8]
        mine = [*sources, np.zeros(2 * n, np.int32), np.zeros(2 * n, np.float32)]
        theirs = [x.copy() for x in mine]
        with np.errstate(all="ignore"):
            meaning = Meaning(kernel, tuple(theirs), {"n": n, "worker": 0, "workers": 1})
        assert compiled.run(*mine, workers=1 + seed % 3, n=n) == meaning.error
        for found, exact in zip(mine[3:], theirs[3:], strict=True):
            np.testing.assert_array_equal(found, exact, f"{dtype_name(found.dtype)}, n {n}")


@pytest.mark.parametrize("block", range(12))
def test_random_kernels(block: int) -> None:
    for seed in [*range(block * 4, block * 4 + 4), *([2021, 2406] if block == 0 else [])]:
        try:
            check(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{clike(Maker(seed).kernel())}") from error


def test_random_kernels_have_texts_of_their_own() -> None:
    texts = [kernel_text(Maker(seed).kernel()) for seed in range(40)]
    assert len(set(texts)) == 40
    assert texts == [kernel_text(Maker(seed).kernel()) for seed in range(40)]
