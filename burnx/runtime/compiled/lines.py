"""A schedule as numbered lines: steps, and jumps for its loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burnx.dtype import dtype_name
from burnx.fusion.storage import Branch, Node, Repeat, Step, Storage
from burnx.kernels.ir import Carry, Contract, Fold, Kernel, Loop, Store, walk
from burnx.shape import Dim

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A step without its kernel: what a plan needs to know of it.

    ``kind`` is what the kernel is above all, ``product`` the dtype of what it multiplies and adds up, if it does,
    ``parallel`` whether it divides its work.
    """

    storages: tuple[Storage, ...]
    sizes: tuple[Dim, ...]
    writes: frozenset[Storage]
    work: Dim
    place: str
    kind: str
    product: str
    parallel: bool


@dataclass(slots=True, eq=False)
class Jump:
    """Go on at line ``target``; with ``unless`` only where that bool is false."""

    target: int = -1
    unless: Storage | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """All workers wait for each other: all have read the bool ``held`` before its memory is written again."""

    held: Storage


Line = Task | Jump | Wait


@dataclass(slots=True)
class Lines:
    """``loops`` are the first and last line of each loop, inner ones before outer ones."""

    lines: list[Line] = field(default_factory=list)
    loops: list[Interval] = field(default_factory=list)

    def add(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if isinstance(node, Repeat):
                self._add_loop(node)
            elif isinstance(node, Branch):
                self._add_branch(node)
            else:
                self.lines.append(make_task(node))

    def _add_loop(self, node: Repeat) -> None:
        start = len(self.lines)
        leave = Jump(unless=node.going)
        self.lines += [leave, Wait(node.going)]
        self.add(node.body)
        self.lines.append(Jump(start))
        self.loops.append((start, len(self.lines) - 1))
        leave.target = len(self.lines)
        self.lines.append(Wait(node.going))

    def _add_branch(self, node: Branch) -> None:
        other, end = Jump(unless=node.condition), Jump()
        self.lines += [other, Wait(node.condition)]
        self.add(node.then)
        self.lines.append(end)
        other.target = len(self.lines)
        self.lines.append(Wait(node.condition))
        self.add(node.otherwise)
        end.target = len(self.lines)


def make_task(step: Step) -> Task:
    """What a plan needs to know of a step."""
    statements = list(walk(step.kernel.body))
    return Task(
        step.storages,
        step.sizes,
        step.writes,
        step.work,
        step.place,
        kind(step.kernel),
        next((dtype_name(s.left.dtype) for s in statements if isinstance(s, Contract)), ""),
        any(isinstance(each, (Loop, Contract)) and each.parallel for each in statements),
    )


def kind(kernel: Kernel) -> str:
    """What a kernel is above all: attention (two products), contract, fold, carry, scatter or map."""
    statements: list[Any] = list(walk(kernel.body))
    products = sum(isinstance(each, Contract) for each in statements)
    if products:
        return "contract" if products == 1 else "attention"
    for name, found in (("fold", Fold), ("carry", Carry)):
        if any(isinstance(each, found) for each in statements):
            return name
    combines = any(isinstance(each, Store) and each.combine for each in statements)
    return "scatter" if combines else "map"


def make_lines(nodes: Sequence[Node]) -> Lines:
    made = Lines()
    made.add(nodes)
    return made


def find_lifetimes(lines: Lines) -> dict[Storage, Interval]:
    """The first and last line that needs each storage of the arena.

    What a loop shares with the lines around it is needed in all of the loop; so is what a turn reads before it is
    written.
    """
    found: dict[Storage, Interval] = {}
    exposed: dict[Storage, set[int]] = {}
    for place, line in enumerate(lines.lines):
        used: tuple[Storage | None, ...] = ()
        if isinstance(line, Task):
            used = line.storages
        else:
            used = (line.unless if isinstance(line, Jump) else line.held,)
        for each in used:
            storage = each.root if each is not None else None
            if storage is None or storage.role != "arena":
                continue
            first, _ = found.get(storage, (place, place))
            found[storage] = (first, place)
            if not isinstance(line, Task) or each not in line.writes:
                if storage not in exposed:
                    exposed[storage] = set()
                exposed[storage].add(first if first == place else -1)
    for start, end in lines.loops:
        for storage, (first, last) in found.items():
            crosses = first < start <= last or first <= end < last
            early = start <= first <= end and first in exposed.get(storage, ())
            if crosses or early:
                found[storage] = (min(first, start), max(last, end))
    return found
