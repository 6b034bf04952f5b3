"""What every part of the emitter works with: the text so far, and what names stand for at this place of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from burnx.kernels.ir import Buffer, Statement, Value
from burnx.llvm.target import Target
from burnx.llvm.writer import Ssa, Writer
from burnx.shape import Dim


class Unsupported(Exception):
    """The kernel holds something that this emitter has no code for; the caller runs it another way."""


@dataclass(slots=True)
class Scope:
    """A part of the text that is left again: names bound there, and what was worked out there."""

    names: dict[str, Ssa] = field(default_factory=dict)
    numbers: dict[object, Ssa] = field(default_factory=dict)  # parts of indices and pointers
    values: dict[int, tuple[Value, Ssa]] = field(default_factory=dict)  # id -> value, result


@dataclass(frozen=True, slots=True)
class Lanes:
    """``variable`` stands for ``count`` neighbouring turns, the first of which is ``start``."""

    variable: str
    start: Ssa
    count: int


@dataclass(slots=True)
class Context:
    """The state of emitting one kernel.  What a statement's emitter uses of it:

    - ``writer``, ``target``: the text, and what it is compiled for.  ``worker``, ``workers`` are i64, ``state`` a ptr.
    - ``index(dim)``: an i64, what a dimension is here.  Inside ``lanes`` it is that of the first lane.  Parts that do
      not change in inner scopes are worked out once; call ``prepare(body)`` before opening a loop, so that they are
      worked out outside of it.
    - ``pointer(buffer, dim)``: the address of an element, ``base(buffer)`` that of element 0.
    - ``value(value, lanes)``: a value as a scalar (``lanes`` 1) or a vector of ``lanes``.  Shared parts of it are
      worked out once in a scope.
    - ``scope()``: ``with`` it, names and results last to its end.  Open one for every block that does not always
      run, and for the body of every loop: what is worked out in it is not used after it.
    - ``bind(name, ssa)``: in the innermost scope a loop variable or lookup (i64) or a local (scalar or vector) has
      this value.  A vector belongs to the lanes of the ``lanes`` scope around it.
    - ``lanes(variable, start, count)``: a scope in which a variable stands for ``count`` neighbouring turns; ``count`` 1
      just binds it.  Loads along the variable become vector loads, other values stay scalar as long as they can.
    - ``statements(body, lanes)``: the code of statements; ``lanes`` as in the ``lanes`` scope, else 1.
    - ``name_loops(flat, loops)``: bind the variables of nested loops from one flat turn.
    - ``share(turns)``: the first and the last but one of this worker's part of so many turns.

    Contract's epilogue for one register, at rows bound by ``bind``:
        ``with context.lanes(column, start, 8): context.bind(name, register); context.statements(body, 8)``.
    """

    writer: Writer
    target: Target
    worker: Ssa = field(default_factory=lambda: Ssa("%worker", "i64"))
    workers: Ssa = field(default_factory=lambda: Ssa("%workers", "i64"))
    state: Ssa = field(default_factory=lambda: Ssa("%state", "ptr"))
    bases: dict[int, Ssa] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=lambda: [Scope()])
    vector: Lanes | None = None  # the lanes scope that is open
    picked: Ssa | None = None  # inside it: the one lane that is worked on now
    divided: bool = False  # whether this code runs for a part of the work of one worker
    rewritten: frozenset[int] = frozenset()  # ids of buffers that the kernel both reads and writes
    facts: dict[object, object] = field(default_factory=dict)  # what analyses found, by key

    @property
    def count(self) -> int:
        """How many lanes values have now."""
        return 1 if self.vector is None or self.picked is not None else self.vector.count

    # --- names --------------------------------------------------------------------------------------------------

    def bind(self, name: str, ssa: Ssa) -> None:
        self.scopes[-1].names[name] = ssa

    def depth(self, name: str) -> int:
        """The scope that binds a name; -1 for none."""
        for level in range(len(self.scopes) - 1, -1, -1):
            if name in self.scopes[level].names:
                return level
        return -1

    def find(self, name: str) -> Ssa:
        level = self.depth(name)
        if level < 0:
            raise Unsupported(f"nothing is called {name!r} here")
        return self.scopes[level].names[name]

    def is_bound(self, name: str) -> bool:
        return self.depth(name) >= 0

    def varies(self, name: str) -> bool:
        """Whether the name stands for another value in every lane."""
        if self.count == 1 or self.vector is None:
            return False
        return name == self.vector.variable or self.find(name).type.startswith("<")

    def base(self, buffer: Buffer) -> Ssa:
        if id(buffer) not in self.bases:
            raise Unsupported(f"{buffer.name} is no buffer of the kernel")
        return self.bases[id(buffer)]

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append(Scope())
        yield
        self.scopes.pop()

    @contextmanager
    def lanes(self, variable: str, start: Ssa, count: int) -> Iterator[None]:
        before = self.vector
        with self.scope():
            self.bind(variable, start)
            if count > 1:
                self.vector = Lanes(variable, start, count)
            yield
        self.vector = before

    @contextmanager
    def one_lane(self, lane: Ssa) -> Iterator[None]:
        """A scope for one lane of the open ``lanes`` scope: there everything is scalar."""
        if self.vector is None or self.picked is not None:
            with self.scope():
                yield
            return
        with self.scope():
            self.bind(self.vector.variable, self.add(self.vector.start, lane))
            self.picked = lane
            yield
            self.picked = None

    def forget_values(self, written: Collection[int]) -> None:
        """Buffers with these ids were written: what was loaded from them must be made anew."""
        from burnx.llvm.uses import read_buffers

        if not self.rewritten.intersection(written):
            return
        for scope in self.scopes:
            old = [
                key
                for key, (value, _) in scope.values.items()
                if not read_buffers(self, value).isdisjoint(written)
            ]
            for key in old:
                del scope.values[key]

    # --- code ---------------------------------------------------------------------------------------------------

    def index(self, dim: Dim) -> Ssa:
        from burnx.llvm.indices import number

        return number(self, dim)

    def pointer(self, buffer: Buffer, dim: Dim) -> Ssa:
        from burnx.llvm.indices import pointer

        return pointer(self, buffer, dim)

    def prepare(self, body: Sequence[Statement]) -> None:
        from burnx.llvm.indices import prepare

        prepare(self, tuple(body))

    def name_loops(self, flat: Ssa, loops: Sequence[tuple[str, Dim]]) -> None:
        from burnx.llvm.indices import name_loops

        name_loops(self, flat, loops)

    def share(self, turns: Ssa, worker: Ssa | None = None) -> tuple[Ssa, Ssa]:
        from burnx.llvm.loops import share

        return share(self, turns, worker or self.worker)

    def value(self, value: Value, lanes: int) -> Ssa:
        from burnx.llvm.values import evaluate

        return evaluate(self, value, lanes)

    def statements(self, body: Sequence[Statement], lanes: int) -> None:
        from burnx.llvm.emitter import emit_statement

        for statement in body:
            emit_statement(self, statement, lanes)

    def pick(self, vector: Ssa, lane: Ssa) -> Ssa:
        """One element of a vector."""
        scalar = vector.type[1:-1].split(" x ")[1]
        return self.writer.value(scalar, f"extractelement {vector}, {lane}")

    def add(self, left: Ssa, right: Ssa) -> Ssa:
        """The sum of two i64, folded where one is 0 or both are numbers."""
        if left.name == "0":
            return right
        if right.name == "0":
            return left
        return self.writer.binary("add nsw", left, right)
