"""Steps of random programs: products, convolutions and what follows them, softmax, norms, attention, control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from burnx import waist
from burnx.dtype import DTYPES, bool_, float32, int32
from burnx.shape import Dim, product
from burnx.tensor import Tensor
from tests.unit.cpu.random_programs import Item, Maker, Unfit, is_fixed, plain_numbers
from tests.unit.cpu.random_steps import is_wide, step

DEEP = (1, 4, 8, 9)  # of heads
SPACE, CHANNELS = (1, 3, 5, 8, 9), (1, 2, 3, 4, 6, 8)
PRODUCT_KINDS = (
    *("float32", "float32", "float32", "float64", "float16", "bfloat16", "int32", "int8"),
    *("uint8", "int16", "uint64", "int4", "float8_e4m3fn"),
)


def operand(maker: Maker, dtype: Any, shape: list[Dim]) -> Item:
    """A constant, an input, or an input that was moved about."""
    how = maker.size(0, 3)
    if how == 0 and all(map(is_fixed, shape)):
        numbers = plain_numbers(maker.random(), [int(each) for each in shape], dtype)
        return Item(maker.constant(numbers))
    if how == 1 and len(shape) > 1:
        perm = maker.draw(st.permutations(range(len(shape))))
        moved = maker.input(dtype, [shape[axis] for axis in perm])
        back = sorted(range(len(shape)), key=perm.__getitem__)
        return Item(waist.transpose(moved.tensor, back))
    if how == 2:
        x = maker.input(dtype, shape)
        return Item(waist.map("add", x.tensor, x.tensor))
    return maker.input(dtype, shape)


def is_multiplied(item: Item) -> bool:
    return item.dtype != bool_


def result_dtype(maker: Maker, x: Item) -> Any:
    if x.dtype.name in ("int8", "uint8"):
        return int32
    if x.dtype.name in ("float16", "bfloat16") and maker.chance(2):
        return float32
    return x.dtype


@step
def contract(maker: Maker) -> None:
    """Any axes side by side, any axes added up, in any order."""
    kind = DTYPES[maker.pick(PRODUCT_KINDS)]
    x = maker.take(lambda item: item.dtype == kind and item.rank > 0)
    axes = maker.draw(st.permutations(range(x.rank)))
    batch = tuple(axes[: maker.size(0, min(2, x.rank))])
    rest = axes[len(batch) :]
    inner = tuple(rest[: maker.size(0, min(2, len(rest)))])
    free = maker.shape(0, 2)
    parts = (
        [("b", k) for k in batch] + [("i", k) for k in inner] + [("f", k) for k in range(len(free))]
    )
    order = maker.draw(st.permutations(parts))
    shape = [free[k] if part == "f" else x.shape[k] for part, k in order]
    y = operand(maker, kind, shape)
    place = {each: axis for axis, each in enumerate(order)}
    pairs = (
        (batch, tuple(place["b", k] for k in batch)),
        (inner, tuple(place["i", k] for k in inner)),
    )
    tensors = [x.tensor, y.tensor]
    if maker.chance(4):
        tensors.reverse()
        pairs = tuple(pair[::-1] for pair in pairs)
    made = waist.contract(*tensors, *pairs, result_dtype(maker, x))
    maker.put(made, x.exact and y.exact)


@step
def matmul(maker: Maker) -> None:
    """(batch, m, k) times (k, n), as networks have them."""
    kind = DTYPES[maker.pick(PRODUCT_KINDS)]
    lead, (m, k, n) = maker.shape(0, 2), (maker.dim() for _ in range(3))
    x, y = maker.input(kind, [*lead, m, k]), operand(maker, kind, [k, n])
    rank = x.rank
    made = waist.contract(x.tensor, y.tensor, ((), ()), ((rank - 1,), (0,)), result_dtype(maker, x))
    maker.put(made, True)


@step
def behind(maker: Maker) -> None:
    """Bias, activation, residual and a move, one after the other, behind the last value."""
    x = maker.take(lambda item: is_wide(item) and item.rank > 0, fresh=False)
    made, exact = x.tensor, x.exact
    for _ in range(maker.size(1, 4)):
        how = maker.size(0, 5)
        if how == 0:
            bias = operand(maker, x.dtype, [made.shape[-1]])
            made, exact = waist.map("add", made, bias.tensor), exact and bias.exact
        elif how == 1:
            made = waist.map("max", made, maker.constant(np.zeros((), x.dtype)))
        elif how == 2:
            made, exact = gelu(maker, made), False
        elif how == 3:
            other = maker.input(x.dtype, made.shape)
            made = waist.map("add", made, other.tensor)
        elif how == 4 and len(made.shape) > 1:
            made = waist.transpose(made, maker.draw(st.permutations(range(len(made.shape)))))
        else:
            made = split_last(maker, made)
    maker.put(made, exact)


def gelu(maker: Maker, x: Tensor) -> Tensor:
    half = maker.constant(np.array(0.5, x.dtype))
    one = maker.constant(np.array(1, x.dtype))
    root = maker.constant(np.array(0.7071067811865475, x.dtype))
    inside = waist.map("add", waist.map("erf", waist.map("mul", x, root)), one)
    return waist.map("mul", waist.map("mul", x, half), inside)


def split_last(maker: Maker, x: Tensor) -> Tensor:
    last = x.shape[-1] if x.shape else 1
    if not isinstance(last, int) or last % 2 or last == 0 or len(x.shape) > 4:
        return waist.reshape(x, (product(x.shape),))
    return waist.reshape(x, (*x.shape[:-1], 2, last // 2))


@step
def conv(maker: Maker) -> None:
    found = [item for item in maker.items if is_multiplied(item) and fits_conv(item)]
    if found and maker.chance(2):
        x = maker.pick(found)
    else:
        rank = maker.size(1, 3)
        space = [maker.pick((1, 2, 3, 4, 5, 7, 8) if rank == 3 else SPACE) for _ in range(rank)]
        space = [maker.dim() if maker.chance(3) else size for size in space]
        kind = maker.pick(PRODUCT_KINDS)
        x = maker.input(kind, [maker.pick([1, 2]), maker.pick(CHANNELS), *space])
    rank, channels = x.rank - 2, int(x.shape[1])
    groups = maker.pick([1, 1, 1, *[g for g in range(1, channels + 1) if channels % g == 0]])
    groups = channels if maker.chance(4) else groups
    outs = groups * maker.pick((1, 1, 2, 3) if groups > 1 else CHANNELS)
    kernel = [maker.size(1, 3) for _ in range(rank)] if maker.chance(2) else [3] * rank
    w = operand(maker, x.dtype, [outs, channels // groups, *kernel])
    pads = tuple((maker.size(-1, 2), maker.size(-1, 2)) for _ in range(rank))
    if maker.chance(2):
        pads = ((1, 1),) * rank
    spread = [maker.size(1, 2) if maker.chance(3) else 1 for _ in range(rank)]
    if 0 in x.shape or not all(map(is_fixed, x.shape)):
        spread = [1] * rank
    strides, gaps = ([maker.size(1, 2) for _ in range(rank)] for _ in range(2))
    made = waist.conv(
        x.tensor, w.tensor, strides, pads, gaps, spread, groups, result_dtype(maker, x)
    )
    maker.put(made, x.exact and w.exact)


def fits_conv(item: Item) -> bool:
    return (
        3 <= item.rank <= 5 and item.exact and is_fixed(item.shape[1]) and 0 < item.shape[1] <= 32
    )


@step
def channel_bias(maker: Maker) -> None:
    """What follows a convolution: a number per channel, then relu."""
    x = maker.take(lambda item: is_wide(item) and item.rank >= 3, fresh=False)
    shape = [1, x.shape[1], *[1] * (x.rank - 2)]
    scale, shift = (operand(maker, x.dtype, shape).tensor for _ in range(2))
    made = waist.map("add", waist.map("mul", x.tensor, scale), shift)
    if maker.chance(2):
        made = waist.map("max", made, maker.constant(np.zeros((), x.dtype)))
    maker.put(made, x.exact)


# --- rows ---------------------------------------------------------------------------------------


def kept(maker: Maker, name: str, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A reduction whose axes stay as ones."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    return waist.reshape(waist.reduce(name, x, axes), shape)


def softmax_of(maker: Maker, x: Tensor, axes: tuple[int, ...], log: bool = False) -> Tensor:
    shifted = waist.map("sub", x, kept(maker, "max", x, axes))
    powers = waist.map("exp", shifted)
    total = kept(maker, "sum", powers, axes)
    if log:
        return waist.map("sub", shifted, waist.map("log", total))
    return waist.map("div", powers, total)


@step
def softmax(maker: Maker) -> None:
    x = maker.take(lambda item: is_wide(item) and item.rank > 0)
    maker.put(softmax_of(maker, x.tensor, maker.axes(x.rank, 1), maker.chance(3)), False)


@step
def norm(maker: Maker) -> None:
    """Layer, RMS, group and instance norm differ in their axes and in the mean."""
    x = maker.take(lambda item: is_wide(item) and item.rank > 0)
    made, axes = x.tensor, maker.axes(x.rank, 1)
    if not all(is_fixed(made.shape[axis]) for axis in axes):
        axes = (x.rank - 1,)
    count = product(tuple(made.shape[axis] for axis in axes))
    if not is_fixed(count):
        raise Unfit
    size = maker.constant(np.array(max(count, 1), x.dtype))
    if maker.chance(2):
        made = waist.map("sub", made, waist.map("div", kept(maker, "sum", made, axes), size))
    square = waist.map("mul", made, made)
    variance = waist.map("div", kept(maker, "sum", square, axes), size)
    small = maker.constant(np.array(1e-2, x.dtype))
    root = waist.map("sqrt", waist.map("add", variance, small))
    made = waist.map("div", made, root)
    if maker.chance(2):
        scale = operand(maker, x.dtype, [made.shape[-1]])
        made = waist.map("mul", made, scale.tensor)
    maker.put(made, False)


@step
def attention(maker: Maker) -> None:
    """Scores, perhaps scaled and masked, softmax, and the weighted sum."""
    kind = DTYPES[maker.pick(["float32", "float32", "float32", "float64"])]
    heads, (rows, columns) = maker.pick([1, 2, 4]), (maker.dim(), maker.dim())
    deep, wide = maker.pick(DEEP), maker.pick(DEEP)
    lead = [heads] if maker.chance(2) else [maker.pick([1, 2]), heads]
    q, k = maker.input(kind, [*lead, rows, deep]), key(maker, kind, [*lead, columns, deep])
    v = key(maker, kind, [*lead, columns, wide])
    rank = len(lead)
    sides = (tuple(range(rank)),) * 2
    scores = waist.contract(q.tensor, k, sides, ((rank + 1,), (rank + 1,)))
    if maker.chance(2):
        scores = waist.map("mul", scores, maker.constant(np.array(0.5, kind)))
    how = maker.size(0, 3)
    if how == 1:
        mask = maker.input(kind, [rows, columns])
        scores = waist.map("add", scores, mask.tensor)
    elif how == 2:
        mask = maker.input(
            "bool", [1] * (rank - 1) + [1 if maker.chance(2) else heads, rows, columns]
        )
        low = maker.constant(np.array(-np.inf if maker.chance(3) else -1e9, kind))
        scores = waist.map("select", mask.tensor, scores, low)
    elif how == 3:
        scores = causal(maker, scores, kind)
    weights = softmax_of(maker, scores, (rank + 1,))
    if maker.chance(3):
        weights = no_nan(maker, weights)
    made = waist.contract(weights, v, sides, ((rank + 1,), (rank,)))
    if maker.chance(2):
        made = waist.transpose(made, (*range(rank - 1), rank, rank - 1, rank + 1))
        made = waist.reshape(made, (*made.shape[:-2], made.shape[-2] * made.shape[-1]))
    maker.put(made, False)


def key(maker: Maker, kind: Any, shape: list[Dim]) -> Tensor:
    """Keys or values: an input, one transposed, or one that heads share."""
    how = maker.size(0, 2)
    if how == 1:
        x = maker.input(kind, [*shape[:-3], shape[-2], shape[-3], shape[-1]])
        rank = len(shape)
        return waist.transpose(x.tensor, (*range(rank - 3), rank - 2, rank - 3, rank - 1))
    if how == 2 and shape[-3] in (2, 4):
        x = maker.input(kind, [*shape[:-3], shape[-3] // 2, *shape[-2:]])
        wide = [*shape[:-3], shape[-3] // 2, 1, *shape[-2:]]
        twice = [*wide[:-3], 2, *shape[-2:]]
        return waist.reshape(waist.broadcast(waist.reshape(x.tensor, wide), twice), shape)
    return maker.input(kind, shape).tensor


def causal(maker: Maker, scores: Tensor, kind: Any) -> Tensor:
    rows, columns = scores.shape[-2:]
    row = waist.reshape(waist.iota(rows), (rows, 1))
    mask = waist.map("le", waist.iota(columns), row)
    return waist.map("select", mask, scores, maker.constant(np.array(-np.inf, kind)))


def no_nan(maker: Maker, x: Tensor) -> Tensor:
    zero = maker.constant(np.zeros((), x.dtype))
    return waist.map("select", waist.map("is_nan", x), zero, x)
