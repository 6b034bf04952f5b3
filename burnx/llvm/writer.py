"""LLVM IR as text: values in single assignment, blocks, loops with carried values.

Text and not ``llvmlite.ir``: building it is thirty times faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ssa:
    """A value of the text: its name or literal, and its type (``float``, ``<8 x float>``, ``i64``, ``ptr``)."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(slots=True)
class Writer:
    """Collects the text of one function, and the declarations it needs."""

    lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(
        default_factory=dict
    )  # name -> text of a declare or global
    block: str = "entry"
    _count: int = 0

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, type_: str, text: str) -> Ssa:
        """A new value: ``value("float", "fadd float %a, %b")``."""
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {text}")
        return Ssa(name, type_)

    def binary(self, operation: str, left: Ssa, right: Ssa) -> Ssa:
        """``fadd``, ``mul nsw``, ``and`` …: the result has the type of the operands."""
        return self.value(left.type, f"{operation} {left.type} {left.name}, {right.name}")

    def compare(self, operation: str, left: Ssa, right: Ssa) -> Ssa:
        """``icmp slt``, ``fcmp olt`` …: an i1, or a vector of them."""
        lanes = left.type[1:].split(" ")[0] if left.type.startswith("<") else ""
        type_ = f"<{lanes} x i1>" if lanes else "i1"
        return self.value(type_, f"{operation} {left.type} {left.name}, {right.name}")

    def select(self, condition: Ssa, yes: Ssa, no: Ssa) -> Ssa:
        return self.value(yes.type, f"select {condition}, {yes}, {no}")

    def convert(self, operation: str, value: Ssa, type_: str) -> Ssa:
        return self.value(type_, f"{operation} {value} to {type_}")

    def call(self, type_: str, function: str, *arguments: Ssa) -> Ssa:
        """Call an external function or intrinsic, declaring it."""
        self.declare(type_, function, [each.type for each in arguments])
        listed = ", ".join(map(str, arguments))
        if type_ == "void":
            self.line(f"call void @{function}({listed})")
            return Ssa("", "void")
        return self.value(type_, f"call {type_} @{function}({listed})")

    def declare(self, type_: str, function: str, arguments: Sequence[str]) -> None:
        self.declarations[function] = f"declare {type_} @{function}({', '.join(arguments)})"

    def splat(self, value: Ssa, lanes: int) -> Ssa:
        """A vector of ``lanes`` copies; the value itself for one lane."""
        if lanes == 1:
            return value
        type_ = f"<{lanes} x {value.type}>"
        first = self.value(type_, f"insertelement {type_} poison, {value}, i64 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.value(type_, f"shufflevector {first}, {type_} poison, {mask}")

    def pointer(self, base: Ssa, index: Ssa, element: str) -> Ssa:
        return self.value("ptr", f"getelementptr inbounds {element}, ptr {base.name}, {index}")

    def load(self, type_: str, pointer: Ssa, align: int, notes: str = "") -> Ssa:
        return self.value(type_, f"load {type_}, ptr {pointer.name}, align {align}{notes}")

    def store(self, value: Ssa, pointer: Ssa, align: int, notes: str = "") -> None:
        self.line(f"store {value}, ptr {pointer.name}, align {align}{notes}")

    def label(self, name: str) -> None:
        """Start a block; the one before must have ended."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Ssa, yes: str, no: str) -> None:
        self.line(f"br i1 {condition.name}, label %{yes}, label %{no}")

    def loop(
        self,
        start: Ssa,
        stop: Ssa,
        step: Ssa,
        body: Callable[[Ssa, list[Ssa]], Sequence[Ssa]],
        carried: Sequence[Ssa] = (),
    ) -> list[Ssa]:
        """``for (i = start; i < stop; i += step)`` over i64; ``body(i, values)`` gives the next values.

        Returns the values after the last turn.
        """
        head, inside, after = self.fresh("head"), self.fresh("body"), self.fresh("done")
        before = self.block
        self.jump(head)
        self.label(head)
        place = len(self.lines)
        index = Ssa("%" + self.fresh("i"), "i64")
        values = [Ssa("%" + self.fresh("c"), each.type) for each in carried]
        going = self.compare("icmp slt", index, stop)
        self.branch(going, inside, after)
        self.label(inside)
        nexts = list(body(index, values))
        following = self.binary("add nsw", index, step)
        latch = self.block
        self.jump(head)
        phis = [f"  {index.name} = phi i64 [{start.name}, %{before}], [{following.name}, %{latch}]"]
        for value, first, last in zip(values, carried, nexts, strict=True):
            pair = f"[{first.name}, %{before}], [{last.name}, %{latch}]"
            phis.append(f"  {value.name} = phi {value.type} {pair}")
        self.lines[place:place] = phis
        self.label(after)
        return values

    @contextmanager
    def when(self, condition: Ssa) -> Iterator[None]:
        """A block that runs only where the condition holds."""
        inside, after = self.fresh("then"), self.fresh("after")
        self.branch(condition, inside, after)
        self.label(inside)
        yield
        self.jump(after)
        self.label(after)


def integer(value: int, type_: str = "i64") -> Ssa:
    return Ssa(str(value), type_)
