"""Steps of random programs: branches and loops, one in another, with all that may be carried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from burnx import waist
from burnx.dtype import bool_, int64, is_integer
from burnx.tensor import Tensor
from tests.unit.cpu.random_products import operand
from tests.unit.cpu.random_programs import Item, Maker, Unfit, is_fixed
from tests.unit.cpu.random_steps import NARROW, TINY, is_wide, step

Change = Callable[[Tensor], Tensor]


def is_plain(item: Item) -> bool:
    return item.dtype != bool_ and item.dtype.name not in (*NARROW, *TINY)


def is_counted(item: Item) -> bool:
    return is_plain(item) and (is_wide(item) or is_integer(item.dtype))


def change(maker: Maker, x: Item) -> Change:
    """A function of values shaped like ``x`` that gives such a value; its numbers stay exact."""
    one = maker.constant(np.ones((), x.dtype))
    x0 = x.tensor
    functions: list[Change] = [
        lambda t: waist.map("add", t, one),
        lambda t: waist.map("sub", t, x0),
        lambda t: waist.map("max", t, x0),
        lambda t: waist.map("add", x0, one),
        lambda t: x0,
        lambda t: t,
    ]
    if x.rank > 0:
        total = waist.reduce("max", x0, (x.rank - 1,))
        lead = (*x.shape[:-1], 1)
        functions.append(lambda t: waist.flip(t, (0,)))
        functions.append(lambda t: waist.map("add", t, waist.reshape(total, lead)))
        functions.append(lambda t: waist.map("min", t, row_greatest(t)))
    if x.rank > 1 and x.shape[0] == x.shape[1]:
        functions.append(lambda t: waist.transpose(t, (1, 0, *range(2, x.rank))))
    return maker.pick(functions)


def row_greatest(x: Tensor) -> Tensor:
    found = waist.reduce("max", x, (len(x.shape) - 1,))
    return waist.reshape(found, (*x.shape[:-1], 1))


def truth(maker: Maker) -> Tensor:
    """A bool: an input or worked out."""
    if maker.chance(2):
        return maker.input("bool", ()).tensor
    x = maker.input("float32", (3,)).tensor
    return waist.reshape(
        waist.map("lt", waist.reduce("sum", x, (0,)), maker.constant(np.float32(0))), ()
    )


@step
def cond(maker: Maker) -> None:
    x = maker.take(is_counted)
    one, two, three = (change(maker, x) for _ in range(3))
    test = truth(maker)
    if maker.chance(2):
        inner = truth(maker)
        yes = lambda: waist.branch(inner, lambda: [one(x.tensor)], lambda: [two(x.tensor)])  # noqa: E731
    else:
        yes = lambda: [one(two(x.tensor))]  # noqa: E731
    (made,) = waist.branch(test, yes, lambda: [three(x.tensor)])
    maker.put(made, x.exact)


@step
def loop(maker: Maker) -> None:
    """A few turns, known or not, that may end early, with values that change places."""
    x = maker.take(is_counted)
    y = maker.input(x.dtype, x.shape)
    one, two = change(maker, x), change(maker, x)
    limit = maker.constant(np.array(maker.size(0, 3), np.int64))
    early, branches, swaps = maker.chance(3), maker.chance(3), maker.chance(2)

    def body(i: Tensor, going: Tensor, left: Tensor, right: Tensor) -> list[Tensor]:
        going = waist.map("lt", i, limit) if early else going
        left = one(left)
        if branches:
            test = waist.map("eq", waist.map("trunc_mod", i, maker.constant(np.int64(2))), limit)
            (left,) = waist.branch(test, lambda: [two(left)], lambda: [left])
        item = waist.map("sub", left, right)
        return [going, right, left, item] if swaps else [going, left, two(right), item]

    made = waist.repeat(trips(maker), None, [x.tensor, y.tensor], body)
    for tensor in made[: 2 if early else 3]:
        maker.put(tensor, x.exact)


def trips(maker: Maker) -> Tensor:
    known = maker.constant(np.array(maker.size(0, 4), np.int64))
    if maker.chance(2):
        return known
    sizes = [item for item in maker.items if item.rank and not is_fixed(item.shape[0])]
    if not sizes:
        return known
    return waist.reshape(waist.sizes(maker.pick(sizes).shape[0]), ())


@step
def scan(maker: Maker) -> None:
    """A recurrence over the rows of a sequence: a product, what is added, a function."""
    length, wide = maker.pick(["n", 1, 3, 5]), maker.pick([1, 3, 8])
    rows = maker.input("float32", (1, wide)).shape[0]
    from burnx.shape import symbol

    length = symbol(length) if isinstance(length, str) else length
    x = maker.input("float32", (length, rows, wide)).tensor
    first = maker.input("float32", (rows, wide)).tensor
    w = operand(maker, x.dtype, [wide, wide]).tensor

    def body(i: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        product = waist.contract(held, w, ((), ()), ((1,), (0,)))
        held = waist.map("tanh", waist.map("add", product, waist.take(x, i, 0)))
        return [going, held, held]

    count = waist.reshape(waist.sizes(length), ())
    last, items = waist.repeat(count, None, [first], body)
    maker.put(last, False)
    maker.put(items, False)


@step
def nested(maker: Maker) -> None:
    x = maker.take(is_counted)
    one, two = change(maker, x), change(maker, x)
    inner, outer = trips(maker), trips(maker)

    def within(i: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        return [going, one(held)]

    def around(i: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        (held,) = waist.repeat(inner, None, [two(held)], within)
        return [going, held]

    (made,) = waist.repeat(outer, None, [x.tensor], around)
    maker.put(made, x.exact)


@step
def growing(maker: Maker) -> None:
    """A value that grows by a row in every turn."""
    x = maker.take(lambda item: is_counted(item) and item.rank == 1)
    if not is_fixed(x.shape[0]) or x.dtype == int64:
        raise Unfit
    one = maker.constant(np.ones(1, x.dtype))

    def body(i: Tensor, going: Tensor, held: Tensor) -> list[Tensor]:
        return [going, waist.concat([held, one], 0)]

    (made,) = waist.repeat(
        maker.constant(np.array(maker.size(0, 3), np.int64)), None, [x.tensor], body
    )
    maker.put(waist.reduce("sum", made, (0,)), x.exact)
