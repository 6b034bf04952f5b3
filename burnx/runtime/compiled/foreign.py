"""What a compiled device leaves to Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnx.dtype import dtype_name
from burnx.program import Instruction, Program, Var, bodies
from burnx.types import TensorType


def name_foreign(program: Program, **wishes: Any) -> Iterator[tuple[str, str]]:
    """(name, place) of what Python carries out between native segments, bodies of branches and loops included.

    ``wishes`` are those of the device, as ``cut`` takes them.
    """
    from burnx.runtime.compiled.segments import Segment, cut  # takes what a warm start does without

    for unit in cut(program, **wishes).units:
        if isinstance(unit, Segment):
            continue
        yield _name(unit), unit.place
        for body in bodies(unit):
            yield from name_foreign(body, **wishes)


# primitives that are never native; of the others it is a type that has no native code
_ALWAYS = frozenset(("host", "defer", "cond", "loop", "sort", "nonzero", "draw_key", "size_of"))


def _name(instruction: Instruction) -> str:
    name = str(instruction.attributes.get("name", instruction.primitive))
    if instruction.primitive in _ALWAYS:
        return name
    values = [var for var in (*instruction.outputs, *instruction.inputs) if var is not None]
    return f"{name} of {' and '.join(dict.fromkeys(map(_kind, values)))}"


def _kind(var: Var) -> str:
    if not isinstance(var.type, TensorType):
        return "sequences"
    return dtype_name(var.type.dtype) + (" of unknown rank" if var.type.shape is None else "")
