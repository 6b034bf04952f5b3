"""Random programs, made primitive by primitive at the waist, and arrays to run them on.

A ``Maker`` holds the values that there are so far.  A value is exact if its numbers come out the same in any order of
evaluation: small multiples of a power of two, added and multiplied.  Functions that jump take exact values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from burnx import waist
from burnx.builder import Builder, remove_dead
from burnx.dtype import DTYPES, DType, is_float, is_integer, is_low_precision
from burnx.errors import BurnxError
from burnx.ops import operators
from burnx.program import Program
from burnx.shape import Dim, evaluate, symbol, symbols
from burnx.tensor import Tensor
from burnx.types import TensorType

Array = np.ndarray[Any, Any]
Step = Callable[["Maker"], None]

SIZES = ({"n": 3, "m": 2}, {"n": 1, "m": 5}, {"n": 0, "m": 1}, {"n": 9, "m": 17})
"""What the open dims are run with; a program is made for all of them."""
ELEMENTS_MOST = 3000
WIDE = ("float32", "float64")
LOW = ("float16", "bfloat16")
TINY = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NARROW = ("int4", "uint4", "int2", "uint2")
KINDS = (
    "float32",
    "float32",
    "float32",
    "float64",
    *LOW,
    *TINY[:2],
    *INTEGERS,
    *NARROW[:2],
    "bool",
)


class Unfit(Exception):
    """There is no value that the step could take."""


@dataclass(eq=False)
class Item:
    tensor: Tensor
    exact: bool = True

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def rank(self) -> int:
        return len(self.tensor.shape)


@dataclass(eq=False)
class Maker:
    """A program in the making."""

    draw: Callable[[Any], Any]
    builder: Builder = field(default_factory=lambda: Builder(operators()))
    items: list[Item] = field(default_factory=list)
    limits: list[Dim | None] = field(default_factory=list)  # of each input, if it holds indices
    dims: tuple[Any, ...] = ("n", "m", 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 0)
    outside: bool = False  # whether indices may lie outside
    log: list[str] = field(default_factory=list)

    # --- dice -----------------------------------------------------------------------------------
    def size(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def pick(self, options: Sequence[Any]) -> Any:
        if not options:
            raise Unfit
        return options[self.size(0, len(options) - 1)]

    def chance(self, one_in: int) -> bool:
        return self.size(1, one_in) == one_in

    def dim(self) -> Dim:
        found = self.pick(self.dims)
        return symbol(found) if isinstance(found, str) else int(found)

    def shape(self, low: int = 0, high: int = 4) -> tuple[Dim, ...]:
        return tuple(self.dim() for _ in range(self.size(low, high)))

    def axes(self, rank: int, least: int = 0) -> tuple[int, ...]:
        return tuple(self.draw(st.permutations(range(rank)))[: self.size(min(least, rank), rank)])

    # --- values ---------------------------------------------------------------------------------
    def input(self, dtype: str | DType, shape: Sequence[Dim], limit: Dim | None = None) -> Item:
        kind = DTYPES[dtype] if isinstance(dtype, str) else dtype
        check_size(shape)
        item = Item(self.builder.input(TensorType(kind, tuple(shape))))
        self.limits.append(limit)
        self.items.append(item)
        return item

    def constant(self, array: Any) -> Tensor:
        return waist.constant(np.asarray(array))

    def take(self, where: Callable[[Item], bool] = lambda _: True, fresh: bool = True) -> Item:
        """A value, late ones more often, or a new input."""
        fitting = [item for item in self.items if where(item)]
        if fresh and (not fitting or self.chance(6)):
            item = self.input(self.pick(KINDS), self.shape())
            if where(item):
                return item
        if len(fitting) > 3 and not self.chance(3):
            fitting = fitting[-3:]
        return self.pick(fitting)

    def put(self, tensor: Tensor, exact: bool) -> Item:
        check_size(tensor.shape)
        item = Item(tensor, exact)
        self.items.append(item)
        return item

    def same_kind(self, item: Item) -> Item:
        """A value of the dtype that broadcasts with ``item``: one that there is, a new input or a constant."""
        fitting = [
            other
            for other in self.items
            if other.dtype == item.dtype and broadcasts(other.shape, item.shape)
        ]
        how = self.size(0, 2)
        if how == 0 or not fitting:
            shape = tuple(1 if self.chance(3) else each for each in item.shape)
            return self.input(item.dtype, shape[self.size(0, len(shape)) :])
        if how == 1:
            numbers = plain_numbers(self.random(), (1,), item.dtype)
            return Item(self.constant(numbers.reshape(())))
        return self.pick(fitting)

    def random(self) -> np.random.Generator:
        return np.random.default_rng(self.size(0, 1 << 16))

    def indices(self, shape: Sequence[Dim], limit: Dim) -> Tensor:
        """Positions on an axis: an input, a constant, or worked out."""
        kind = self.pick(["int64", "int64", "int32", "uint8", "int8"])
        if all(isinstance(each, int) for each in (*shape, limit)) and self.chance(3) and limit:
            numbers = self.random().integers(-limit if kind[0] == "i" else 0, limit, shape)
            return self.constant(numbers.astype(kind))
        return self.input(kind, shape, limit).tensor

    # --- the program ----------------------------------------------------------------------------
    def attempt(self, step: Step) -> None:
        """One step more, or none."""
        count = len(self.items)
        try:
            with self.builder.ambient():
                step(self)
            self.log.append(step.__name__)
        except Unfit:
            del self.items[count:]
        except BurnxError:
            del self.items[count:]

    def program(self, outputs: Sequence[Item]) -> Program:
        return remove_dead(self.builder.finish([item.tensor for item in outputs]))


def check_size(shape: Sequence[Dim]) -> None:
    if len(shape) > 5:
        raise Unfit
    for sizes in SIZES:
        found = [evaluate(each, sizes) for each in shape]
        if min(found, default=0) < 0 or np.prod(found, dtype=np.int64) > ELEMENTS_MOST:
            raise Unfit


def broadcasts(one: Sequence[Dim], two: Sequence[Dim]) -> bool:
    pairs = list(zip(reversed(one), reversed(two), strict=False))
    return all(a == b or 1 in (a, b) for a, b in pairs)


def is_fixed(dim: Dim) -> bool:
    return isinstance(dim, int)


# --- numbers ------------------------------------------------------------------------------------


def plain_numbers(random: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    """Numbers with which arithmetic stays exact for a while."""
    if dtype == np.bool_:
        return random.random(shape) > 0.5
    if is_integer(dtype):
        return plain_integers(random, shape, dtype)
    low = is_low_precision(dtype)
    numbers = random.integers(-4, 5, shape) * (0.5 if low else 0.25)
    return numbers.astype(np.float32).astype(dtype)


def plain_integers(random: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    unsigned = dtype.name.startswith("u")
    if dtype.name in NARROW:
        wide = random.integers(0 if unsigned else -2, 4 if unsigned else 2, shape)
        return wide.astype(np.int8).astype(dtype)
    info = np.iinfo(dtype)
    small = random.integers(0 if unsigned else -4, 5, shape).astype(dtype)
    edge = random.choice(np.array([info.min, info.max, info.max - 1, info.min + 1], dtype), shape)
    return np.where(random.random(shape) < 0.1, edge, small).astype(dtype)


def special_numbers(random: np.random.Generator, shape: Sequence[int], dtype: DType) -> Array:
    """As before, with NaN, infinities and -0 among them."""
    numbers = plain_numbers(random, shape, dtype)
    if not is_float(dtype):
        return numbers
    odd = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32).astype(dtype)
    return np.where(random.random(shape) < 0.15, random.choice(odd, shape), numbers).astype(dtype)


def feeds(maker: Maker, sizes: dict[str, int], seed: int, special: bool) -> list[Array]:
    """Arrays for a program's inputs."""
    random = np.random.default_rng(seed)
    made = []
    for var, limit in zip(maker.builder.program.inputs, maker.limits, strict=True):
        shape = tuple(evaluate(each, sizes) for each in var.type.shape)
        dtype = var.type.dtype
        if limit is not None:
            end = max(evaluate(limit, sizes), 1) + maker.outside
            low = -end if not dtype.name.startswith("u") else 0
            made.append(random.integers(low, end, shape).astype(dtype))
        else:
            make = special_numbers if special else plain_numbers
            made.append(make(random, shape, dtype))
    return made


def free_symbols(shape: Sequence[Dim]) -> set[str]:
    return {name for each in shape for name in symbols(each)}
