"""Primitives in standard operators of opset 18 and later: one writer for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from burnx.dtype import DType, bool_, code_of_dtype, int32, int64, is_float
from burnx.errors import ExportError
from burnx.exporter.spell_sizes import Arithmetic
from burnx.exporter.spelling import Emitter
from burnx.graph import Value
from burnx.program import Instruction, Var
from burnx.shape import Dim, Shape
from burnx.types import TensorType

LAST = np.iinfo(np.int64).min + 1
"""The end of a slice that goes backwards through the first element."""


@dataclass(slots=True, eq=False)
class PrimitiveWriter:
    """Writes instructions as nodes.

    ``values`` says what stands for each variable, ``homes`` where the sizes that are symbols can be read, ``held``
    which constants the model has already.
    """

    emitter: Emitter
    values: dict[int, Value]
    homes: dict[str, tuple[Value, int]]
    held: dict[int, Value]

    def value(self, var: Var | None) -> Value:
        assert var is not None
        if var.array is None:
            return self.values[id(var)]
        if id(var.array) in self.held:
            return self.emitter.resolve(self.held[id(var.array)])
        return self.emitter.constant(var.array, var.array.dtype)

    def add(self, instruction: Instruction, result: Value | Sequence[Value]) -> None:
        """Note what an instruction has become, and where the sizes that it binds can be read."""
        results = [result] if isinstance(result, Value) else list(result)
        self.values.update(
            (id(var), value) for var, value in zip(instruction.outputs, results, strict=True)
        )
        for binding in instruction.binds:
            self.homes[binding.name] = (results[binding.output], binding.axis)

    def sizes(self, dims: Sequence[Dim]) -> Value:
        """Dimensions as a vector."""
        return Arithmetic(self.emitter, self.homes).vector(dims)

    def emit(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        like: Value | TensorType,
        **attributes: Any,
    ) -> Value:
        kind = like.type if isinstance(like, Value) else like
        return self.emitter.emit(operator, inputs, kind, **attributes)

    def number(self, value: float, like: Value) -> Value:
        return self.emitter.constant(value, _dtype(like))

    def vector(self, values: Sequence[int]) -> Value:
        return self.emitter.constant(list(values))


Writing: TypeAlias = Callable[[PrimitiveWriter, Instruction], "Value | Sequence[Value]"]
WRITERS: dict[str, Writing] = {}


def writer(name: str) -> Callable[[Writing], Writing]:
    def register(function: Writing) -> Writing:
        WRITERS[name] = function
        return function

    return register


def _type(item: Value | Var) -> TensorType:
    if not isinstance(item.type, TensorType):
        raise ExportError(f"tensors are written, not a {item.type}")
    return item.type


def _dtype(item: Value | Var) -> DType:
    return _type(item).dtype


def _shape(item: Value | Var) -> Shape:
    return _type(item).shape or ()


def _operands(write: PrimitiveWriter, step: Instruction) -> list[Value]:
    return [write.value(var) for var in step.inputs]


# ------------------------------------------------------------------------------- functions of numbers
_PLAIN = (
    "add sub mul div pow min max neg abs sign floor ceil round sqrt exp log softplus sin cos tan asin acos atan sinh "
    "cosh tanh asinh acosh atanh erf and or xor not"
)
_NAMES = {
    **{name: name.capitalize() for name in _PLAIN.split()},
    "select": "Where",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "is_nan": "IsNaN",
    "is_inf": "IsInf",
    "bit_and": "BitwiseAnd",
    "bit_or": "BitwiseOr",
    "bit_xor": "BitwiseXor",
    "bit_not": "BitwiseNot",
}


@writer("map")
def write_map(write: PrimitiveWriter, step: Instruction) -> Value:
    name, kind = step.attributes["function"], _type(step.outputs[0])
    operands = _operands(write, step)
    if name in _NAMES:
        return write.emit(_NAMES[name], operands, kind)
    if name not in _COMPOSED:
        raise ExportError(f"the function {name} has no standard operator")
    return _COMPOSED[name](write, kind, *operands)


def _expm1(write: PrimitiveWriter, kind: TensorType, x: Value) -> Value:
    return write.emit("Sub", [write.emit("Exp", [x], kind), write.number(1, x)], kind)


def _log1p(write: PrimitiveWriter, kind: TensorType, x: Value) -> Value:
    return write.emit("Log", [write.emit("Add", [x, write.number(1, x)], kind)], kind)


def _trunc(write: PrimitiveWriter, kind: TensorType, x: Value) -> Value:
    size = write.emit("Floor", [write.emit("Abs", [x], kind)], kind)
    return write.emit("Mul", [write.emit("Sign", [x], kind), size], kind)


def _floor_mod(write: PrimitiveWriter, kind: TensorType, x: Value, y: Value) -> Value:
    if not is_float(kind.dtype):
        return write.emit("Mod", [x, y], kind)
    whole = write.emit("Floor", [write.emit("Div", [x, y], kind)], kind)
    return write.emit("Sub", [x, write.emit("Mul", [whole, y], kind)], kind)


_COMPOSED: dict[str, Callable[..., Value]] = {
    "expm1": _expm1,
    "log1p": _log1p,
    "trunc": _trunc,
    "floor_mod": _floor_mod,
    "trunc_mod": lambda write, kind, x, y: write.emit("Mod", [x, y], kind, fmod=1),
}


@writer("cast")
def write_cast(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = _type(step.outputs[0])
    return write.emit("Cast", _operands(write, step), kind, to=code_of_dtype(kind.dtype))


# ------------------------------------------------------------------------------- movement
@writer("broadcast")
def write_broadcast(write: PrimitiveWriter, step: Instruction) -> Value:
    (x,) = _operands(write, step)
    return write.emit("Expand", [x, write.sizes(step.attributes["shape"])], _type(step.outputs[0]))


def reshaped(write: PrimitiveWriter, x: Value, shape: Shape) -> Value:
    kind = TensorType(_dtype(x), shape)
    return write.emit("Reshape", [x, write.sizes(shape)], kind, allowzero=1)


@writer("reshape")
def write_reshape(write: PrimitiveWriter, step: Instruction) -> Value:
    return reshaped(write, write.value(step.inputs[0]), step.attributes["shape"])


@writer("transpose")
def write_transpose(write: PrimitiveWriter, step: Instruction) -> Value:
    perm = list(step.attributes["perm"])
    return write.emit("Transpose", _operands(write, step), _type(step.outputs[0]), perm=perm)


@writer("slice")
def write_slice(write: PrimitiveWriter, step: Instruction) -> Value:
    starts, sizes, steps = (step.attributes[name] for name in ("starts", "sizes", "steps"))
    ends = [_end(*each) for each in zip(starts, sizes, steps, strict=True)]
    axes = write.vector(range(len(starts)))
    inputs = [write.value(step.inputs[0]), write.sizes(starts), write.sizes(ends), axes]
    return write.emit("Slice", [*inputs, write.vector(steps)], _type(step.outputs[0]))


def _end(start: Dim, size: Dim, step: int) -> Dim:
    end = start + size * step
    if step > 0:
        return end
    if not isinstance(end, int):
        raise ExportError("a slice backwards to a size that is not known has no standard spelling")
    return LAST if end < 0 else end


@writer("pad")
def write_pad(write: PrimitiveWriter, step: Instruction) -> Value:
    x, value = _operands(write, step)
    low, high = step.attributes["low"], step.attributes["high"]
    return write.emit("Pad", [x, write.sizes([*low, *high]), value], _type(step.outputs[0]))


@writer("concat")
def write_concat(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = _type(step.outputs[0])
    return write.emit("Concat", _operands(write, step), kind, axis=step.attributes["axis"])


@writer("flip")
def write_flip(write: PrimitiveWriter, step: Instruction) -> Value:
    axes = step.attributes["axes"]
    bounds = [[-1] * len(axes), [LAST] * len(axes), axes, [-1] * len(axes)]
    inputs = [write.value(step.inputs[0]), *map(write.vector, bounds)]
    return write.emit("Slice", inputs, _type(step.outputs[0]))


# ------------------------------------------------------------------------------- reductions
@writer("reduce")
def write_reduce(write: PrimitiveWriter, step: Instruction) -> Value:
    (x,), name, kind = _operands(write, step), step.attributes["function"], _type(step.outputs[0])
    axes = write.vector(step.attributes["axes"])
    if name not in ("and", "or"):
        return write.emit(
            f"Reduce{name.capitalize()}", [x, axes], kind, keepdims=0, noop_with_empty_axes=1
        )
    number = write.emit("Cast", [x], TensorType(int32, _shape(x)), to=code_of_dtype(int32))
    operator = "ReduceMin" if name == "and" else "ReduceMax"
    found = write.emit(
        operator, [number, axes], TensorType(int32, kind.shape), keepdims=0, noop_with_empty_axes=1
    )
    return write.emit("Cast", [found], kind, to=code_of_dtype(bool_))


@writer("argreduce")
def write_argreduce(write: PrimitiveWriter, step: Instruction) -> Value:
    operator = "ArgMax" if step.attributes["function"] == "max" else "ArgMin"
    kind = _type(step.outputs[0])
    return write.emit(
        operator, _operands(write, step), kind, axis=step.attributes["axis"], keepdims=0
    )


@writer("cumulate")
def write_cumulate(write: PrimitiveWriter, step: Instruction) -> Value:
    operator = "CumSum" if step.attributes["function"] == "sum" else "CumProd"
    axis = write.emitter.constant(step.attributes["axis"])
    options = {name: int(step.attributes[name]) for name in ("exclusive", "reverse")}
    return write.emit(
        operator, [write.value(step.inputs[0]), axis], _type(step.outputs[0]), **options
    )


@writer("window_reduce")
def write_window(write: PrimitiveWriter, step: Instruction) -> Value:
    """Pools take two leading axes; a sum is an average times the size of the window."""
    (x,), name, kind = _operands(write, step), step.attributes["function"], _type(step.outputs[0])
    window, strides, dilations, pads = (
        list(step.attributes[key]) for key in ("window", "strides", "dilations", "pads")
    )
    if name not in ("sum", "max") or any(width < 0 for pair in pads for width in pair):
        raise ExportError(f"a {name} over windows has no standard operator")
    lead = len(_shape(x)) - len(window)
    rows: Dim = math.prod(_shape(x)[:lead])
    data = reshaped(write, x, (rows, 1, *_shape(x)[lead:]))
    options = {
        "kernel_shape": window,
        "strides": strides,
        "dilations": dilations,
        "pads": [pair[side] for side in (0, 1) for pair in pads],
    }
    pooled = TensorType(kind.dtype, (rows, 1, *(kind.shape or ())[lead:]))
    if name == "max":
        return reshaped(write, write.emit("MaxPool", [data], pooled, **options), kind.shape or ())
    mean = write.emit("AveragePool", [data], pooled, count_include_pad=1, **options)
    total = write.emit("Mul", [mean, write.number(math.prod(window), mean)], pooled)
    return reshaped(write, total, kind.shape or ())


# ------------------------------------------------------------------------------- products
@writer("contract")
def write_contract(write: PrimitiveWriter, step: Instruction) -> Value:
    left, right = _operands(write, step)
    batch, sum_over = step.attributes["batch"], step.attributes["sum_over"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[""] * len(_shape(each)) for each in (left, right)]
    for pairs in (batch, sum_over):
        for one, other in zip(*pairs, strict=True):
            names[0][one] = names[1][other] = next(letters)
    for each in names:
        each[:] = [name or next(letters) for name in each]
    taken = [{*batch[side], *sum_over[side]} for side in (0, 1)]
    free = [[n for axis, n in enumerate(names[side]) if axis not in taken[side]] for side in (0, 1)]
    lead = [names[0][axis] for axis in batch[0]]
    result = "".join([*lead, *free[0], *free[1]])
    kind, dtype = _type(step.outputs[0]), step.attributes["dtype"]
    wide = [_cast(write, each, dtype) for each in (left, right)]
    equation = f"{''.join(names[0])},{''.join(names[1])}->{result}"
    return write.emit("Einsum", wide, kind, equation=equation)


def _cast(write: PrimitiveWriter, x: Value, dtype: DType) -> Value:
    if _dtype(x) == dtype:
        return x
    return write.emit("Cast", [x], TensorType(dtype, _shape(x)), to=code_of_dtype(dtype))


@writer("conv")
def write_conv(write: PrimitiveWriter, step: Instruction) -> Value:
    """Conv; zeros between elements, and negative padding, are put in first."""
    x, w = _operands(write, step)
    strides, pads, dilations, spread = (
        list(step.attributes[key]) for key in ("strides", "pads", "dilations", "spread")
    )
    for axis, gap in enumerate(spread, 2):
        x = x if gap == 1 else _set_apart(write, x, axis, gap)
    if any(width < 0 for pair in pads for width in pair):
        x, pads = _padded(write, x, pads), [(0, 0)] * len(pads)
    flat = [pair[side] for side in (0, 1) for pair in pads]
    options = {"strides": strides, "dilations": dilations, "pads": flat}
    given = [_cast(write, each, step.attributes["dtype"]) for each in (x, w)]
    return write.emit(
        "Conv", given, _type(step.outputs[0]), group=step.attributes["groups"], **options
    )


def _padded(write: PrimitiveWriter, x: Value, pads: Sequence[tuple[int, int]]) -> Value:
    lead = len(_shape(x)) - len(pads)
    low, high = ([0] * lead + [pair[side] for pair in pads] for side in (0, 1))
    shape = tuple(n + a + b for n, a, b in zip(_shape(x), low, high, strict=True))
    return write.emit("Pad", [x, write.vector([*low, *high])], TensorType(_dtype(x), shape))


def _set_apart(write: PrimitiveWriter, x: Value, axis: int, gap: int) -> Value:
    """``gap - 1`` zeros between neighbours along an axis: put behind each, the last ones cut off again."""
    before, size, after = _shape(x)[:axis], _shape(x)[axis], _shape(x)[axis + 1 :]
    single = reshaped(write, x, (*before, size, 1, *after))
    rank = len(before) + 2 + len(after)
    widths = [0] * (2 * rank)
    widths[rank + axis + 1] = gap - 1
    wide = write.emit(
        "Pad", [single, write.vector(widths)], TensorType(_dtype(x), (*before, size, gap, *after))
    )
    joined = reshaped(write, wide, (*before, size * gap, *after))
    bounds = [[0], [1 - gap], [axis]]
    kind = TensorType(_dtype(x), (*before, size * gap - gap + 1, *after))
    return write.emit("Slice", [joined, *map(write.vector, bounds)], kind)


# ------------------------------------------------------------------------------- indexing and the rest
def _indexing(operator: str, *names: str) -> Writing:
    def put(write: PrimitiveWriter, step: Instruction) -> Value:
        options = {name: step.attributes[name] for name in names}
        if "batch" in options:
            options["batch_dims"] = options.pop("batch")
        return write.emit(operator, _operands(write, step), _type(step.outputs[0]), **options)

    return put


WRITERS.update(
    take=_indexing("Gather", "axis"),
    take_along=_indexing("GatherElements", "axis"),
    gather_nd=_indexing("GatherND", "batch"),
    scatter_along=_indexing("ScatterElements", "axis", "reduction"),
    scatter_nd=_indexing("ScatterND", "reduction"),
    nonzero=_indexing("NonZero"),
)


@writer("sort")
def write_sort(write: PrimitiveWriter, step: Instruction) -> Sequence[Value]:
    (x,), axis = _operands(write, step), step.attributes["axis"]
    kinds = [_type(var) for var in step.outputs]
    options = {"axis": axis, "largest": int(step.attributes["descending"])}
    return write.emitter.emit_all("TopK", [x, write.sizes([_shape(x)[axis]])], kinds, **options)


@writer("iota")
def write_iota(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = _type(step.outputs[0])
    stop = reshaped(write, write.sizes([step.attributes["size"]]), ())
    ends = write.emitter.constant(0), stop, write.emitter.constant(1)
    return _cast(write, write.emit("Range", ends, TensorType(int64, kind.shape)), kind.dtype)


@writer("sizes")
def write_sizes(write: PrimitiveWriter, step: Instruction) -> Value:
    return write.sizes(step.attributes["dims"])
