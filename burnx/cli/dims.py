"""The sizes of named dimensions while inputs are made up."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnx.errors import UsageError

Dims = Sequence[int | str | None]

_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(slots=True)
class DimSizes:
    """``known`` are the sizes that were given or seen, ``names`` all dimensions that stand alone."""

    known: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, shapes: Iterable[Dims | None], given: Mapping[str, int]) -> DimSizes:
        """Raises: UsageError if a size is given for a dimension that no input has."""
        names = {dim for dims in shapes for dim in dims or () if isinstance(dim, str)}
        legal = names | {part for name in names for part in _symbols(name)}
        for name in given:
            if name not in legal:
                listed = ", ".join(sorted(legal)) or "none"
                raise UsageError(f"no input has a dimension {name!r}; named dimensions: {listed}")
        return cls(dict(given), {*names, *given})

    def learn(self, dims: Dims | None, shape: Sequence[int]) -> None:
        """Take over the sizes that an input shows, where they were not given."""
        if dims is None or len(dims) != len(shape):
            return
        for dim, size in zip(dims, shape, strict=True):
            if isinstance(dim, str):
                self.known.setdefault(dim, size)

    def size(self, dim: int | str | None) -> int:
        """The size to use for a declared dimension; 1 where nothing is known."""
        if isinstance(dim, int):
            return dim
        if dim is None:
            return 1
        if dim in self.known:
            return self.known[dim]
        parts = _symbols(dim)
        if not parts or dim in parts or not parts <= self.names:
            return 1
        size = _evaluate(ast.parse(dim, mode="eval").body, self)
        return 1 if size is None else max(size, 0)


def _symbols(dim: str) -> set[str]:
    """The names in a dimension that is written as arithmetic, such as ``past + seq``."""
    try:
        tree = ast.parse(dim, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _evaluate(tree: Any, sizes: DimSizes) -> int | None:
    """The value of arithmetic on named sizes; None for anything else."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.Name):
        return sizes.known.get(tree.id, 1)
    if not isinstance(tree, ast.BinOp) or type(tree.op) not in _ARITHMETIC:
        return None
    left, right = _evaluate(tree.left, sizes), _evaluate(tree.right, sizes)
    if left is None or right is None or (isinstance(tree.op, ast.FloorDiv) and right == 0):
        return None
    return _ARITHMETIC[type(tree.op)](left, right)
