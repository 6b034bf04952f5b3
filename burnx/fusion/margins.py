"""The zeros around the data of convolutions: they lie in memory around the value, and padding with zeros adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from burnx.fusion.clusters import Uses
from burnx.fusion.expressions import shape_of
from burnx.fusion.geometry import Pads, geometry
from burnx.program import Instruction, Var
from burnx.shape import Shape
from burnx.types import TensorType


def find_margins(uses: Uses) -> dict[Var, Pads]:
    """The zeros that convolutions read around a value."""
    found: dict[Var, Pads] = {}
    for instruction in uses.instructions:
        if instruction.primitive != "conv":
            continue
        var, made = instruction.inputs[0], geometry(instruction)
        wanted = made.margin
        if var is None or not any(map(any, wanted)) or made.is_spread:
            continue
        known = found.get(var, ((0, 0),) * len(wanted))
        found[var] = tuple(
            (max(a, c), max(b, d)) for (a, b), (c, d) in zip(wanted, known, strict=True)
        )
    return found


def without_padding(uses: Uses) -> Sequence[Instruction]:
    """The instructions, with zeros that only convolutions read left to their own pads.

    Between the two may be movement that leaves the order of elements as it is but for axes of size 1, and transposes.
    """
    changed: dict[Instruction, Instruction | None] = {}
    for pad in uses.instructions:
        widths = _zeros_around(pad)
        source = pad.inputs[0] if widths is not None else None
        if widths is None or source is None:
            continue
        found: dict[Instruction, Instruction | None] = {pad: None}
        if _leave_out(uses, pad.outputs[0], (source, widths), found):
            changed |= found
    if not changed:
        return uses.instructions
    after = [changed.get(each, each) for each in uses.instructions]
    return [each for each in after if each is not None]


def _zeros_around(pad: Instruction) -> Pads | None:
    """How many zeros an instruction puts around each axis, if it does."""
    if pad.primitive != "pad" or pad.binds:
        return None
    value, attributes = pad.inputs[1], pad.attributes
    widths = tuple(zip(attributes["low"], attributes["high"], strict=True))
    known = all(isinstance(each, int) and each >= 0 for pair in widths for each in pair)
    if not known or value is None or value.array is None or value.array.any():
        return None
    return widths


Unpadded = tuple[Var, Pads]  # a value, and the zeros that are missing around it


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
    (source, widths), attributes = given, conv.attributes
    if any(map(any, widths[:2])) or any(step > 1 for step in attributes["spread"]):
        return None
    pads = tuple(
        (a + low, b + high)
        for (a, b), (low, high) in zip(attributes["pads"], widths[2:], strict=True)
    )
    made = _like(conv, (source, *conv.inputs[1:]), conv.outputs, {**attributes, "pads": pads})
    return made, given


def _moved(reader: Instruction, given: Unpadded) -> Made | None:
    """A reshape or transpose of the unpadded value."""
    (source, widths), (var,) = given, reader.outputs[:1]
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
    return _like(reader, (source,), (target,), attributes), (target, moved)


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
