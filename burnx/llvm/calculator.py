"""Short words for formulas in LLVM: operands are values or numbers, scalar or vector alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from burnx.llvm.dtypes import lanes_of, like, mangled
from burnx.llvm.literals import like_literal
from burnx.llvm.writer import Ssa, Writer

Number: TypeAlias = Ssa | float | int


@dataclass(frozen=True, slots=True)
class Calculator:
    """Formulas over values of one shape."""

    writer: Writer

    def _pair(self, left: Number, right: Number) -> tuple[Ssa, Ssa]:
        if isinstance(left, Ssa):
            return left, right if isinstance(right, Ssa) else like_literal(right, left)
        if not isinstance(right, Ssa):
            raise TypeError("one operand must be a value")
        return like_literal(left, right), right

    def do(self, operation: str, left: Number, right: Number) -> Ssa:
        return self.writer.binary(operation, *self._pair(left, right))

    def add(self, left: Number, right: Number) -> Ssa:
        return self.do("fadd", left, right)

    def sub(self, left: Number, right: Number) -> Ssa:
        return self.do("fsub", left, right)

    def mul(self, left: Number, right: Number) -> Ssa:
        return self.do("fmul", left, right)

    def div(self, left: Number, right: Number) -> Ssa:
        return self.do("fdiv", left, right)

    def fma(self, left: Ssa, right: Number, plus: Number) -> Ssa:
        """left * right + plus, rounded once where the processor can."""
        right, plus = self._pair(left, right)[1], self._pair(left, plus)[1]
        return self.writer.call(left.type, f"llvm.fmuladd.{mangled(left.type)}", left, right, plus)

    def polynomial(self, x: Ssa, coefficients: Sequence[float]) -> Ssa:
        """Coefficients from the constant one upwards, by Horner's rule."""
        result = like_literal(coefficients[-1], x)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return result

    def unary(self, intrinsic: str, x: Ssa) -> Ssa:
        return self.writer.call(x.type, f"llvm.{intrinsic}.{mangled(x.type)}", x)

    def binary(self, intrinsic: str, left: Number, right: Number) -> Ssa:
        one, other = self._pair(left, right)
        return self.writer.call(one.type, f"llvm.{intrinsic}.{mangled(one.type)}", one, other)

    def compare(self, operation: str, left: Number, right: Number) -> Ssa:
        return self.writer.compare(operation, *self._pair(left, right))

    def select(self, condition: Ssa, yes: Number, no: Number) -> Ssa:
        return self.writer.select(condition, *self._pair(yes, no))

    def clip(self, x: Ssa, low: float, high: float) -> Ssa:
        """Between two numbers; a NaN stays one."""
        below = self.cap(x, high)
        return self.select(self.compare("fcmp olt", below, low), low, below)

    def cap(self, x: Ssa, high: float) -> Ssa:
        """Not above a number; a NaN stays one."""
        return self.select(self.compare("fcmp ogt", x, high), high, x)

    def bits(self, x: Ssa) -> Ssa:
        return self.writer.convert(
            "bitcast", x, like(x.type, "i64" if "double" in x.type else "i32")
        )

    def floats(self, bits: Ssa) -> Ssa:
        scalar = "double" if "i64" in bits.type else "float"
        return self.writer.convert("bitcast", bits, like(bits.type, scalar))

    def convert(self, operation: str, x: Ssa, scalar: str) -> Ssa:
        return self.writer.convert(operation, x, like(x.type, scalar))

    def both(self, left: Ssa, right: Ssa) -> Ssa:
        return self.do("and", left, right)

    def either(self, left: Ssa, right: Ssa) -> Ssa:
        return self.do("or", left, right)

    def some(self, mask: Ssa) -> Ssa:
        """Whether any lane of a mask holds."""
        lanes = lanes_of(mask.type)
        if lanes == 1:
            return mask
        bits = self.writer.convert("bitcast", mask, f"i{lanes}")
        return self.compare("icmp ne", bits, 0)

    def every(self, mask: Ssa) -> Ssa:
        lanes = lanes_of(mask.type)
        if lanes == 1:
            return mask
        bits = self.writer.convert("bitcast", mask, f"i{lanes}")
        return self.compare("icmp eq", bits, -1)
