"""What a kernel means: the kernel IR run element by element in Python, to compare compiled kernels with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from burnx.kernels.ir import (
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
from burnx.primitives.scalar import evaluate_bitcast, evaluate_cast, evaluate_map
from burnx.shape import evaluate

Array = np.ndarray[Any, Any]
_NEUTRAL = {"add": 0, "mul": 1, "and": True, "or": False}


class Meaning:
    """One run: ``numbers`` are sizes, loop variables and lookups, ``locals`` values."""

    def __init__(self, kernel: Kernel, arrays: tuple[Array, ...], sizes: dict[str, int]) -> None:
        self.memory = {
            id(buffer): x.reshape(-1) for buffer, x in zip(kernel.buffers, arrays, strict=True)
        }
        self.numbers = dict(sizes)
        self.locals: dict[str, Array] = {}
        self.error = 0
        self.run(kernel.body)

    def run(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            getattr(self, f"_{type(statement).__name__.lower()}")(statement)

    def element(self, buffer: Buffer, index: Any) -> Array:
        place = evaluate(index, self.numbers)
        assert 0 <= place < len(self.memory[id(buffer)]), f"{buffer.name} read at {place}"
        return self.memory[id(buffer)][place : place + 1].reshape(())

    def value(self, value: Value) -> Array:
        match value:
            case Load():
                return self.element(value.buffer, value.index).copy()
            case Constant():
                return np.asarray(value.value, value.dtype)
            case Apply():
                return evaluate_map(*map(self.value, value.arguments), function=value.function)
            case Cast():
                inner = self.value(value.value)
                if value.bits:
                    return evaluate_bitcast(inner.reshape(1), dtype=value.dtype).reshape(())
                return evaluate_cast(inner, dtype=value.dtype, saturate=value.saturate)
            case Position():
                return np.asarray(evaluate(value.index, self.numbers)).astype(value.dtype)
            case Local():
                return self.locals[value.name]
            case Inside():
                numbers = self.numbers
                holds = all(
                    evaluate(low, numbers) <= evaluate(index, numbers) < evaluate(high, numbers)
                    for low, index, high in value.checks
                )
                return self.value(value.value if holds else value.otherwise)

    def _store(self, statement: Store) -> None:
        place = self.element(statement.buffer, statement.index)
        value = self.value(statement.value)
        if statement.combine:
            value = evaluate_map(place.copy(), value, function=statement.combine)
        place[...] = value

    def _let(self, statement: Let) -> None:
        self.locals[statement.name] = self.value(statement.value)

    def _lookup(self, statement: Lookup) -> None:
        index, limit = int(self.value(statement.value)), evaluate(statement.limit, self.numbers)
        if statement.sure:
            assert 0 <= index < limit
        if not -limit <= index < limit:
            self.error = 1
            index = 0
        self.numbers[statement.name] = index + limit if index < 0 else index

    def _loop(self, loop: Loop) -> None:
        for turn in range(evaluate(loop.extent, self.numbers)):
            self.numbers[loop.variable] = turn
            self.run(loop.body)

    def _fold(self, fold: Fold) -> None:
        totals = [_neutral(each.function, each.value.dtype) for each in fold.accumulators]
        extents = [range(evaluate(extent, self.numbers)) for _, extent in fold.loops]
        for turn in itertools.product(*extents):
            self.numbers.update(zip([name for name, _ in fold.loops], turn, strict=True))
            self.run(fold.body)
            values = [self.value(each.value) for each in fold.accumulators]
            totals = [
                evaluate_map(total, value, function=each.function)
                for each, total, value in zip(fold.accumulators, totals, values, strict=True)
            ]
        for each, total in zip(fold.accumulators, totals, strict=True):
            self.locals[each.name] = total

    def _carry(self, carry: Carry) -> None:
        values = {name: self.value(first) for name, first, _ in carry.carried}
        for turn in range(evaluate(carry.extent, self.numbers)):
            self.locals.update(values)
            self.numbers[carry.variable] = turn
            self.run(carry.body)
            values = {name: self.value(following) for name, _, following in carry.carried}
        self.locals.update(values)

    def _contract(self, contract: Contract) -> None:
        loops = [*contract.rows, contract.column]
        for turn in itertools.product(*(range(evaluate(e, self.numbers)) for _, e in loops)):
            self.numbers.update(zip([name for name, _ in loops], turn, strict=True))
            total = np.asarray(0, contract.dtype)
            for inner in itertools.product(
                *(range(evaluate(e, self.numbers)) for _, e in contract.inner)
            ):
                self.numbers.update(zip([name for name, _ in contract.inner], inner, strict=True))
                left, right = (
                    evaluate_cast(self.value(each), dtype=contract.dtype)
                    for each in (contract.left, contract.right)
                )
                total = total + left * right
            self.locals[contract.name] = total
            self.run(contract.body)


def _neutral(function: str, dtype: Any) -> Array:
    if function in _NEUTRAL:
        return np.asarray(_NEUTRAL[function], dtype)
    least = function == "max"
    if dtype.kind == "f":
        return np.asarray(-np.inf if least else np.inf, dtype)
    if dtype.kind == "b":
        return np.asarray(not least, dtype)
    return np.asarray(np.iinfo(dtype).min if least else np.iinfo(dtype).max, dtype)
