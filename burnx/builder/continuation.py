"""Continuation: the rest of a graph, lowered while running, when the numbers it needs are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from burnx.builder.clean import remove_dead
from burnx.builder.known import native
from burnx.builder.writer import Operators
from burnx.graph import Node, Value
from burnx.program import Program
from burnx.shape import Dim
from burnx.tensor import Array
from burnx.types import TensorType, Type

FOLD_ELEMENTS = 2**20
KEPT_PROGRAMS = 256
# what of a value has to be known before the program is built
Settled: TypeAlias = Literal["shape", "value"]


@dataclass(slots=True, eq=False)
class Continuation:
    """The rest of a graph, lowered once per value of what it waits for.

    ``types`` are the values it starts from, in the order in which they are given, with what is known of their types;
    ``constants`` those that are known already.  ``wanted`` says of which values it needs the "value" or the "shape".
    """

    start: Callable[..., Any]
    operators: Operators
    nodes: list[Node]
    results: list[Value]
    types: Mapping[Value, Type]
    constants: Mapping[Value, Array]
    wanted: Mapping[Value, Settled]
    programs: dict[Any, tuple[Program, list[int]]] = field(default_factory=dict)

    def __call__(self, arrays: Sequence[Any]) -> tuple[Program, list[int]]:
        """The program for these values, and which of them are its inputs."""
        key = tuple(self._key(*pair) for pair in zip(self.types, arrays, strict=True))
        found = self.programs.get(key)
        if found is None:
            if len(self.programs) >= KEPT_PROGRAMS:
                self.programs.clear()
            found = self.programs[key] = self._build(arrays)
        return found

    def _key(self, value: Value, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return type(array)
        what = self.wanted.get(value)
        if what is None:
            return array.dtype, array.ndim
        if what == "shape":
            return array.dtype, array.shape
        content = array.tobytes() if array.dtype != object else tuple(array.flat)
        return array.dtype, array.shape, content

    def _build(self, arrays: Sequence[Any]) -> tuple[Program, list[int]]:
        builder = self.start(self.operators, fold=FOLD_ELEMENTS)
        for value, known in self.constants.items():
            builder.env[value] = builder.constant(known)
        inputs: list[int] = []
        sizes: dict[Dim, Dim] = {}
        for place, ((value, kind), array) in enumerate(
            zip(self.types.items(), arrays, strict=True)
        ):
            if self.wanted.get(value) == "value" and isinstance(array, np.ndarray):
                builder.env[value] = builder.constant(np.array(array))
                continue
            inputs.append(place)
            builder.env[value] = builder.input(self._input_type(builder, value, kind, array, sizes))
        with builder.ambient():
            results = builder.run_nodes(self.nodes, self.results)
        return remove_dead(builder.finish(results)), inputs

    def _input_type(
        self, builder: Any, value: Value, kind: Type, array: Any, sizes: dict[Dim, Dim]
    ) -> Type:
        """The type of an input: sizes that were the same expression before are one symbol now."""
        if not isinstance(array, np.ndarray):
            return kind
        if value in self.wanted:
            return TensorType(native(array), array.shape)
        if not isinstance(kind, TensorType) or kind.shape is None:
            return TensorType(native(array), tuple(builder.fresh() for _ in range(array.ndim)))
        dims = tuple(
            dim if isinstance(dim, int) else sizes.setdefault(dim, builder.fresh())
            for dim in kind.shape
        )
        return TensorType(kind.dtype, dims)
