"""Loads and stores of elements that lie next to each other, which a thread moves in as few words as they fill."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from burnx.gpu.tiles_product import WIDEST
from burnx.gpu.writer import unguarded
from burnx.kernels.affine import coefficient, terms
from burnx.kernels.ir import Load, Store, Value
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, Expr, Symbol, evaluate, symbols

MOST = 8  # neighbouring elements of a thread
Run = Load | Store
Loops = Sequence[tuple[str, Dim]]
Sizes = Mapping[str, int]


def is_run(index: Dim, column: str) -> bool:
    """Whether an index steps from neighbour to neighbour with a loop's variable."""
    factor, rest = _rest(index, column)
    return factor == 1 and column not in symbols(rest)


def _rest(index: Dim, column: str) -> tuple[Dim, Dim]:
    return coefficient(index, Expr({(Symbol(column),): 1}))


def loads_in(values: Sequence[Value]) -> list[Load]:
    return [node for node in every_node(values) if isinstance(node, Load)]


def certain_loads(values: Iterable[Value]) -> list[Load]:
    """The loads that happen whatever checks there are."""
    certain = {key: part for value in values for key, part in unguarded(value).items()}
    return [each for each in certain.values() if isinstance(each, Load)]


def count_neighbours(
    runs: Sequence[Run], loops: Loops, column: str, sizes: Sizes, whole: Sequence[Dim], most: int
) -> int:
    """How many neighbours a thread may take, so that all of them lie as words want it; at most ``most``.

    ``loops`` are those around and inside of the column's, ``whole`` are extents that the count divides.
    """
    if not runs:
        return 1
    rests = [_rest(run.index, column)[1] for run in runs]
    known = dict(sizes) | {name: 0 for name, extent in loops if _is_single(extent, sizes)}
    return math.gcd(min(MOST, most), *(_divisor(dim, known) for dim in (*rests, *whole)))


def _is_single(extent: Dim, sizes: Sizes) -> bool:
    return symbols(extent) <= sizes.keys() and evaluate(extent, sizes) == 1


def _divisor(dim: Dim, sizes: Sizes) -> int:
    """What a dimension is a multiple of, whatever the names in it are that are no sizes."""
    return math.gcd(*(_factor(monomial, factor, sizes) for monomial, factor in terms(dim)))


def _factor(monomial: Iterable[object], factor: int, sizes: Sizes) -> int:
    for atom in monomial:
        if isinstance(atom, Symbol):
            factor *= sizes.get(atom.name, 1)
    return factor


def moves(name: str, run: Run, address: str, together: int) -> list[str]:
    """The statements that move a run from memory to ``name``, or back."""
    whole, loads = together * run.buffer.dtype.itemsize, isinstance(run, Load)
    word = min(whole, WIDEST)
    lines = []
    for part in range(whole // word):
        memory = f"((GLOBAL {'const ' if loads else ''}word{word} *)({address}))[{part}]"
        own = f"((word{word} *){name})[{part}]"
        lines.append(f"{own} = {memory};" if loads else f"{memory} = {own};")
    return lines
