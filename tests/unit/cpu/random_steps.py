"""Steps of random programs: elementwise functions, movement, positions, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from burnx import waist
from burnx.dtype import DTYPES, bool_, is_float, is_integer, is_low_precision
from burnx.shape import symbol
from tests.unit.cpu.random_programs import (
    KINDS,
    NARROW,
    TINY,
    Item,
    Maker,
    Step,
    Unfit,
    broadcasts,
    is_fixed,
    special_numbers,
)

STEPS: list[Step] = []
SMOOTH = ("exp", "tanh", "erf", "sin", "cos", "softplus", "atan", "sinh", "cosh", "asinh", "expm1")
EXACT = ("neg", "abs")
JUMPS = ("sign", "floor", "ceil", "round", "trunc", "is_nan", "is_inf")
ARITHMETIC = ("add", "sub", "mul", "min", "max")
WHOLE = ("add", "sub", "mul", "div", "floor_mod", "trunc_mod", "min", "max")
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


def is_number(item: Item) -> bool:
    return item.dtype != bool_


def is_exact_float(item: Item) -> bool:
    return is_float(item.dtype) and item.exact


def is_wide(item: Item) -> bool:
    return item.dtype.name in ("float32", "float64")


# --- elementwise --------------------------------------------------------------------------------


@step
def unary(maker: Maker) -> None:
    x = maker.take()
    if x.dtype == bool_:
        maker.put(waist.map("not", x.tensor), True)
    elif is_integer(x.dtype):
        signed = ["abs", "sign"] if not x.dtype.name.startswith("u") else ["sign"]
        maker.put(waist.map(maker.pick(["neg", "bit_not", *signed]), x.tensor), True)
    else:
        options = [*EXACT, *SMOOTH] if not is_tiny(x) else [*EXACT]
        name = maker.pick([*options, *(JUMPS if x.exact else ())])
        maker.put(waist.map(name, x.tensor), x.exact and name not in SMOOTH)


def is_tiny(x: Item) -> bool:
    return x.dtype.name in TINY


@step
def roots(maker: Maker) -> None:
    x = maker.take(is_wide)
    size = waist.map("abs", x.tensor)
    maker.put(waist.map(maker.pick(["sqrt", "log", "log1p"]), size), False)


@step
def binary(maker: Maker) -> None:
    x = maker.take()
    y = maker.same_kind(x)
    pair = (x, y) if maker.chance(2) else (y, x)
    tensors = [each.tensor for each in pair]
    if x.dtype == bool_:
        maker.put(waist.map(maker.pick(["and", "or", "xor", "eq"]), *tensors), True)
    elif is_integer(x.dtype):
        name = maker.pick([*WHOLE, *BITS, "eq", "lt", "le"])
        maker.put(waist.map(name, *tensors), True)
    else:
        exact = x.exact and y.exact
        jumps = ("eq", "lt", "le", "trunc_mod", "floor_mod") if exact else ()
        options = ARITHMETIC if is_tiny(x) else (*ARITHMETIC, "div")
        name = maker.pick([*options, *jumps] if not is_tiny(x) else options)
        maker.put(waist.map(name, *tensors), exact and name != "div")


@step
def arithmetic(maker: Maker) -> None:
    x = maker.take(is_wide)
    y = maker.same_kind(x)
    maker.put(waist.map(maker.pick(["add", "sub", "mul"]), x.tensor, y.tensor), x.exact and y.exact)


@step
def select(maker: Maker) -> None:
    x = maker.take()
    y = maker.same_kind(x)
    conditions = [
        each for each in maker.items if each.dtype == bool_ and broadcasts(each.shape, x.shape)
    ]
    condition = maker.pick(conditions) if conditions else maker.input("bool", x.shape)
    maker.put(waist.map("select", condition.tensor, x.tensor, y.tensor), x.exact and y.exact)


@step
def cast(maker: Maker) -> None:
    x = maker.take()
    target = DTYPES[maker.pick([*KINDS, *TINY, *NARROW])]
    jumps = not is_float(target) or (is_low_precision(target) and target.name in TINY)
    if not x.exact and jumps:
        raise Unfit
    saturate = not maker.chance(3)
    rounds = is_low_precision(target) or (is_integer(x.dtype) and target.name == "float32")
    exact = x.exact and not (rounds and target.name not in TINY)
    maker.put(waist.cast_to(x.tensor, target, saturate), exact)


@step
def bitcast(maker: Maker) -> None:
    groups = [
        ("float32", "int32", "uint32"),
        ("int64", "uint64"),
        ("int16", "uint16"),
        ("int8", "uint8"),
    ]
    group = maker.pick(groups)
    x = maker.take(lambda item: item.dtype.name in group and item.exact)
    maker.put(waist.bitcast(x.tensor, DTYPES[maker.pick(group)]), True)


# --- movement -----------------------------------------------------------------------------------


@step
def reshape(maker: Maker) -> None:
    """Ones come and go, neighbours are joined, sizes are split."""
    x = maker.take(lambda item: item.rank > 0)
    shape = list(x.shape)
    for _ in range(maker.size(1, 3)):
        place = maker.size(0, max(len(shape) - 1, 0))
        how = maker.size(0, 3)
        if how == 0:
            shape.insert(place, 1)
        elif how == 1 and len(shape) > 1 and place + 1 < len(shape):
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        elif how == 2 and shape and is_fixed(shape[place]) and shape[place] in (4, 8, 9, 16):
            by = 3 if shape[place] == 9 else maker.pick([2, 4])
            parts = [shape[place] // by, by]
            shape[place : place + 1] = parts if maker.chance(2) else parts[::-1]
        elif how == 3 and 1 in shape:
            shape.remove(1)
    if not len(shape) <= 5:
        raise Unfit
    maker.put(waist.reshape(x.tensor, shape), x.exact)


@step
def reshape_anew(maker: Maker) -> None:
    """The same number of elements in a shape that has nothing to do with the first."""
    x = maker.take(lambda item: all(map(is_fixed, item.shape)))
    count = int(np.prod([int(each) for each in x.shape], dtype=np.int64))
    shape: list[int] = []
    while count > 1 and len(shape) < 4:
        factor = maker.pick([each for each in range(1, count + 1) if count % each == 0])
        shape.append(factor)
        count //= factor
    maker.put(waist.reshape(x.tensor, [*shape, count]), x.exact)


@step
def transpose(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 1)
    maker.put(waist.transpose(x.tensor, maker.draw(st.permutations(range(x.rank)))), x.exact)


@step
def slice_(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    starts: list[Any] = []
    lengths: list[Any] = []
    steps: list[int] = []
    for size in x.shape:
        if not is_fixed(size):
            backwards = maker.chance(3)
            starts.append(size - 1 if backwards else 0)
            lengths.append(size)
            steps.append(-1 if backwards else 1)
            continue
        gap = maker.size(1, 3) * (-1 if maker.chance(2) else 1)
        start = maker.size(0, max(size - 1, 0))
        room = (size - 1 - start) // gap if gap > 0 else start // -gap
        starts.append(start)
        lengths.append(maker.size(0 if maker.chance(6) else min(1, size), room + 1) if size else 0)
        steps.append(gap)
    maker.put(waist.slice_(x.tensor, starts, lengths, steps), x.exact)


@step
def flip(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    maker.put(waist.flip(x.tensor, maker.axes(x.rank, 1)), x.exact)


@step
def pad(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    low, high = (
        [0 if maker.chance(2) else maker.size(-2 if is_fixed(s) else 0, 3) for s in x.shape]
        for _ in range(2)
    )
    value = special_numbers(maker.random(), (1,), x.dtype).reshape(())
    tensor = maker.constant(value) if maker.chance(2) else maker.input(x.dtype, ()).tensor
    maker.put(waist.pad(x.tensor, tensor, low, high), x.exact)


@step
def concat(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    axis = maker.size(0, x.rank - 1)
    parts = [x]
    for _ in range(maker.size(0, 4)):
        fitting = [
            each
            for each in maker.items
            if each.dtype == x.dtype
            and each.rank == x.rank
            and all(a == b or k == axis for k, (a, b) in enumerate(zip(each.shape, x.shape)))
        ]
        if maker.chance(3):
            shape = list(x.shape)
            shape[axis] = maker.dim()
            parts.append(maker.input(x.dtype, shape))
        else:
            parts.append(maker.pick(fitting))
    parts = maker.draw(st.permutations(parts))
    tensors = [each.tensor for each in parts]
    maker.put(waist.concat(tensors, axis), all(each.exact for each in parts))


@step
def broadcast(maker: Maker) -> None:
    x = maker.take()
    names = {name for name in ("n", "m") if name in maker.builder._symbols}

    def wider(size: Any) -> Any:
        if size != 1 or maker.chance(2):
            return size
        found = maker.pick([*names, 1, 2, 3, 8])
        return symbol(found) if isinstance(found, str) else found

    lead = [wider(1) for _ in range(maker.size(0, 2))]
    maker.put(waist.broadcast(x.tensor, [*lead, *map(wider, x.shape)]), x.exact)


@step
def iota(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    kind = maker.pick(["int64", "int32", "float32", "float64", "uint8", "int8"])
    maker.put(waist.iota(maker.pick(x.shape), DTYPES[kind]), True)


@step
def sizes(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    maker.put(waist.sizes(*x.shape), True)


# --- positions ----------------------------------------------------------------------------------


@step
def take(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    axis = maker.size(0, x.rank - 1)
    indices = maker.indices(maker.shape(0, 2), x.shape[axis])
    maker.put(waist.take(x.tensor, indices, axis), x.exact)


@step
def take_along(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    axis = maker.size(0, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = maker.dim()
    indices = maker.indices(shape, x.shape[axis])
    maker.put(waist.take_along(x.tensor, indices, axis), x.exact)


@step
def take_by_values(maker: Maker) -> None:
    """Positions that are worked out: a remainder of integers."""
    x = maker.take(lambda item: item.rank > 0)
    axis = maker.size(0, x.rank - 1)
    size = x.shape[axis]
    indices = maker.take(lambda item: item.dtype.name in ("int32", "int64"), fresh=False)
    if not is_fixed(size) or size == 0:
        raise Unfit
    count = maker.constant(np.array(size, indices.dtype))
    positions = waist.map("trunc_mod", indices.tensor, count)
    maker.put(waist.take(x.tensor, positions, axis), x.exact)


@step
def gather_nd(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    batch = maker.size(0, x.rank - 1) if maker.chance(2) else 0
    depth = maker.size(1, x.rank - batch)
    found = x.shape[batch : batch + depth]
    if len(set(found)) > 1:  # an input of indices has one limit
        depth, found = 1, found[:1]
    shape = (*x.shape[:batch], *maker.shape(0, 2), depth)
    maker.put(waist.gather_nd(x.tensor, maker.indices(shape, found[0]), batch), x.exact)


@step
def scatter_along(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    axis = maker.size(0, x.rank - 1)
    shape = list(x.shape)
    shape[axis] = maker.pick([0, 1, 2, 3, 5])
    reductions = (
        ["none"]
        if x.dtype == bool_ or not x.exact or x.dtype.name in NARROW
        else ["none", "add", "mul", "max", "min"]
    )
    name = maker.pick(reductions)
    if name in ("max", "min") and is_float(x.dtype) and not is_wide(x):
        raise Unfit
    indices = maker.indices(shape, x.shape[axis])
    updates = maker.input(x.dtype, shape)
    maker.put(waist.scatter_along(x.tensor, indices, updates.tensor, axis, name), x.exact)


@step
def scatter_nd(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    depth = maker.size(1, x.rank)
    if len(set(x.shape[:depth])) > 1:
        depth = 1
    lead = maker.shape(0, 2)
    reductions = (
        ["none"]
        if x.dtype == bool_ or not x.exact or x.dtype.name in NARROW
        else ["none", "add", "mul", "max", "min"]
    )
    indices = maker.indices((*lead, depth), x.shape[0])
    updates = maker.input(x.dtype, (*lead, *x.shape[depth:]))
    maker.put(waist.scatter_nd(x.tensor, indices, updates.tensor, maker.pick(reductions)), x.exact)


# --- reductions ---------------------------------------------------------------------------------


@step
def reduce(maker: Maker) -> None:
    x = maker.take()
    axes = maker.axes(x.rank)
    if x.dtype == bool_:
        name = maker.pick(["and", "or", "max", "min"])
    elif x.dtype.name in NARROW:
        name = maker.pick(["sum", "prod"])
    else:
        name = maker.pick(["sum", "sum", "max", "min", "prod"])
    exact = x.exact and not (name == "prod" and is_float(x.dtype))
    if is_tiny(x) and name == "prod":
        raise Unfit
    found = waist.reduce(name, x.tensor, axes)
    if maker.chance(2):
        found = waist.reshape(found, [1 if k in axes else s for k, s in enumerate(x.shape)])
    maker.put(found, exact)


@step
def argreduce(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0 and item.exact and item.dtype.name not in NARROW)
    axis = maker.size(0, x.rank - 1)
    if x.dtype == bool_:
        raise Unfit
    maker.put(waist.argreduce(maker.pick(["max", "min"]), x.tensor, axis), True)


@step
def cumulate(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0 and is_number(item))
    axis = maker.size(0, x.rank - 1)
    name = maker.pick(["sum", "sum", "prod"])
    if is_tiny(x) and not (x.exact and name == "sum"):
        raise Unfit
    flags = maker.chance(2), maker.chance(2)
    exact = x.exact and not (name == "prod" and is_float(x.dtype))
    maker.put(waist.cumulate(name, x.tensor, axis, *flags), exact)


@step
def window_reduce(maker: Maker) -> None:
    x = maker.take(lambda item: item.rank > 0)
    rank = maker.size(1, min(3, x.rank))
    window = [maker.size(1, 3) for _ in range(rank)]
    strides = [maker.size(1, 3) for _ in range(rank)]
    gaps = [maker.size(1, 2) for _ in range(rank)]
    pads = [(maker.size(0, 2), maker.size(0, 2)) for _ in range(rank)]
    if x.dtype == bool_:
        name = maker.pick(["and", "or"])
    elif x.dtype.name in NARROW:
        name = "sum"
    else:
        name = maker.pick(["max", "sum", "min"])
    maker.put(waist.window_reduce(name, x.tensor, window, strides, gaps, pads), x.exact)
