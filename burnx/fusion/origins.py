"""What values and constants were quantized to: (q - zero) * scale, found in the instructions that made floats of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import int8, int32
from burnx.errors import BurnxError
from burnx.fusion.clusters import Uses
from burnx.fusion.expressions import dtype_of
from burnx.fusion.narrow import BYTES
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Var

Array = np.ndarray[Any, Any]
MODERATE = 1e12  # scales below it may be multiplied with each other and with sums: nothing becomes infinite
SMALL = 1 << 16  # elements of constants that are worked out here: scales, zero points and biases


@dataclass(frozen=True, slots=True)
class Quantized:
    """A value (source - zero) * scale; both broadcast to it."""

    source: Var
    zero: Array
    scale: Array


@dataclass(slots=True)
class Rewriting:
    """Instructions while they are rewritten.

    ``changed`` says what stands in place of one; ``unsigned`` which bytes stand for signed ones; ``whole`` what signed
    ones are in int32, and among which instructions; ``known`` holds constants.
    """

    uses: Uses
    changed: dict[Instruction, list[Instruction]] = field(default_factory=dict)
    unsigned: dict[Var, Var] = field(default_factory=dict)
    whole: dict[Var, tuple[Var, list[Instruction]]] = field(default_factory=dict)
    known: dict[Var, Array | None] = field(default_factory=dict)


# --- what a value was made from -------------------------------------------------------------------------------------


def find_quantized(work: Rewriting, var: Var | None) -> Quantized | None:
    """What a float32 value was quantized to, if it was."""
    product = _maker(work, var, "mul")
    if product is None:
        return None
    whole, scale = product.inputs
    cast, known = _maker(work, whole, "cast"), known_constant(work, scale)
    if cast is None or known is None or not np.all(np.abs(known) < MODERATE):
        return None
    inner, zero = cast.inputs[0], np.zeros((), np.int32)
    if inner is not None and dtype_of(inner) in BYTES:
        return Quantized(inner, zero, known)
    moved = _maker(work, inner, "sub")
    if moved is not None:
        inner, found = moved.inputs[0], known_constant(work, moved.inputs[1])
        if found is None:
            return None
        zero = found
    widened = _maker(work, inner, "cast")
    source = widened.inputs[0] if widened is not None else None
    if inner is None or source is None or dtype_of(inner) != int32 or dtype_of(source) not in BYTES:
        return None
    return Quantized(source, zero, known)


def _maker(work: Rewriting, var: Var | None, name: str) -> Instruction | None:
    """What makes a value, if it is a cast or the scalar function of that name."""
    maker = work.uses.makers.get(var) if var is not None else None
    if maker is None:
        return None
    function = maker.attributes.get("function") if maker.primitive == "map" else maker.primitive
    return maker if function == name else None


def known_constant(work: Rewriting, var: Var | None) -> Array | None:
    """The constant that a value is, before it is spread out."""
    if var is None or var.array is not None:
        return None if var is None else var.array
    if var not in work.known:
        work.known[var] = _worked_out(work, var)
    return work.known[var]


def _worked_out(work: Rewriting, var: Var) -> Array | None:
    maker = work.uses.makers.get(var)
    if maker is None or maker.primitive not in ("map", "cast", "reshape", "broadcast"):
        return None
    operands = [known_constant(work, each) for each in maker.inputs]
    if any(each is None or each.size > SMALL for each in operands):
        return None
    if maker.primitive == "broadcast":
        return operands[0]
    try:
        return np.asarray(PRIMITIVES[maker.primitive].evaluate(*operands, **maker.attributes))
    except (BurnxError, ArithmeticError, LookupError, TypeError, ValueError):
        return None


# --- weights --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Weights:
    """Signed bytes; ``scale`` and ``sums`` have one element, or one for each place of the axis that is kept."""

    array: Array
    scale: Array
    sums: Array


def find_weights(found: Quantized | None, axis: int) -> Weights | None:
    """Constant weights without a zero point as signed bytes, if they are scaled along one axis at most."""
    array = found.source.array if found is not None else None
    if found is None or array is None or array.size == 0:
        return None
    rank, count = array.ndim, array.shape[axis]
    scale, zero = (along_axis(each, rank, axis) for each in (found.scale, found.zero))
    if scale is None or zero is None:
        return None
    if array.dtype != int8 or zero.any():
        shape = [1] * rank
        shape[axis] = zero.size
        moved = array.astype(np.int16) - zero.reshape(shape).astype(np.int16)
        if moved.min() < -128 or moved.max() > 127:
            return None
        array = moved.astype(np.int8)
    others = tuple(each for each in range(rank) if each != axis)
    sums = array.sum(others, np.int64)
    assert sums.shape == (count,)
    return Weights(array, scale, sums)


def along_axis(values: Array, rank: int, axis: int) -> Array | None:
    """Values that differ along one axis only, as a vector."""
    if values.size == 1:
        return values.reshape(1)
    lead = (1,) * (rank - values.ndim)
    shape = (*lead, *values.shape)
    return values.reshape(-1) if shape[axis] == values.size else None
