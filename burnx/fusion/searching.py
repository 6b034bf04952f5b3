"""Binary searches in memory, as loops of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from burnx.dtype import DType, bool_
from burnx.fusion.expressions import Expressions
from burnx.kernels.ir import (
    Apply,
    Carry,
    Constant,
    Let,
    Local,
    Lookup,
    Position,
    Statement,
    Value,
)
from burnx.shape import Dim, symbol


@dataclass(slots=True)
class Integers:
    """Names for integers of one dtype on the way to others."""

    at: Expressions
    dtype: DType
    statements: list[Statement] = field(default_factory=list)

    def let(self, function: str, *values: Value) -> Local:
        return self.name(Apply(function, values, self.dtype))

    def name(self, value: Value) -> Local:
        name = self.at.name("v")
        self.statements.append(Let(name, value))
        return Local(name, value.dtype)


def binary_search(
    around: Integers,
    within: tuple[Value, Value, Dim],
    turns: int,
    comes: Callable[[Dim], Value],
) -> tuple[Carry, Value]:
    """(the loop, how many elements it finds of which ``comes`` is true) where these are the first ones.

    ``within``: the place of the first element, how many there are, fewer than 2^turns, and the size of the axis.
    """
    at, wide, (start, count, length) = around.at, around.dtype, within
    low, high, one = Local(at.name("c"), wide), Local(at.name("c"), wide), Constant(1, wide)
    work = Integers(at, wide)
    middle = work.let("shift_right", Apply("add", (low, high), wide), one)
    last = Apply("sub", (Position(length, wide), one), wide)
    spot = Apply("min", (Apply("add", (start, middle), wide), last), wide)
    found = f"@{at.name('')}"
    at.ranges[found] = length
    name = at.name("v")
    is_before = Local(name, bool_)
    up = Apply("and", (is_before, Apply("lt", (low, high), bool_)), bool_)
    further = Apply("add", (middle, one), wide)
    carried = (
        (low.name, Constant(0, wide), Apply("select", (up, further, low), wide)),
        (high.name, count, Apply("select", (is_before, high, middle), wide)),
    )
    before = Let(name, comes(symbol(found)))
    body = (*work.statements, Lookup(found, spot, length, sure=True), before)
    return Carry(carried, str(at.variable(turns)), turns, body), low
