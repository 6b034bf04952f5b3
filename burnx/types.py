"""The types of values: tensors, and sequences, optionals and maps of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from burnx.dtype import DType, dtype_name
from burnx.shape import Shape, shape_text


@dataclass(frozen=True, slots=True)
class TensorType:
    """An array of one dtype; ``shape`` is None where even the rank is not known."""

    dtype: DType
    shape: Shape | None

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}{shape_text(self.shape)}"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A list of values of one type."""

    element: Type

    def __str__(self) -> str:
        return f"sequence({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value or nothing."""

    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A dict from keys of one dtype to values of one type."""

    key: DType
    value: Type

    def __str__(self) -> str:
        return f"map({dtype_name(self.key)}, {self.value})"


Type: TypeAlias = TensorType | SequenceType | OptionalType | MapType
