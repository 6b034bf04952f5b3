"""The caches of GroupQueryAttention: what a step writes into them, and the codes that they may hold."""

from __future__ import annotations

from dataclasses import dataclass

from burnx import waist
from burnx.dtype import DType, compute_dtype, float32, int8, int32, int64, is_float, uint8
from burnx.errors import ModelError
from burnx.ops.attention_parts import number, places, size_scalar
from burnx.shape import Dim, maximum
from burnx.tensor import Tensor

FAR = 1 << 40  # the position of a row that holds no token


@dataclass(frozen=True, slots=True)
class Step:
    """How many positions each sequence has after a step, how many it had before, and how many it brings.

    Shapes: (batch, 1, 1, 1) each
    """

    total: Tensor
    before: Tensor
    brought: Tensor


@dataclass(frozen=True, slots=True)
class Rows:
    """Keys or values that are attended to, the cache that is kept, and at which positions the rows stand.

    Shapes: (batch, heads, rows, size), (batch, heads, length, size), (batch or 1, 1, 1, rows)
    """

    attended: Tensor
    kept: Tensor
    positions: Tensor


# ---------------------------------------------------------------------------------------- codes
@dataclass(frozen=True, slots=True)
class Coding:
    """How numbers become integers of so many bits; without a scale they stay what they are."""

    bits: int = 8
    scale: Tensor | None = None


def coding_of(kind: str, bits: int, scale: Tensor | None, cache: DType) -> Coding:
    """The coding that the attributes name."""
    if kind not in ("NONE", "PER_TENSOR", "PER_CHANNEL"):
        raise ModelError(f'a cache is coded NONE, PER_TENSOR or PER_CHANNEL, not "{kind}"')
    if kind == "NONE":
        if not is_float(cache):
            raise ModelError(f"a cache of {cache} says how it is coded")
        return Coding()
    if scale is None:
        raise ModelError("a coded cache comes with its scales")
    if bits not in (4, 8):
        raise ModelError(f"the integers of a cache have 4 or 8 bits, not {bits}")
    wanted = int8 if bits == 8 else uint8
    if cache != wanted:
        raise ModelError(f"a cache of {bits} bits is held as {wanted}, not as {cache}")
    if kind == "PER_TENSOR":
        return Coding(bits, waist.reshape(scale, (1, 1, 1, 1)))
    heads_last = (1, *[1] * (3 - scale.ndim), *scale.shape) if scale.ndim < 4 else scale.shape
    return Coding(bits, waist.reshape(scale, heads_last))


