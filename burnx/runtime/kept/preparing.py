"""A program's units made ready: what is kept of them is read, what is not is built, and kept once it has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from burnx.fusion.weights import Derive, make_anew
from burnx.program import Instruction, Program
from burnx.runtime.collection import collection_put_off
from burnx.runtime.compiled.segments import Cut, Segment
from burnx.runtime.compiled.symbols import find_bound
from burnx.runtime.compiled.units import Prepared
from burnx.runtime.devices.reference.interpreter import make_steps
from burnx.runtime.kept.codec import Unkeepable, Writer
from burnx.runtime.kept.identity import Stamp
from burnx.runtime.kept.models import Read, Slot, Write
from burnx.runtime.kept.segments import LEAST, find_slot


@dataclass(frozen=True, slots=True)
class Making:
    """How a device builds native code of a segment, its constants derived in a way, and how it is written and read.

    ``alone``: whether segments of programs that have no slot are kept, found by what they are.
    """

    build: Callable[[Segment, Derive], Any]
    read: Read
    write: Write
    stamp: Callable[[], Stamp]
    fuse: bool
    alone: bool = True


def prepare_units(program: Program, found: Cut, making: Making, slot: Slot | None) -> Prepared:
    """The units of a program that was cut; with a ``slot`` it is kept there when it has run, if that is worth it."""
    if slot is not None and not _can_be_kept(found.units):
        slot = None
    units: list[Any] = []
    unkept: list[Callable[[], None]] = []
    for unit in found.units:
        if isinstance(unit, Segment):
            units.append(_make(unit, making, unkept, slot))
        else:
            units.extend(make_steps([unit], unit.outputs))
    results = tuple(found.folded.get(var, var) for var in program.outputs)
    made = Prepared(tuple(units), results, find_bound(program.inputs), unkept)
    if slot is not None:
        unkept.append(partial(slot.keep, program, made, making.write))
    return made


def _make(
    segment: Segment, making: Making, unkept: list[Callable[[], None]], whole: Slot | None
) -> Any:
    """The native code of a segment; if it is not kept with a ``whole``, it may be kept alone, when it has run."""
    alone = whole is None and making.alone
    slot = find_slot(segment, making.fuse, making.stamp()) if alone else None
    native = slot.find(making.read) if slot is not None else None
    if native is None:
        keeper = whole or slot
        derive = make_anew if keeper is None else keeper.shared.derive
        native = making.build(segment, derive)
        if keeper is not None and not keeper.shared.settle():
            native = making.build(segment, derive)
        if slot is not None:
            unkept.append(partial(slot.keep, native, making.write))
    return native


@collection_put_off()
def keep_all(made: Prepared) -> None:
    """Keep what is to be kept of a program that has run."""
    while made.unkept:
        try:
            keep = made.unkept.pop()
        except IndexError:  # another call has just taken it
            return
        try:
            keep()
        except Exception:  # what cannot be kept still ran; the log says why
            import logging

            logging.getLogger(__name__).warning("a plan was not kept", exc_info=True)


def _can_be_kept(units: Sequence[Any]) -> bool:
    """Whether a program is worth an entry, and Python's part of it can be written down."""
    count, to = 0, Writer()
    for unit in units:
        if not isinstance(unit, Instruction):
            count += len(unit.instructions)
            continue
        try:
            row = to.instruction(unit)
        except Unkeepable:
            return False
        if any(isinstance(value, list) and value[0] == "program" for value in row[3].values()):
            return False
    return count >= LEAST
