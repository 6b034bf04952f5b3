"""Products as kernels with their operands, and what they should give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DType, float32
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Contract,
    Kernel,
    Load,
    Local,
    Store,
    in_loops,
)
from burnx.shape import symbol

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """batch times (rows, inner) by (inner, columns), plus what is there already where the sums are float32 or wider."""

    batch: int
    rows: int
    columns: int
    inner: int
    operands: DType = float32
    sums: DType = float32
    left_turned: bool = False
    right_turned: bool = False
    result_turned: bool = False

    def kernel(self) -> Kernel:
        left, right = Buffer("left", self.operands), Buffer("right", self.operands)
        out, more = Buffer("out", self.sums), Buffer("more", self.sums)
        o, i, j, k = (symbol(f"${place}") for place in range(4))
        names = ("n", "r", "c", "d", "ls", "lr", "rs", "rr", "os", "or")
        n, r, c, d, ls, lr, rs, rr, os_, or_ = map(symbol, names)
        one = Load(left, o * ls + (k * lr + i if self.left_turned else i * lr + k))
        two = Load(right, o * rs + (j * rr + k if self.right_turned else k * rr + j))
        place = o * os_ + (j * or_ + i if self.result_turned else i * or_ + j)
        value = Apply("add", (Local("p", self.sums), Load(more, place)), self.sums)
        contract = Contract(
            "p",
            (("$1", r),),
            ("$2", c),
            (("$3", d),),
            one,
            two,
            self.sums,
            (Store(out, place, value),),
        )
        return Kernel(
            (left, right, more, out), names, tuple(in_loops([("$0", n)], [contract], True))
        )

    def numbers(self) -> dict[str, int]:
        rows, columns, inner = self.rows, self.columns, self.inner
        return {
            "n": self.batch, "r": rows, "c": columns, "d": inner,
            "ls": rows * inner, "lr": rows if self.left_turned else inner,
            "rs": columns * inner, "rr": inner if self.right_turned else columns,
            "os": rows * columns, "or": rows if self.result_turned else columns,
        }  # fmt: skip

    def arrays(self, seed: int = 0) -> tuple[list[Array], Array]:
        """(the operands, what is added, room for the result; the right result)"""
        random = np.random.default_rng(seed)

        def some(dtype: DType, *shape: int) -> Array:
            return random.integers(-4, 5, shape).astype(dtype)

        left = some(self.operands, self.batch, self.rows, self.inner)
        right = some(self.operands, self.batch, self.inner, self.columns)
        more = some(self.sums, self.batch, self.rows, self.columns)
        wanted = np.matmul(left.astype(self.sums), right.astype(self.sums)) + more
        given = [
            left.swapaxes(1, 2) if self.left_turned else left,
            right.swapaxes(1, 2) if self.right_turned else right,
            more.swapaxes(1, 2) if self.result_turned else more,
            np.zeros_like(more),
        ]
        if self.result_turned:
            wanted, given[3] = wanted.swapaxes(1, 2), np.zeros_like(wanted.swapaxes(1, 2))
        return [np.ascontiguousarray(each) for each in given], wanted
