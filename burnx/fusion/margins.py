"""What is around the data of convolutions, mostly zeros: it lies in memory around the value; padding with zeros adds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burnx.fusion.clusters import Uses
from burnx.fusion.expressions import shape_of
from burnx.fusion.geometry import Pads, geometry
from burnx.fusion.narrow import BYTES
from burnx.program import Instruction, Var
from burnx.shape import Shape
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class Margin:
    """How many elements are around each axis of a value, and what they are."""

    widths: Pads
    fill: int = 0


def find_margins(uses: Uses) -> dict[Var, Margin]:
    """What convolutions read around a value; where they want different things, what the first one wants."""
    found: dict[Var, Margin] = {}
    for instruction in uses.instructions:
        if instruction.primitive != "conv":
            continue
        var, made = instruction.inputs[0], geometry(instruction)
        wanted = made.margin
        if var is None or not any(map(any, wanted)) or made.is_spread:
            continue
        known = found.get(var, Margin(wanted, made.fill))
        if known.fill == made.fill:
            pairs = zip(wanted, known.widths, strict=True)
            found[var] = replace(
                known, widths=tuple((max(a, c), max(b, d)) for (a, b), (c, d) in pairs)
            )
    return found


def without_padding(uses: Uses) -> Sequence[Instruction]:
    """The instructions, with zeros that only convolutions read left to their own pads; of bytes any one number.

    Between the two may be movement that leaves the order of elements as it is but for axes of size 1, and transposes.
    """
    changed: dict[Instruction, Instruction | None] = {}
    for pad in uses.instructions:
        around, source = _around(pad), pad.inputs[0] if pad.inputs else None
        if around is None or source is None:
            continue
        found: dict[Instruction, Instruction | None] = {pad: None}
        if _leave_out(uses, pad.outputs[0], (source, around), found):
            changed |= found
    if not changed:
        return uses.instructions
    after = [changed.get(each, each) for each in uses.instructions]
    return [each for each in after if each is not None]


def _around(pad: Instruction) -> Margin | None:
    """What an instruction puts around each axis, if it does: zeros, or bytes."""
    if pad.primitive != "pad" or pad.binds:
        return None
    value, attributes = pad.inputs[1], pad.attributes
    widths = tuple(zip(attributes["low"], attributes["high"], strict=True))
    known = all(isinstance(each, int) and each >= 0 for pair in widths for each in pair)
    if not known or value is None or value.array is None:
        return None
    if not value.array.any():
        return Margin(widths)
    is_byte = value.array.dtype in BYTES and value.array.size == 1
    return Margin(widths, int(value.array.reshape(()))) if is_byte else None


Unpadded = tuple[Var, Margin]  # a value, and what is missing around it


def _leave_out(
    uses: Uses, var: Var, given: Unpadded, found: dict[Instruction, Instruction | None]
) -> bool:
    """Whether all that read a padded value can do with the unpadded one; ``found`` gets what they become."""
    if var in uses.kept:
        return False
    for reader in uses.readers.get(var, ()):
        if reader.inputs.count(var) != 1 or reader.inputs[0] is not var or reader.binds:
            return False
        if reader.primitive == "conv":
            made = _with_pads(reader, given)
        else:
            made = _moved(reader, given)
        if made is None:
            return False
        found[reader] = made[0]
        if reader.primitive != "conv" and not _leave_out(uses, reader.outputs[0], made[1], found):
            return False
    return True


Made = tuple[Instruction, Unpadded]


def _with_pads(conv: Instruction, given: Unpadded) -> Made | None:
    (source, around), attributes = given, conv.attributes
    widths, own = around.widths, attributes.get("fill", 0)
    spread = any(step > 1 for step in attributes["spread"])
    if any(map(any, widths[:2])) or spread:
        return None
    if own != around.fill and (own or any(map(any, attributes["pads"]))):
        return None
    pads = tuple(
        (a + low, b + high)
        for (a, b), (low, high) in zip(attributes["pads"], widths[2:], strict=True)
    )
    changed = {**attributes, "pads": pads, "fill": around.fill}
    made = _like(conv, (source, *conv.inputs[1:]), conv.outputs, changed)
    return made, given


def _moved(reader: Instruction, given: Unpadded) -> Made | None:
    """A reshape or transpose of the unpadded value."""
    (source, around), (var,) = given, reader.outputs[:1]
    widths = around.widths
    axes = _origins(reader)
    lost = [pair for axis, pair in enumerate(widths) if axes is None or axis not in axes]
    if axes is None or any(map(any, lost)):
        return None
    attributes, sizes = dict(reader.attributes), shape_of(source)
    moved = tuple((0, 0) if axis is None else widths[axis] for axis in axes)
    shape = tuple(1 if axis is None else sizes[axis] for axis in axes)
    if reader.primitive == "reshape":
        attributes["shape"] = shape
    kind = var.type
    assert isinstance(kind, TensorType)
    target = Var(replace(kind, shape=shape))
    made = _like(reader, (source,), (target,), attributes)
    return made, (target, replace(around, widths=moved))


def _origins(reader: Instruction) -> Sequence[int | None] | None:
    """Which axis of its operand each axis of a result is, None for a new one of size 1; None if elements mix."""
    if reader.primitive == "transpose":
        return tuple(reader.attributes["perm"])
    if reader.primitive != "reshape" or reader.inputs[0] is None:
        return None
    source, target = shape_of(reader.inputs[0]), shape_of(reader.outputs[0])
    kept = _not_one(source)
    if [source[axis] for axis in kept] != [target[axis] for axis in _not_one(target)]:
        return None
    rest = iter(kept)
    return [None if size == 1 else next(rest) for size in target]


def _not_one(shape: Shape) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size != 1]


def _like(
    given: Instruction,
    inputs: tuple[Var | None, ...],
    outputs: tuple[Var, ...],
    attributes: dict[str, object],
) -> Instruction:
    return Instruction(given.primitive, inputs, outputs, attributes, given.place)
