"""Constants in entries of their own, so that the plans of models that share weights share them, too.

A constant that was laid out for a product is found by what it was made of and how, before it is made: who changes a model
and keeps its weights does not pack them again.  Any other is found by its content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from burnx.dtype import DTYPES, dtype_name
from burnx.runtime.kept.entries import CONSTANT, Entries, Entry, Shared
from burnx.runtime.kept.identity import ArrayKeys, Stamp
from burnx.runtime.kept.sums import Sums

if TYPE_CHECKING:
    from burnx.fusion.weights import Make

Array = np.ndarray[Any, Any]
LEAST_BYTES = 1 << 16  # smaller ones lie in their plan


@dataclass(slots=True)
class SharedConstants:
    """The constants of one program or segment while it is made and kept."""

    entries: Entries
    stamp: Stamp
    keys: ArrayKeys = field(default_factory=ArrayKeys)
    made: dict[int, Shared] = field(default_factory=dict)
    _named: dict[str, tuple[Array, str]] = field(default_factory=dict)
    _sums: Sums = field(default_factory=Sums)
    _damaged: set[str] = field(default_factory=set)

    def derive(self, recipe: Sequence[object], source: Array, make: Make) -> tuple[Array, str]:
        """What was made of ``source`` at an earlier time, or is made now: it is to be kept."""
        if source.nbytes < LEAST_BYTES or source.dtype == object:
            return make()
        name = self.stamp.constant_key(list(recipe), self.keys.find(source))
        if name in self._named:
            return self._named[name]
        entry = None
        if name not in self._damaged:
            entry = self.entries.read(name, CONSTANT, self._sums)
        found = None if entry is None else _read_array(entry)
        array, note = make() if found is None else found
        file = self.keys.file_of(source)
        kind = {"dtype": dtype_name(array.dtype), "shape": list(array.shape), "note": note}
        head = {
            **kind,
            "about": dict(self.stamp.describe()),
            "files": [] if file is None else [file],
        }
        self.made[id(array)] = Shared(name, array, head, is_kept=found is not None)
        self._named[name] = array, note
        return array, note

    def settle(self) -> bool:
        """Whether all that was taken is as it was kept; else what took it is to be made again, and takes no such."""
        damaged = self._sums.settle()
        self._damaged |= damaged
        self.made = {at: each for at, each in self.made.items() if each.name not in damaged}
        self._named = {name: each for name, each in self._named.items() if name not in damaged}
        return not damaged

    def place(self, array: Array) -> list[Any] | None:
        """Where an array is to lie; None for one that is too small for an entry of its own."""
        if id(array) not in self.made:
            if array.nbytes < LEAST_BYTES:
                return None
            name = self.stamp.constant_key("content", self.keys.find(array))
            known = self.entries.read(name, CONSTANT)
            head = {"about": dict(self.stamp.describe())}
            self.made[id(array)] = Shared(name, array, head, is_kept=known is not None)
        return ["shared", self.made[id(array)].name, 0]


def find_shared(entries: Entries, sums: Sums, name: str) -> Array:
    """The bytes of a shared constant, which ``sums`` has yet to settle.

    Raises: LookupError if it is not there any more.
    """
    entry = entries.read(name, CONSTANT, sums)
    if entry is None:
        raise LookupError(f"constant {name} is gone")
    return entry.constants


def _read_array(entry: Entry) -> tuple[Array, str] | None:
    try:
        dtype, shape = DTYPES[entry.head["dtype"]], tuple(map(int, entry.head["shape"]))
        return np.ndarray(shape, dtype, buffer=entry.constants), str(entry.head["note"])
    except (LookupError, TypeError, ValueError):
        return None
