"""The sizes of named dimensions while inputs are made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from burnx.capture.inputs import parse_dim
from burnx.errors import ShapeError, UsageError
from burnx.shape import evaluate, symbols

Dims = Sequence[int | str | None]


@dataclass(frozen=True, slots=True)
class Growth:
    """The size of a dimension that nothing sets; of first ones too, which as a rule count a batch, or not."""

    size: int = 1
    batches: bool = False


AS_SMALL_AS_CAN_BE = Growth()
OTHERS, BATCHES = "others", "batches"


@dataclass(slots=True)
class DimSizes:
    """``known`` are the sizes that were given or seen, ``names`` all dimensions that stand alone.

    ``first`` are those that stand first in an input of several; ``open`` collects what kinds of dimension ``growth``
    had to be asked for.
    """

    known: dict[str, int] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    first: set[str] = field(default_factory=set)
    growth: Growth = AS_SMALL_AS_CAN_BE
    open: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        shapes: Sequence[Dims | None],
        given: Mapping[str, int],
        growth: Growth = AS_SMALL_AS_CAN_BE,
    ) -> DimSizes:
        """Raises: UsageError if a size is given for a dimension that no input has."""
        names = {dim for dims in shapes for dim in dims or () if isinstance(dim, str)}
        legal = names | {part for name in names for part in symbols(parse_dim(name))}
        for name in given:
            if name not in legal:
                listed = ", ".join(sorted(legal)) or "none"
                raise UsageError(f"no input has a dimension {name!r}; named dimensions: {listed}")
        heads = (dims[0] for dims in shapes if dims is not None and len(dims) > 1)
        first = {dim for dim in heads if isinstance(dim, str)}
        return cls(dict(given), {*names, *given}, first, growth)

    def learn(self, dims: Dims | None, shape: Sequence[int]) -> None:
        """Take over the sizes that an input shows, where they were not given."""
        if dims is None or len(dims) != len(shape):
            return
        for dim, size in zip(dims, shape, strict=True):
            if isinstance(dim, str):
                self.known.setdefault(dim, size)

    def shape(self, dims: Dims) -> tuple[int, ...]:
        """The sizes of declared dimensions."""
        batch = _batch_axis(dims)
        return tuple(self._size(dim, axis == batch) for axis, dim in enumerate(dims))

    def _size(self, dim: int | str | None, is_batch: bool) -> int:
        if isinstance(dim, int):
            return dim
        if dim is None:
            return self._grown(is_batch)
        if dim in self.known:
            return self.known[dim]
        parsed = parse_dim(dim)
        if dim in symbols(parsed) or not symbols(parsed) <= self.names:
            return self._grown(dim in self.first)
        try:
            return max(evaluate(parsed, {name: self._of_name(name) for name in symbols(parsed)}), 0)
        except ShapeError:  # a division by zero
            return 1

    def _of_name(self, name: str) -> int:
        found = self.known.get(name)
        return self._grown(name in self.first) if found is None else found

    def _grown(self, is_batch: bool) -> int:
        """The size of what nothing sets."""
        self.open.add(BATCHES if is_batch else OTHERS)
        return self.growth.size if self.growth.batches or not is_batch else 1


def _batch_axis(dims: Dims) -> int | None:
    """The axis that counts a batch if it has no name: the first of several, or the one behind layers or directions."""
    if len(dims) < 2:
        return None
    return 1 if isinstance(dims[0], int) and dims[0] > 1 else 0
