"""A schedule as numbered lines: steps, and jumps for its loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from burnx.fusion.storage import Branch, Node, Repeat, Step, Storage

Interval = tuple[int, int]


@dataclass(slots=True, eq=False)
class Jump:
    """Go on at line ``target``; with ``unless`` only where that bool is false."""

    target: int = -1
    unless: Storage | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """All workers wait for each other: all have read the bool ``held`` before its memory is written again."""

    held: Storage


Line = Step | Jump | Wait


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
                self.lines.append(node)

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
        if isinstance(line, Step):
            used = line.storages
        else:
            used = (line.unless if isinstance(line, Jump) else line.held,)
        for each in used:
            storage = each.root if each is not None else None
            if storage is None or storage.role != "arena":
                continue
            first, _ = found.get(storage, (place, place))
            found[storage] = (first, place)
            if not isinstance(line, Step) or each not in line.writes:
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
