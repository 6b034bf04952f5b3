"""Matrix products: rows of the left operand, columns of the right one, side by side for batch axes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from burnx.dtype import DType, compute_dtype, float16, float32, int8, int32, is_float, is_integer
from burnx.fusion.behind import write_behind
from burnx.fusion.clusters import Cluster
from burnx.fusion.elementwise import fill
from burnx.fusion.expressions import Expressions, Index, as_stored, dtype_of, shape_of
from burnx.fusion.indices import unravel
from burnx.fusion.narrow import as_bytes, weight_as_bytes
from burnx.fusion.scaling import unscaled, unwidened
from burnx.fusion.scheduler import Scheduler, writer
from burnx.fusion.storage import Storage
from burnx.fusion.weights import lay_out_product
from burnx.kernels.affine import affine, coefficient
from burnx.kernels.ir import Cast, Contract, Load, Local, Value, in_loops
from burnx.program import Instruction, Var
from burnx.shape import Dim, Expr, Shape, product, symbol, symbol_name, symbols

Axes = tuple[int, ...]
Loops = list[tuple[str, Dim]]


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a product: its axes by part."""

    var: Var
    batch: Axes
    free: Axes
    inner: Axes

    @property
    def shape(self) -> Shape:
        return shape_of(self.var)


def sides(instruction: Instruction) -> tuple[Operand, Operand]:
    """The left and right operand of a contraction."""
    made = []
    for side, var in enumerate(instruction.inputs):
        assert var is not None
        batch = instruction.attributes["batch"][side]
        inner = instruction.attributes["sum_over"][side]
        rank = len(shape_of(var))
        free = tuple(axis for axis in range(rank) if axis not in batch and axis not in inner)
        made.append(Operand(var, batch, free, inner))
    return made[0], made[1]


@writer("contract")
def write_contract(scheduler: Scheduler, seed: Instruction) -> None:
    """The step of a contraction with what its cluster does behind it."""
    cluster = scheduler.owners[seed]
    left, right = sides(seed)
    swapped = _is_weight(scheduler, left) and not _is_weight(scheduler, right)
    if swapped:
        left, right = right, left
    _Product(scheduler, cluster, left, right, swapped).write()


def _as_weight(scheduler: Scheduler, side: Operand) -> Operand:
    """An operand that is a widened constant, as that constant: only to be packed, for its array is the narrow one."""
    maker = scheduler.uses.makers.get(side.var)
    source = maker.inputs[0] if maker is not None and maker.primitive == "cast" else None
    if source is None or source.array is None or source.array.dtype.kind not in "iu":
        return side
    return replace(side, var=Var(side.var.type, source.array))


def _is_weight(scheduler: Scheduler, side: Operand) -> bool:
    return _as_weight(scheduler, side).var.array is not None


