"""Whole numbers that are worked out when a kernel runs."""

from __future__ import annotations

from burnx.llvm.writer import Ssa, Writer, integer


def multiply_all(writer: Writer, values: list[Ssa]) -> Ssa:
    total, *rest = values
    for each in rest:
        total = writer.binary("mul nsw", total, each)
    return total


def least(writer: Writer, left: Ssa, right: Ssa) -> Ssa:
    return writer.call("i64", "llvm.smin.i64", left, right)


def greatest(writer: Writer, left: Ssa, right: Ssa) -> Ssa:
    return writer.call("i64", "llvm.smax.i64", left, right)


def divide_down(writer: Writer, value: Ssa, by: Ssa) -> Ssa:
    """The quotient; by 1 where ``by`` is 0."""
    return writer.binary("udiv", value, greatest(writer, by, integer(1)))


def divide_up(writer: Writer, value: Ssa, by: Ssa) -> Ssa:
    by = greatest(writer, by, integer(1))
    more = writer.binary("add nsw", value, writer.binary("sub nsw", by, integer(1)))
    return writer.binary("udiv", more, by)
