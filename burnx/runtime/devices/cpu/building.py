"""A segment becomes native code: scheduled, its kernels compiled or taken from the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from burnx import llvm
from burnx.fusion.scheduler import Traits, schedule
from burnx.fusion.storage import Step, steps_in
from burnx.fusion.weights import Derive, make_anew
from burnx.kernels.blocking import block_windows
from burnx.kernels.clike import clike
from burnx.kernels.text import kernel_text
from burnx.llvm.emitter import emit
from burnx.llvm.target import Target
from burnx.runtime.compiled.checks import find_demands, find_inner_demands
from burnx.runtime.compiled.lines import make_lines
from burnx.runtime.compiled.segments import Segment
from burnx.runtime.compiled.symbols import find_symbols
from burnx.runtime.devices.cpu.ahead import Ahead
from burnx.runtime.devices.cpu.choices import Choices
from burnx.runtime.devices.cpu.native import Code, Details, Native
from burnx.runtime.devices.cpu.object_files import name_entry
from burnx.runtime.devices.cpu.objects import MakeText, load_many
from burnx.runtime.devices.cpu.plans import Work
from burnx.runtime.devices.cpu.target import find_target

STAYS_BYTES = 1 << 20  # constants from this size on are not copied to be aligned


def build_native(
    segment: Segment,
    threads: int,
    fuse: bool = True,
    choices: Choices | None = None,
    derive: Derive = make_anew,
) -> Native:
    """The native code of a segment; ``choices`` are those that races have found, unless others are given."""
    target = find_target()
    choices = choices or Choices(target, threads)
    kept = frozenset(segment.outputs)
    with Ahead(target) as ahead:
        texts = _Texts(target, ahead)
        traits = Traits(
            target.lanes,
            choices.packing,
            fuse,
            scheme=choices.scheme,
            derive=derive,
            note=texts.note,
        )
        found = schedule(segment.instructions, kept, kept, traits)
        steps = list(steps_in(found.steps))
        names, addresses = texts.compile(steps)
    _align_constants(steps)
    ends = (*segment.inputs, *segment.outputs)
    memory = {var: found.memory[var] for var in ends if var in found.memory}
    details = Details(
        Work(make_lines(found.steps), memory),
        find_demands(segment.instructions),
        find_inner_demands(segment.instructions),
    )
    code = Code(names, addresses, find_symbols(segment, steps))
    return Native((segment.inputs, segment.outputs), code, threads, lambda: details)


def _align_constants(steps: Sequence[Any]) -> None:
    """Constants as kernels read them; large ones may stay where they lie in a mapped file."""
    found = {s for step in steps for s in step.storages if s.role == "constant"}
    for storage in found:
        array = storage.array
        crooked = not array.flags.aligned and array.nbytes < STAYS_BYTES
        if crooked or not array.flags.c_contiguous:
            storage.array = np.array(array, order="C")


@lru_cache(maxsize=1)
def emitter_stamp() -> str:
    """Which emitter this is: objects of another one are not taken from the cache."""
    made = sha256()
    for file in sorted(Path(llvm.__file__).parent.rglob("*.py")):
        made.update(file.name.encode() + file.read_bytes())
    return made.hexdigest() + "\n"


@dataclass(frozen=True, slots=True)
class _Texts:
    """The texts of a segment's kernels, made and compiled while it is scheduled."""

    target: Target
    ahead: Ahead
    made: dict[Step, tuple[str, MakeText]] = field(default_factory=dict)

    def note(self, step: Step) -> None:
        """Begin with a step's kernel."""
        self.ahead.add(*self._wanted(step))

    def compile(self, steps: Sequence[Step]) -> tuple[tuple[str, ...], list[int]]:
        """The names of the objects of steps, and the addresses of their kernels."""
        wanted = [self._wanted(step) for step in steps]
        if os.environ.get("BURNX_DEBUG") == "kernels":
            _show(steps, [key for key, _ in wanted])
        images = self.ahead.finish(key for key, _ in wanted)
        names = tuple(name_entry(key, self.target) for key, _ in wanted)
        return names, load_many(wanted, self.target, images)

    def _wanted(self, step: Step) -> tuple[str, MakeText]:
        """A kernel's key, and what makes its text for LLVM."""
        if step not in self.made:
            kernel = block_windows(step.kernel)
            key = emitter_stamp() + kernel_text(kernel)
            self.made[step] = key, partial(emit, kernel, self.target)
        return self.made[step]


def _show(steps: Sequence[Step], keys: Sequence[str]) -> None:
    """Print every kernel once."""
    shown: set[str] = set()
    for step, key in zip(steps, keys, strict=True):
        if key not in shown:
            shown.add(key)
            text = key.removeprefix(emitter_stamp())
            print(f"# {step.place}\n{text}\n{clike(block_windows(step.kernel))}\n")
