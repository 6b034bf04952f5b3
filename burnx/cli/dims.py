"""The sizes of named dimensions while inputs are made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from burnx.capture.inputs import parse_dim
from burnx.errors import ShapeError, UsageError
from burnx.shape import evaluate, symbols

Dims = Sequence[int | str | None]


@dataclass(slots=True)
class DimSizes:
    """``known`` are the sizes that were given or seen, ``names`` all dimensions that stand alone."""

    known: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, shapes: Iterable[Dims | None], given: Mapping[str, int]) -> DimSizes:
        """Raises: UsageError if a size is given for a dimension that no input has."""
        names = {dim for dims in shapes for dim in dims or () if isinstance(dim, str)}
        legal = names | {part for name in names for part in symbols(parse_dim(name))}
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
        parsed = parse_dim(dim)
        if dim in symbols(parsed) or not symbols(parsed) <= self.names:
            return 1
        try:
            return max(evaluate(parsed, {name: self.known.get(name, 1) for name in self.names}), 0)
        except ShapeError:  # a division by zero
            return 1
