"""Loads and stores: of one element, of neighbouring ones as a vector, or of scattered ones."""

from __future__ import annotations

from collections.abc import Iterator

from burnx.dtype import DType, bool_
from burnx.kernels.ir import Buffer
from burnx.llvm.context import Context
from burnx.llvm.dtypes import (
    like,
    memory_type,
    register_type,
    size_bytes,
)
from burnx.llvm.functions import combine
from burnx.llvm.indices import pointer, stride, varies
from burnx.llvm.writer import Ssa, integer
from burnx.shape import Dim

_ZERO = {False: "0", True: "zeroinitializer"}


def load(context: Context, buffer: Buffer, index: Dim) -> Ssa:
    """The element at ``index``, or, where lanes have different ones, a vector of them."""
    if not varies(context, index):
        return _load_at(context, buffer, pointer(context, buffer, index), 1)
    step = stride(context, index)
    if step == 1:
        return _load_at(context, buffer, pointer(context, buffer, index), context.count)
    if step == -1:
        return _load_backwards(context, buffer, index)
    if step == 2:
        return _load_every_second(context, buffer, index)
    type_ = register_type(buffer.dtype, context.count)
    result = Ssa("poison", type_)
    for lane, place in _places(context, buffer, index, step):
        element = _load_at(context, buffer, place, 1)
        result = context.writer.value(type_, f"insertelement {result}, {element}, i64 {lane}")
    return result


def _load_at(context: Context, buffer: Buffer, place: Ssa, lanes: int) -> Ssa:
    type_ = memory_type(buffer.dtype)
    # a constant may lie anywhere in a mapped file, and no processor here minds
    raw = context.writer.load(type_ if lanes == 1 else f"<{lanes} x {type_}>", place, 1)
    return from_memory(context, raw, buffer.dtype)


def _load_backwards(context: Context, buffer: Buffer, index: Dim) -> Ssa:
    last = context.writer.pointer(
        pointer(context, buffer, index), integer(1 - context.count), memory_type(buffer.dtype)
    )
    vector = _load_at(context, buffer, last, context.count)
    return _shuffle(context, vector, vector, list(reversed(range(context.count))))


def _load_every_second(context: Context, buffer: Buffer, index: Dim) -> Ssa:
    """Two vectors, of which the second ends at the last element that is wanted: no further one is read."""
    count = context.count
    first = pointer(context, buffer, index)
    second = context.writer.pointer(first, integer(count - 1), memory_type(buffer.dtype))
    low, high = (_load_at(context, buffer, place, count) for place in (first, second))
    wanted = [2 * lane if 2 * lane < count else 2 * lane + 1 for lane in range(count)]
    return _shuffle(context, low, high, wanted)


def _shuffle(context: Context, left: Ssa, right: Ssa, wanted: list[int]) -> Ssa:
    order = ", ".join(f"i32 {lane}" for lane in wanted)
    mask = f"<{len(wanted)} x i32> <{order}>"
    return context.writer.value(left.type, f"shufflevector {left}, {right}, {mask}")


def _places(
    context: Context, buffer: Buffer, index: Dim, step: Dim | None
) -> Iterator[tuple[int, Ssa]]:
    """The address of every lane's element.  What is done with one comes before the next."""
    if step is None:
        for lane in range(context.count):
            with context.one_lane(integer(lane)):
                yield lane, pointer(context, buffer, index)
        return
    first = pointer(context, buffer, index)
    for lane in range(context.count):
        distance = context.index(step * lane)
        type_ = memory_type(buffer.dtype)
        yield lane, first if lane == 0 else context.writer.pointer(first, distance, type_)


def from_memory(context: Context, raw: Ssa, dtype: DType) -> Ssa:
    if dtype != bool_:
        return raw
    return context.writer.compare("icmp ne", raw, Ssa(_ZERO[raw.type.startswith("<")], raw.type))


def to_memory(context: Context, value: Ssa, dtype: DType) -> Ssa:
    if dtype != bool_:
        return value
    return context.writer.convert("zext", value, like(value.type, "i8"))


def store(context: Context, buffer: Buffer, index: Dim, value: Ssa, function: str) -> None:
    """Write a value (scalar or vector), with ``function`` the old one combined with it.

    Lanes that write the same element do so in order.
    """
    step = stride(context, index)
    if context.count == 1 or (step == 0 and not varies(context, index) and not _is_vector(value)):
        repeats = context.count if function else 1
        for _ in range(repeats):
            _store_at(context, buffer, pointer(context, buffer, index), value, function)
    elif step == 1:
        whole = context.writer.splat(value, context.count) if not _is_vector(value) else value
        _store_at(context, buffer, pointer(context, buffer, index), whole, function)
    else:
        for lane, place in _places(context, buffer, index, step):
            part = context.pick(value, integer(lane)) if _is_vector(value) else value
            _store_at(context, buffer, place, part, function)


def _is_vector(value: Ssa) -> bool:
    return value.type.startswith("<")


def _store_at(context: Context, buffer: Buffer, place: Ssa, value: Ssa, function: str) -> None:
    writer, align = context.writer, size_bytes(buffer.dtype)
    if function:
        raw = writer.load(like(value.type, memory_type(buffer.dtype)), place, align)
        value = combine(
            context, function, from_memory(context, raw, buffer.dtype), value, buffer.dtype
        )
    writer.store(to_memory(context, value, buffer.dtype), place, align)
