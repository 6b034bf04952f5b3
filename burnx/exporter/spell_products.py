"""Windows, products and convolutions in standard operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from burnx.errors import ExportError
from burnx.exporter.spell_primitives import (
    PrimitiveWriter,
    Writing,
    cast_to,
    dtype_of,
    operands_of,
    reshaped,
    shape_of,
    tensor_type,
)
from burnx.graph import Value
from burnx.program import Instruction
from burnx.shape import Dim
from burnx.types import TensorType


def write_window(write: PrimitiveWriter, step: Instruction) -> Value:
    """Pools take two leading axes; a sum is an average times the size of the window."""
    (x,), name, kind = (
        operands_of(write, step),
        step.attributes["function"],
        tensor_type(step.outputs[0]),
    )
    window, strides, dilations, pads = (
        list(step.attributes[key]) for key in ("window", "strides", "dilations", "pads")
    )
    if name not in ("sum", "max") or any(width < 0 for pair in pads for width in pair):
        raise ExportError(f"a {name} over windows has no standard operator")
    lead = len(shape_of(x)) - len(window)
    rows: Dim = math.prod(shape_of(x)[:lead])
    data = reshaped(write, x, (rows, 1, *shape_of(x)[lead:]))
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


def write_contract(write: PrimitiveWriter, step: Instruction) -> Value:
    left, right = operands_of(write, step)
    batch, sum_over = step.attributes["batch"], step.attributes["sum_over"]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[""] * len(shape_of(each)) for each in (left, right)]
    for pairs in (batch, sum_over):
        for one, other in zip(*pairs, strict=True):
            names[0][one] = names[1][other] = next(letters)
    for each in names:
        each[:] = [name or next(letters) for name in each]
    taken = [{*batch[side], *sum_over[side]} for side in (0, 1)]
    free = [[n for axis, n in enumerate(names[side]) if axis not in taken[side]] for side in (0, 1)]
    lead = [names[0][axis] for axis in batch[0]]
    result = "".join([*lead, *free[0], *free[1]])
    kind, dtype = tensor_type(step.outputs[0]), step.attributes["dtype"]
    wide = [cast_to(write, each, dtype) for each in (left, right)]
    equation = f"{''.join(names[0])},{''.join(names[1])}->{result}"
    return write.emit("Einsum", wide, kind, equation=equation)


def write_conv(write: PrimitiveWriter, step: Instruction) -> Value:
    """Conv; zeros between elements, and negative padding, are put in first."""
    x, w = operands_of(write, step)
    strides, pads, dilations, spread = (
        list(step.attributes[key]) for key in ("strides", "pads", "dilations", "spread")
    )
    for axis, gap in enumerate(spread, 2):
        x = x if gap == 1 else _set_apart(write, x, axis, gap)
    if any(width < 0 for pair in pads for width in pair):
        x, pads = _padded(write, x, pads), [(0, 0)] * len(pads)
    flat = [pair[side] for side in (0, 1) for pair in pads]
    options = {"strides": strides, "dilations": dilations, "pads": flat}
    given = [cast_to(write, each, step.attributes["dtype"]) for each in (x, w)]
    return write.emit(
        "Conv", given, tensor_type(step.outputs[0]), group=step.attributes["groups"], **options
    )


def _padded(write: PrimitiveWriter, x: Value, pads: Sequence[tuple[int, int]]) -> Value:
    lead = len(shape_of(x)) - len(pads)
    low, high = ([0] * lead + [pair[side] for pair in pads] for side in (0, 1))
    shape = tuple(n + a + b for n, a, b in zip(shape_of(x), low, high, strict=True))
    return write.emit("Pad", [x, write.vector([*low, *high])], TensorType(dtype_of(x), shape))


def _set_apart(write: PrimitiveWriter, x: Value, axis: int, gap: int) -> Value:
    """``gap - 1`` zeros between neighbours along an axis: put behind each, the last ones cut off again."""
    before, size, after = shape_of(x)[:axis], shape_of(x)[axis], shape_of(x)[axis + 1 :]
    single = reshaped(write, x, (*before, size, 1, *after))
    rank = len(before) + 2 + len(after)
    widths = [0] * (2 * rank)
    widths[rank + axis + 1] = gap - 1
    wide = write.emit(
        "Pad", [single, write.vector(widths)], TensorType(dtype_of(x), (*before, size, gap, *after))
    )
    joined = reshaped(write, wide, (*before, size * gap, *after))
    bounds = [[0], [1 - gap], [axis]]
    kind = TensorType(dtype_of(x), (*before, size * gap - gap + 1, *after))
    return write.emit("Slice", [joined, *map(write.vector, bounds)], kind)


PRODUCTS: dict[str, Writing] = {
    "window_reduce": write_window,
    "contract": write_contract,
    "conv": write_conv,
}