def encoded(x: Tensor, coding: Coding) -> Tensor:
    """Numbers over their scale, rounded and cut off; two of 4 bits in a byte, the lower ones first."""
    if coding.scale is None:
        return x
    wide = waist.cast_to(x, float32)
    whole = waist.map("round", waist.map("div", wide, waist.broadcast(coding.scale, wide.shape)))
    top = 2 ** (coding.bits - 1)
    low, high = number(-top, whole), number(top - 1, whole)
    whole = waist.map("min", waist.map("max", whole, low), high)
    if coding.bits == 8:
        return waist.cast_to(whole, int8)
    nibbles = waist.cast_to(waist.map("add", whole, number(8, whole)), int32)
    *lead, size = x.shape
    pairs = waist.reshape(nibbles, (*lead, size // 2, 2))
    axis = len(lead) + 1
    halves = [
        waist.reshape(waist.slice_axis(pairs, axis, place, 1), (*lead, size // 2))
        for place in (0, 1)
    ]
    above = waist.map("mul", halves[1], number(16, halves[1]))
    return waist.cast_to(waist.map("add", halves[0], above), uint8)


def decoded(x: Tensor, coding: Coding, dtype: DType) -> Tensor:
    """What a cache holds as numbers."""
    if coding.scale is None:
        return waist.cast_to(x, dtype)
    if coding.bits == 4:
        whole = waist.cast_to(x, int32)
        parts = [
            waist.map("bit_and", whole, number(15, whole)),
            waist.map("shift_right", whole, number(4, whole)),
        ]
        column = [waist.reshape(part, (*part.shape, 1)) for part in parts]
        joined = waist.reshape(waist.concat(column, x.ndim), (*x.shape[:-1], x.shape[-1] * 2))
        x = waist.map("sub", joined, number(8, joined))
    wide = waist.cast_to(x, float32)
    result = waist.map("mul", wide, waist.broadcast(coding.scale, wide.shape))
    return waist.cast_to(result, compute_dtype(dtype))


# ---------------------------------------------------------------------------------------- rows
def written(past: Tensor | None, new: Tensor, step: Step, length: Dim) -> Rows:
    """A cache that holds every position in its own row, and zeros behind the new ones."""
    there = places(length, (1, 1, 1, length))
    if past is None:
        missing = length - new.shape[2]
        if missing == 0:
            return Rows(new, new, there)
        kept = waist.pad(new, number(0, new), [0] * 4, [0, 0, missing, 0])
        kept = waist.reshape(kept, (*new.shape[:2], length, new.shape[3]))
        return Rows(kept, kept, there)
    room = past.shape[2]
    length = maximum(length, room)
    here = waist.iota(length)
    rows = waist.reshape(here, (1, 1, length, 1))
    moved = waist.map("add", waist.map("sub", rows, step.before), size_scalar(room))
    is_old = waist.map("lt", rows, step.before)
    is_new = waist.map("lt", rows, waist.map("add", step.before, step.brought))
    source = _either(is_old, rows, _either(is_new, moved, size_scalar(room + new.shape[2])))
    kept = _picked(past, new, source, length)
    return Rows(kept, kept, places(length, (1, 1, 1, length)))


def slid(past: Tensor, new: Tensor, step: Step, window: int) -> Rows:
    """A cache that holds the last positions only, and drops some at once when it is full.

    Source: onnxruntime com.microsoft GroupQueryAttention-1, "Windowed KV Cache"
    """
    room, seq = past.shape[2], new.shape[2]
    if isinstance(room, int) and room < window:
        raise ModelError(f"a cache of a window of {window} has no fewer rows, not {room}")
    had, holds = (_resident(count, room, window) for count in (step.before, step.total))
    rows = places(room, (1, 1, room, 1))
    wanted = waist.map("add", waist.map("sub", step.total, holds), rows)
    first = waist.map("sub", step.before, had)
    is_old = waist.map("lt", wanted, step.before)
    from_new = waist.map("add", waist.map("sub", wanted, step.before), size_scalar(room))
    source = _either(is_old, waist.map("sub", wanted, first), from_new)
    source = _either(waist.map("lt", rows, holds), source, size_scalar(room + seq))
    kept = _picked(past, new, source, room)
    old = places(room, (1, 1, 1, room))
    far = waist.constant(FAR, int64)
    at = [
        _either(waist.map("lt", old, had), waist.map("add", first, old), far),
        _either(
            waist.map("lt", places(seq, (1, 1, 1, seq)), step.brought),
            waist.map("add", step.before, places(seq, (1, 1, 1, seq))),
            far,
        ),
    ]
    return Rows(waist.concat([past, new], 2), kept, waist.concat(at, 3))


def _resident(count: Tensor, room: Dim, window: int) -> Tensor:
    """How many positions are held of so many: all while there is room, else what is left of dropping in steps."""
    at_once = size_scalar(room - (window - 1))
    over = waist.map("max", waist.map("sub", count, size_scalar(room)), number(0, count))
    rounded = waist.map("add", over, waist.map("sub", at_once, number(1, count)))
    times = waist.map("div", rounded, at_once)
    return waist.map("sub", count, waist.map("mul", times, at_once))


def _either(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return waist.map("select", condition, yes, no)


def _picked(past: Tensor, new: Tensor, source: Tensor, length: Dim) -> Tensor:
    """Rows of the past, the new ones and one of zeros, by their places in a row.

    Shapes: source (batch, 1, length, 1) -> (batch, heads, length, size)
    """
    batch, heads, _, size = new.shape
    empty = waist.broadcast(number(0, new), (batch, heads, 1, size))
    joined = waist.concat([past, new, empty], 2)
    return waist.take_along(joined, waist.broadcast(source, (batch, heads, length, size)), 2)