@dataclass(slots=True)
class _Product:
    """One contraction while its kernel is written; rows come from ``left``, columns from ``right``."""

    scheduler: Scheduler
    cluster: Cluster
    left: Operand
    right: Operand
    swapped: bool
    packing: str = ""

    def write(self) -> None:
        """Add the step."""
        seed = self.cluster.seed
        sums = accumulating(dtype_of(self.left.var), seed.attributes["dtype"])
        weight = _as_weight(self.scheduler, self.right)
        stored, weights = self._stored(weight.var, sums)
        if weight.var.array is not None:
            count = product(tuple(self.right.shape[axis] for axis in self.right.free))
            assert isinstance(count, int)
            self.packing = self.scheduler.traits.packing(stored, weights, sums, count)
        if self.packing:
            self.right = weight
        at = self.scheduler.expressions(self.cluster.members)
        batch = variables(at, self.left.shape, self.left.batch)
        rows = variables(at, self.left.shape, self.left.free)
        inner = variables(at, self.left.shape, self.left.inner)
        column, columns = self._columns(at)
        left = strided(
            self.scheduler, at, self.left.var, index_of(self.left, batch, rows, inner), stored
        )
        right, column = self._right(at, batch, inner, columns, column, weights)
        name = at.name("p")
        parts = (columns, rows) if self.swapped else (rows, columns)
        behind = write_behind(
            self.scheduler,
            at,
            self.cluster,
            Local(name, sums),
            (*batch, *parts[0], *parts[1]),
            self._order(),
        )
        outer = loops_of(at, batch) + [
            each for each in loops_of(at, columns) if each[0] != column[0] and not self.packing
        ]
        statement = Contract(
            name,
            at_least_one(at, loops_of(at, rows)),
            column,
            at_least_one(at, loops_of(at, inner)),
            left,
            right,
            sums,
            tuple(behind.body),
            self.packing,
            parallel=not outer,
        )
        body = in_loops(outer, [statement], parallel=True)
        size = product((*self.left.shape, *(self.right.shape[k] for k in self.right.free)))
        self.scheduler.step(at, body, behind.writes, size)

    def _stored(self, weight: Var, sums: DType) -> tuple[DType, DType]:
        """The dtypes that the left and the right operand are read in: narrow ones, where they can be."""
        narrow = self.scheduler.traits.narrow
        if sums == float32 and dtype_of(self.left.var) in narrow and dtype_of(weight) in narrow:
            return dtype_of(self.left.var), dtype_of(weight)
        if sums == float32 and weight.array is not None and weight.array.dtype == int8:
            return sums, int8
        source = as_bytes(self.scheduler.uses, self.left.var) if sums == int32 else None
        weights = weight_as_bytes(weight) if source is not None else None
        if source is None or weights is None:
            return sums, sums
        self.left = replace(self.left, var=source)
        return dtype_of(source), weights

    def _columns(self, at: Expressions) -> tuple[tuple[str, Dim], list[Dim]]:
        """(the loop over columns, the index in each free axis of the right operand)."""
        shape = tuple(self.right.shape[axis] for axis in self.right.free)
        if self.packing:
            variable = at.variable(product(shape))
            place = (
                unravel(variable, shape, at.ranges) if product(shape) != 1 else (0,) * len(shape)
            )
            return (str(variable), product(shape)), list(place)
        columns = variables(at, self.right.shape, self.right.free)
        named = loops_of(at, columns)
        return (named or [(str(at.variable(1)), 1)])[-1], columns

    def _right(
        self,
        at: Expressions,
        batch: list[Dim],
        inner: list[Dim],
        columns: list[Dim],
        column: tuple[str, Dim],
        sums: DType,
    ) -> tuple[Load, tuple[str, Dim]]:
        """(where the right operand is read, its column loop)."""
        if self.packing:
            side, derive = self.right, self.scheduler.traits.derive
            assert side.var.array is not None
            axes = (side.batch, side.inner, side.free)
            storage, size, self.packing = lay_out_product(
                side.var.array, axes, self.packing, sums, derive
            )
            start: Dim = 0
            for axis, each in zip(self.right.batch, batch, strict=True):
                start = start * self.right.shape[axis] + each
            return Load(at.buffer(storage), start * size), column
        index = index_of(self.right, batch, columns, inner)
        right = lanes_of(self.scheduler, at, self.right, index, sums)
        for name, extent in loops_of(at, columns):
            if coefficient(right.index, _symbol(name))[0] == 1:
                return right, (name, extent)
        return right, column

    def _order(self) -> tuple[int, ...]:
        """The result's axes in memory: batch, rows, columns, the columns innermost."""
        first = len(self.left.batch)
        count = len(self.right.free if self.swapped else self.left.free)
        last = first + len(self.left.free) + len(self.right.free)
        one, two = range(first, first + count), range(first + count, last)
        return (*range(first), *((*two, *one) if self.swapped else (*one, *two)))


def variables(at: Expressions, shape: Shape, axes: Axes) -> list[Dim]:
    """A loop variable for each axis, 0 for one of size 1."""
    return [0 if shape[axis] == 1 else at.variable(shape[axis]) for axis in axes]


def loops_of(at: Expressions, indices: list[Dim]) -> Loops:
    """The loops of plain variables among indices."""
    names = [symbol_name(each) for each in indices]
    return [(name, at.ranges[name]) for name in names if name is not None]


