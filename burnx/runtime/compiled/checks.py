"""What a program demands of sizes that are only known when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from burnx.errors import ShapeError, located
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Var, bodies, walk
from burnx.shape import Shape, evaluate, has_symbols, product, settled, shape_text
from burnx.types import TensorType

Sizes = Mapping[str, int]
Operands = Sequence[TensorType]
Demands = Sequence[Instruction]


def find_demands(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions whose shapes or attributes depend on sizes, without the arrays of constants."""
    return [
        _without_arrays(each)
        for each in instructions
        if each.primitive not in _CONTROL and needs_check(each)
    ]


def _without_arrays(instruction: Instruction) -> Instruction:
    inputs = tuple(
        Var(var.type) if var is not None and var.array is not None else var
        for var in instruction.inputs
    )
    return replace(instruction, inputs=inputs)


def find_inner_demands(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Those of the instructions in loops and branches, which may never run."""
    inner = [each for one in instructions for body in bodies(one) for each in walk(body)]
    return find_demands(inner)


_CONTROL = frozenset(("cond", "loop"))


def needs_check(instruction: Instruction) -> bool:
    """Whether an instruction's shapes or attributes depend on sizes, or it has demands of its own."""
    if instruction.primitive in _DEMANDS:
        return True
    values = [var for var in (*instruction.inputs, *instruction.outputs) if var is not None]
    shapes = [v.type.shape for v in values if isinstance(v.type, TensorType)]
    return any(map(has_symbols, (*shapes, *instruction.attributes.values())))


def check_sizes(instructions: Sequence[Instruction], sizes: Sizes) -> None:
    """Raises: ShapeError, with the node, if an instruction's sizes do not fit together."""
    for instruction in instructions:
        with located(instruction.place):
            _check(instruction, sizes)


def _check(instruction: Instruction, sizes: Sizes) -> None:
    operands = [_settled(var, sizes) if var is not None else None for var in instruction.inputs]
    attributes = {name: settled(value, sizes) for name, value in instruction.attributes.items()}
    found = PRIMITIVES[instruction.primitive].infer(*operands, **attributes)
    results = found if isinstance(found, tuple) else (found,)
    for var, result in zip(instruction.outputs, results, strict=True):
        expected = _settled(var, sizes)
        if isinstance(result, TensorType) and result.shape != expected.shape:
            raise ShapeError(
                f"{instruction.primitive} gives {shape_text(result.shape)} here, "
                f"not {shape_text(expected.shape)}"
            )
    demand = _DEMANDS.get(instruction.primitive)
    if demand is not None:
        demand([each for each in operands if each is not None], attributes)


def _check_slice(operands: Operands, attributes: Mapping[str, Any]) -> None:
    rows = zip(
        _shape(operands[0]),
        attributes["starts"],
        attributes["sizes"],
        attributes["steps"],
        strict=True,
    )
    for length, start, size, step in rows:
        last = start + (size - 1) * step
        if size and not (0 <= start < length and 0 <= last < length):
            raise ShapeError(f"a slice from {start} to {last} leaves an axis of {length}")


def _check_argreduce(operands: Operands, attributes: Mapping[str, Any]) -> None:
    if _shape(operands[0])[attributes["axis"]] == 0:
        raise ShapeError("an axis without elements has no greatest or least one")


def _check_along(operands: Operands, attributes: Mapping[str, Any]) -> None:
    _check_not_empty(operands, (attributes["axis"],))


def _check_tuples(operands: Operands, attributes: Mapping[str, Any]) -> None:
    first = attributes.get("batch", 0)
    _check_not_empty(operands, range(first, first + int(_shape(operands[1])[-1])))


def _check_not_empty(operands: Operands, axes: Iterable[int]) -> None:
    """No index lies inside an axis of no elements, and a kernel must not even look for one."""
    source, indices = _shape(operands[0]), _shape(operands[1])
    if product(indices) != 0 and any(source[axis] == 0 for axis in axes):
        raise ShapeError(f"an index has no place in an axis of 0: {shape_text(source)}")


def _shape(kind: TensorType) -> Shape:
    assert kind.shape is not None
    return kind.shape


_DEMANDS: dict[str, Callable[[Operands, Mapping[str, Any]], None]] = {
    "slice": _check_slice,
    "argreduce": _check_argreduce,
    "take": _check_along,
    "take_along": _check_along,
    "scatter_along": _check_along,
    "gather_nd": _check_tuples,
    "scatter_nd": _check_tuples,
}


def _settled(var: Var, sizes: Sizes) -> TensorType:
    assert isinstance(var.type, TensorType) and var.type.shape is not None
    shape: Shape = tuple(evaluate(dim, sizes) for dim in var.type.shape)
    if any(size < 0 for size in shape):
        raise ShapeError(f"a size is never negative: {shape_text(shape)}")
    return TensorType(var.type.dtype, shape)
