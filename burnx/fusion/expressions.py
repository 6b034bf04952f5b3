"""Values of a program as scalar expressions at an index: what is not in memory is worked out where it is read.

Movement (reshape, transpose, slice …) only changes the index; elementwise functions become ``Apply``.  Low-precision
floats are computed in float32 and rounded where they are stored or cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import DType, bool_, compute_dtype, int64, is_float, is_integer
from burnx.fusion.indices import recombine, reshaped
from burnx.fusion.storage import Storage
from burnx.kernels.ir import (
    WORKER,
    Apply,
    Buffer,
    Cast,
    Constant,
    Inside,
    Load,
    Lookup,
    Position,
    Value,
)
from burnx.primitives.scalar import FUNCTIONS
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape, Undecided, minimum, same, symbol
from burnx.types import TensorType

Index = tuple[Dim, ...]
Find = Callable[[Var], "Storage | None"]


def shape_of(var: Var) -> Shape:
    assert isinstance(var.type, TensorType) and var.type.shape is not None
    return var.type.shape


def dtype_of(var: Var) -> DType:
    assert isinstance(var.type, TensorType)
    return var.type.dtype


def working_dtype(dtype: DType) -> DType:
    """What numbers of a dtype are computed in: float32 for low-precision floats, int32 for 2 and 4 bits."""
    if is_integer(dtype) and dtype.kind == "V":
        return np.dtype(np.int32)
    return compute_dtype(dtype)


@dataclass(slots=True)
class Expressions:
    """Builds the values of one kernel.

    ``storage`` finds or makes the memory of a value, or says None where it is to be worked out in place.
    ``ranges`` are the extents of the kernel's variables.  ``given`` are values that the kernel itself has at hand.
    """

    definitions: Mapping[Var, Instruction]
    storage: Find
    ranges: dict[str, Dim] = field(default_factory=dict)
    given: dict[tuple[Var, Index], Value] = field(default_factory=dict)
    buffers: dict[Storage, Buffer] = field(default_factory=dict)
    lookups: list[Lookup] = field(default_factory=list)
    _memo: dict[tuple[Var, Index], Value] = field(default_factory=dict)
    _count: int = 0

    def variable(self, extent: Dim) -> Dim:
        """A new loop variable."""
        self._count += 1
        name = f"${self._count}"
        self.ranges[name] = extent
        return symbol(name)

    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def buffer(self, storage: Storage) -> Buffer:
        if storage not in self.buffers:
            self.buffers[storage] = Buffer(f"b{len(self.buffers)}", storage.dtype)
        return self.buffers[storage]

    def place(self, storage: Storage, index: Index) -> Dim:
        """Where an element lies in a storage."""
        total = storage.offset()
        if storage.role == "scratch":
            total = symbol(WORKER) * storage.elements()
        for each, stride in zip(index, storage.strides(), strict=True):
            if each != 0:
                total = total + each * stride
        return recombine(total)

    def load(self, storage: Storage, index: Index) -> Load:
        return Load(self.buffer(storage), self.place(storage, index))

    def value(self, var: Var, index: Index) -> Value:
        """The value of ``var`` at an index, in its working dtype."""
        key = (var, index)
        found = self.given.get(key) or self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._make(var, index)
        return found

    def _make(self, var: Var, index: Index) -> Value:
        dtype = dtype_of(var)
        if var.array is not None and is_uniform(var):
            return constant(var.array.reshape(-1)[:1], dtype)
        storage = self.storage(var)
        if storage is None:
            instruction = self.definitions[var]
            return VIRTUAL[instruction.primitive](self, instruction, index)
        loaded = self.load(storage, self._clamped(index, var))
        return as_working(loaded, dtype)

    def _clamped(self, index: Index, var: Var) -> Index:
        return tuple(
            0 if size == 1 else one for one, size in zip(index, shape_of(var), strict=True)
        )

    def lookup(self, var: Var, index: Index, limit: Dim) -> Dim:
        """An index that is read from memory, or a constant within bounds."""
        value = self.value(var, index)
        if isinstance(value, Constant) and isinstance(limit, int):
            place = int(value.value) + (limit if value.value < 0 else 0)
            if 0 <= place < limit:
                return place
        if value.dtype != int64:
            value = Cast(value, int64)
        name = f"@{self.name('')}"
        self.ranges[name] = limit
        self.lookups.append(Lookup(name, value, limit))
        return symbol(name)


_UNIFORM_MOST = 1 << 16


def is_uniform(var: Var) -> bool:
    """Whether all elements of a constant are the same bits."""
    array = var.array
    if array is None or not 0 < array.size <= _UNIFORM_MOST:
        return False
    if array.size == 1:
        return True
    first, last = array.reshape(-1)[0], array.reshape(-1)[-1]
    if first.tobytes() != last.tobytes():
        return False
    return array.tobytes() == first.tobytes() * array.size


def constant(array: np.ndarray[Any, Any], dtype: DType) -> Value:
    """The only element of an array, in its working dtype."""
    working = working_dtype(dtype)
    return Constant(array.reshape(()).astype(working).item(), working)


def as_working(value: Value, dtype: DType) -> Value:
    working = working_dtype(dtype)
    return value if working == dtype else Cast(value, working)


def as_stored(value: Value, dtype: DType) -> Value:
    """A working value rounded to what it is stored as."""
    return value if value.dtype == dtype else Cast(value, dtype, saturate=False)


def _map(at: Expressions, instruction: Instruction, index: Index) -> Value:
    function = instruction.attributes["function"]
    arguments = tuple(at.value(var, index) for var in instruction.inputs if var is not None)
    return applied(function, arguments, dtype_of(instruction.outputs[0]))


def applied(function: str, arguments: tuple[Value, ...], dtype: DType) -> Value:
    """A scalar function applied; tiny floats and integers are rounded or wrapped at once."""
    predicate = FUNCTIONS[function].is_predicate
    result = Apply(function, arguments, bool_ if predicate else arguments[-1].dtype)
    return result if predicate else narrowed(result, dtype)


def narrowed(value: Value, dtype: DType) -> Value:
    """A working value with no more bits than its dtype holds; only 16-bit floats may keep theirs for a while."""
    if dtype == value.dtype or dtype.name in ("float16", "bfloat16"):
        return value
    return Cast(Cast(value, dtype, saturate=False), value.dtype)


def _cast(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    target = instruction.attributes["dtype"]
    value = at.value(source, index)
    if dtype_of(source) == target:
        return value
    saturate = bool(instruction.attributes.get("saturate", True))
    if is_float(dtype_of(source)) and not _holds(value, dtype_of(source)):
        value = Cast(
            Cast(value, dtype_of(source), False), value.dtype
        )  # it may not have been rounded yet
    if is_integer(target) and _lies_within(value, target):
        whole = Cast(value, np.dtype(np.int32))  # the same number, and quicker to get
        return as_working(as_stored(whole, target), target)
    if isinstance(value, Cast) and _narrows_exactly(value) and is_integer(target):
        return as_working(as_stored(value.value, target), target)
    return as_working(Cast(value, target, saturate), target)


def _holds(value: Value, dtype: DType) -> bool:
    """Whether a value is one of a float's dtype, perhaps widened since."""
    widened = isinstance(value, Cast) and not value.bits and value.value.dtype == dtype
    return value.dtype == dtype or (widened and value.dtype.itemsize > dtype.itemsize)


