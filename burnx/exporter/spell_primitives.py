"""Primitives in standard operators of opset 18 and later: one writer for each."""

from __future__ import annotations

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
        return self.emitter.constant(value, dtype_of(like))

    def vector(self, values: Sequence[int]) -> Value:
        return self.emitter.constant(list(values))


Writing: TypeAlias = Callable[[PrimitiveWriter, Instruction], "Value | Sequence[Value]"]
WRITERS: dict[str, Writing] = {}


def writer(name: str) -> Callable[[Writing], Writing]:
    def register(function: Writing) -> Writing:
        WRITERS[name] = function
        return function

    return register


def tensor_type(item: Value | Var) -> TensorType:
    if not isinstance(item.type, TensorType):
        raise ExportError(f"tensors are written, not a {item.type}")
    return item.type


def dtype_of(item: Value | Var) -> DType:
    return tensor_type(item).dtype


def shape_of(item: Value | Var) -> Shape:
    return tensor_type(item).shape or ()


def operands_of(write: PrimitiveWriter, step: Instruction) -> list[Value]:
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
    name, kind = step.attributes["function"], tensor_type(step.outputs[0])
    operands = operands_of(write, step)
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


def cast_to(write: PrimitiveWriter, x: Value, dtype: DType) -> Value:
    if dtype_of(x) == dtype:
        return x
    return write.emit("Cast", [x], TensorType(dtype, shape_of(x)), to=code_of_dtype(dtype))


@writer("cast")
def write_cast(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = tensor_type(step.outputs[0])
    return write.emit("Cast", operands_of(write, step), kind, to=code_of_dtype(kind.dtype))


# ------------------------------------------------------------------------------- movement
@writer("broadcast")
def write_broadcast(write: PrimitiveWriter, step: Instruction) -> Value:
    (x,) = operands_of(write, step)
    return write.emit(
        "Expand", [x, write.sizes(step.attributes["shape"])], tensor_type(step.outputs[0])
    )


def reshaped(write: PrimitiveWriter, x: Value, shape: Shape) -> Value:
    kind = TensorType(dtype_of(x), shape)
    return write.emit("Reshape", [x, write.sizes(shape)], kind, allowzero=1)


@writer("reshape")
def write_reshape(write: PrimitiveWriter, step: Instruction) -> Value:
    return reshaped(write, write.value(step.inputs[0]), step.attributes["shape"])


@writer("transpose")
def write_transpose(write: PrimitiveWriter, step: Instruction) -> Value:
    perm = list(step.attributes["perm"])
    return write.emit(
        "Transpose", operands_of(write, step), tensor_type(step.outputs[0]), perm=perm
    )


@writer("slice")
def write_slice(write: PrimitiveWriter, step: Instruction) -> Value:
    starts, sizes, steps = (step.attributes[name] for name in ("starts", "sizes", "steps"))
    ends = [_end(*each) for each in zip(starts, sizes, steps, strict=True)]
    axes = write.vector(range(len(starts)))
    inputs = [write.value(step.inputs[0]), write.sizes(starts), write.sizes(ends), axes]
    return write.emit("Slice", [*inputs, write.vector(steps)], tensor_type(step.outputs[0]))


def _end(start: Dim, size: Dim, step: int) -> Dim:
    end = start + size * step
    if step > 0:
        return end
    if not isinstance(end, int):
        raise ExportError("a slice backwards to a size that is not known has no standard spelling")
    return LAST if end < 0 else end


@writer("pad")
def write_pad(write: PrimitiveWriter, step: Instruction) -> Value:
    x, value = operands_of(write, step)
    low, high = step.attributes["low"], step.attributes["high"]
    return write.emit("Pad", [x, write.sizes([*low, *high]), value], tensor_type(step.outputs[0]))


@writer("concat")
def write_concat(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = tensor_type(step.outputs[0])
    return write.emit("Concat", operands_of(write, step), kind, axis=step.attributes["axis"])


@writer("flip")
def write_flip(write: PrimitiveWriter, step: Instruction) -> Value:
    axes = step.attributes["axes"]
    bounds = [[-1] * len(axes), [LAST] * len(axes), axes, [-1] * len(axes)]
    inputs = [write.value(step.inputs[0]), *map(write.vector, bounds)]
    return write.emit("Slice", inputs, tensor_type(step.outputs[0]))


# ------------------------------------------------------------------------------- reductions
@writer("reduce")
def write_reduce(write: PrimitiveWriter, step: Instruction) -> Value:
    (x,), name, kind = (
        operands_of(write, step),
        step.attributes["function"],
        tensor_type(step.outputs[0]),
    )
    axes = write.vector(step.attributes["axes"])
    if name not in ("and", "or"):
        return write.emit(
            f"Reduce{name.capitalize()}", [x, axes], kind, keepdims=0, noop_with_empty_axes=1
        )
    number = write.emit("Cast", [x], TensorType(int32, shape_of(x)), to=code_of_dtype(int32))
    operator = "ReduceMin" if name == "and" else "ReduceMax"
    found = write.emit(
        operator, [number, axes], TensorType(int32, kind.shape), keepdims=0, noop_with_empty_axes=1
    )
    return write.emit("Cast", [found], kind, to=code_of_dtype(bool_))


@writer("argreduce")
def write_argreduce(write: PrimitiveWriter, step: Instruction) -> Value:
    operator = "ArgMax" if step.attributes["function"] == "max" else "ArgMin"
    kind = tensor_type(step.outputs[0])
    return write.emit(
        operator, operands_of(write, step), kind, axis=step.attributes["axis"], keepdims=0
    )


@writer("cumulate")
def write_cumulate(write: PrimitiveWriter, step: Instruction) -> Value:
    operator = "CumSum" if step.attributes["function"] == "sum" else "CumProd"
    axis = write.emitter.constant(step.attributes["axis"])
    options = {name: int(step.attributes[name]) for name in ("exclusive", "reverse")}
    return write.emit(
        operator, [write.value(step.inputs[0]), axis], tensor_type(step.outputs[0]), **options
    )


# ------------------------------------------------------------------------------- indexing and the rest
def _indexing(operator: str, *names: str) -> Writing:
    def put(write: PrimitiveWriter, step: Instruction) -> Value:
        options = {name: step.attributes[name] for name in names}
        if "batch" in options:
            options["batch_dims"] = options.pop("batch")
        return write.emit(
            operator, operands_of(write, step), tensor_type(step.outputs[0]), **options
        )

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
    (x,), axis = operands_of(write, step), step.attributes["axis"]
    kinds = [tensor_type(var) for var in step.outputs]
    options = {"axis": axis, "largest": int(step.attributes["descending"])}
    return write.emitter.emit_all("TopK", [x, write.sizes([shape_of(x)[axis]])], kinds, **options)


@writer("iota")
def write_iota(write: PrimitiveWriter, step: Instruction) -> Value:
    kind = tensor_type(step.outputs[0])
    stop = reshaped(write, write.sizes([step.attributes["size"]]), ())
    ends = write.emitter.constant(0), stop, write.emitter.constant(1)
    return cast_to(write, write.emit("Range", ends, TensorType(int64, kind.shape)), kind.dtype)


@writer("sizes")
def write_sizes(write: PrimitiveWriter, step: Instruction) -> Value:
    return write.sizes(step.attributes["dims"])
