"""The symbols that a program's sizes are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burnx.fusion.storage import Step
from burnx.program import Var
from burnx.shape import symbol_name, symbols
from burnx.types import TensorType

if TYPE_CHECKING:
    from burnx.runtime.compiled.segments import Segment


def find_bound(inputs: Sequence[Var]) -> tuple[tuple[Var, int, str], ...]:
    """The symbols that the sizes of inputs bind."""
    found = []
    for var in inputs:
        if isinstance(var.type, TensorType):
            for axis, dim in enumerate(var.type.shape or ()):
                name = symbol_name(dim)
                if name is not None:
                    found.append((var, axis, name))
    return tuple(found)


def find_symbols(segment: Segment, steps: Sequence[Step]) -> tuple[str, ...]:
    """The symbols that a segment depends on."""
    found: set[str] = set()
    for step in steps:
        for size in (*step.sizes, step.work, *(s.elements() for s in step.storages)):
            found |= symbols(size)
    for instruction in segment.instructions:
        for var in (*instruction.inputs, *instruction.outputs):
            shape = var.type.shape if var is not None and isinstance(var.type, TensorType) else ()
            for dim in shape or ():
                found |= symbols(dim)
    return tuple(sorted(found))
