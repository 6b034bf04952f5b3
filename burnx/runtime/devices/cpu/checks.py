"""What a program demands of sizes that are only known when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnx.errors import ShapeError, located
from burnx.primitives import PRIMITIVES
from burnx.program import Instruction, Var, bodies, walk
from burnx.shape import Expr, Shape, evaluate, shape_text
from burnx.types import TensorType

Sizes = Mapping[str, int]


def find_demands(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions whose shapes or attributes depend on sizes."""
    return [each for each in instructions if each.primitive not in _CONTROL and needs_check(each)]


def find_inner_demands(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Those of the instructions in loops and branches, which may never run."""
    inner = [each for one in instructions for body in bodies(one) for each in walk(body)]
    return find_demands(inner)


_CONTROL = frozenset(("cond", "loop"))


def needs_check(instruction: Instruction) -> bool:
    """Whether an instruction's shapes or attributes depend on sizes."""
    values = [var for var in (*instruction.inputs, *instruction.outputs) if var is not None]
    shapes = [v.type.shape for v in values if isinstance(v.type, TensorType)]
    return any(map(_has_symbols, (*shapes, *instruction.attributes.values())))


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_has_symbols(item) for item in value)
    return isinstance(value, Expr)


def check_sizes(instructions: Sequence[Instruction], sizes: Sizes) -> None:
    """Raises: ShapeError, with the node, if an instruction's sizes do not fit together."""
    for instruction in instructions:
        with located(instruction.place):
            _check(instruction, sizes)


def _check(instruction: Instruction, sizes: Sizes) -> None:
    operands = [_settled(var, sizes) if var is not None else None for var in instruction.inputs]
    attributes = {name: _resolved(value, sizes) for name, value in instruction.attributes.items()}
    found = PRIMITIVES[instruction.primitive].infer(*operands, **attributes)
    results = found if isinstance(found, tuple) else (found,)
    for var, result in zip(instruction.outputs, results, strict=True):
        expected = _settled(var, sizes)
        if isinstance(result, TensorType) and result.shape != expected.shape:
            raise ShapeError(
                f"{instruction.primitive} gives {shape_text(result.shape)} here, "
                f"not {shape_text(expected.shape)}"
            )
    if instruction.primitive == "slice":
        _check_slice(operands[0], attributes)


def _check_slice(source: TensorType | None, attributes: Mapping[str, Any]) -> None:
    assert source is not None and source.shape is not None
    rows = zip(
        source.shape, attributes["starts"], attributes["sizes"], attributes["steps"], strict=True
    )
    for length, start, size, step in rows:
        last = start + (size - 1) * step
        if size and not (0 <= start < length and 0 <= last < length):
            raise ShapeError(f"a slice from {start} to {last} leaves an axis of {length}")


def _settled(var: Var, sizes: Sizes) -> TensorType:
    assert isinstance(var.type, TensorType) and var.type.shape is not None
    shape: Shape = tuple(evaluate(dim, sizes) for dim in var.type.shape)
    if any(size < 0 for size in shape):
        raise ShapeError(f"a size is never negative: {shape_text(shape)}")
    return TensorType(var.type.dtype, shape)


def _resolved(value: Any, sizes: Sizes) -> Any:
    if isinstance(value, tuple):
        return tuple(_resolved(item, sizes) for item in value)
    return evaluate(value, sizes) if isinstance(value, Expr) else value
