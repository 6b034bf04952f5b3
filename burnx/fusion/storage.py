"""Where values lie in memory, and the schedule of kernels that read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from burnx.dtype import DType
from burnx.kernels.ir import Kernel
from burnx.program import Var
from burnx.shape import Dim, Shape, maximum, product

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Storage:
    """Memory of one value.

    ``order`` lists the axes from the outermost to the innermost in memory.  ``margin`` are (low, high) elements around
    each axis that are ``fill`` and stay so: such memory is only shared with storages of the same geometry.  ``apart``
    keeps elements of an axis that many places apart, with zeros between.
    ``within`` another storage it is the part of that from index ``start`` on: a piece of a concatenation.
    ``role``: "input" and "output" belong to the caller, "constant" holds ``array``, "arena" lives during a call,
    "scratch" is private to a worker.
    """

    dtype: DType
    shape: Shape
    role: str = "arena"
    order: Order = ()
    margin: tuple[tuple[int, int], ...] = ()
    fill: int = 0  # of one byte, if it is not 0
    apart: tuple[int, ...] = ()
    array: Array | None = None
    within: Storage | None = None
    start: tuple[Dim, ...] = ()
    _strides: tuple[Dim, ...] | None = None
    _offset: Dim | None = None

    def __post_init__(self) -> None:
        if not self.order:
            self.order = tuple(range(len(self.shape)))

    @property
    def root(self) -> Storage:
        """The storage that memory is planned for."""
        return self if self.within is None else self.within.root

    @property
    def zeroed(self) -> bool:
        """Whether elements that no kernel writes are read, and are zero or ``fill``."""
        return any(any(pair) for pair in self.margin) or any(step > 1 for step in self.apart)

    def extents(self) -> Shape:
        """The axes' sizes in memory, margins and gaps included."""
        margin = self.margin or ((0, 0),) * len(self.shape)
        apart = self.apart or (1,) * len(self.shape)
        return tuple(
            (size if step == 1 else maximum((size - 1) * step + 1, 0)) + low + high
            for size, step, (low, high) in zip(self.shape, apart, margin, strict=True)
        )

    def strides(self) -> tuple[Dim, ...]:
        """Elements from one place of an axis to the next, by axis; gaps included."""
        if self._strides is None:
            self._strides = self._find_strides()
        return self._strides

    def _find_strides(self) -> tuple[Dim, ...]:
        if self.within is not None:
            return self.within.strides()
        extents = self.extents()
        result: list[Dim] = [0] * len(self.shape)
        step: Dim = 1
        for axis in reversed(self.order):
            result[axis] = step
            step = step * extents[axis]
        if self.apart:
            return tuple(one * gap for one, gap in zip(result, self.apart, strict=True))
        return tuple(result)

    def offset(self) -> Dim:
        """Where the element at index 0 … 0 lies."""
        if self._offset is None:
            self._offset = self._find_offset()
        return self._offset

    def _find_offset(self) -> Dim:
        if self.within is not None:
            steps = zip(self.start, self.within.strides(), strict=True)
            return sum((place * step for place, step in steps), self.within.offset())
        if not self.margin:
            return 0
        plain = Storage(self.dtype, self.extents(), order=self.order).strides()
        return sum((low * step for (low, _), step in zip(self.margin, plain, strict=True)), 0)

    def elements(self) -> Dim:
        return product(self.extents())


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A kernel with what it is given; ``work`` is about how many scalar operations it takes."""

    kernel: Kernel
    storages: tuple[Storage, ...]
    sizes: tuple[Dim, ...]
    writes: frozenset[Storage]
    work: Dim
    place: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """``body`` again and again while the bool in ``going`` is true: ``turns`` times, if that is known.

    ``place`` is the loop's, as a step's is.
    """

    going: Storage
    body: list[Node]
    turns: int | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """``then`` if the bool in ``condition`` is true, else ``otherwise``."""

    condition: Storage
    then: list[Node]
    otherwise: list[Node]


Node: TypeAlias = Step | Repeat | Branch


def steps_in(nodes: Iterable[Node]) -> Iterator[Step]:
    """All steps, those in loops and branches included."""
    for node in nodes:
        if isinstance(node, Repeat):
            yield from steps_in(node.body)
        elif isinstance(node, Branch):
            yield from steps_in(node.then)
            yield from steps_in(node.otherwise)
        else:
            yield node


@dataclass(slots=True, eq=False)
class Schedule:
    """Steps in order.  ``memory`` says where the values that enter and leave lie."""

    steps: list[Node] = field(default_factory=list)
    memory: dict[Var, Storage] = field(default_factory=dict)