def at_least_one(at: Expressions, loops: Loops) -> tuple[tuple[str, Dim], ...]:
    return tuple(loops) or ((str(at.variable(1)), 1),)


def index_of(side: Operand, batch: list[Dim], free: list[Dim], inner: list[Dim]) -> Index:
    index: list[Dim] = [0] * len(side.shape)
    for axes, values in ((side.batch, batch), (side.free, free), (side.inner, inner)):
        for axis, value in zip(axes, values, strict=True):
            index[axis] = 0 if side.shape[axis] == 1 else value
    return tuple(index)


def _symbol(name: str) -> Expr:
    made = symbol(name)
    assert isinstance(made, Expr)
    return made


def accumulating(operand: DType, result: DType) -> DType:
    """The dtype that products are added up in."""
    if is_float(operand):
        return compute_dtype(operand) if operand != result else compute_dtype(result)
    if is_integer(result) and (result.kind == "V" or result.itemsize < 4):
        return int32  # its low bits are the narrow sum's
    return result


def strided(
    scheduler: Scheduler,
    at: Expressions,
    var: Var,
    index: Index,
    sums: DType,
    order: tuple[int, ...] = (),
    factors: list[float] | None = None,
) -> Load:
    """A read of ``var`` at an affine index, after a copy in this order if there is no other way.

    ``factors`` gets the number that all elements are multiplied by, for the sums to be multiplied by it.
    """
    value, factor = at.value(var, index), 1.0
    if factors is not None and sums == float16:
        value, factor = unscaled(value)
    value = unwidened(value, sums)
    names = [str(name) for name in symbols_of(index)]
    plain = isinstance(value, Load) and value.dtype == sums
    if plain and isinstance(value, Load) and affine(value.index, names) is not None:
        if not any(name.startswith("@") for name in symbols(value.index)):
            if factors is not None:
                factors.append(factor)
            return value
    narrows = sums in scheduler.traits.narrow and dtype_of(var) not in scheduler.traits.narrow
    storage = copied(scheduler, var, dtype_of(var) if narrows else sums, order)
    return at.load(
        storage,
        tuple(0 if size == 1 else one for one, size in zip(index, storage.shape, strict=True)),
    )


def lanes_of(
    scheduler: Scheduler,
    at: Expressions,
    side: Operand,
    index: Index,
    sums: DType,
    factors: list[float] | None = None,
) -> Load:
    """A read of the right operand whose columns lie next to each other, after a copy if they do not.

    A device that takes one element at a time reads them as they lie.  ``factors``: see ``strided``.
    """
    order = (*side.batch, *side.inner, *side.free)
    found = strided(scheduler, at, side.var, index, sums, order, factors)
    names = [name for axis in side.free if (name := symbol_name(index[axis])) is not None]
    if (
        scheduler.traits.lanes == 1
        or not names
        or any(coefficient(found.index, _symbol(name))[0] == 1 for name in names)
    ):
        return found
    return at.load(copied(scheduler, side.var, sums, order), index)


def symbols_of(index: Index) -> set[str]:
    found: set[str] = set()
    for each in index:
        found |= symbols(each)
    return found


def copied(scheduler: Scheduler, var: Var, dtype: DType, order: tuple[int, ...] = ()) -> Storage:
    """A contiguous copy of a value in another dtype or order."""
    if order == tuple(range(len(order))):
        order = ()
    key = (var, (dtype, order))
    found = scheduler.copies.get(key)
    if found is not None:
        return found
    if var.array is not None:
        array = var.array.astype(dtype, copy=False)
        array = np.ascontiguousarray(array.transpose(order) if order else array)
        storage = Storage(dtype, shape_of(var), "constant", order, array=array)
    else:
        storage = Storage(dtype, shape_of(var), order=order)
        fill(
            scheduler,
            storage,
            shape_of(var),
            lambda at, index: as_stored(_cast_to(at, var, index, dtype), dtype),
        )
    scheduler.copies[key] = storage
    return storage


def _cast_to(at: Expressions, var: Var, index: Index, dtype: DType) -> Value:
    value = at.value(var, index)
    return value if value.dtype == dtype else Cast(value, dtype)
