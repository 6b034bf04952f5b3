"""Values that are made where a concatenation will need them, so that it has nothing to copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from burnx.fusion.clusters import Cluster, Uses
from burnx.fusion.expressions import VIRTUAL, shape_of
from burnx.program import Instruction, Var
from burnx.shape import Dim

Home = tuple[Var, tuple[Dim, ...]]  # the concatenation, and the index in it where the value starts


def find_homes(
    uses: Uses, owners: Mapping[Instruction, Cluster], roots: Collection[Var]
) -> dict[Var, Home]:
    """The concatenation that each value belongs into; one that begins another is itself a part of that."""
    homes: dict[Var, Home] = {}
    longest: dict[tuple[Var, int], Instruction] = {}
    for whole in sorted(_concats(uses), key=lambda each: -len(each.inputs)):
        first, axis = whole.inputs[0], _axis(whole)
        assert first is not None
        longer = longest.setdefault((first, axis), whole)
        (var,) = whole.outputs
        if longer is whole:
            _settle_parts(whole, uses, owners, roots, homes)
        elif longer.inputs[: len(whole.inputs)] == whole.inputs and var not in uses.kept:
            homes.setdefault(var, (longer.outputs[0], (0,) * len(shape_of(var))))
    return homes


def _concats(uses: Uses) -> list[Instruction]:
    return [each for each in uses.instructions if each.primitive == "concat" and each.inputs]


def _axis(whole: Instruction) -> int:
    return int(whole.attributes["axis"]) % len(shape_of(whole.outputs[0]))


def _settle_parts(
    whole: Instruction,
    uses: Uses,
    owners: Mapping[Instruction, Cluster],
    roots: Collection[Var],
    homes: dict[Var, Home],
) -> None:
    axis, place = _axis(whole), 0
    at: Dim = place
    for operand in whole.inputs:
        assert operand is not None
        maker = uses.makers.get(operand)
        lies = maker is not None and (
            maker in owners or maker.primitive not in VIRTUAL or operand in roots
        )
        once = sum(1 for each in whole.inputs if each is operand) == 1
        if lies and once and operand not in uses.kept and whole.outputs[0] is not operand:
            rank = len(shape_of(operand))
            start = tuple(at if each == axis else 0 for each in range(rank))
            homes.setdefault(operand, (whole.outputs[0], start))
        at = at + shape_of(operand)[axis]