def _lies_within(value: Value, target: DType) -> bool:
    """Whether a float was clipped to what a small integer holds."""
    if target.kind not in "iu" or target.itemsize > 2 or value.dtype.kind != "f":
        return False
    bounds: dict[str, float] = {}
    while isinstance(value, Apply) and value.function in ("min", "max"):
        ends = [each for each in value.arguments if isinstance(each, Constant)]
        if len(ends) != 1:
            break
        bounds.setdefault(value.function, float(ends[0].value))
        value = next(each for each in value.arguments if each is not ends[0])
    info = np.iinfo(target)
    low, high = bounds.get("max", -np.inf), bounds.get("min", np.inf)
    return info.min <= low <= info.max and info.min <= high <= info.max


def _narrows_exactly(value: Cast) -> bool:
    """Whether a small integer was made from int32 whose value it holds: the wider one can be read instead."""
    inner = value.value
    return (
        value.dtype.kind in "iu"
        and isinstance(inner, Cast)
        and inner.dtype == np.int32
        and _lies_within(inner.value, value.dtype)
    )


def _bitcast(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    value = as_stored(at.value(source, index), dtype_of(source))
    target = instruction.attributes["dtype"]
    return as_working(Cast(value, target, bits=True), target)


def _broadcast(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    shape, target = shape_of(source), shape_of(instruction.outputs[0])
    tail = index[len(index) - len(shape) :]
    ends = target[len(target) - len(shape) :]
    return at.value(source, tuple(map(_stretched, tail, shape, ends)))


def _stretched(index: Dim, size: Dim, target: Dim) -> Dim:
    if size == 1:
        return 0
    if size == target or isinstance(size, int):
        return index
    try:
        return index if not same(size, 1) else 0
    except Undecided:
        return index * minimum(size - 1, 1)  # a size that may turn out to be 1


def _reshape(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    target = shape_of(instruction.outputs[0])
    return at.value(source, reshaped(index, target, shape_of(source), at.ranges))


def _transpose(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    moved: list[Dim] = [0] * len(index)
    for axis, origin in enumerate(instruction.attributes["perm"]):
        moved[origin] = index[axis]
    return at.value(source, tuple(moved))


def _slice(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    given = instruction.attributes
    moved = [
        start + each * step
        for each, start, step in zip(index, given["starts"], given["steps"], strict=True)
    ]
    return at.value(source, tuple(moved))


def _flip(at: Expressions, instruction: Instruction, index: Index) -> Value:
    (source,) = instruction.inputs
    assert source is not None
    axes = {axis % len(index) for axis in instruction.attributes["axes"]}
    shape = shape_of(source)
    moved = [shape[axis] - 1 - each if axis in axes else each for axis, each in enumerate(index)]
    return at.value(source, tuple(moved))


def _iota(at: Expressions, instruction: Instruction, index: Index) -> Value:
    dtype = dtype_of(instruction.outputs[0])
    return as_working(Position(index[0], working_dtype(dtype)), working_dtype(dtype))


def _sizes(at: Expressions, instruction: Instruction, index: Index) -> Value:
    dims = instruction.attributes["dims"]
    if isinstance(index[0], int):
        return Position(dims[index[0]], int64)
    result: Value = Position(dims[-1], int64)
    for place in reversed(range(len(dims) - 1)):
        result = Inside(((0, index[0], place + 1),), Position(dims[place], int64), result)
    return result


def _take(at: Expressions, instruction: Instruction, index: Index) -> Value:
    source, indices = instruction.inputs
    assert source is not None and indices is not None
    axis, rank = instruction.attributes["axis"], len(shape_of(indices))
    found = at.lookup(indices, index[axis : axis + rank], shape_of(source)[axis])
    return at.value(source, (*index[:axis], found, *index[axis + rank :]))


def _take_along(at: Expressions, instruction: Instruction, index: Index) -> Value:
    source, indices = instruction.inputs
    assert source is not None and indices is not None
    axis = instruction.attributes["axis"]
    found = at.lookup(indices, index, shape_of(source)[axis])
    return at.value(source, (*index[:axis], found, *index[axis + 1 :]))


def _gather_nd(at: Expressions, instruction: Instruction, index: Index) -> Value:
    source, indices = instruction.inputs
    assert source is not None and indices is not None
    batch, shape = instruction.attributes["batch"], shape_of(source)
    rank, depth = len(shape_of(indices)), shape_of(indices)[-1]
    assert isinstance(depth, int)
    lead = index[: rank - 1]
    found = [at.lookup(indices, (*lead, place), shape[batch + place]) for place in range(depth)]
    return at.value(source, (*index[:batch], *found, *index[rank - 1 :]))


Virtual = Callable[[Expressions, Instruction, Index], Value]
VIRTUAL: dict[str, Virtual] = {
    "map": _map,
    "cast": _cast,
    "bitcast": _bitcast,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "flip": _flip,
    "iota": _iota,
    "sizes": _sizes,
    "take": _take,
    "take_along": _take_along,
    "gather_nd": _gather_nd,
}
MOVEMENT = frozenset(("broadcast", "reshape", "transpose", "slice", "flip", "iota", "sizes"))
