"""Where a run spends its time: what kernels and instructions took, moved and worked out."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(slots=True)
class Spent:
    """What all calls of one thing at one place took: ``what`` is a primitive or kind of kernel, ``place`` a node.

    ``bytes`` are those of all memory that it reads or writes, each once a call, ``flops`` about its operations, 2 for
    a multiplication whose result is added up; 0 where they are not counted.  ``dtype`` is what a product multiplies.
    """

    what: str
    place: str
    calls: int = 0
    elapsed_ns: int = 0
    bytes: int = 0
    flops: int = 0
    dtype: str = ""

    @property
    def label(self) -> str:
        return f"{self.what} {self.place}".rstrip()


Times: TypeAlias = MutableMapping[str, Spent]


def note(times: Times, call: Spent) -> None:
    """Add a call to what was spent on the same before."""
    found = times.get(call.label)
    if found is None:
        found = times[call.label] = Spent(call.what, call.place, dtype=call.dtype)
    found.calls += 1
    found.elapsed_ns += call.elapsed_ns
    found.bytes += call.bytes
    found.flops += call.flops


def total_ns(times: Times) -> int:
    return sum(each.elapsed_ns for each in times.values())
