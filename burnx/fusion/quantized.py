"""Products of what was quantized, as products of bytes: (q - zero) * scale times weights that were quantized, too.

With q in unsigned bytes and weights w in signed ones the sum of (q - zero) * w is exact in int32:
    y = scale * (sum of q * w - zero * sum of w), scale that of q times that of w
A bias behind it and the division by the scale of the result become one multiplication and one addition; what is
quantized again is clipped before it is rounded, and moved by the zero point as an integer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DType, float32, int32, uint8
from burnx.fusion.clusters import Uses
from burnx.fusion.expressions import VIRTUAL, dtype_of, shape_of
from burnx.fusion.narrow import BYTES
from burnx.fusion.origins import (
    MODERATE,
    Array,
    Quantized,
    Rewriting,
    Weights,
    along_axis,
    find_quantized,
    find_weights,
    known_constant,
)
from burnx.program import Instruction, Var
from burnx.shape import Shape
from burnx.types import TensorType

EXACT = 1 << 24  # below it float32 holds every integer
FITTING = (
    1 << 30
) - 1  # sums up to it, and what the zero point and pairs of sums add, are no int32 too large
LARGE = 1 << 18  # elements of a table that is better kept as bytes
HUGE = 1e20  # sums times numbers below it are no infinity


def as_bytes(instructions: Sequence[Instruction], kept: Iterable[Var]) -> list[Instruction]:
    """The instructions, with products of what was quantized as products of bytes."""
    work = Rewriting(Uses(instructions, frozenset(kept)))
    for instruction in instructions:
        rewrite = _REWRITES.get(instruction.primitive)
        if rewrite is not None and dtype_of(instruction.outputs[0]) == float32:
            rewrite(work, instruction)
    if not work.changed:
        return list(instructions)
    found = [new for each in instructions for new in work.changed.get(each, [each])]
    return _in_use(found, work.uses.kept)


def _in_use(instructions: Sequence[Instruction], kept: frozenset[Var]) -> list[Instruction]:
    """The instructions without expressions that nobody reads."""
    read, left = set(kept), []
    for each in reversed(instructions):
        if each.primitive in VIRTUAL and not each.binds and not read.intersection(each.outputs):
            continue
        read.update(var for var in each.inputs if var is not None)
        left.append(each)
    return left[::-1]


# --- rewriting ------------------------------------------------------------------------------------------------------


def _rewrite_conv(work: Rewriting, seed: Instruction) -> None:
    x, w = (find_quantized(work, var) for var in seed.inputs)
    weights, given = find_weights(w, 0), seed.attributes
    spread = any(step > 1 for step in given["spread"])
    if x is None or weights is None or spread or not _has_one(x):
        return
    array, dtype = weights.array, int32
    most = _greatest_sum(array.reshape(len(array), -1), 1)
    if most > FITTING:
        return
    source, zero, before = _unsigned(work, x)
    if given["groups"] > 1 and array.shape[1] == 1 and most < EXACT:
        array, dtype = array.astype(np.float32), float32  # channels by themselves: quicker so
    made = _Made(work, seed, before, (-1, *(1,) * (array.ndim - 2)))
    attributes = {**given, "dtype": dtype, "fill": zero}
    total = made.add("conv", (source, _constant(array)), dtype, attributes)
    _finish(made, total, (x, zero), weights)


def _greatest_sum(array: Array, axis: int | tuple[int, ...]) -> int:
    """The largest sum that unsigned bytes times these weights, added up over ``axis``, can come to."""
    sizes = np.abs(array.astype(np.int16)).sum(axis, dtype=np.int64)
    return 255 * int(sizes.max(initial=0))


def _rewrite_contract(work: Rewriting, seed: Instruction) -> None:
    """The product with a constant matrix on the right, summed over all but one of its axes."""
    right, inner = seed.inputs[1], seed.attributes["sum_over"][1]
    assert right is not None
    free = [axis for axis in range(len(shape_of(right))) if axis not in inner]
    if any(seed.attributes["batch"]) or len(free) != 1:
        return
    x, w = (find_quantized(work, var) for var in seed.inputs)
    weights = find_weights(w, free[0])
    if weights is None:
        return
    if x is None or not _has_one(x):
        _scale_behind(work, seed, weights)
        return
    if _greatest_sum(weights.array, tuple(inner)) > FITTING:
        return
    source, zero, before = _unsigned(work, x)
    made = _Made(work, seed, before, (-1,))
    operands = (source, _constant(weights.array))
    total = made.add("contract", operands, int32, {**seed.attributes, "dtype": int32})
    _finish(made, total, (x, zero), weights)


def _scale_behind(work: Rewriting, seed: Instruction, weights: Weights) -> None:
    """A product of floats with weights that stay bytes: what they are scaled by scales the sums."""
    left = seed.inputs[0]
    if left is None or left.array is not None or dtype_of(left) != float32:
        return
    made = _Made(work, seed, [], (-1,))
    operands = (left, _constant(weights.array))
    total = made.add("contract", operands, float32, dict(seed.attributes))
    made.moved("mul", total, weights.scale.astype(np.float32))
    made.end(seed.outputs)
    work.changed[seed] = made.before


def _rewrite_take(work: Rewriting, seed: Instruction) -> None:
    """Rows of a large table that stays bytes: they are scaled when they are read."""
    found, indices = find_quantized(work, seed.inputs[0]), seed.inputs[1]
    array = found.source.array if found is not None else None
    if found is None or array is None or indices is None or found.zero.any():
        return
    scale = along_axis(found.scale, array.ndim, 0)
    if array.size < LARGE or seed.attributes["axis"] != 0 or scale is None:
        return
    made = _Made(work, seed, [], ())
    total = made.cast(made.add("take", (found.source, indices), array.dtype, {"axis": 0}), float32)
    if scale.size == 1:
        made.moved("mul", total, scale.astype(np.float32))
    else:
        shape, rows = shape_of(total), shape_of(indices)
        each = made.add("take", (_constant(scale), indices), float32, {"axis": 0}, rows)
        wide = (*rows, *(1,) * (array.ndim - 1))
        each = made.add("reshape", (each,), float32, {"shape": wide}, wide)
        each = made.add("broadcast", (each,), float32, {"shape": shape}, shape)
        made.add("map", (total, each), float32, {"function": "mul"})
    made.end(seed.outputs)
    work.changed[seed] = made.before


_REWRITES = {"conv": _rewrite_conv, "contract": _rewrite_contract, "take": _rewrite_take}


def _has_one(x: Quantized) -> bool:
    """Whether a value that is no constant has one scale and zero point."""
    return x.source.array is None and x.scale.size == 1 and x.zero.size == 1


def _constant(array: Array) -> Var:
    return Var(TensorType(array.dtype, array.shape), array)


def _unsigned(work: Rewriting, x: Quantized) -> tuple[Var, int, list[Instruction]]:
    """(the source in unsigned bytes, its zero point, what makes it of signed ones)."""
    zero = int(x.zero.reshape(()))
    if dtype_of(x.source) == uint8:
        return x.source, zero, []
    before: list[Instruction] = []
    if x.source not in work.unsigned:
        work.unsigned[x.source] = _make_unsigned(work, x.source, before)
    return work.unsigned[x.source], zero + 128, before


def _make_unsigned(work: Rewriting, source: Var, before: list[Instruction]) -> Var:
    """Signed bytes plus 128, made where they are, else among ``before``; who reads the signed ones reads these."""
    maker = work.uses.makers.get(source)
    whole, place = work.whole.get(source, (None, before))
    if whole is None and maker is not None:
        place = work.changed.setdefault(maker, [maker])
    made = _Made(work, None, place, ())
    if whole is None:
        whole = made.cast(source, int32)
    result = made.cast(made.moved("add", whole, np.int32(128)), uint8)
    if maker is None:
        return result
    for reader in work.uses.readers.get(source, ()):
        if reader.primitive == "cast" and dtype_of(reader.outputs[0]) == int32:
            other = _Made(work, None, [], ())
            other.moved("sub", other.cast(result, int32), np.int32(128))
            other.end(reader.outputs)
            work.changed[reader] = other.before
    return result


@dataclass(slots=True)
class _Made:
    """Instructions that stand in place of ``seed``; ``column`` is the shape of a vector that lies along its columns."""

    work: Rewriting
    seed: Instruction | None
    before: list[Instruction]
    column: tuple[int, ...]

    def add(
        self,
        primitive: str,
        inputs: tuple[Var, ...],
        dtype: DType,
        attributes: dict[str, Any],
        shape: Shape | None = None,
    ) -> Var:
        if shape is None:
            assert self.seed is not None
            shape = shape_of(self.seed.outputs[0])
        var = Var(TensorType(dtype, shape))
        place = self.seed.place if self.seed is not None else ""
        self.before.append(Instruction(primitive, inputs, (var,), attributes, place))
        return var

    def cast(self, var: Var, dtype: DType) -> Var:
        attributes = {"dtype": dtype, "saturate": True}
        return self.add("cast", (var,), dtype, attributes, shape_of(var))

    def end(self, outputs: tuple[Var, ...]) -> None:
        """Let the last instruction make these."""
        last = self.before[-1]
        self.before[-1] = Instruction(
            last.primitive, last.inputs, outputs, last.attributes, last.place
        )

    def moved(self, function: str, var: Var, by: Any) -> Var:
        """A scalar function of a value and a constant, one number or one for each column."""
        shape, values = shape_of(var), np.asarray(by)
        values = values.reshape(()) if values.size == 1 else values.reshape(self.column)
        spread = self.add("broadcast", (_constant(values),), dtype_of(var), {"shape": shape}, shape)
        return self.add("map", (var, spread), dtype_of(var), {"function": function}, shape)


def _finish(made: _Made, total: Var, x: tuple[Quantized, int], weights: Weights) -> None:
    """What makes the sums the result again, in place of it or of what divides it by a scale."""
    quantized, zero = x
    if zero:
        total = made.moved("sub", total, (zero * weights.sums).astype(dtype_of(total)))
    if dtype_of(total) != float32:
        total = made.cast(total, float32)
    scale = weights.scale.astype(np.float64) * float(quantized.scale.reshape(()))
    assert made.seed is not None
    end, bias, divisor = _end(made.work, made.seed)
    factors = [(scale / divisor).astype(np.float32)]
    total = made.moved("mul", total, factors[0])
    if bias is not None:
        factors.append((bias / divisor).astype(np.float32))
        total = made.moved("add", total, factors[1])
    steps = _requantizing(made.work, end)
    if len(steps) and all(np.abs(each).max() < HUGE for each in factors):
        _requantize(made, total, steps)
    else:
        made.end(end.outputs)
        steps = []
    for each in _between(made.work, made.seed, end) + steps:
        made.work.changed[each] = []
    made.work.changed[made.seed] = made.before


def _between(work: Rewriting, seed: Instruction, end: Instruction) -> list[Instruction]:
    """The instructions behind ``seed`` up to ``end``."""
    found, each = [], seed
    while each is not end:
        each = work.uses.readers[each.outputs[0]][0]
        found.append(each)
    return found


def _requantizing(work: Rewriting, end: Instruction) -> list[Instruction]:
    """The instructions that round, move by a zero point, clip and cast to bytes, if they are what follows."""
    found: list[Instruction] = []
    for name in ("round", "add", "max", "min", "cast"):
        reader = _only_reader(work, found[-1] if found else end)
        if reader is None or reader.attributes.get("function", reader.primitive) != name:
            if name == "add":
                continue
            return []
        if name in ("add", "max", "min") and _number(work, reader) is None:
            return []
        found.append(reader)
    return found if dtype_of(found[-1].outputs[0]) in BYTES else []


def _number(work: Rewriting, instruction: Instruction) -> int | None:
    """The whole number that a function is given as its second operand."""
    known = known_constant(work, instruction.inputs[1])
    if known is None or known.size != 1 or not float(known.reshape(())).is_integer():
        return None
    return int(known.reshape(()))


def _requantize(made: _Made, total: Var, steps: Sequence[Instruction]) -> None:
    """Clip, round, and move by the zero point: the bytes, and in ``whole`` what they are in int32."""
    numbers = {each.attributes.get("function"): _number(made.work, each) for each in steps[1:-1]}
    zero = numbers.get("add") or 0
    for function in ("max", "min"):
        bound = numbers[function]
        assert bound is not None
        total = made.moved(function, total, np.float32(bound - zero))
    total = made.add("map", (total,), float32, {"function": "round"})
    whole = made.cast(total, int32)
    if zero:
        whole = made.moved("add", whole, np.int32(zero))
    made.cast(whole, dtype_of(steps[-1].outputs[0]))
    made.end(steps[-1].outputs)
    made.work.whole[steps[-1].outputs[0]] = whole, made.before


def _end(work: Rewriting, seed: Instruction) -> tuple[Instruction, Array | None, float]:
    """(the instruction whose result is to be made, the bias and the divisor on the way there)."""
    end, bias = seed, _bias(work, seed)
    if bias is not None:
        end = work.uses.readers[seed.outputs[0]][0]
    reader = _only_reader(work, end)
    if reader is None or reader.attributes.get("function") != "div":
        return end, bias, 1.0
    divisor = known_constant(work, reader.inputs[1])
    if divisor is None or divisor.size != 1 or reader.inputs[0] is not end.outputs[0]:
        return end, bias, 1.0
    number = float(divisor.reshape(()))
    # by 0 or infinity, parts that are divided before they are added up give another result
    return (reader, bias, number) if 1 / MODERATE < abs(number) < MODERATE else (end, bias, 1.0)


def _bias(work: Rewriting, seed: Instruction) -> Array | None:
    """What is added to each column of a product, if that is all that reads it."""
    reader = _only_reader(work, seed)
    if reader is None or reader.attributes.get("function") != "add":
        return None
    other = [var for var in reader.inputs if var is not seed.outputs[0]]
    known = known_constant(work, other[0]) if len(other) == 1 else None
    if known is None:
        return None
    vector = along_axis(known, len(shape_of(seed.outputs[0])), _columns(seed))
    return None if vector is None else vector.astype(np.float64)


def _columns(seed: Instruction) -> int:
    """The axis of a product's result that its weights give."""
    return 1 if seed.primitive == "conv" else len(shape_of(seed.outputs[0])) - 1


def _only_reader(work: Rewriting, instruction: Instruction) -> Instruction | None:
    (var,) = instruction.outputs
    readers = work.uses.readers.get(var, [])
    if len(readers) != 1 or var in work.uses.kept or readers[0].primitive not in ("map", "cast"):
        return None
    return readers[0]
