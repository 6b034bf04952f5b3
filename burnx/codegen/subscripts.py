"""Indexing and reductions as NumPy writes them: ``x[:, None]``, ``x[:, 1:3]``, ``x[0]``, ``x.mean(1)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from burnx.codegen.expressions import attribute, call, index, is_tensor
from burnx.codegen.literal import constant
from burnx.graph import Node, Value
from burnx.structure.sizes import is_size, is_sizes
from burnx.types import TensorType, Type

Args = Sequence[ast.expr | None]
Spelling = Callable[[Node, Args], ast.expr | None]


def sliced(node: Node, args: Args) -> ast.expr | None:
    """``x[:, 1:3]`` where bounds, axes and steps are known."""
    source = node.inputs[0]
    arrays = [None if value is None else value.array for value in node.inputs[1:]]
    given = node.inputs[1:]
    unknown = any(
        value is not None and array is None for value, array in zip(given, arrays, strict=True)
    )
    rank = rank_of(source.type) if source is not None else None
    if unknown or rank is None or args[0] is None or not is_tensor(args[0]):
        return None
    numbers = [
        None if array is None else [int(each) for each in array.reshape(-1)] for array in arrays
    ]
    starts, ends = numbers[0] or [], numbers[1] or []
    axes = numbers[2] if len(numbers) > 2 and numbers[2] is not None else list(range(len(starts)))
    steps = numbers[3] if len(numbers) > 3 and numbers[3] is not None else [1] * len(starts)
    if (
        sorted(axes) != axes
        or any(axis < 0 for axis in axes)
        or len(set(axes)) != len(axes)
        or not axes
    ):
        return None
    items: list[ast.expr] = [ast.Slice() for _ in range(axes[-1] + 1)]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1 or (start == 0 and end >= 2**31 - 1 and step == 1):
            return None
        items[axis] = _bounds(start, end, step)
    return index(args[0], *items)


def _bounds(start: int, end: int, step: int) -> ast.Slice:
    return ast.Slice(
        None if start == 0 else constant(start),
        None if end >= 2**31 - 1 else constant(end),
        None if step == 1 else constant(step),
    )


def rank_of(kind: Type) -> int | None:
    return len(kind.shape) if isinstance(kind, TensorType) and kind.shape is not None else None


def _numbers(value: Value | None) -> list[int] | None:
    """The elements of a constant vector of integers."""
    if value is None or value.array is None or value.array.ndim != 1:
        return None
    return [int(each) for each in value.array]


def _at(source: ast.expr, items: dict[int, ast.expr], rank: int) -> ast.expr:
    """``source[:, item]``: by what stands behind all others from the end, where that is shorter."""
    last = max(items)
    if min(items) == rank - len(items) > 1:
        return index(source, ast.Constant(...), *(items[axis] for axis in sorted(items)))
    return index(source, *(items.get(axis, ast.Slice()) for axis in range(last + 1)))


def unsqueezed(node: Node, args: Args) -> ast.expr | None:
    """``x[:, None]``"""
    source, axes = node.inputs[0], _numbers(node.inputs[1])
    rank = None if source is None else rank_of(source.type)
    if not axes or rank is None or args[0] is None or not is_tensor(args[0]):
        return None
    whole = rank + len(axes)
    return _at(args[0], {axis % whole: constant(None) for axis in axes}, whole)


def picked(node: Node, args: Args) -> ast.expr | None:
    """``x[:, 0]`` and ``x[indices]``"""
    source, places = node.inputs
    rank = None if source is None else rank_of(source.type)
    if not rank or places is None or args[0] is None or not is_tensor(args[0]) or args[1] is None:
        return None
    axis = node.attributes.get("axis", 0) % rank
    if places.array is not None:
        is_number = places.array.ndim == 0 and isinstance(args[1], ast.Constant)
        return _at(args[0], {axis: args[1]}, rank) if is_number else None
    is_counted = is_size(places.producer) or is_sizes(places.producer)
    if is_counted or not isinstance(places.type, TensorType) or not is_tensor(args[1]):
        return None
    return _at(args[0], {axis: args[1]}, rank)


def squeezed(node: Node, args: Args) -> ast.expr | None:
    """``x.squeeze(1)``"""
    axes = _numbers(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None or len(axes) != 1 or args[0] is None or not is_tensor(args[0]):
        return None
    return call(attribute(args[0], "squeeze"), constant(axes[0]))


def reduced(method: str) -> Spelling:
    """``x.mean(1)``, ``x.sum((1, 2), keepdims=True)``"""

    def rule(node: Node, args: Args) -> ast.expr | None:
        axes = _numbers(node.inputs[1]) if len(node.inputs) > 1 else None
        if not axes or args[0] is None or not is_tensor(args[0]):
            return None
        keeps = node.attributes.get("keepdims", 1)
        options = {"keepdims": constant(True)} if keeps else {}
        along = constant(axes[0] if len(axes) == 1 else tuple(axes))
        return call(attribute(args[0], method), along, **options)

    return rule
