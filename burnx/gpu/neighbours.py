"""Loads and stores of elements that lie next to each other, which a thread moves in as few words as they fill."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from burnx.gpu.tiles_product import WIDEST, Loops
from burnx.gpu.writer import unguarded
from burnx.kernels.affine import affine
from burnx.kernels.ir import WORKER, WORKERS, Load, Store, Value
from burnx.kernels.spelling import every_node
from burnx.shape import Dim, evaluate, symbols

MOST = 8  # neighbouring elements of a thread
WORDS = {2: "u16", 4: "u32", 8: "uint2", 16: "uint4"}  # what so many bytes are moved as
Run = Load | Store


def is_run(index: Dim, loops: Iterable[tuple[str, Dim]], column: str) -> bool:
    """Whether an index steps from neighbour to neighbour with one of the loops' variables."""
    found = affine(index, [name for name, _ in loops])
    if found is None or any(
        name[:1] == "@" or name in (WORKER, WORKERS) for name in symbols(index)
    ):
        return False
    return found[0][column] == 1


def loads_in(values: Sequence[Value]) -> list[Load]:
    return [node for node in every_node(values) if isinstance(node, Load)]


def certain_loads(values: Iterable[Value]) -> list[Load]:
    """The loads that happen whatever checks there are."""
    certain = {key: part for value in values for key, part in unguarded(value).items()}
    return [each for each in certain.values() if isinstance(each, Load)]


def count_neighbours(
    runs: Sequence[Run], loops: Loops, column: tuple[str, Dim], sizes: Mapping[str, int]
) -> int:
    """How many neighbours a thread may take, so that all of them lie as words want it; ``loops`` are the other ones."""
    variables = [name for name, _ in (*loops, column)]
    if not runs or not all(symbols(run.index) <= {*sizes, *variables} for run in runs):
        return 1
    numbers = [evaluate(column[1], sizes)]
    for run in runs:
        found = affine(run.index, variables)
        assert found is not None
        strides, base = found
        numbers += [
            evaluate(strides[name], sizes) for name, extent in loops if evaluate(extent, sizes) > 1
        ]
        numbers.append(evaluate(base, sizes))
    least = min(run.buffer.dtype.itemsize for run in runs)
    return math.gcd(min(MOST, WIDEST // least), *numbers)


def moves(name: str, run: Run, address: str, together: int) -> list[str]:
    """The statements that move a run from memory to ``name``, or back."""
    whole, loads = together * run.buffer.dtype.itemsize, isinstance(run, Load)
    word = min(whole, WIDEST)
    lines = []
    for part in range(whole // word):
        memory = f"(({'const ' if loads else ''}{WORDS[word]} *)({address}))[{part}]"
        own = f"(({WORDS[word]} *){name})[{part}]"
        lines.append(f"{own} = {memory};" if loads else f"{memory} = {own};")
    return lines
