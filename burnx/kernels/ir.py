"""The kernel IR: loop nests over symbolic extents that load, compute and store.  All of it is on this page.

An index is a dimension (``burnx.shape``) over three kinds of symbols: loop variables, sizes that the kernel is given as
arguments, and lookups, whose values come from memory.  ``workers`` and ``worker`` are sizes every kernel has: how many
threads run it, and which of them this is.  A value is a scalar expression; inside a ``lanes`` loop the same
expression stands for several neighbouring elements.  Nothing here depends on the device.

Numbers: arithmetic is in float32, float64, integers or bool.  Other floats are only loaded, stored and cast, and a cast
is always explicit.  ``Apply`` takes the scalar functions of ``burnx.primitives.scalar``, with their meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from burnx.dtype import DType
from burnx.shape import Dim


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory that a kernel is given: elements of one dtype, counted from 0."""

    name: str
    dtype: DType


# --- values: scalar expressions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The element at ``index``."""

    buffer: Buffer
    index: Dim

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A scalar function of values of one dtype; ``dtype`` is the result's."""

    function: str
    arguments: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Cast:
    """The primitive ``cast``; with ``bits`` the primitive ``bitcast``."""

    value: Value
    dtype: DType
    saturate: bool = True
    bits: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """An index as a number."""

    index: Dim
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """``value`` where ``low <= index < high`` for all of ``checks``, else ``otherwise``.

    ``value`` is worked out, and its loads happen, only where the checks hold.
    """

    checks: tuple[tuple[Dim, Dim, Dim], ...]  # low, index, high
    value: Value
    otherwise: Value

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """What ``Let``, ``Fold``, ``Carry`` or ``Contract`` called ``name``."""

    name: str
    dtype: DType


Value: TypeAlias = Load | Constant | Apply | Cast | Position | Inside | Local

# --- statements -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Write an element; with ``combine`` (a scalar function) the old element combined with the value."""

    buffer: Buffer
    index: Dim
    value: Value
    combine: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    """Name a value, which is then worked out once."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """Name an integer value to be used in indices.

    A negative one counts from ``limit``.  One outside -limit … limit - 1 stands for 0 and makes the call an error; one
    that is ``sure`` to be neither is not checked.
    """

    name: str
    value: Value
    limit: Dim
    sure: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """Run ``body`` for variable = 0 … extent - 1.

    ``parallel``: the turns may be divided among threads; such loops are the outermost ones, directly nested.
    ``lanes``: the turns may be taken several at a time; there is no such loop (or fold) inside.
    ``around``: the parallel loops inside are divided instead if they have so many turns for each of this one.
    ``unroll``: how many turns of a serial loop are worth writing side by side.
    """

    variable: str
    extent: Dim
    body: tuple[Statement, ...]
    parallel: bool = False
    lanes: bool = False
    unroll: int = 1
    around: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """``function`` (add, mul, min, max, and, or) combines what ``name`` was with ``value``, from its neutral element."""

    name: str
    function: str
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Combine values over all turns of nested loops; then each accumulator is a ``Local``.

    ``body`` runs in every turn, before the values are taken.  ``lanes``: the innermost loop may be taken several
    turns at a time, in any order.
    """

    accumulators: tuple[Accumulator, ...]
    loops: tuple[tuple[str, Dim], ...]
    body: tuple[Statement, ...] = ()
    lanes: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """A serial loop with values carried from turn to turn: (name, first, next).  Afterwards they are ``Local``.

    ``body`` runs in every turn with the old values; ``next`` may use what it names.
    """

    carried: tuple[tuple[str, Value, Value], ...]
    variable: str
    extent: Dim
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """For every row and column: ``name`` = sum over ``inner`` of left * right in ``dtype``; then ``body``.

    ``left`` depends on rows and inner, ``right`` on inner and column.  With ``packing`` the right buffer was laid out
    beforehand and ``right.index`` is where the packed matrix starts; see ``burnx.kernels.packing``.
    ``parallel``: rows and columns may be divided among threads (then no loop outside may be).
    """

    name: str
    rows: tuple[tuple[str, Dim], ...]
    column: tuple[str, Dim]
    inner: tuple[tuple[str, Dim], ...]
    left: Load
    right: Load
    dtype: DType
    body: tuple[Statement, ...]
    packing: str = ""
    parallel: bool = False


Statement: TypeAlias = Store | Let | Lookup | Loop | Fold | Carry | Contract


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """``buffers`` and ``sizes`` are the arguments, in this order.

    ``scratch`` buffers are among them; each is private to a worker: the kernel adds ``worker`` times its size.
    """

    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    body: tuple[Statement, ...]


WORKER, WORKERS = "worker", "workers"


def operands(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of."""
    if isinstance(value, Apply):
        return value.arguments
    if isinstance(value, Cast):
        return (value.value,)
    if isinstance(value, Inside):
        return (value.value, value.otherwise)
    return ()


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, those inside others included, in order."""
    for statement in body:
        yield statement
        if isinstance(statement, (Loop, Fold, Carry, Contract)):
            yield from walk(statement.body)


def in_loops(
    loops: Sequence[tuple[str, Dim]], body: Sequence[Statement], parallel: bool = False
) -> list[Statement]:
    """Statements inside loops, of which the first is the outermost."""
    statements = list(body)
    for variable, extent in reversed(loops):
        statements = [Loop(variable, extent, tuple(statements), parallel=parallel)]
    return statements
